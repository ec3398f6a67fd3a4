// SPDX-License-Identifier: Apache-2.0
#include "espalier/search_space.h"

#include <algorithm>

#include "espalier/plan.h"

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

bool SearchSpace::admits(const std::string& dimension, std::int64_t value) const {
  const auto contains = [&](const std::vector<std::int64_t>& values) {
    return std::find(values.begin(), values.end(), value) != values.end();
  };
  const auto allowed = allow.find(dimension);
  if (allowed != allow.end() ? !contains(allowed->second)
                             : dimension == "schedule" && only_where_allowed(static_cast<ScheduleKind>(value)))
    return false;
  if (const auto it = forbid.find(dimension); it != forbid.end() && contains(it->second)) return false;
  const auto limit = limits.find(dimension);
  return limit == limits.end() || value <= limit->second;
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
