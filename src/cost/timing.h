// SPDX-License-Identifier: Apache-2.0
// PlanTiming: what the simulator needs to time a Program and replay its memory, as plain integers. cost/ fills it, sim/ reads it.
//
// All times are integer nanoseconds, rounded once here, so that everything downstream is exact integer arithmetic.
#pragma once

#include <cstdint>
#include <vector>

namespace espalier::cost {

/// One phase (forward, backward, …) of one chunk and one micro-batch on one rank.
/// duration = compute + exposed + other; `hidden` ran beside compute and is not part of it.
struct PhaseTime {
  std::int64_t compute_ns = 0;  ///< kernels
  std::int64_t exposed_ns = 0;  ///< TP/CP/EP/ZeRO communication not hidden, and slow-down of compute by hidden communication
  std::int64_t other_ns = 0;    ///< waiting for kernel launches, per-micro-batch overhead
  std::int64_t hidden_ns = 0;   ///< communication under compute
  [[nodiscard]] std::int64_t duration_ns() const { return compute_ns + exposed_ns + other_ns; }
  PhaseTime& operator+=(const PhaseTime& o) {
    compute_ns += o.compute_ns;
    exposed_ns += o.exposed_ns;
    other_ns += o.other_ns;
    hidden_ns += o.hidden_ns;
    return *this;
  }
  bool operator==(const PhaseTime&) const = default;
};

/// Piece `piece` of `pieces` equal parts; the parts add up to the whole exactly (component by component).
PhaseTime part_of(const PhaseTime& whole, int piece, int pieces);

/// A pipeline chunk.
struct ChunkTiming {
  PhaseTime forward;
  PhaseTime backward;        ///< input and weight gradients, recomputation included
  PhaseTime backward_input;  ///< zero-bubble split; backward_input + backward_weight ≈ backward
  PhaseTime backward_weight;
  std::int64_t send_forward_ns = 0;   ///< p2p of the activation entering this chunk (0 for chunk 0 or same rank)
  std::int64_t send_backward_ns = 0;  ///< p2p of its gradient, going back
  std::int64_t boundary_bytes = 0;    ///< that message, per rank
  std::int64_t grad_reduce_ns = 0;    ///< one piece of the gradient reduction
  std::int64_t param_gather_ns = 0;   ///< one piece of the parameter all-gather
  std::int64_t gradient_sync_ns =
      0;  ///< once a step, before the update: sums inside tensor groups (state_memory.h, operator partitions)
  std::int64_t dense_parameters = 0;  ///< elements of the chunk on a rank, before ZeRO
  std::int64_t expert_parameters = 0;
  std::int64_t saved_bytes = 0;               ///< kept from forward to backward for one micro-batch
  std::int64_t saved_after_input_bytes = 0;   ///< still kept between backward_input and backward_weight
  std::int64_t forward_transient_bytes = 0;   ///< extra peak inside the forward
  std::int64_t backward_transient_bytes = 0;  ///< extra peak inside the backward (gradients in flight, recomputed activations)
  bool operator==(const ChunkTiming&) const = default;
};

/// Static bytes of a rank by purpose.
struct StaticMemory {
  std::int64_t parameters = 0, gradients = 0, optimizer = 0, communication_buffers = 0, framework = 0;
  [[nodiscard]] std::int64_t total() const { return parameters + gradients + optimizer + communication_buffers + framework; }
  bool operator==(const StaticMemory&) const = default;
};

struct StageTiming {
  std::int64_t optimizer_ns = 0;  ///< gradient_sync_ns of its chunks and what is waited for of hidden reductions included
  /// Of optimizer_ns, what is not the update: communication waited for, launches of the update, host work once a step.
  std::int64_t optimizer_exposed_ns = 0, optimizer_launch_ns = 0, step_host_ns = 0;
  std::int64_t tied_reduce_ns = 0;    ///< exchange of a shared token table's gradient, where the stage holds a copy
  std::int64_t dense_parameters = 0;  ///< elements on a rank, before ZeRO
  std::int64_t expert_parameters = 0;
  std::int64_t reduced_elements = 0;  ///< of these, whose gradients are reduced over other ranks
  StaticMemory memory;
  bool operator==(const StageTiming&) const = default;
};

struct PlanTiming {
  std::vector<ChunkTiming> chunks;      ///< p·v, in pipeline order
  std::vector<StageTiming> stages;      ///< p
  double compute_slowdown = 1.0;        ///< κ_w of `compute` while `data` runs on the same rank
  double communication_slowdown = 1.0;  ///< κ_c of `data` while `compute` runs
  double allocator_reserve = 0.0;       ///< peak = tensors · (1 + reserve), rounded down
  bool operator==(const PlanTiming&) const = default;
};

}  // namespace espalier::cost
