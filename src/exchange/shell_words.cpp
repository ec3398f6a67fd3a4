// SPDX-License-Identifier: Apache-2.0
#include "exchange/shell_words.h"

#include <algorithm>
#include <optional>

#include "base/format.h"
#include "base/invariant.h"

namespace espalier::exchange {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

class ShellTokenizer {
 public:
  /// `base` is where the text begins in the file.
  ShellTokenizer(std::string_view text, const std::string& where, std::size_t base = 0)
      : text_(text), where_(where), base_(base) {}

  Result<std::vector<ShellToken>> read() {
    while (at_ < text_.size() && status_.ok()) step();
    end_word();
    if (!status_.ok()) return status_.error();
    return std::move(tokens_);
  }

 private:
  void end_word() {
    if (!word_) return;
    ESPALIER_CHECK(word_->line > 0);
    ESPALIER_CHECK(word_->begin < word_->end);
    if (!word_->quoted && word_->text.starts_with("<<") && !word_->text.starts_with("<<<")) here_ = word_->text.substr(2);
    tokens_.push_back(std::move(*word_));
    word_.reset();
  }
  /// Adds the character at `from`.
  void add(std::size_t from) {
    begin_word(from);
    word_->text += text_[from];
    word_->end = base_ + from + 1;
  }
  void begin_word(std::size_t from) {
    if (word_) return;
    word_ = ShellToken{"", line_};
    word_->begin = word_->end = base_ + from;
  }
  void end_command(const char* text = "") {
    end_word();
    if (!tokens_.empty() && (!tokens_.back().ends || tokens_.back().text == kString))
      tokens_.push_back({text, line_, false, true});
  }

  void step() {
    const char c = text_[at_];
    if (c == '\\' && continues()) return;
    if ((c == '$' && at_ + 1 < text_.size() && (text_[at_ + 1] == '(' || text_[at_ + 1] == '{')) || c == '`') return nested();
    ++at_;
    if (c == '\n') {
      depth_ > 0 ? end_word() : end_command();
      ++line_;
      skip_document();
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
      closes();
    } else if (c == ';') {
      end_command();
    } else {
      add(at_ - 1);
    }
  }
  void closes() {
    end_word();
    const bool pattern = depth_ == 0;
    if (depth_ > 0) --depth_;
    if (depth_ == 0) end_command(pattern ? kPattern : "");
  }

  /// Skips the text up to the end of a here-document, which belongs to another program.
  void skip_document() {
    if (here_.empty()) return;
    std::string end = here_;
    here_.clear();
    if (end.starts_with("-")) end.erase(0, 1);
    std::erase_if(end, [](char c) { return c == '"' || c == '\''; });
    std::int64_t lines = 0;
    for (std::size_t from = at_; !end.empty() && from < text_.size(); ++lines) {
      const std::size_t stop = std::min(text_.find('\n', from), text_.size());
      std::string_view line = text_.substr(from, stop - from);
      while (!line.empty() && (line.front() == '\t' || line.front() == ' ')) line.remove_prefix(1);
      while (!line.empty() && line.back() == '\r') line.remove_suffix(1);
      if (line == end) {
        at_ = std::min(stop + 1, text_.size());
        line_ += lines + 1;
        return;
      }
      from = stop + 1;
    }
  }

  /// Returns whether a backslash ends the line.
  bool continues() {
    std::size_t next = at_ + 1;
    while (next < text_.size() && (text_[next] == ' ' || text_[next] == '\t' || text_[next] == '\r')) ++next;
    if (next < text_.size() && text_[next] != '\n') return false;
    end_word();
    at_ = std::min(next + 1, text_.size());
    ++line_;
    return true;
  }

  /// Returns the place behind the bracket that closes the one at `from`, or npos.
  [[nodiscard]] std::size_t closing(std::size_t from) {
    if (unclosed_ > kMostUnclosed) return std::string_view::npos;
    const std::size_t end = search_closing(from);
    unclosed_ += end == std::string_view::npos ? 1 : 0;
    return end;
  }
  [[nodiscard]] std::size_t search_closing(std::size_t from) const {
    if (text_[from] == '`') {
      const std::size_t end = text_.find('`', from + 1);
      return end == std::string_view::npos ? end : end + 1;
    }
    const char open = text_[from + 1], close = open == '(' ? ')' : '}';
    std::int64_t depth = 0;
    for (std::size_t i = from + 1; i < text_.size(); ++i) {
      if (text_[i] == '\\')
        ++i;
      else if (text_[i] == open)
        ++depth;
      else if (text_[i] == close && --depth == 0)
        return i + 1;
    }
    return std::string_view::npos;
  }
  void nested() {
    const std::size_t end = closing(at_);
    if (end == std::string_view::npos) {  // prose, or a truncated script: the character has no special meaning
      add(at_++);
      return;
    }
    for (; at_ < end; ++at_) {
      add(at_);
      line_ += text_[at_] == '\n' ? 1 : 0;
    }
  }

