// SPDX-License-Identifier: Apache-2.0
#include "exchange/flag_lines.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <optional>

#include "base/check.h"
#include "base/format.h"
#include "base/text.h"

namespace espalier::exchange {
namespace {

using base::cat;

constexpr std::size_t kMostBytes = 4u << 20;
constexpr std::size_t kMostFlags = 5000;

struct Token {
  std::string text;
  std::int64_t line = 0;
  bool quoted = false;
  bool ends = false;           ///< the end of a command: nothing behind it is a value of what stands before
  bool is_word = false;        ///< of a test or of a case's pattern: no flag
  std::int64_t condition = 0;  ///< line of the condition under which it stands; 0: none
};
constexpr const char* kPattern = ")";  ///< text of the end of a case's pattern
constexpr const char* kString = "\"";  ///< of the beginning and the end of a quoted string: the command goes on behind it

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_name_part(char c) { return is_letter(c) || (c >= '0' && c <= '9'); }
bool is_name(std::string_view word) {
  return !word.empty() && is_letter(word.front()) && std::all_of(word.begin(), word.end(), is_name_part);
}
bool is_flag(const Token& token) {
  return !token.is_word && token.text.size() > 2 && token.text.starts_with("--") && is_letter(token.text[2]);
}
/// torchtitan's command line from 0.3 on: "activation-checkpoint:full" is a word of its own.
bool is_subcommand(const Token& token) {
  constexpr std::string_view kWords[] = {"activation-checkpoint:", "activation_checkpoint:"};
  return std::any_of(std::begin(kWords), std::end(kWords),
                     [&](std::string_view word) { return token.text.starts_with(word) && token.text.size() > word.size(); });
}
/// "NAME" of "NAME=…" and "NAME+=…"; empty: it assigns nothing.
std::string assigned_name(std::string_view word) {
  const std::size_t equals = word.find('=');
  if (equals == std::string_view::npos) return "";
  std::string_view name = word.substr(0, equals);
  if (name.ends_with('+')) name.remove_suffix(1);
  return is_name(name) ? std::string(name) : "";
}

/// Words of a script, as far as quotes, comments, continuations and parentheses go.
class Words {
 public:
  Words(std::string_view text, const std::string& where) : text_(text), where_(where) {}

  Result<std::vector<Token>> read() {
    while (at_ < text_.size() && !error_) step();
    end_word();
    if (error_) return *error_;
    return std::move(tokens_);
  }

 private:
  void end_word() {
    if (!word_) return;
    ESPALIER_CHECK(word_->line > 0);
    tokens_.push_back(std::move(*word_));
    word_.reset();
  }
  void add(char c) {
    if (!word_) word_ = Token{"", line_};
    word_->text += c;
  }
  void end_command(const char* text = "") {
    end_word();
    if (!tokens_.empty() && (!tokens_.back().ends || tokens_.back().text == kString))
      tokens_.push_back({text, line_, false, true});
  }

