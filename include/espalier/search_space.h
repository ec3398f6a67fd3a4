// SPDX-License-Identifier: Apache-2.0
// The part of a job file that bounds the search: fixed values and limits of any dimension. They define the space that
// the certificate covers. Dimension names: tp sp cp cp_kind ep etp dp pp vpp schedule micro_batch zero shard order
// recompute recompute_layers overlap_grad overlap_param overlap_p2p overlap_tp offload. Values are integers; enums
// and flags count by ordinal.
//
// overlap_tp (tensor-parallel collectives that overlap with their GEMMs) and offload are off unless named, because
// few engines support them. Schedules that only_where_allowed (plan.h) marks are left out unless `allow` lists them.
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

/// Selects the plans that a search considers. Every space contains the uniform plans.
enum class SpaceKind : std::uint8_t {
  uniform,           ///< one strategy for all layers
  layerwise,         ///< every layer has its own strategy, and chunks of the pipeline end anywhere
  spatial_temporal,  ///< one strategy, and the operators of a block partitioned one by one
  full,              ///< both
};
constexpr bool varies_by_layer(SpaceKind kind) { return kind == SpaceKind::layerwise || kind == SpaceKind::full; }
constexpr bool partitions_operators(SpaceKind kind) { return kind == SpaceKind::spatial_temporal || kind == SpaceKind::full; }
std::string_view to_string(SpaceKind kind);  ///< "uniform" "layerwise" "spatial_temporal" "full"
std::optional<SpaceKind> space_kind_of(std::string_view word);

/// Selects the devices that plans may use.
enum class DeviceChoice : std::uint8_t {
  equal,  ///< all stages use equal numbers of devices of one kind
  any,    ///< stages use groups of unlike devices; devices may be left out
  all,    ///< like `any`, but every device has work
};
std::string_view to_string(DeviceChoice choice);  ///< "equal" "any" "all"
std::optional<DeviceChoice> device_choice_of(std::string_view word);

/// Holds the search part of a job.
struct SearchSpace {
  SpaceKind kind = SpaceKind::uniform;
  std::optional<DeviceChoice> devices = std::nullopt;       ///< absent: equal on one node group, any on several
  std::map<std::string, std::vector<std::int64_t>> allow;   ///< only these values (fix = one value)
  std::map<std::string, std::vector<std::int64_t>> forbid;  ///< none of these
  std::map<std::string, std::int64_t> limits;               ///< largest values
  /// Lists the dimensions of `allow` that the job file states under `fix`; messages name them accordingly.
  std::set<std::string> fixed;
  /// Gives the meaning of `recompute: selective` in this space, if the job file names modules. Empty:
  /// its meaning under the engine.
  RecomputeModules recompute_modules = {};
  /// Share of the memory limit that a search leaves free, 0 … 0.9. If absent, it is the error of the memory model for
  /// this engine and device (planner/memory_margin.h). It is part of the space: `plan` finds the fastest
  /// configuration below limit · (1 − margin).
  std::optional<double> memory_margin = std::nullopt;
  bool operator==(const SearchSpace&) const = default;
  /// Returns whether the maps admit `value` for `dimension`.
  [[nodiscard]] bool admits(const std::string& dimension, std::int64_t value) const;
};

}  // namespace espalier
