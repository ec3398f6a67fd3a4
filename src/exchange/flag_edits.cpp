// SPDX-License-Identifier: Apache-2.0
// Edits of lists of flags and launch scripts.
#include <algorithm>
#include <optional>
#include <regex>

#include "base/check.h"
#include "base/format.h"
#include "exchange/file_edits.h"
#include "exchange/launch_script.h"

namespace espalier::exchange {
namespace {

using base::cat;

constexpr const char* kSwitch = "on";
std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    out.emplace_back(text.substr(at, end == std::string_view::npos ? end : end - at + 1));
    ESPALIER_CHECK(!out.back().empty());  // each step goes on
    at = end == std::string_view::npos ? text.size() : end + 1;
  }
  return out;
}

/// Where a comment begins, or the end of the line.
std::size_t comment_of(const std::string& line) {
  for (std::size_t i = 0; i < line.size(); ++i)
    if (line[i] == '#' && (i == 0 || line[i - 1] == ' ' || line[i - 1] == '\t')) return i;
  return line.size();
}

/// '-' and '_' inside a name are the same.
bool same_name(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return x == y || ((x == '-' || x == '_') && (y == '-' || y == '_')); });
}

bool ends_value(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '"' || c == '\'' || c == ')' || c == '\\';
}

/// A flag in the file: its name, and its value up to the next blank or inside its own quotes.
struct Place {
  std::size_t line = 0, begin = 0, name_end = 0, value = 0, end = 0;  ///< value == end: a switch
  bool own_quotes = false;                                            ///< around the value
  [[nodiscard]] std::size_t behind() const { return own_quotes ? end + 1 : end; }
};

class FlagFile {
 public:
  explicit FlagFile(std::string_view text) : lines_(lines_of(text)) { find_strings(); }

  [[nodiscard]] std::optional<Place> find(std::string_view flag, bool list = false) const {
    for (std::size_t l = 0; l < lines_.size(); ++l)
      if (auto place = find_in(l, flag, list)) return place;
    return std::nullopt;
  }
  [[nodiscard]] std::string name_of(const Place& p) const { return lines_[p.line].substr(p.begin, p.name_end - p.begin); }
  [[nodiscard]] std::string value_of(const Place& p) const { return lines_[p.line].substr(p.value, p.end - p.value); }

  void set(const Place& p, const std::string& value, bool list) {
    const std::string gap = p.value == p.end && p.value == p.name_end ? " " : "";
    change_line(p.line, p.value, p.end - p.value, gap + spelled(p.line, p.value, value, list || p.own_quotes));
  }
  void add_behind(const Place& p, const std::string& name, const std::string& value, bool list) {
    const std::string words = value.empty() ? "" : cat(" ", spelled(p.line, p.begin, value, list));
    change_line(p.line, p.behind(), 0, cat(" ", name, words));
  }

  void remove(const Place& p) {
    std::string& line = lines_[p.line];
    std::size_t end = p.behind();
    while (end < line.size() && (line[end] == ' ' || line[end] == '\t')) ++end;
    std::size_t begin = p.begin;
    if (end == line.size() || line[end] == '\n' || line[end] == '\r')  // nothing follows: no blank before it either
      while (begin > 0 && (line[begin - 1] == ' ' || line[begin - 1] == '\t')) --begin;
    change_line(p.line, begin, end - begin, "");
    if (line.find_first_not_of(" \t\\\r\n") != std::string::npos) return;
    // An empty line would end the command: a line that goes on passes that on to the one before.
    const bool goes_on = line.find('\\') != std::string::npos;
    lines_[p.line].clear();
    if (goes_on || p.line == 0) return;
    std::string& before = lines_[p.line - 1];
    const std::size_t last = before.find_last_not_of(" \t\r\n");
    if (last != std::string::npos && before[last] == '\\')
      before.erase(before.find_last_not_of(" \t", last - 1) + 1, last + 1 - (before.find_last_not_of(" \t", last - 1) + 1));
  }

  /// The one line that assigns the variable a literal; nothing where none or several do.
  [[nodiscard]] std::optional<Place> assignment(const std::string& name) const {
    const std::regex pattern(
        cat("^\\s*(?:export\\s+|readonly\\s+|local\\s+)?", name, "=[\"']?([A-Za-z0-9._]*)[\"']?\\s*(?:#.*)?$"));
    std::optional<Place> out;
    for (std::size_t l = 0; l < lines_.size(); ++l) {
      std::string line = lines_[l];
      while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.pop_back();
      std::smatch match;
      const std::size_t said = line.find(cat(name, "="));
      const bool assigns = said != std::string::npos && (said == 0 || line[said - 1] == ' ' || line[said - 1] == '\t');
      if (!std::regex_match(line, match, pattern)) {
        if (assigns) return std::nullopt;
        continue;
      }
      if (out) return std::nullopt;
      const auto begin = static_cast<std::size_t>(match.position(1));
      out = Place{l, said, said + name.size(), begin, begin + static_cast<std::size_t>(match.length(1)), false};
    }
    return out;
  }

  [[nodiscard]] std::string text() const {
    std::string out;
    for (const std::string& line : lines_) out += line;
    return out;
  }

