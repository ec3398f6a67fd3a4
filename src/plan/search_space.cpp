// SPDX-License-Identifier: Apache-2.0
#include "espalier/search_space.h"

#include <algorithm>

#include "base/invariant.h"

namespace espalier {

std::string_view to_string(SpaceKind kind) {
  switch (kind) {
    case SpaceKind::uniform: return "uniform";
    case SpaceKind::layerwise: return "layerwise";
    case SpaceKind::spatial_temporal: return "spatial_temporal";
    case SpaceKind::full: return "full";
  }
  return "?";
}

std::optional<SpaceKind> space_kind_of(std::string_view word) {
  for (const SpaceKind kind : {SpaceKind::uniform, SpaceKind::layerwise, SpaceKind::spatial_temporal, SpaceKind::full})
    if (to_string(kind) == word) return kind;
  return std::nullopt;
}

namespace {

std::vector<std::int64_t> numbers_of(Dimension dimension, std::initializer_list<DimensionValue> values) {
  std::vector<std::int64_t> out;
  for (const DimensionValue& value : values) {
    ESPALIER_CHECK(value.belongs_to(dimension));
    out.push_back(value.number());
  }
  return out;
}

/// Returns whether a space lacks the value unless it allows it by name.
bool only_by_name(Dimension dimension, std::int64_t number) {
  return (dimension == Dimension::schedule && only_where_allowed(static_cast<ScheduleKind>(number))) ||
         (dimension == Dimension::recompute && number == kModuleSets);
}

}  // namespace

void SearchSpace::fix(Dimension dimension, DimensionValue value) {
  allow(dimension, {value});
  fixed.insert(dimension);
}

void SearchSpace::allow(Dimension dimension, std::initializer_list<DimensionValue> values) {
  allowed[dimension] = numbers_of(dimension, values);
  fixed.erase(dimension);
}

void SearchSpace::forbid(Dimension dimension, std::initializer_list<DimensionValue> values) {
  forbidden[dimension] = numbers_of(dimension, values);
}

bool SearchSpace::restricts(Dimension dimension) const {
  return allowed.contains(dimension) || forbidden.contains(dimension) || limits.contains(dimension);
}

bool SearchSpace::admits(Dimension dimension, DimensionValue value) const {
  ESPALIER_CHECK(value.belongs_to(dimension));
  const std::int64_t number = value.number();
  const auto contains = [&](const std::vector<std::int64_t>& values) {
    return std::find(values.begin(), values.end(), number) != values.end();
  };
  const auto only = allowed.find(dimension);
  if (only != allowed.end() ? !contains(only->second) : only_by_name(dimension, number)) return false;
  if (const auto it = forbidden.find(dimension); it != forbidden.end() && contains(it->second)) return false;
  const auto limit = limits.find(dimension);
  return limit == limits.end() || number <= limit->second;
}

std::string_view to_string(DeviceChoice choice) {
  switch (choice) {
    case DeviceChoice::equal: return "equal";
    case DeviceChoice::any: return "any";
    case DeviceChoice::all: return "all";
  }
  return "?";
}

std::optional<DeviceChoice> device_choice_of(std::string_view word) {
  for (const DeviceChoice choice : {DeviceChoice::equal, DeviceChoice::any, DeviceChoice::all})
    if (to_string(choice) == word) return choice;
  return std::nullopt;
}

}  // namespace espalier
