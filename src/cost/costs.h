// SPDX-License-Identifier: Apache-2.0
// Costs: the times and bytes that the works, collectives and transfers of a program take on a machine, in columns by
// the program's ids. The columns are filled by cost/price.h and read by sim/.
//
// All times are integer nanoseconds, rounded once here, so that everything downstream is exact integer arithmetic.
#pragma once

#include <cstdint>
#include <vector>

#include "base/id.h"
#include "cost/overlap.h"
#include "espalier/units.h"
#include "plan/held_passes.h"
#include "plan/structure.h"

namespace espalier::cost {

/// Holds the time of one phase (forward, backward, …) of one chunk and one micro-batch on one rank. Its duration is
/// compute + exposed + other; `hidden` ran under compute and is not part of it.
struct PhaseTime {
  std::int64_t compute_ns = 0;  ///< kernels
  /// Counts TP/CP/EP/ZeRO communication that is not hidden, and the slow-down of compute by hidden communication.
  std::int64_t exposed_ns = 0;
  std::int64_t other_ns = 0;   ///< waiting for kernel launches, per-micro-batch overhead
  std::int64_t hidden_ns = 0;  ///< communication under compute
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

/// Returns bucket `bucket` of `buckets` equal parts; the parts add up to the whole exactly (component by component).
PhaseTime part_of(const PhaseTime& whole, int bucket, int buckets);

/// Describes how a work changes the memory of its rank: bytes held from its start on, bytes needed only while it
/// runs, and bytes freed at its end (negative). A chunk cut into buckets saves with the first and frees with the
/// last.
struct MemoryStep {
  Bytes before, during, after;
  bool operator==(const MemoryStep&) const = default;
};

struct WorkCost {
  PhaseTime time;
  MemoryStep memory;
  bool operator==(const WorkCost&) const = default;
};

/// Holds the static bytes of a rank by purpose.
struct StaticMemory {
  std::int64_t parameters = 0, gradients = 0, optimizer = 0, communication_buffers = 0, framework = 0;
  std::int64_t host = 0;  ///< in the memory of its host, not of the device: under offload
  [[nodiscard]] std::int64_t total() const { return parameters + gradients + optimizer + communication_buffers + framework; }
  bool operator==(const StaticMemory&) const = default;
};

/// Holds what a rank of a stage keeps throughout the step.
struct StageCost {
  StaticMemory memory;
  std::int64_t dense_parameters = 0;  ///< trained elements on a rank, before ZeRO
  std::int64_t expert_parameters = 0;
  std::int64_t frozen_dense_bytes = 0;  ///< weights that are not trained, before ZeRO
  std::int64_t frozen_expert_bytes = 0;
  std::int64_t reduced_elements = 0;  ///< trained elements whose gradients are reduced over other ranks
  /// Holds the part of the optimizer's compute_ns that is host work once a step, not the device's update.
  Nanoseconds step_host;
  /// Holds the part of the optimizer's exposed_ns that is the end of reductions that overlap the backward pass.
  Nanoseconds late_reduction = {};
  bool operator==(const StageCost&) const = default;
};

struct Costs {
  /// Holds works. An optimizer's compute is the update and the host's work once a step; its exposed time is
  /// communication that the end of the step waits for. Its other time is launches of the update.
  base::IndexedVector<WorkId, WorkCost> works;
  base::IndexedVector<CollectiveId, Nanoseconds> collectives;  ///< one bucket each
  /// Holds how each collective and the compute next to it on its ranks slow each other down.
  base::IndexedVector<CollectiveId, MutualSlowdown> slowdowns;
  base::IndexedVector<TransferId, Nanoseconds> transfers;  ///< 0 between chunks of one stage
  /// Holds the latency from the end of a send to the arrival of its message, during which the sender has the next
  /// message under way. Empty: no delays; the latency is part of `transfers`.
  base::IndexedVector<TransferId, Nanoseconds> delays;
  base::IndexedVector<StageId, StageCost> stages;
  double allocator_reserve = 0.0;  ///< peak = tensors · (1 + reserve), rounded down
  Bytes message;                   ///< the largest that enters any chunk: one receive and one send of it are in flight
  bool operator==(const Costs&) const = default;

  /// Resizes the columns to a structure and sets all entries to zero.
  void reset(const ProgramStructure& structure);
  /// Returns whether the columns belong to a structure.
  [[nodiscard]] bool fits(const ProgramStructure& structure) const;
  /// Returns the bytes that one micro-batch keeps in a chunk, from the memory steps of its works.
  [[nodiscard]] PassBytes bytes_of(const ProgramStructure& s, ChunkId chunk) const;
  void set_bytes(const ProgramStructure& s, ChunkId chunk, const PassBytes& bytes);
  /// Returns the bytes that one micro-batch keeps of a chunk from its forward to its backward.
  [[nodiscard]] std::int64_t saved_bytes(const ProgramStructure& s, ChunkId chunk) const {
    return works[s.forward(chunk)].memory.before.count();
  }
};

}  // namespace espalier::cost
