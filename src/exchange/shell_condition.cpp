// SPDX-License-Identifier: Apache-2.0
#include "exchange/shell_condition.h"
#include "base/invariant.h"
#include "runlog/lines.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace espalier::exchange {
namespace {

using Kind = ShellVerdict::Kind;

Kind of(bool yes) { return yes ? Kind::yes : Kind::no; }
Kind negated(Kind kind) { return kind == Kind::open ? kind : of(kind == Kind::no); }

Kind compared(std::string_view op, std::string_view left, std::string_view right, bool glob) {
  if (op == "=" || op == "==") return of(glob ? matches_pattern(right, left) : left == right);
  if (op == "!=") return of(glob ? !matches_pattern(right, left) : left != right);
  const auto a = runlog::whole_integer(left), b = runlog::whole_integer(right);
  if (!a || !b) return Kind::open;
  if (op == "-eq") return of(*a == *b);
  if (op == "-ne") return of(*a != *b);
  if (op == "-gt" || op == ">") return of(*a > *b);
  if (op == "-ge" || op == ">=") return of(*a >= *b);
  if (op == "-lt" || op == "<") return of(*a < *b);
  if (op == "-le" || op == "<=") return of(*a <= *b);
  return Kind::open;
}

class Test {
 public:
  Test(std::span<const ShellToken> words, const ShellVariables& variables) : words_(words), variables_(variables) {}

  /// Evaluates a && b || c, from the left.
  ShellVerdict run() {
    Kind all = term();
    while (at_ < words_.size()) {
      const std::string& op = words_[at_].text;
      const bool both = op == "&&" || op == "-a";
      if (!both && op != "||" && op != "-o") return {Kind::open, missing_};
      ++at_;
      const Kind next = term();
      if (both)
        all = all == Kind::no || next == Kind::no ? Kind::no : all == Kind::yes && next == Kind::yes ? Kind::yes : Kind::open;
      else
        all = all == Kind::yes || next == Kind::yes ? Kind::yes : all == Kind::no && next == Kind::no ? Kind::no : Kind::open;
    }
    return {all, missing_};
  }

 private:
  std::optional<std::string> operand() {
    if (at_ >= words_.size()) return std::nullopt;
    const ShellValue value = variables_.expand(words_[at_++].text);
    for (const std::string& name : value.missing)
      if (std::find(missing_.begin(), missing_.end(), name) == missing_.end()) missing_.push_back(name);
    return value.known ? std::optional(value.text) : std::nullopt;
  }
  [[nodiscard]] bool ends() const {
    if (at_ >= words_.size()) return true;
    const std::string& t = words_[at_].text;
    return t == "&&" || t == "||" || t == "-a" || t == "-o";
  }

  Kind term() {
    if (at_ >= words_.size()) return Kind::open;
    bool no = false;
    for (; at_ < words_.size() && !words_[at_].quoted && words_[at_].text == "!"; ++at_) no = !no;
    return at_ == words_.size() ? Kind::open : no ? negated(plain_term()) : plain_term();
  }
  Kind plain_term() {
    const ShellToken& first = words_[at_];
    const bool unary = !first.quoted && first.text.size() == 2 && first.text.front() == '-' && at_ + 1 < words_.size();
    if (unary) {
      ++at_;
      const auto value = operand();
      if (!value || (first.text != "-z" && first.text != "-n")) return Kind::open;
      return of(value->empty() == (first.text == "-z"));
    }
    const auto left = operand();
    if (ends()) return left ? of(!left->empty()) : Kind::open;
    const std::string op = words_[at_++].text;
    const bool glob = at_ < words_.size() && !words_[at_].quoted;
    const auto right = operand();
    return left && right ? compared(op, *left, *right, glob) : Kind::open;
  }

  std::span<const ShellToken> words_;
  const ShellVariables& variables_;
  std::size_t at_ = 0;
  std::vector<std::string> missing_;
};

}  // namespace

bool matches_pattern(std::string_view pattern, std::string_view text) {
  constexpr std::ptrdiff_t kMostStars = 3;
  const std::size_t star = pattern.find('*');
  if (star == std::string_view::npos || std::count(pattern.begin(), pattern.end(), '*') > kMostStars) return pattern == text;
  const std::string_view head = pattern.substr(0, star), tail = pattern.substr(star + 1);
  if (!text.starts_with(head)) return false;
  for (std::size_t i = head.size(); i <= text.size(); ++i)
    if (matches_pattern(tail, text.substr(i))) return true;
  return false;
}

ShellVerdict decide(std::span<const ShellToken> command, const ShellVariables& variables) {
  std::vector<ShellToken> words;
  for (const ShellToken& token : command)
    if (!token.ends) words.push_back(token);
  ESPALIER_CHECK(words.size() <= command.size());
  bool no = false;
  while (!words.empty() && !words.front().quoted && words.front().text == "!") {
    no = !no;
    words.erase(words.begin());
  }
  if (words.empty()) return {};
  const std::string opening = words.front().text;
  const std::string closing = opening == "[" ? "]" : opening == "[[" ? "]]" : "";
  if (opening == "true" || opening == "false") return {of((opening == "true") != no), {}};
  if (closing.empty() && opening != "test") return {};
  words.erase(words.begin());
  if (!closing.empty()) {
    // `[ a ] && [ b ]` counts as one test.
    std::erase_if(words, [&](const ShellToken& t) { return !t.quoted && (t.text == closing || t.text == opening); });
  }
  ShellVerdict out = Test(words, variables).run();
  if (no) out.kind = negated(out.kind);
  return out;
}

}  // namespace espalier::exchange
