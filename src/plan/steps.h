// SPDX-License-Identifier: Apache-2.0
// Describes the work inside a chunk: one layer, one phase and one micro-batch on one rank as a list of steps. The
// header has types only; cost/step_cost.h computes the costs of a step on a machine.
//
// A step computes, or moves bytes, or both. The list is in the order in which the rank runs it: forward from the
// first operator to the last, backward from the last to the first. For each operator the gradient of its input
// precedes that of its weights. Traffic is *alone* if the rank waits for it before the next step. Otherwise it
// overlaps with the compute of the steps `first` to `last` of the list, and the step after `last` waits for both.
// Traffic of one step moves `times` messages of `bytes` one after the other. Fitted remainders (host waits, the share
// of hidden communication that is exposed nevertheless) are neither traffic nor steps.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/instruction.h"

namespace espalier {

/// Names the ranks that take part in a collective, by their relation.
enum class GroupKind : std::uint8_t {
  tensor,          ///< ranks of a tensor-parallel group (TP, sequence parallelism, Ulysses)
  context,         ///< ranks of a context-parallel group
  expert,          ///< ranks among which the experts of a layer are spread
  expert_tensor,   ///< ranks that split one expert
  data_shard,      ///< as data_shard, for experts
  data_replica,    ///< as data_replica, for experts
  expert_shard,    ///< as data_shard, of experts
  expert_replica,  ///< as data_replica, of experts
  table_copies,    ///< stages that hold a copy of a shared token table
  /// Contains devices over which the operators of a block are partitioned, or those of them that hold parts of one sum.
  operators,
  stage  ///< blocks of consecutive devices of a stage, between layers of two strategies
};
std::string_view to_string(GroupKind kind);

struct Traffic {
  CollectiveKind kind = CollectiveKind::all_reduce;
  GroupKind group = GroupKind::tensor;
  /// The size of one message, as the equations of cost/collective.h define S; 0: no traffic. In general this is the
  /// whole (gathered) tensor on one rank. For an all-to-all and a resharding inside a stage it is what one rank
  /// sends, its own share included. For a ring shift it is what one rank passes on. For a resharding between
  /// partitioned operators it bounds what the rank that fetches most fetches.
  double bytes = 0;
  std::int32_t times = 0;  ///< messages, one after the other
  [[nodiscard]] double total() const { return bytes * times; }
  bool operator==(const Traffic&) const = default;
};

/// Names the work that a step does or belongs to.
enum class StepPart : std::uint8_t { forward, input_gradient, weight_gradient, recomputation };
std::string_view to_string(StepPart part);

enum class Placement : std::uint8_t {
  before,  ///< alone, before the compute of its operator
  beside,  ///< overlapped with the compute of steps first … last
  after    ///< alone, after the compute of its operator
};
std::string_view to_string(Placement placement);

struct Step {
  StepPart part = StepPart::forward;
  std::int32_t op = -1;  ///< index into LayerKind::operators; −1: the layer as a whole
  /// Names the operator or a part of it: "attn.qkv", "attn.core.scores"; empty if op is −1.
  std::string name;
  Traffic traffic;
  Placement placement = Placement::after;  ///< placement of the traffic
  /// Holds the steps of the same list with which the traffic overlaps; −1: there is no compute.
  std::int32_t first = -1, last = -1;
  [[nodiscard]] bool moves() const { return traffic.times > 0; }
  [[nodiscard]] bool beside() const { return moves() && first >= 0; }
};

}  // namespace espalier
