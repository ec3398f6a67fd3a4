// SPDX-License-Identifier: Apache-2.0
// Redistribution of the activation between two neighbouring layers that spread it differently over the same G devices
// of a stage.
//
// A strategy leaves the activation of a micro-batch in tiles: the samples in dp parts, the sequence in cp parts,
// times tp with sequence parallelism. Without it, ranks of one tp group hold the same tile. Device x of a stage has
// coordinates by RankOrder (tp innermost). It needs its tile under `to`, holds its tile under `from`, and fetches
// what it lacks:
//     fetched(x) = |needed(x)| − |needed(x) ∩ held(x)|                          (PrimePar, equation 9, per device)
// It fetches from the smallest aligned block of g consecutive devices that holds it all. Time: an exchange in blocks
// of g in which each device receives max_x fetched(x) (collective.h, all-to-all); 0 where every device holds what it
// needs. The gradient goes back the other way. Slices of a causal ring are treated as contiguous, although they are
// zig-zag: a change of cp alone moves as many bytes either way.
#pragma once

#include <cstdint>
#include <string>

#include "cost/layer_cost.h"
#include "espalier/plan.h"
#include "plan/steps.h"

namespace espalier::cost {

/// Describes how a strategy spreads the activation. Equal layouts need no redistribution.
struct ActivationLayout {
  std::int32_t dp = 1, cp = 1;
  std::int32_t replicas = 1;        ///< tp ranks that hold the same tile
  std::int32_t sequence_parts = 1;  ///< tp ranks that hold different parts of a sequence
  bool dp_inner = false;            ///< dp before cp in the order of ranks; false where it makes no difference
  /// Holds how the tensor group cuts what one block hands to the next under an operator partition
  /// (plan/operator_partition.h). Empty: every device of the group holds it. To and from other layouts it passes
  /// through the whole activation (LayerCost::boundary_gather_ns), so redistribution() treats it as whole.
  std::string boundary;
  auto operator<=>(const ActivationLayout&) const = default;
};
ActivationLayout layout_of(const Strategy& s);

/// Holds what one redistribution moves, as fractions of the whole activation of the micro-batch.
struct FetchedFraction {
  double fetched = 0;      ///< by the device that fetches most
  std::int64_t block = 1;  ///< g
};
FetchedFraction redistribution(const ActivationLayout& from, const ActivationLayout& to);

/// Returns the exchange of one direction: S of an all-to-all in blocks of g devices, where each receives as much as
/// the device that fetches most. Its `times` is 0 where every device holds what it needs. `bytes` is the whole
/// activation of a micro-batch.
Traffic redistribution_traffic(const FetchedFraction& move, double bytes);
/// Returns the seconds of one direction; `bytes` is the whole activation of a micro-batch.
double redistribution_s(const Fabric& fabric, const FetchedFraction& move, double bytes);

/// Holds the traffic between the last layer of a range and the first of the next, forward (the activation) and
/// backward (its gradient). A layout of partitioned operators is first gathered on every device of its group
/// (LayerCost::boundary_gather_ns).
struct RangeMove {
  struct Way {
    Traffic gather;  ///< makes a partitioned block's output whole; times 0: none
    std::int64_t gather_ns = 0;
    Traffic traffic;  ///< the redistribution; times 0: none
    std::int64_t move_ns = 0;
    [[nodiscard]] std::int64_t total_ns() const { return gather_ns + move_ns; }
  };
  Way forward, backward;
};
/// Returns the traffic between two layers. `kind` is that of the last layer before; `sender` and `receiver` are costs
/// of the layers on either side; `samples` are those of a micro-batch in all replicas.
RangeMove range_move(const Workload& w, const Fabric& fabric, const Strategy& before, const Strategy& after,
                     const LayerKind& kind, const LayerCost& sender, const LayerCost& receiver, std::int64_t samples);

}  // namespace espalier::cost
