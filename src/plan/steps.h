// SPDX-License-Identifier: Apache-2.0
// What runs inside a chunk: one layer, one phase, one micro-batch on one rank as a list of steps. Types only; what a
// step costs on a machine stands beside it (cost/step_cost.h).
//
// A step computes, or moves bytes, or both. The list is in the order in which the rank runs it: forward from the first
// operator to the last, backward from the last to the first, of each operator the gradient of its input before that of
// its weights. Traffic is *alone* when the rank waits for it before the next step, and *beside* when the compute of the
// steps `first` to `last` of the list runs meanwhile; the step after `last` waits for both. Traffic of one step moves
// `times` messages of `bytes` one after the other. Fitted remainders (waits of a host, the share of hidden
// communication that is seen nevertheless) are no traffic and no steps.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/instruction.h"

namespace espalier {

/// The ranks that take part, by what they are to each other.
enum class GroupKind : std::uint8_t {
  tensor,          ///< ranks of a tensor-parallel group (TP, sequence parallelism, Ulysses)
  context,         ///< ranks of a context-parallel group
  expert,          ///< ranks among which the experts of a layer are spread
  expert_tensor,   ///< ranks that split one expert
  data_shard,      ///< ranks that shard (or, without ZeRO, hold) the same dense weights
  data_replica,    ///< ranks that hold the same shard of dense weights
  expert_shard,    ///< as data_shard, of experts
  expert_replica,  ///< as data_replica, of experts
  table_copies,    ///< stages that hold a copy of a shared token table
  operators,       ///< devices over which the operators of a block are partitioned, or those of them that hold parts of
                   ///< one sum
  stage            ///< blocks of consecutive devices of a stage, between layers of two strategies
};
std::string_view to_string(GroupKind kind);

struct Traffic {
  CollectiveKind kind = CollectiveKind::all_reduce;
  GroupKind group = GroupKind::tensor;
  /// Of one message, as the equations of cost/collective.h define S: the whole (gathered) tensor on one rank; of an
  /// all-to-all and of a resharding inside a stage what one rank sends, its own share included; of a ring shift what
  /// one rank passes on; of a resharding between partitioned operators what the rank that fetches most fetches, at
  /// most. 0: no traffic.
  double bytes = 0;
  std::int32_t times = 0;  ///< messages, one after the other
  [[nodiscard]] double total() const { return bytes * times; }
  bool operator==(const Traffic&) const = default;
};

/// What a step computes or serves.
enum class StepPart : std::uint8_t { forward, input_gradient, weight_gradient, recomputation };
std::string_view to_string(StepPart part);

enum class Placement : std::uint8_t {
  before,  ///< alone, before the compute of its operator
  beside,  ///< while the compute of steps first … last runs
  after    ///< alone, after the compute of its operator
};
std::string_view to_string(Placement placement);

struct Step {
  StepPart part = StepPart::forward;
  std::int32_t op = -1;  ///< index into LayerKind::operators; −1: of the layer as a whole
  std::string name;      ///< of the operator, or of the part of it: "attn.qkv", "attn.core.scores"; empty where op is
                         ///< −1
  Traffic traffic;
  Placement placement = Placement::after;  ///< of the traffic
  std::int32_t first = -1, last = -1;      ///< placement beside: steps of the same list; −1: no compute is there
  [[nodiscard]] bool moves() const { return traffic.times > 0; }
  [[nodiscard]] bool beside() const { return moves() && first >= 0; }
};

}  // namespace espalier
