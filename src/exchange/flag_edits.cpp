// SPDX-License-Identifier: Apache-2.0
// Edits lists of flags and launch scripts: whole words of the shell are changed, everything between them stays.
#include <algorithm>
#include <cctype>
#include <iterator>
#include <optional>

#include "base/format.h"
#include "base/invariant.h"
#include "exchange/file_edits.h"
#include "exchange/launch_script.h"
#include "exchange/plan_settings.h"
#include "exchange/shell_words.h"

namespace espalier::exchange {
namespace {

constexpr const char* kCheckpointing = "--activation_checkpoint.mode";  ///< or a subcommand of torchtitan 0.3
constexpr char kRemoved = '\x01';                                       ///< marks removed words until the lines are put in order

/// Compares names; '-' and '_' inside a name are the same.
bool same_name(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return x == y || ((x == '-' || x == '_') && (y == '-' || y == '_')); });
}

/// Returns whether a token ends the values of a flag: the end of a command, the next flag, an array, or an operator
/// of the shell.
bool is_break(const ShellToken& token) {
  static const std::vector<std::string> kWords = {"|", "||", "&", "&&", ">", ">>", "<", "2>&1"};
  const std::string& t = token.text;
  if (token.ends || is_flag_word(t)) return true;
  if (t.starts_with("${") && (t.find("[@]") != std::string::npos || t.find("[*]") != std::string::npos)) return true;
  return !token.quoted && std::find(kWords.begin(), kWords.end(), t) != kWords.end();
}

bool is_plain_word(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
}

/// Marks bytes of the file. `whole_quotes` means that matching quotes enclose them.
struct ByteRange {
  std::size_t begin = 0, end = 0;
  bool own_quotes = false;
};

/// Holds the place of a flag in the file and of its value. An empty value range means that it has none.
struct FlagSite {
  std::int64_t line = 0;
  std::string name;
  ByteRange flag, value;
  std::size_t end = 0;     ///< after flag and values
  bool in_string = false;  ///< inside a quoted string that is split into words later
  [[nodiscard]] bool has_value() const { return value.begin < value.end || value.own_quotes; }
};

class FlagFile {
 public:
  explicit FlagFile(std::string_view text) : text_(text) {
    if (auto tokens = read_shell_words(text_, ""); tokens && text_.find(kRemoved) == std::string::npos)
      tokens_ = std::move(*tokens);
  }

