// SPDX-License-Identifier: Apache-2.0
// Reads and writes the dimensions of the uniform space (espalier/search_space.h) as numbers, in canonical order (that
// of Plan::canonical_text). Enums and flags are represented by their ordinal.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "espalier/plan.h"
#include "espalier/search_space.h"

namespace espalier {

std::int64_t get(Dimension dimension, const Strategy& strategy, const Schedule& schedule);
/// Sets a dimension. `value` must fit the field; enums must be a valid ordinal.
void set(Dimension dimension, std::int64_t value, Strategy& strategy, Schedule& schedule);

/// Returns the number of values of an enum or flag; 0 for a count.
std::int64_t enum_size(Dimension dimension);
/// Returns the number of values that a dimension has whatever the job: of an enum, a flag or the ZeRO stages, counted
/// from 0. Returns 0 for a count that the job bounds.
std::int64_t value_count(Dimension dimension);
/// Returns the least value of a dimension.
std::int64_t least_value(Dimension dimension);
/// Returns the value as users read it: "8", "megatron", "on".
std::string value_text(Dimension dimension, std::int64_t value);

/// Holds a set of dimensions as bits.
using DimensionSet = std::uint32_t;
constexpr DimensionSet bit(Dimension d) { return DimensionSet{1} << static_cast<unsigned>(d); }
template <class... Ds>
constexpr DimensionSet dimension_set(Ds... ds) {
  return (bit(ds) | ... | DimensionSet{0});
}

/// Returns Plan::canonical_text of a uniform configuration. Numbers have a fixed width, so that the order of texts is
/// the order of the dimensions. Offload and the modules of a recomputation appear only if there are some.
std::string canonical_text(const Strategy& strategy, const Schedule& schedule);
/// Compares in the same order without text: < 0, 0 or > 0.
int canonical_compare(const Strategy& a, const Schedule& sa, const Strategy& b, const Schedule& sb);

}  // namespace espalier
