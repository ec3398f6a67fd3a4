// SPDX-License-Identifier: Apache-2.0
// Parses the grammar of --pipeline-model-parallel-layout: E t m L, x*n, ( … )*n, '|' between stages, and commas,
// which have no meaning.
#include <algorithm>
#include <charconv>
#include <numeric>

#include "base/format.h"
#include "base/invariant.h"
#include "exchange/megatron_import.h"

namespace espalier::exchange {
namespace {

constexpr std::size_t kLongestLayout = 1 << 16;  ///< characters after all repetitions

/// Expands the repetitions of a layout, or explains why it cannot be read.
class LayoutExpansion {
 public:
  explicit LayoutExpansion(std::string_view text) : text_(text) {}

  std::string run() {
    std::string out = group(0);
    if (fault_.empty() && at_ < text_.size()) fault_ = "a ')' without its '('";
    return out;
  }
  [[nodiscard]] const std::string& fault() const { return fault_; }

 private:
  std::string group(int depth) {
    std::string out;
    if (depth > 8) fault_ = "more than eight nested parentheses";
    while (fault_.empty() && at_ < text_.size() && text_[at_] != ')') {
      const char c = text_[at_++];
      if (c == ',' || c == ' ') continue;
      std::string unit(1, c);
      if (c == '(') {
        unit = group(depth + 1);
        if (fault_.empty() && at_ == text_.size()) fault_ = "a '(' without its ')'";
        ++at_;
      } else if (std::string_view("EtmL|").find(c) == std::string_view::npos) {
        fault_ = base::cat("the character '", std::string(1, c), "'");
      }
      repeat(unit, out);
    }
    return out;
  }

  void repeat(const std::string& unit, std::string& out) {
    std::size_t times = 1;
    if (at_ < text_.size() && text_[at_] == '*') {
      const char* begin = text_.data() + at_ + 1;
      const auto [end, code] = std::from_chars(begin, text_.data() + text_.size(), times);
      if (code != std::errc() || times > kLongestLayout) {
        fault_ = "a '*' without a number of repetitions";
        return;
      }
      at_ = static_cast<std::size_t>(end - text_.data());
    }
    if (out.size() + times * unit.size() > kLongestLayout) {
      fault_ = "more stages and layers than any model has";
      return;
    }
    for (std::size_t i = 0; i < times; ++i) out += unit;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::string fault_;
};

}  // namespace

MegatronLayout read_megatron_layout(std::string_view text) {
  LayoutExpansion expansion(text);
  const std::string flat = expansion.run();
  if (!expansion.fault().empty()) return {{}, expansion.fault()};
  if (std::count(flat.begin(), flat.end(), 'm') > 0)
    return {{}, "layers of multi-token prediction (m), which plans do not support"};
  if (std::count(flat.begin(), flat.end(), 'E') != 1 || std::count(flat.begin(), flat.end(), 'L') != 1)
    return {{}, "not exactly one E and one L"};
  if (!flat.starts_with('E') || !flat.ends_with('L')) return {{}, "an E that is not first, or an L that is not last"};
  MegatronLayout out;
  out.blocks.push_back(0);
  for (const char c : flat) {
    if (c == '|') out.blocks.push_back(0);
    if (c == 't') ++out.blocks.back();
  }
  ESPALIER_CHECK(out.blocks.size() == static_cast<std::size_t>(std::count(flat.begin(), flat.end(), '|')) + 1);
  ESPALIER_CHECK(std::accumulate(out.blocks.begin(), out.blocks.end(), std::int64_t{0}) ==
                 std::count(flat.begin(), flat.end(), 't'));
  return out;
}

}  // namespace espalier::exchange
