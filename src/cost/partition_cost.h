// SPDX-License-Identifier: Apache-2.0
// Time and memory of one operator under one partition sequence (PrimePar, Wang et al., ASPLOS 2024, eq. 7), on one
// device:
//
//     time of a phase = Σ_t pair(ring_t, compute_t) + Σ all-reduces of the group indicators
//
// in whole nanoseconds. Every step, ring and all-reduce is rounded by itself, and pairs are overlap.h's pair_ns.
// Therefore the steps (step_cost.h, counted `each`), run one after the other, take exactly as long.
//
// compute_t   The operator's equation of operator_cost.h on the tile of one step (2^k steps of smaller products for
//             P_{2^k×2^k}). Steps after the first also read the sum that they add to. Under a profile, compute_t is
//             the measured time of such a tile.
// ring_t      The tiles that devices pass on during step t (partition/communication.h), over the levels crossed. The
//             function pair() is that of overlap.h.
// all-reduce  Output tiles whose summed dimension is split, over the devices of the indicator: forward O (N), backward
//             dI (K), gradient dW (B, M). The last is counted separately as `gradient_sync`, in data-parallel levels
//             and the gradient's wire type.
// backward    = backward_input (gradients of activations) + backward_weight (gradients of parameters).
//
// An engine whose weights stay (EngineCommunication::weights_stay) brings no tile of a weight back. It keeps the tile
// with which the forward ends among the saved tensors.
//
// A device holds the parameters of its tile, replicated over B and M. It saves the tiles that its backward reads
// (activation_memory.h's policies, replicas counted on every device). Its transients are the output forward, the
// gradients of input and output backward, and second buffers of the tiles in flight. An input that the operator
// before already keeps (fused attention's output) is counted once, with the linear. Slices of queries are contiguous:
// under a causal mask the device with the last ones does most, and it counts.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "cost/layer_cost.h"
#include "cost/partition_layouts.h"
#include "cost/step_cost.h"
#include "partition/communication.h"
#include "partition/operator_splits.h"
#include "plan/block_graph.h"
#include "profile/measured_operators.h"

namespace espalier::cost {

/// Holds seconds, each a whole number of nanoseconds.
struct PhaseSeconds {
  double compute = 0;
  double collective = 0;    ///< all-reduces
  double ring_exposed = 0;  ///< ring time that compute does not hide (slow-down of compute included)
  double ring_hidden = 0;
  int kernels = 0;
  [[nodiscard]] double total() const { return compute + collective + ring_exposed; }
  PhaseSeconds& operator+=(const PhaseSeconds& o) {
    compute += o.compute;
    collective += o.collective;
    ring_exposed += o.ring_exposed;
    ring_hidden += o.ring_hidden;
    kernels += o.kernels;
    return *this;
  }
};

struct PartitionCost {
  PhaseSeconds forward, backward_input, backward_weight;
  double gradient_sync = 0;                                               ///< s, once a step
  double gradient_sync_bytes = 0;                                         ///< bytes that it reduces
  std::int64_t parameters = 0;                                            ///< elements
  std::int64_t saved = 0, forward_transient = 0, backward_transient = 0;  ///< bytes
  [[nodiscard]] double steady() const { return forward.total() + backward_input.total() + backward_weight.total(); }
};

/// Holds the steps of one operator, each phase in the order in which it runs. Their op is −1 and their name empty,
/// because their owner is not known here.
struct OperatorSteps {
  PhaseSteps forward, backward_input, backward_weight;
  [[nodiscard]] PhaseSteps& of(partition::Phase phase) {
    return phase == partition::Phase::forward ? forward : phase == partition::Phase::backward ? backward_input : backward_weight;
  }
};

/// Returns the first of a node's operators whose times on the tiles of a sequence are missing in the profile in
/// force. Returns nothing if none is missing, or without a profile.
std::optional<profile::MeasuredShape> not_measured(const EngineModel& engine, const PartitionedOperator& node,
                                                   const partition::PartitionSequence& sequence);

/// Prices operators on 2^bits devices. It keeps what sequences share, so threads must not share it.
class PartitionCosts {
 public:
  /// Requires a fabric that supports `bits`.
  PartitionCosts(const CostContext& context, int bits);
  [[nodiscard]] const PartitionFabric& fabric() const { return tensor_; }
  [[nodiscard]] const CostContext& context() const { return *context_; }
  /// Returns the cost of an operator. The sequence must be legal for it, and of `bits` bits.
  PartitionCost cost(const PartitionedOperator& node, const partition::PartitionSequence& sequence);
  /// Returns the steps, whose sums (phase_time) are cost()'s phases to the nanosecond.
  OperatorSteps steps(const PartitionedOperator& node, const partition::PartitionSequence& sequence);

 private:
  struct Ring {
    partition::Phase phase;
    int step;
    partition::TensorUse tensor;
    Exchange unit;  ///< for one byte per tile
  };
  struct Rings {
    std::vector<Ring> rings;
  };
  struct Local;
  const Rings& rings_of(const partition::PartitionSequence& sequence);
  void run_steps(PhaseSeconds& phase, partition::Phase which, const Local& local, double first, double later,
                 std::int64_t& buffers);
  void reduce(PartitionCost& cost, const Local& local);
  void record_step(partition::Phase which, std::int64_t compute_ns, std::int64_t ring_ns, double bytes, MutualSlowdown slowdown);
  void record_rest(partition::Phase which, const PhaseSeconds& phase);
  /// Returns the measured time of one step of an operator on its tile; nothing if no profile is in force. The profile
  /// must cover the shape.
  [[nodiscard]] std::optional<profile::OperatorTime> measured(const Local& local, const Operator& op) const;
  /// Adds the measured time; returns false if there is none.
  bool add_measured(PartitionCost& cost, const Local& local, const Operator& op) const;
  void linear(PartitionCost& cost, const Local& local);
  void linear_steps(PartitionCost& cost, const Local& local, std::int64_t& forward_buffers, std::int64_t& backward_buffers);
  void linear_memory(PartitionCost& cost, const Local& local, std::int64_t forward_buffers, std::int64_t backward_buffers) const;
  void attention(PartitionCost& cost, const Local& local);
  void unfused(PartitionCost& cost, const Local& local);
  void elementwise(PartitionCost& cost, const Local& local, const Operator& op, bool beside);

  const CostContext* context_;
  PartitionFabric tensor_, data_;
  std::vector<Group> groups_;  ///< by indicator
  std::map<std::uint64_t, Rings> rings_;
  /// Holds what run_steps and reduce emit while steps() runs.
  struct Record {
    OperatorSteps steps;
    struct Reduction {
      partition::Phase phase;
      double bytes, seconds;
    };
    std::vector<Reduction> reductions;
  };
  Record* record_ = nullptr;
};

}  // namespace espalier::cost
