// SPDX-License-Identifier: Apache-2.0
// Implements whole-number arithmetic on values that a malformed file may make absurdly large. Products saturate
// instead of overflowing.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>

namespace espalier::check {

inline std::int64_t saturating_multiply(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  return __builtin_mul_overflow(a, b, &result) ? std::numeric_limits<std::int64_t>::max() : result;
}
inline std::int64_t saturating_product(std::initializer_list<std::int64_t> factors) {
  std::int64_t result = 1;
  for (const std::int64_t f : factors) result = saturating_multiply(result, f);
  return result;
}
inline std::int64_t saturating_sum(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  return __builtin_add_overflow(a, b, &result) ? std::numeric_limits<std::int64_t>::max() : result;
}
/// Returns ⌈a / b⌉ for a ≥ 0, b > 0.
inline std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

}  // namespace espalier::check