  void step() {
    const char c = text_[at_];
    if (c == '\\' && continues()) return;
    ++at_;
    if (c == '\n') {
      depth_ > 0 ? end_word() : end_command();
      ++line_;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      end_word();
    } else if (c == '"' || c == '\'') {
      quote(c);
    } else if (c == '#' && !word_) {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else if (c == '(') {
      end_word();
      ++depth_;
    } else if (c == ')') {
      end_word();
      const bool pattern = depth_ == 0;
      if (depth_ > 0) --depth_;
      if (depth_ == 0) end_command(pattern ? kPattern : "");
    } else if (c == ';') {
      end_command();
    } else {
      add(c);
    }
  }

  /// A backslash before the end of a line.
  bool continues() {
    std::size_t next = at_ + 1;
    while (next < text_.size() && (text_[next] == ' ' || text_[next] == '\t' || text_[next] == '\r')) ++next;
    if (next < text_.size() && text_[next] != '\n') return false;
    end_word();
    at_ = std::min(next + 1, text_.size());
    ++line_;
    return true;
  }

  void quote(char mark) {
    const std::size_t end = text_.find(mark, at_);
    if (end == std::string_view::npos) {
      error_ = Error{ErrorKind::bad_input, cat(where_, ":", line_), "a quote that does not end", "one that does", ""};
      return;
    }
    if (!word_) word_ = Token{"", line_};
    word_->quoted = true;
    const std::string_view inside = text_.substr(at_, end - at_);
    // Flags in a quoted string ("--a 1 --b 2" in a variable) are flags as well.
    if (inside.find("--") != std::string_view::npos &&
        (inside.find_first_of(" \n") != std::string_view::npos || !assigned_name(word_->text).empty())) {
      end_word();
      tokens_.push_back({kString, line_, false, true});
      const auto words = Words(inside, where_).within(line_);
      tokens_.insert(tokens_.end(), words.begin(), words.end());
      tokens_.push_back({kString, line_, false, true});
    } else {
      word_->text += inside;
    }
    line_ += std::count(inside.begin(), inside.end(), '\n');
    at_ = end + 1;
  }

  /// The words of a quoted string: blanks part them, nothing else means anything.
  std::vector<Token> within(std::int64_t line) {
    line_ = line;
    for (const char c : text_) {
      if (c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\\')
        end_word();
      else
        add(c);
      line_ += c == '\n' ? 1 : 0;
    }
    end_word();
    return std::move(tokens_);
  }

  std::string_view text_;
  const std::string& where_;
  std::size_t at_ = 0;
  std::int64_t line_ = 1;
  std::int64_t depth_ = 0;  ///< of parentheses
  std::optional<Token> word_;
  std::vector<Token> tokens_;
  Status error_;
};

// ---- conditions --------------------------------------------------------------------------------------------------------------

/// Marks what stands under a condition, as far as if, case, loops, && and || go. A block that does not end is none.
class Conditions {
 public:
  explicit Conditions(std::vector<Token>& tokens) : tokens_(tokens) {}

  void mark() {
    for (at_ = 0; at_ < tokens_.size(); ++at_) {
      Token& token = tokens_[at_];
      if (token.ends)
        ended(token);
      else if (begins_ && !token.quoted && opens_or_closes(token.text))
        continue;
      else
        word(token);
    }
  }

 private:
  enum class Kind : std::uint8_t { branch, choice, loop };  // if, case, while and for
  struct Block {
    Kind kind;
    std::size_t first;   ///< token
    std::size_t header;  ///< token behind the test; 0: not met yet
  };

  void ended(const Token& token) {
    if (token.text == kString) return;
    const bool joined = at_ > 0 && (tokens_[at_ - 1].text == "&&" || tokens_[at_ - 1].text == "||");
    if (token.text == kPattern && !open_.empty() && open_.back().kind == Kind::choice)
      for (std::size_t i = begin_; i < at_; ++i) tokens_[i].is_word = true;
    begins_ = true;
    begin_ = at_ + 1;
    first_.clear();
    if (joined) return;  // the command goes on in the next line
    behind_ = 0;
    after_and_ = 0;
  }

  /// Words of the shell's grammar at the beginning of a command.
  bool opens_or_closes(const std::string& text) {
    if (text == "if") return open(Kind::branch);
    if (text == "case") return open(Kind::choice);
    if (text == "while" || text == "until" || text == "for") return open(Kind::loop);
    if (text == "then" || text == "do") return test_ends();
    if (text == "elif") {
      later_tests_.push_back(at_);
      return true;
    }
    if (text == "fi") return close(Kind::branch);
    if (text == "esac") return close(Kind::choice);
    if (text == "done") return close(Kind::loop);
    return text == "else" || text == "!" || text == "{" || text == "exec" || text == "time" || text == "export" ||
           text == "local" || text == "declare" || text == "readonly";
  }
  bool open(Kind kind) {
    open_.push_back({kind, at_, 0});
    begins_ = kind != Kind::choice;
    return true;
  }
  bool test_ends() {
    if (!later_tests_.empty()) {
      for (std::size_t i = later_tests_.back(); i < at_; ++i) tokens_[i].is_word = true;
      later_tests_.pop_back();
    } else if (!open_.empty() && open_.back().header == 0) {
      open_.back().header = at_;
    }
    return true;
  }
  bool close(Kind kind) {
    if (open_.empty() || open_.back().kind != kind) return true;
    const Block block = open_.back();
    open_.pop_back();
    for (std::size_t i = block.first; i < at_; ++i) {
      if (i < block.header) tokens_[i].is_word = true;
      if (kind != Kind::loop && tokens_[i].condition == 0) tokens_[i].condition = tokens_[block.first].line;
    }
    return true;
  }

  void word(Token& token) {
    const bool plain = !token.quoted;
    if (plain && (token.text == "&&" || token.text == "||")) {
      const bool tests = token.text == "||" || first_ == "[" || first_ == "[[" || first_ == "test" || first_.empty();
      (tests ? behind_ : after_and_) = token.line;
      begins_ = true;
      first_.clear();
      return;
    }
    if (begins_) {
      if (after_and_ > 0 && !assigned_name(token.text).empty()) behind_ = after_and_;
      first_ = token.text;
    }
    begins_ = begins_ && !assigned_name(token.text).empty();
    if (behind_ > 0) token.condition = behind_;
    if (!open_.empty() && open_.back().kind == Kind::choice && open_.back().header == 0 && plain && token.text == "in") {
      open_.back().header = at_;
      begins_ = true;
      begin_ = at_ + 1;
    }
  }

  std::vector<Token>& tokens_;
  std::vector<Block> open_;
  std::vector<std::size_t> later_tests_;  ///< of elif
  std::size_t at_ = 0, begin_ = 0;        ///< begin_: of the command
  bool begins_ = true;
  std::string first_;           ///< word of the command
  std::int64_t behind_ = 0;     ///< line of a && or || that decides whether the command runs
  std::int64_t after_and_ = 0;  ///< line of a && behind another command: what it runs is run, what it assigns may not be
};

// ---- flags -------------------------------------------------------------------------------------------------------------------

/// What stands between flags and is no value.
bool is_break(const Token& token) {
  constexpr std::array<std::string_view, 8> kWords = {"|", "||", "&", "&&", ">", ">>", "<", "2>&1"};
  const std::string& t = token.text;
  if (token.ends) return true;
  if (token.quoted) return false;
  if (t.ends_with(".py") || t.find("[@]") != std::string::npos || t.find("[*]") != std::string::npos) return true;
  if (t.starts_with("$") && (t.ends_with("ARGS") || t.ends_with("ARGS}") || t == "$@")) return true;
  return std::find(kWords.begin(), kWords.end(), t) != kWords.end();
}

struct Assigned {
  std::string value;
  std::int64_t line = 0;
  bool literal = true;    ///< false: several values, or one that would have to be evaluated
  bool fallback = false;  ///< "${NAME:-2}": unless the environment sets it
};

/// "${NAME:-2}" and "${NAME-2}": the name, and the value where nobody sets it. Empty: another text, or one that would have to be evaluated.
struct Fallback {
  std::string name, value;
};
Fallback fallback_of(std::string_view text) {
  if (!text.starts_with("${") || !text.ends_with("}")) return {};
  const std::string_view inside = text.substr(2, text.size() - 3);
  const std::size_t dash = inside.find('-');
  if (dash == std::string_view::npos) return {};
  std::string_view name = inside.substr(0, dash);
  if (name.ends_with(':')) name.remove_suffix(1);
  const std::string_view value = inside.substr(dash + 1);
  if (!is_name(name) || value.empty() || value.find_first_of("$`(){}\"' ") != std::string_view::npos) return {};
  return {std::string(name), std::string(value)};
}

/// NAME=value at the beginning of a command.
std::map<std::string, Assigned> assignments(const std::vector<Token>& tokens) {
  std::map<std::string, Assigned> out;
  bool begins = true;
  for (const Token& token : tokens) {
    const std::string name = assigned_name(token.text);
    const bool assigns = begins && !name.empty();
    begins = token.ends || (begins && (assigns || token.text == "export" || token.text == "local" || token.text == "declare"));
    if (!assigns) continue;
    const std::string text = token.text.substr(token.text.find('=') + 1);
    const Fallback fallback = fallback_of(text);
    const std::string value = fallback.value.empty() ? text : fallback.value;
    const bool literal = value.find_first_of("$`(") == std::string::npos && !value.empty() && token.condition == 0;
    const auto [at, fresh] = out.try_emplace(name, Assigned{value, token.line, literal, !fallback.value.empty()});
    if (!fresh && at->second.value != value) at->second.literal = false;
  }
  return out;
}

/// "NAME" of "$NAME" and "${NAME}".
std::string variable_in(const std::string& text) {
  std::string_view name = text;
  if (!name.starts_with("$")) return "";
  name.remove_prefix(1);
  if (name.starts_with("{") && name.ends_with("}")) name = name.substr(1, name.size() - 2);
  return is_name(name) ? std::string(name) : "";
}

class Flags {
 public:
  Flags(const std::vector<Token>& tokens, const std::string& where)
      : tokens_(tokens), where_(where), assigned_(assignments(tokens)) {}

  Result<FlagLines> read() {
    for (std::size_t i = 0; i < tokens_.size() && !error_;) {
      const Token& token = tokens_[i];
      if (is_subcommand(token))
        add({"activation_checkpoint.mode", token.text.substr(token.text.find(':') + 1), token.line, token.condition});
      i = is_flag(token) ? flag(i) : i + 1;
    }
    if (error_) return *error_;
    if (out_.flags.empty())
      return Error{ErrorKind::bad_input, where_, "no flag", "flags such as --tensor-model-parallel-size 8",
                   "a list of flags, a launch script that holds them, or a log with the printed arguments"};
    return std::move(out_);
  }

 private:
  /// The place behind the flag and its values.
  std::size_t flag(std::size_t i) {
    ESPALIER_CHECK(i < tokens_.size() && is_flag(tokens_[i]));
    const Token& token = tokens_[i];
    const std::size_t equals = token.text.find('=');
    std::string name = token.text.substr(2, equals == std::string::npos ? equals : equals - 2);
    std::replace(name.begin(), name.end(), '-', '_');
    std::string value = equals == std::string::npos ? "" : looked_up(token, equals + 1);
    std::size_t next = i + 1;
    if (equals == std::string::npos)
      for (; is_value(next) && !holds_flags(next, value); ++next)
        value.append(value.empty() ? "" : " ").append(looked_up(tokens_[next]));
    add({std::move(name), value.empty() ? "True" : std::move(value), token.line, token.condition});
    return next;
  }

  [[nodiscard]] bool is_value(std::size_t i) const {
    return i < tokens_.size() && !is_flag(tokens_[i]) && !is_break(tokens_[i]) && !is_subcommand(tokens_[i]);
  }
  /// "$EXTRA" that ends the values: its flags are read where it is assigned, or nobody knows them.
  bool holds_flags(std::size_t i, const std::string& before) {
    const Token& token = tokens_[i];
    const std::string name = variable_in(token.text);
    if (name.empty()) return false;
    const auto at = assigned_.find(name);
    if (at != assigned_.end()) return at->second.value.empty();
    if (before.empty() || is_value(i + 1)) return false;
    const auto same = [&](const ImportedKey& k) { return k.key == "$" + name; };
    if (std::none_of(out_.variables.begin(), out_.variables.end(), same))
      out_.variables.push_back({ImportedKey::Kind::not_understood, "$" + name, "",
                                "assigned nowhere in the file: the flags that it may hold are not read", token.line});
    return true;
  }

  /// The value that begins at `from` of the token.
  std::string looked_up(const Token& token, std::size_t from = 0) {
    ESPALIER_CHECK(from <= token.text.size());
    const std::string text = token.text.substr(from);
    const Fallback here = fallback_of(text);
    const std::string name = here.name.empty() ? variable_in(text) : here.name;
    const auto at = name.empty() ? assigned_.end() : assigned_.find(name);
    if (at != assigned_.end() && !at->second.literal) return text;
    if (at == assigned_.end() && here.name.empty()) return text;
    const Assigned found = at != assigned_.end() ? at->second : Assigned{here.value, token.line, true, true};
    const auto same = [&](const ImportedKey& k) { return k.key == "$" + name; };
    if (std::none_of(out_.variables.begin(), out_.variables.end(), same))
      out_.variables.push_back(
          {found.fallback ? ImportedKey::Kind::defaulted : ImportedKey::Kind::read, "$" + name, found.value,
           found.fallback ? "the script's default, unless the environment says otherwise" : "assigned in the script",
           found.line});
    return found.value;
  }

  void add(Setting setting) {
    ESPALIER_CHECK(!setting.key.empty() && setting.line > 0 && !setting.value.empty());
    const auto [at, fresh] = seen_.try_emplace(setting.key, setting);
    if (!fresh && at->second.value != setting.value && (setting.condition > 0 || at->second.condition > 0)) {
      // Which of them holds is not known: the first stands for both, under the condition.
      const std::int64_t condition = setting.condition > 0 ? setting.condition : at->second.condition;
      for (Setting& flag : out_.flags)
        if (flag.key == setting.key) flag.condition = condition;
      return;
    }
    if (!fresh && at->second.value != setting.value) {
      error_ =
          Error{ErrorKind::bad_input, cat(where_, ":", setting.line), cat("--", setting.key, " ", base::quoted(setting.value)),
                cat(base::quoted(at->second.value), ", as line ", at->second.line, " says"), "one value for each flag"};
      return;
    }
    if (!fresh) return;
    if (out_.flags.size() == kMostFlags) {
      error_ = Error{ErrorKind::bad_input, cat(where_, ":", setting.line), cat("more than ", kMostFlags, " flags"), "fewer", ""};
      return;
    }
    out_.flags.push_back(std::move(setting));
  }

  const std::vector<Token>& tokens_;
  const std::string& where_;
  std::map<std::string, Assigned> assigned_;
  std::map<std::string, Setting> seen_;
  FlagLines out_;
  Status error_;
};

}  // namespace

Result<FlagLines> read_flag_lines(std::string_view text, const std::string& where) {
  if (Status problem = base::check_text(text, where, kMostBytes)) return *problem;
  auto tokens = Words(text, where).read();
  if (!tokens) return tokens.error();
  Conditions(*tokens).mark();
  return Flags(*tokens, where).read();
}

}  // namespace espalier::exchange
