// SPDX-License-Identifier: Apache-2.0
// Reads values of plan.json, with the bounds that keep hostile files cheap.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "base/document.h"
#include "base/format.h"
#include "espalier/cluster.h"

namespace espalier::plan_detail {

inline constexpr std::int64_t kMaxCount = std::int64_t{1} << 22;
inline constexpr std::int64_t kMaxInt32 = std::numeric_limits<std::int32_t>::max();
inline constexpr std::int64_t kMaxTokens = std::int64_t{1} << 40;
inline constexpr std::array<Precision, kPrecisions> kAllPrecisions = {
    Precision::fp32, Precision::tf32, Precision::fp16, Precision::bf16, Precision::fp8, Precision::mxfp8, Precision::nvfp4};

inline std::int32_t read_int32(base::Reader& r, std::string_view key, std::int64_t low, std::int64_t high) {
  return static_cast<std::int32_t>(r.required_int(key, low, high));
}

/// Reads a required key, whose value must be one of `values` by to_string.
template <class Enum, std::size_t N>
Enum read_enum(base::Reader& r, std::string_view key, const std::array<Enum, N>& values) {
  std::vector<std::string_view> names;
  for (const Enum v : values) names.push_back(to_string(v));
  if (!r.has(key)) r.fail(key, "nothing", base::cat("a value such as \"", names.front(), "\""));
  return values[r.optional_choice(key, names, 0)];
}

inline bool read_flag(base::Reader& r, std::string_view key) {
  if (!r.has(key)) r.fail(key, "nothing", "true or false");
  return r.optional_bool(key, false);
}

}  // namespace espalier::plan_detail
