// SPDX-License-Identifier: Apache-2.0
// Small text helpers of the plan module: cat(...) joins strings and integers into a sentence.
#pragma once

#include <string>
#include <string_view>
#include <type_traits>

namespace espalier::plan_detail {

inline void append(std::string& out, std::string_view piece) { out += piece; }
template <class Integer, std::enable_if_t<std::is_integral_v<Integer>, int> = 0>
void append(std::string& out, Integer piece) {
  out += std::to_string(piece);
}

/// "tp ", 6, " does not divide ", 32 -> "tp 6 does not divide 32".
template <class... Pieces>
std::string cat(const Pieces&... pieces) {
  std::string out;
  (append(out, pieces), ...);
  return out;
}

}  // namespace espalier::plan_detail
