// SPDX-License-Identifier: Apache-2.0
// The part of the job file that bounds the search: pins and limits of any dimension. They are part of the space that
// the certificate speaks of. Dimension names: tp sp cp cp_kind ep etp dp pp vpp schedule micro_batch zero shard order
// recompute recompute_layers overlap_grad overlap_param overlap_p2p overlap_tp offload. Values are integers; enums and
// flags count by ordinal.
//
// overlap_tp (tensor-parallel collectives that overlap with their GEMMs) and offload are off unless named: few engines
// can do them. Schedules that only_where_allowed (plan.h) marks are left out unless `allow` lists them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/recompute_modules.h"

namespace espalier {

/// Which plans a search looks at. Every space holds the uniform plans.
enum class SpaceKind : std::uint8_t {
  uniform,           ///< one strategy for all layers
  layerwise,         ///< every layer has a strategy of its own, and chunks of the pipeline end anywhere
  spatial_temporal,  ///< one strategy, and the operators of a block partitioned one by one
  full,              ///< both
};
constexpr bool varies_by_layer(SpaceKind kind) { return kind == SpaceKind::layerwise || kind == SpaceKind::full; }
constexpr bool partitions_operators(SpaceKind kind) { return kind == SpaceKind::spatial_temporal || kind == SpaceKind::full; }
std::string_view to_string(SpaceKind kind);  ///< "uniform" "layerwise" "spatial_temporal" "full"
std::optional<SpaceKind> space_kind_of(std::string_view word);

/// On which devices plans may lie.
enum class DeviceChoice : std::uint8_t {
  equal,  ///< all stages on equally many devices of one kind
  any,    ///< stages on groups of unlike devices; devices may be left out
  all,    ///< the same, and every device has work
};
std::string_view to_string(DeviceChoice choice);  ///< "equal" "any" "all"
std::optional<DeviceChoice> device_choice_of(std::string_view word);

struct SearchSpace {
  SpaceKind kind = SpaceKind::uniform;
  std::optional<DeviceChoice> devices = std::nullopt;       ///< absent: equal on one node group, any on several
  std::map<std::string, std::vector<std::int64_t>> allow;   ///< only these values (fix = one value)
  std::map<std::string, std::vector<std::int64_t>> forbid;  ///< none of these
  std::map<std::string, std::int64_t> limits;               ///< at most
  std::set<std::string> fixed;  ///< dimensions of `allow` that the job file states under `fix`: messages name them so
  /// The meaning of `recompute: selective` in this space, where the job file names modules; none: what it means under
  /// the engine.
  RecomputeModules recompute_modules = {};
  /// Share of the memory limit that a search leaves free, 0 … 0.9; absent: the error of the memory model for this
  /// engine and device (planner/memory_margin.h). It is part of the space: `plan` finds the fastest configuration below
  /// limit · (1 − margin).
  std::optional<double> memory_margin = std::nullopt;
  bool operator==(const SearchSpace&) const = default;
  /// Whether the maps admit `value` for `dimension`.
  [[nodiscard]] bool admits(const std::string& dimension, std::int64_t value) const;
};

}  // namespace espalier
