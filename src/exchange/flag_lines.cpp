// SPDX-License-Identifier: Apache-2.0
#include "exchange/flag_lines.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

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
  bool ends = false;  ///< the end of a command: nothing behind it is a value of what stands before
};

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_name_part(char c) { return is_letter(c) || (c >= '0' && c <= '9'); }
bool is_name(std::string_view word) {
  return !word.empty() && is_letter(word.front()) && std::all_of(word.begin(), word.end(), is_name_part);
}
bool is_flag(const Token& token) { return token.text.size() > 2 && token.text.starts_with("--") && is_letter(token.text[2]); }

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
    tokens_.push_back(std::move(*word_));
    word_.reset();
  }
  void add(char c) {
    if (!word_) word_ = Token{"", line_};
    word_->text += c;
  }
  void end_command() {
    end_word();
    if (!tokens_.empty() && !tokens_.back().ends) tokens_.push_back({"", line_, false, true});
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
      if (depth_ > 0) --depth_;
      if (depth_ == 0) end_command();
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
    if (inside.find("--") != std::string_view::npos && inside.find_first_of(" \n") != std::string_view::npos) {
      end_word();
      tokens_.push_back({"", line_, false, true});
      const auto words = Words(inside, where_).within(line_);
      tokens_.insert(tokens_.end(), words.begin(), words.end());
      tokens_.push_back({"", line_, false, true});
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
  bool literal = true;  ///< false: several values, or one that would have to be evaluated
};

/// NAME=value at the beginning of a command.
std::map<std::string, Assigned> assignments(const std::vector<Token>& tokens) {
  std::map<std::string, Assigned> out;
  bool begins = true;
  for (const Token& token : tokens) {
    const std::size_t equals = token.text.find('=');
    const bool assigns = begins && equals != std::string::npos && is_name(std::string_view(token.text).substr(0, equals));
    begins = token.ends || (begins && (assigns || token.text == "export" || token.text == "local" || token.text == "declare"));
    if (!assigns) continue;
    const std::string value = token.text.substr(equals + 1);
    const bool literal = value.find_first_of("$`(") == std::string::npos && !value.empty();
    const auto [at, fresh] = out.try_emplace(token.text.substr(0, equals), Assigned{value, token.line, literal});
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
    for (std::size_t i = 0; i < tokens_.size() && !error_;) i = is_flag(tokens_[i]) ? flag(i) : i + 1;
    if (error_) return *error_;
    if (out_.flags.empty())
      return Error{ErrorKind::bad_input, where_, "no flag", "flags such as --tensor-model-parallel-size 8",
                   "a list of flags, a launch script that holds them, or a log with the printed arguments"};
    return std::move(out_);
  }

 private:
  /// The place behind the flag and its values.
  std::size_t flag(std::size_t i) {
    const Token& token = tokens_[i];
    const std::size_t equals = token.text.find('=');
    std::string name = token.text.substr(2, equals == std::string::npos ? equals : equals - 2);
    std::replace(name.begin(), name.end(), '-', '_');
    std::string value = equals == std::string::npos ? "" : looked_up(token.text.substr(equals + 1));
    std::size_t next = i + 1;
    if (equals == std::string::npos)
      for (; next < tokens_.size() && !is_flag(tokens_[next]) && !is_break(tokens_[next]); ++next)
        value.append(value.empty() ? "" : " ").append(looked_up(tokens_[next].text));
    add({std::move(name), value.empty() ? "True" : std::move(value), token.line});
    return next;
  }

  std::string looked_up(const std::string& text) {
    const std::string name = variable_in(text);
    const auto at = name.empty() ? assigned_.end() : assigned_.find(name);
    if (at == assigned_.end() || !at->second.literal) return text;
    const auto same = [&](const ImportedKey& k) { return k.key == "$" + name; };
    if (std::none_of(out_.variables.begin(), out_.variables.end(), same))
      out_.variables.push_back(
          {ImportedKey::Kind::read, "$" + name, at->second.value, "assigned in the script", at->second.line});
    return at->second.value;
  }

  void add(Setting setting) {
    const auto [at, fresh] = seen_.try_emplace(setting.key, setting);
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
  const auto tokens = Words(text, where).read();
  if (!tokens) return tokens.error();
  return Flags(*tokens, where).read();
}

}  // namespace espalier::exchange