  [[nodiscard]] std::optional<FlagSite> find(std::string_view flag, WantedValue::Words words) const {
    bool in_string = false;
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      const ShellToken& token = tokens_[i];
      if (token.ends && token.text == kString) in_string = !in_string;
      if (token.ends || !is_flag_word(token.text)) continue;
      const std::size_t equals = token.text.find('=');
      if (same_name(std::string_view(token.text).substr(0, equals), flag)) return place_of(i, equals, words, in_string);
    }
    return std::nullopt;
  }
  [[nodiscard]] std::string text_of(const ByteRange& range) const { return text_.substr(range.begin, range.end - range.begin); }

  void replace(const ByteRange& range, const std::string& value) { changes_.push_back({range.begin, range.end, value}); }
  void set(const FlagSite& p, const std::string& value, bool list) {
    const std::string spelled = p.in_string || (list && !p.value.own_quotes) ? value : p.value.own_quotes ? value : quoted(value);
    if (list && p.value.own_quotes)  // one quoted word becomes several
      replace({p.value.begin - 1, p.value.end + 1, false}, value);
    else if (p.has_value())
      replace(p.value, spelled);
    else
      replace({p.end, p.end, false}, cat(" ", spelled));
  }
  void add_behind(const FlagSite& p, const std::string& name, const std::string& value, bool list) {
    const std::string words = value.empty() ? "" : cat(" ", p.in_string || list ? value : quoted(value));
    replace({p.end, p.end, false}, cat(" ", name, words));
  }
  void remove(const FlagSite& p) { replace({p.flag.begin, p.end, false}, std::string(1, kRemoved)); }

  /// Returns the value of the one word that assigns the variable a literal; nothing where none or several do.
  [[nodiscard]] std::optional<std::pair<ByteRange, std::int64_t>> assignment(const std::string& name) const {
    std::optional<std::pair<ByteRange, std::int64_t>> out;
    for (const ShellToken& token : tokens_) {
      if (token.ends || assigned_name(token.text) != name) continue;
      const std::string value = token.text.substr(token.text.find('=') + 1);
      const bool literal =
          std::all_of(value.begin(), value.end(), [](unsigned char c) { return std::isalnum(c) != 0 || c == '.' || c == '_'; });
      if (out || !literal || token.text.find("+=") < token.text.find('=') + 1) return std::nullopt;
      out = {behind_equals(token), token.line};
    }
    return out;
  }

  /// Returns the range of "full" in the word "activation-checkpoint:full".
  [[nodiscard]] std::optional<std::pair<ByteRange, std::int64_t>> subcommand(std::string_view name) const {
    for (const ShellToken& token : tokens_)
      if (!token.ends && !token.quoted && token.text.size() > name.size() && token.text[name.size()] == ':' &&
          same_name(std::string_view(token.text).substr(0, name.size()), name))
        return std::pair{ByteRange{token.begin + name.size() + 1, token.end, false}, token.line};
    return std::nullopt;
  }

  /// Adds a flag after the last one, provided that nothing follows, since a subcommand would take flags behind it.
  /// Returns whether there is such a place.
  bool append(const std::string& word) {
    for (std::size_t i = tokens_.size(); i-- > 0;) {
      if (tokens_[i].ends || !is_flag_word(tokens_[i].text)) continue;
      const std::size_t end = place_of(i, tokens_[i].text.find('='), WantedValue::Words::one, false).end;
      const auto next = std::find_if(tokens_.begin() + static_cast<std::ptrdiff_t>(i), tokens_.end(),
                                     [&](const ShellToken& t) { return t.ends || t.begin >= end; });
      if (next != tokens_.end() && (!next->ends || next->text == kString)) return false;
      replace({end, end, false}, cat(" ", word));
      return true;
    }
    return false;
  }

  /// Applies the changes from the last to the first. Several changes at one place appear in their order.
  [[nodiscard]] std::string text() const {
    std::vector<Change> changes = changes_;
    std::stable_sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) { return a.begin < b.begin; });
    std::string out = text_;
    for (auto change = changes.rbegin(); change != changes.rend(); ++change) {
      ESPALIER_CHECK(change->begin <= change->end && change->end <= text_.size());
      out.replace(change->begin, change->end - change->begin, change->text);
    }
    return in_order(out);
  }

 private:
  struct Change {
    std::size_t begin, end;
    std::string text;
  };

  /// Returns the range without quotes that enclose all of it.
  [[nodiscard]] ByteRange inside_quotes(std::size_t begin, std::size_t end) const {
    const bool quotes = end - begin >= 2 && (text_[begin] == '"' || text_[begin] == '\'') && text_[end - 1] == text_[begin];
    return quotes ? ByteRange{begin + 1, end - 1, true} : ByteRange{begin, end, false};
  }
  /// Returns the value of "NAME=VALUE". Quotes may enclose all of it or the value.
  [[nodiscard]] ByteRange behind_equals(const ShellToken& token) const {
    const ByteRange word = inside_quotes(token.begin, token.end);
    const std::size_t value = text_.find('=', word.begin) + 1;
    ESPALIER_CHECK(value > word.begin && value <= word.end);
    if (word.own_quotes) return {value, word.end, true};
    return inside_quotes(value, word.end);
  }
  [[nodiscard]] FlagSite place_of(std::size_t i, std::size_t equals, WantedValue::Words words, bool in_string) const {
    const ShellToken& token = tokens_[i];
    FlagSite p{token.line, token.text.substr(0, equals), {token.begin, token.end, false}, {}, token.end, in_string};
    if (equals != std::string::npos) {
      p.value = behind_equals(token);
      return p;
    }
    if (words == WantedValue::Words::none || i + 1 >= tokens_.size() || is_break(tokens_[i + 1])) return p;
    std::size_t last = i + 1;
    if (words == WantedValue::Words::several)
      while (last + 1 < tokens_.size() && !is_break(tokens_[last + 1]) && is_plain_word(tokens_[last + 1].text)) ++last;
    p.value = last == i + 1 ? inside_quotes(tokens_[last].begin, tokens_[last].end)
                            : ByteRange{tokens_[i + 1].begin, tokens_[last].end, false};
    p.end = tokens_[last].end;
    // Words must follow each other.
    ESPALIER_CHECK(p.flag.end <= p.value.begin && p.value.end <= p.end && p.end <= text_.size());
    return p;
  }

  /// Removes lines that only held removed words. A command whose last line is removed ends in the line before.
  static std::string in_order(const std::string& text) {
    std::vector<std::string> lines;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
      std::string line = text.substr(at, end - at);
      at = end;
      if (line.find(kRemoved) != std::string::npos) {
        take_marks(line);
        if (line.find_first_not_of(" \t\\\r\n") == std::string::npos) {
          if (line.find('\\') == std::string::npos && !lines.empty()) take_continuation(lines.back());
          continue;
        }
      }
      lines.push_back(std::move(line));
    }
    std::string out;
    for (const std::string& line : lines) out += line;
    return out;
  }
  static void take_marks(std::string& line) {
    for (std::size_t at = line.find(kRemoved); at != std::string::npos; at = line.find(kRemoved)) {
      std::size_t begin = at, end = at + 1;
      while (end < line.size() && (line[end] == ' ' || line[end] == '\t')) ++end;
      if (end == line.size() || line[end] == '\n' || line[end] == '\r' || line[end] == ')')
        while (begin > 0 && (line[begin - 1] == ' ' || line[begin - 1] == '\t')) --begin;
      line.erase(begin, end - begin);
    }
  }
  static void take_continuation(std::string& line) {
    const std::size_t last = line.find_last_not_of(" \t\r\n");
    if (last == std::string::npos || line[last] != '\\') return;
    const std::size_t kept = last == 0 ? std::string::npos : line.find_last_not_of(" \t", last - 1);
    const std::size_t begin = kept == std::string::npos ? 0 : kept + 1;
    line.erase(begin, last + 1 - begin);
  }

  std::string text_;
  std::vector<ShellToken> tokens_;
  std::vector<Change> changes_;
};

