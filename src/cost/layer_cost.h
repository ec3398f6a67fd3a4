// SPDX-License-Identifier: Apache-2.0
// Time and memory of one layer kind under one strategy, for one micro-batch on one rank: the unit from which chunks
// are summed.
//
// Compute: operator_cost.h. Communication inside the layer:
//   TP, sp = none       Forward: all-reduce after each row linear. Backward: all-reduce of the input gradient,
//                       overlapped with the weight gradient of the column linear (Megatron's asynchronous all-reduce).
//   TP, sp = megatron   Forward: all-gather before the column linear, reduce-scatter after the row linear. Backward:
//                       all-gather of dY, a second all-gather of X under the input gradient, reduce-scatter of dX
//                       under the weight gradient.
//   Ulysses             all-to-all of q, k, v and of the output around attention, forward and backward
//   CP ring             cp − 1 steps of K and V under the attention of the previous block; backward twice the bytes
//                       (K, V and their gradients)
//   CP all-to-all       as Ulysses, over the cp group
//   EP                  all-to-all before and after the experts, forward and backward; etp: all-gather and
//                       reduce-scatter around them.
//
// With overlap.tp, all-gather and reduce-scatter of both passes overlap the GEMM that they feed or drain (overlap.h).
// Launches take kernels of the phase · kernel_launch · host_launches of the engine. The part that exceeds the GPU
// time of the phase is `other` (the GPU waits for the CPU).
#pragma once

#include <cstdint>
#include <vector>

#include "cost/activation_memory.h"
#include "cost/cost_context.h"
#include "cost/costs.h"
#include "cost/operator_cost.h"
#include "cost/overlap.h"
#include "cost/placement.h"
#include "cost/state_memory.h"
#include "espalier/model.h"
#include "espalier/plan.h"

namespace espalier::cost {

struct LayerCost {
  PhaseTime forward, backward, backward_input, backward_weight;
  PhaseTime recompute_selective;  ///< added to backward (and backward_input)
  SavedBytes saved;
  SavedBytes hosted;  ///< part of `saved` in host memory between forward and backward (offload of activations)
  TransientBytes transient;
  /// Counts bytes that stay on a stage that has such a layer, however many it has (EngineMemory::keeps_score_buffer).
  std::int64_t buffer_bytes = 0;
  std::int64_t scattered_bytes = 0;   ///< scattered_outputs (queued_outputs.h), where the engine queues them
  std::int64_t dense_parameters = 0;  ///< trained elements on this rank, before ZeRO
  std::int64_t expert_parameters = 0;
  std::int64_t frozen_dense_bytes = 0;  ///< weights that are not trained, before ZeRO
  std::int64_t frozen_expert_bytes = 0;
  /// Equals LayerKind::backward. If false, the layer has no backward pass, and nothing of it is recomputed.
  bool passes_gradient = true;
  std::int64_t boundary_bytes = 0;  ///< message to the next chunk when it is on another rank
  TensorSync tensor_sync;           ///< gradients that the tensor group sums once a step
  /// Blocks whose operators are partitioned (partitioned_block.h) set the next three members; they are 0 otherwise.
  std::int64_t gradient_sync_ns = 0;    ///< once a step: gradients of weights that several devices of the group hold
  std::int64_t boundary_gather_ns = 0;  ///< time to make what enters or leaves whole on every device of the group
  double boundary_gather_bytes = 0;     ///< bytes of it that a device lacks, at most
  [[nodiscard]] ParameterElements elements() const {
    return {dense_parameters, expert_parameters, frozen_dense_bytes, frozen_expert_bytes};
  }
  void set_elements(const ParameterElements& e) {
    dense_parameters = e.dense;
    expert_parameters = e.expert;
    frozen_dense_bytes = e.frozen_dense;
    frozen_expert_bytes = e.frozen_expert;
  }
  /// Returns the time that full recomputation adds to the backward pass.
  [[nodiscard]] PhaseTime recompute_full() const { return passes_gradient ? forward : PhaseTime{}; }
};

/// Returns the geometry of a kind: local tokens and divisors.
LayerGeometry geometry_of(const Workload& w, const EngineModel& engine, const LayerKind& kind, const Strategy& s,
                          std::int32_t micro_batch);

/// Fills in the costs of every kind of the model; `out` is resized to kinds.size(). The result depends on tp, sp, cp,
/// cp_kind, ep, etp, dp, order, overlap.tp and, under an operator partition, on zero and partition. The partition
/// must fit (partition_fits): its blocks come from partitioned_block.h, all other layers from tensor parallelism. The
/// activation between them is gathered after the last block, its gradient before the first.
void layer_costs(const CostContext& c, const Strategy& s, std::int32_t stages, std::int32_t micro_batch,
                 std::vector<LayerCost>& out);

}  // namespace espalier::cost
