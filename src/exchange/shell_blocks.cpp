// SPDX-License-Identifier: Apache-2.0
#include "exchange/shell_blocks.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/invariant.h"

namespace espalier::exchange {
namespace {

class Blocks {
 public:
  explicit Blocks(std::vector<ShellToken>& tokens) : tokens_(tokens) {}

  std::map<std::size_t, ShellBlock> run() {
    for (at_ = 0; at_ < tokens_.size(); ++at_) {
      const ShellToken& token = tokens_[at_];
      if (token.ends)
        ended(token);
      else if (begins_ && !token.quoted && opens_or_closes(token.text))
        continue;
      else
        word(token);
    }
    return std::move(blocks_);
  }

 private:
  void ended(const ShellToken& token) {
    if (token.text == kString) return;
    if (token.text == kPattern && !open_.empty() && open_.back().kind == ShellBlock::Kind::choice && begin_ <= at_) arm(at_ + 1);
    begins_ = true;
    begin_ = at_ + 1;
  }
  /// Ends a pattern of a case.
  void arm(std::size_t body) {
    ShellBlock& block = open_.back();
    for (std::size_t i = begin_; i < at_; ++i) tokens_[i].is_word = true;
    if (!block.arms.empty()) block.arms.back().body_end = begin_;
    block.arms.push_back({begin_, at_, body, body});
  }

  bool opens_or_closes(const std::string& text) {
    if (text == "if") return open(ShellBlock::Kind::branch);
    if (text == "case") return open(ShellBlock::Kind::choice);
    if (text == "while" || text == "until" || text == "for") return open(ShellBlock::Kind::loop);
    if (text == "then" || text == "do") return test_ends();
    if (text == "elif" || text == "else") return next_arm(text == "else");
    if (text == "fi") return close(ShellBlock::Kind::branch);
    if (text == "esac") return close(ShellBlock::Kind::choice);
    if (text == "done") return close(ShellBlock::Kind::loop);
    return begins_a_command(text);
  }
  bool open(ShellBlock::Kind kind) {
    open_.push_back({kind, at_, at_, 0, {}});
    if (kind == ShellBlock::Kind::branch) open_.back().arms.push_back({at_ + 1, 0, 0, 0});
    begins_ = kind != ShellBlock::Kind::choice;
    return true;
  }
  bool test_ends() {
    if (open_.empty()) return true;
    ShellBlock& block = open_.back();
    if (block.kind == ShellBlock::Kind::branch && block.arms.back().test_end == 0) {
      block.arms.back().test_end = at_;
      block.arms.back().body = at_ + 1;
    } else if (block.header == 0) {
      block.header = at_;
      if (block.kind == ShellBlock::Kind::loop) block.arms = {{block.first, at_, at_ + 1, 0}};
    }
    return true;
  }
  bool next_arm(bool otherwise) {
    if (open_.empty() || open_.back().kind != ShellBlock::Kind::branch || open_.back().arms.back().body == 0) return true;
    open_.back().arms.back().body_end = at_;
    if (otherwise)
      open_.back().arms.push_back({at_, at_, at_ + 1, 0});
    else
      open_.back().arms.push_back({at_ + 1, 0, 0, 0});
    return true;
  }
  bool close(ShellBlock::Kind kind) {
    if (open_.empty() || open_.back().kind != kind) return true;
    ShellBlock block = std::move(open_.back());
    open_.pop_back();
    block.last = at_;
    std::erase_if(block.arms, [](const ShellBlock::Arm& a) { return a.body == 0; });
    if (block.arms.empty()) return true;
    block.arms.back().body_end = at_;
    if (kind == ShellBlock::Kind::loop) mark(block.first, block.header);
    if (kind == ShellBlock::Kind::choice) mark(block.first, block.header);
    if (kind == ShellBlock::Kind::branch)
      for (const ShellBlock::Arm& a : block.arms) mark(a.test, a.test_end);
    blocks_.emplace(block.first, std::move(block));
    return true;
  }
  void mark(std::size_t from, std::size_t to) {
    for (std::size_t i = from; i < to; ++i) tokens_[i].is_word = true;
  }

  void word(const ShellToken& token) {
    if (!token.quoted && (token.text == "&&" || token.text == "||")) {
      begins_ = true;
      return;
    }
    begins_ = begins_ && !assigned_name(token.text).empty();
    if (open_.empty() || open_.back().kind != ShellBlock::Kind::choice || open_.back().header != 0) return;
    if (token.quoted || token.text != "in") return;
    open_.back().header = at_;
    begins_ = true;
    begin_ = at_ + 1;
  }

  std::vector<ShellToken>& tokens_;
  std::map<std::size_t, ShellBlock> blocks_;
  std::vector<ShellBlock> open_;
  std::size_t at_ = 0, begin_ = 0;  ///< begin_: of the command
  bool begins_ = true;
};

}  // namespace

bool begins_a_command(const std::string& word) {
  constexpr std::array<std::string_view, 10> kWords = {"else",   "!",     "{",       "exec",     "time",
                                                       "export", "local", "declare", "readonly", "then"};
  return std::find(kWords.begin(), kWords.end(), word) != kWords.end();
}

std::map<std::size_t, ShellBlock> shell_blocks(std::vector<ShellToken>& tokens) {
  auto out = Blocks(tokens).run();
  for (const auto& [first, block] : out) ESPALIER_CHECK(first == block.first && block.last < tokens.size());
  return out;
}

}  // namespace espalier::exchange