/// Returns NAME for "$NAME" and "${NAME}"; empty for another value.
std::string plain_variable(std::string_view value) {
  if (!value.starts_with('$')) return "";
  value.remove_prefix(1);
  if (value.starts_with('{') && value.ends_with('}')) value = value.substr(1, value.size() - 2);
  return is_shell_name(value) ? std::string(value) : "";
}

class Edits {
 public:
  explicit Edits(std::string_view text, const std::vector<std::string>& anchors) : file_(text), anchors_(anchors) {}

  void take(const WantedValue& w) {
    ESPALIER_CHECK(!w.key.empty());
    if (w.key == kCheckpointing && !file_.find(w.key, WantedValue::Words::one)) return change_subcommand(w);
    const bool is_switch = w.after == kSwitch || (w.after.empty() && w.before == kSwitch);
    const auto place = file_.find(w.key, is_switch ? WantedValue::Words::none : w.words);
    if (w.after.empty()) {
      if (!place) return;
      edits_.push_back({place->name, place->has_value() ? file_.text_of(place->value) : kSwitch, "", place->line});
      file_.remove(*place);
    } else if (place && !is_switch) {
      change(*place, w);
    } else if (!place) {
      add(w, is_switch);
    }
  }
  [[nodiscard]] EditedFile file() && { return {file_.text(), std::move(edits_)}; }

 private:
  void change_subcommand(const WantedValue& w) {
    constexpr std::string_view kName = "activation-checkpoint";
    const auto word = file_.subcommand(kName);
    edits_.push_back({std::string(kName), word ? file_.text_of(word->first) : "", w.after, word ? word->second : 0});
    if (word)
      file_.replace(word->first, w.after);
    else
      file_.append(cat(kName, ":", w.after));
  }
  void change(const FlagSite& place, const WantedValue& w) {
    const std::string value = file_.text_of(place.value);
    if (const std::string name = plain_variable(value); !name.empty() && assign(name, w.after)) return;
    edits_.push_back({place.name, place.has_value() ? value : kSwitch, w.after, place.line});
    file_.set(place, w.after, w.words == WantedValue::Words::several);
  }
  /// Changes the variable's assignment to the value. Returns whether the variable then has it.
  bool assign(const std::string& name, const std::string& value) {
    const auto known = std::find_if(assigned_.begin(), assigned_.end(), [&](const auto& one) { return one.first == name; });
    if (known != assigned_.end()) return known->second == value;
    const auto assigned = file_.assignment(name);
    if (!assigned) return false;
    const auto& [range, line] = *assigned;
    edits_.push_back({name, file_.text_of(range), value, line});
    file_.replace(range, range.own_quotes ? value : quoted(value));
    assigned_.emplace_back(name, value);
    return true;
  }
  void add(const WantedValue& w, bool is_switch) {
    edits_.push_back({w.key, "", w.after, 0});
    for (const std::string& flag : anchors_)
      if (const auto place = file_.find(flag, WantedValue::Words::one))
        return file_.add_behind(*place, w.key, is_switch ? "" : w.after, w.words == WantedValue::Words::several);
  }

  FlagFile file_;
  const std::vector<std::string>& anchors_;
  std::vector<ConfigurationEdit> edits_;
  std::vector<std::pair<std::string, std::string>> assigned_;
};

}  // namespace

EditedFile edit_flags(std::string_view text, const std::vector<WantedValue>& wanted, const std::vector<std::string>& anchors) {
  Edits edits(text, anchors);
  for (const WantedValue& w : wanted) edits.take(w);
  EditedFile out = std::move(edits).file();
  ESPALIER_CHECK(out.edits.size() <= wanted.size());
  return out;
}

}  // namespace espalier::exchange