 private:
  void change_line(std::size_t l, std::size_t at, std::size_t count, const std::string& text) {
    lines_[l].replace(at, count, text);
    find_strings();
  }
  /// Where the text stands in a quoted string.
  void find_strings() {
    in_string_.clear();
    char quote = 0;
    for (const std::string& line : lines_) {
      std::vector<bool>& inside = in_string_.emplace_back(line.size() + 1, false);
      for (std::size_t i = 0; i < line.size(); ++i) {
        inside[i] = quote != 0;
        if (quote == 0 && line[i] == '#' && (i == 0 || line[i - 1] == ' ' || line[i - 1] == '\t')) break;
        if (line[i] == '\\' && quote != '\'' && i + 1 < line.size())
          inside[++i] = quote != 0;
        else if (quote == 0 && (line[i] == '"' || line[i] == '\''))
          quote = line[i];
        else if (line[i] == quote)
          quote = 0;
      }
      inside[line.size()] = quote != 0;
    }
  }
  [[nodiscard]] std::string spelled(std::size_t l, std::size_t at, const std::string& value, bool words) const {
    ESPALIER_CHECK(l < in_string_.size() && at < in_string_[l].size());
    return words || in_string_[l][at] ? value : quoted(value);
  }
  /// The end of the words behind `p` that are no flags.
  [[nodiscard]] std::size_t end_of_words(const Place& p, std::size_t most) const {
    const std::string& line = lines_[p.line];
    std::size_t end = p.end;
    for (std::size_t at = end; at < most;) {
      while (at < most && (line[at] == ' ' || line[at] == '\t')) ++at;
      const std::size_t begin = at;
      while (at < most && (std::isalnum(static_cast<unsigned char>(line[at])) != 0 || line[at] == '_')) ++at;
      if (at == begin || (at < line.size() && !ends_value(line[at]))) break;
      end = at;
    }
    return end;
  }
  [[nodiscard]] std::optional<Place> find_in(std::size_t l, std::string_view flag, bool list) const {
    const std::string& line = lines_[l];
    const std::size_t most = comment_of(line);
    for (std::size_t at = line.find("--"); at != std::string::npos && at < most; at = line.find("--", at + 2)) {
      std::size_t end = at + 2;
      while (end < line.size() && (std::isalnum(static_cast<unsigned char>(line[end])) != 0 || line[end] == '-' ||
                                   line[end] == '_' || line[end] == '.'))
        ++end;
      if (!same_name(std::string_view(line).substr(at, end - at), flag)) continue;
      Place p{l, at, end, end, end, false};
      std::size_t value = end;
      while (value < most && (line[value] == ' ' || line[value] == '\t' || line[value] == '=')) ++value;
      if (value == end || value >= most) return p;
      const bool opens = (line[value] == '"' || line[value] == '\'') && !in_string_[l][value];
      const std::size_t closes = opens ? line.find(line[value], value + 1) : std::string::npos;
      if (closes != std::string::npos) {
        p.value = value + 1;
        p.end = closes;
        p.own_quotes = true;
        return p;
      }
      if (ends_value(line[value]) || line.compare(value, 2, "--") == 0) return p;
      p.value = value;
      p.end = value;
      while (p.end < most && !ends_value(line[p.end])) ++p.end;
      if (list) p.end = end_of_words(p, most);
      return p;
    }
    return std::nullopt;
  }

  std::vector<std::string> lines_;
  std::vector<std::vector<bool>> in_string_;  ///< [line][character], and behind the last one
};

/// NAME of "$NAME" and "${NAME}"; empty: another value.
std::string variable_in(const std::string& value) {
  static const std::regex pattern(R"(\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*)))");
  std::smatch match;
  if (!std::regex_match(value, match, pattern)) return "";
  return match[1].matched ? match[1].str() : match[2].str();
}

ConfigurationEdit change(FlagFile& file, const Place& place, const WantedValue& w) {
  ESPALIER_CHECK(!w.after.empty() && w.after != kSwitch);
  const std::string value = file.value_of(place);
  if (const std::string name = variable_in(value); !name.empty()) {
    if (const auto assigned = file.assignment(name)) {
      ConfigurationEdit edit{name, file.value_of(*assigned), w.after, static_cast<std::int64_t>(assigned->line) + 1};
      file.set(*assigned, w.after, false);
      return edit;
    }
  }
  ConfigurationEdit edit{file.name_of(place), value.empty() ? kSwitch : value, w.after,
                         static_cast<std::int64_t>(place.line) + 1};
  file.set(place, w.after, w.list);
  return edit;
}

std::optional<Place> anchor_of(const FlagFile& file, const std::vector<std::string>& anchors) {
  for (const std::string& flag : anchors)
    if (auto place = file.find(flag)) return place;
  return std::nullopt;
}

}  // namespace

EditedFile edit_flags(std::string_view text, const std::vector<WantedValue>& wanted, const std::vector<std::string>& anchors) {
  FlagFile file(text);
  EditedFile out;
  for (const WantedValue& w : wanted) {
    ESPALIER_CHECK(!w.key.empty());
    const auto place = file.find(w.key, w.list);
    const bool is_switch = w.after == kSwitch;
    if (w.after.empty()) {
      if (!place) continue;
      out.edits.push_back({file.name_of(*place), place->value == place->end ? kSwitch : file.value_of(*place), "",
                           static_cast<std::int64_t>(place->line) + 1});
      file.remove(*place);
    } else if (place && !is_switch) {
      out.edits.push_back(change(file, *place, w));
    } else if (!place) {
      out.edits.push_back({w.key, "", w.after, 0});
      if (const auto anchor = anchor_of(file, anchors)) file.add_behind(*anchor, w.key, is_switch ? "" : w.after, w.list);
    }
  }
  ESPALIER_CHECK(out.edits.size() <= wanted.size());
  out.text = file.text();
  return out;
}

}  // namespace espalier::exchange
