// SPDX-License-Identifier: Apache-2.0
// The part of a job file that bounds the search: fixed values and limits of any dimension. They define the space that
// the certificate covers.
//
//   SearchSpace space;                                           // admits everything.
//   space.fix(Dimension::schedule, ScheduleKind::zb_v);          // this schedule alone.
//   space.allow(Dimension::tp, {1, 2, 4});                       // these sizes.
//   space.forbid(Dimension::recompute, {RecomputeKind::full});   // none of these.
//   space.limit(Dimension::pp, 8);                               // at most 8 stages.
//
// overlap_tp (tensor-parallel collectives that overlap with their GEMMs) and offload are off unless named, because
// few engines support them. Schedules that only_where_allowed (plan.h) marks and sets of recomputed modules are left
// out unless `allow` lists them.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/plan.h"
#include "espalier/recompute_modules.h"

namespace espalier {

/// Names a dimension of the space, in canonical order. The number of micro-batches is no dimension: it follows from the
/// batch, micro_batch and dp.
enum class Dimension : std::uint8_t {
  pp,
  vpp,
  schedule,
  tp,
  sp,
  cp,
  cp_kind,
  ep,
  etp,
  dp,
  micro_batch,
  zero,
  shard,
  order,
  recompute,
  recompute_layers,
  overlap_grad,
  overlap_param,
  overlap_p2p,
  overlap_tp,
  offload
};
inline constexpr int kDimensions = 21;
std::string_view to_string(Dimension dimension);  ///< as in job files: "tp", "micro_batch", "overlap_grad" …
std::optional<Dimension> parse_dimension(std::string_view name);

/// Orders dimensions by name: the order of result.json and of messages.
struct ByName {
  bool operator()(Dimension a, Dimension b) const { return to_string(a) < to_string(b); }
};

/// Admits, as a value of Dimension::recompute, every set of modules that the engine can select and the model has.
/// Strategies then name their set. RecomputeKind::selective is the one set of the engine or of `recompute_modules`.
/// Example: space.allow(Dimension::recompute, {RecomputeKind::none, kModuleSets}).
inline constexpr std::int64_t kModuleSets = 3;

/// Holds a value of a dimension: a count, a flag, or a value of the dimension's enumeration.
class DimensionValue {
 public:
  // Conversions are implicit by design.
  template <std::integral T>
  DimensionValue(T value) : number_(static_cast<std::int64_t>(value)) {}                    // NOLINT
  DimensionValue(ScheduleKind value) : DimensionValue(value, Dimension::schedule) {}        // NOLINT
  DimensionValue(SequenceParallel value) : DimensionValue(value, Dimension::sp) {}          // NOLINT
  DimensionValue(ContextParallelKind value) : DimensionValue(value, Dimension::cp_kind) {}  // NOLINT
  DimensionValue(ZeroStage value) : DimensionValue(value, Dimension::zero) {}               // NOLINT
  DimensionValue(RankOrder value) : DimensionValue(value, Dimension::order) {}              // NOLINT
  DimensionValue(RecomputeKind value) : DimensionValue(value, Dimension::recompute) {}      // NOLINT
  DimensionValue(Offload value) : DimensionValue(value, Dimension::offload) {}              // NOLINT

  /// Returns the value as a number: the count, 0 or 1 for a flag, the ordinal of an enumeration.
  [[nodiscard]] std::int64_t number() const { return number_; }
  /// Returns whether the dimension can have the value: an enumeration belongs to one dimension.
  [[nodiscard]] bool belongs_to(Dimension dimension) const { return !owner_ || *owner_ == dimension; }

 private:
  template <class Enum>
  DimensionValue(Enum value, Dimension owner) : number_(static_cast<std::int64_t>(value)), owner_(owner) {}

  std::int64_t number_ = 0;
  std::optional<Dimension> owner_;
};

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

/// Holds the search part of a job. Values are DimensionValue::number. A value of another dimension's enumeration is a
/// bug of the caller, and throws std::logic_error.
struct SearchSpace {
  using Values = std::map<Dimension, std::vector<std::int64_t>, ByName>;

  SpaceKind kind = SpaceKind::uniform;
  std::optional<DeviceChoice> devices = std::nullopt;  ///< absent: equal on one node group, any on several
  Values allowed;                                      ///< only these values
  Values forbidden;                                    ///< none of these
  std::map<Dimension, std::int64_t, ByName> limits;    ///< largest values
  /// Lists the dimensions of `allowed` that fix() set; messages name them accordingly.
  std::set<Dimension, ByName> fixed;
  /// Gives the meaning of `recompute: selective` in this space, if the job file names modules. Empty:
  /// its meaning under the engine.
  RecomputeModules recompute_modules = {};
  /// Share of the memory limit that a search leaves free, 0 … 0.9. If absent, it is the error of the memory model for
  /// this engine and device (planner/memory_margin.h). It is part of the space: `plan` finds the fastest
  /// configuration below limit · (1 − margin).
  std::optional<double> memory_margin = std::nullopt;
  bool operator==(const SearchSpace&) const = default;

  void fix(Dimension dimension, DimensionValue value);  ///< allows this value alone
  void allow(Dimension dimension, std::initializer_list<DimensionValue> values);
  void forbid(Dimension dimension, std::initializer_list<DimensionValue> values);
  void limit(Dimension dimension, std::int64_t most) { limits[dimension] = most; }
  /// Returns whether the space lists values or a limit of the dimension.
  [[nodiscard]] bool restricts(Dimension dimension) const;
  /// Returns whether the space admits `value` for `dimension`.
  [[nodiscard]] bool admits(Dimension dimension, DimensionValue value) const;
};

}  // namespace espalier