  /// Returns the place of the mark that ends the string which begins at `from`. Double quotes may hold `$( … )`.
  [[nodiscard]] std::size_t end_of_quote(std::size_t from, char mark) {
    for (std::size_t i = from; i < text_.size(); ++i) {
      if (text_[i] == mark) return i;
      if (mark == '\'') continue;
      if (text_[i] == '\\')
        ++i;
      else if (text_[i] == '$' && i + 1 < text_.size() && (text_[i + 1] == '(' || text_[i + 1] == '{')) {
        const std::size_t end = closing(i);
        if (end != std::string_view::npos) i = end - 1;
      }
    }
    return std::string_view::npos;
  }
  void quote(char mark) {
    const std::size_t end = end_of_quote(at_, mark);
    if (end == std::string_view::npos) {
      status_ = Error{ErrorKind::bad_input, cat(where_, ":", line_), "an unclosed quote", "a closing quote", ""};
      return;
    }
    begin_word(at_ - 1);
    word_->quoted = true;
    word_->end = base_ + at_;
    const std::string_view inside = text_.substr(at_, end - at_);
    // Flags in a quoted string ("--a 1 --b 2" in a variable) are flags as well.
    if (holds_flags(inside) && (inside.find_first_of(" \n") != std::string_view::npos || !assigned_name(word_->text).empty())) {
      end_word();
      tokens_.push_back({kString, line_, false, true});
      const auto words = ShellTokenizer(inside, where_, base_ + at_).within(line_);
      tokens_.insert(tokens_.end(), words.begin(), words.end());
      tokens_.push_back({kString, line_, false, true});
    } else {
      word_->text += inside;
      word_->end = base_ + end + 1;
    }
    line_ += std::count(inside.begin(), inside.end(), '\n');
    at_ = end + 1;
  }
  static bool holds_flags(std::string_view inside) { return inside.find("--") != std::string_view::npos; }

  /// Returns the words of a quoted string. Blanks separate them, except inside nested substitutions.
  std::vector<ShellToken> within(std::int64_t line) {
    line_ = line;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '$' && at_ + 1 < text_.size() && (text_[at_ + 1] == '(' || text_[at_ + 1] == '{')) {
        nested();
        continue;
      }
      ++at_;
      if (c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\\')
        end_word();
      else
        add(at_ - 1);
      line_ += c == '\n' ? 1 : 0;
    }
    end_word();
    return std::move(tokens_);
  }

  static constexpr std::int64_t kMostUnclosed = 64;  ///< failed searches, after which brackets are plain characters

  std::string_view text_;
  const std::string& where_;
  std::size_t base_;
  std::size_t at_ = 0;
  std::int64_t line_ = 1;
  std::int64_t unclosed_ = 0;
  std::int64_t depth_ = 0;  ///< depth of parentheses
  std::string here_;        ///< the word that ends a here-document, which begins in the next line
  std::optional<ShellToken> word_;
  std::vector<ShellToken> tokens_;
  Status status_;
};

}  // namespace

bool is_name_part(char c) { return is_letter(c) || (c >= '0' && c <= '9'); }
bool is_shell_name(std::string_view word) {
  return !word.empty() && is_letter(word.front()) && std::all_of(word.begin(), word.end(), is_name_part);
}

std::string assigned_name(std::string_view word) {
  const std::size_t equals = word.find('=');
  if (equals == std::string_view::npos) return "";
  std::string_view name = word.substr(0, equals);
  if (name.ends_with('+')) name.remove_suffix(1);
  return is_shell_name(name) ? std::string(name) : "";
}

bool is_flag_word(std::string_view word) { return word.size() > 2 && word.starts_with("--") && is_letter(word[2]); }

Result<std::vector<ShellToken>> read_shell_words(std::string_view text, const std::string& where) {
  return ShellTokenizer(text, where).read();
}

}  // namespace espalier::exchange
