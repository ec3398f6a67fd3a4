// SPDX-License-Identifier: Apache-2.0
// Costs: what the works, collectives and transfers of a program take on a machine, in columns by the program's ids.
// cost/price.h fills them, sim/ reads them.
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

/// One phase (forward, backward, …) of one chunk and one micro-batch on one rank.
/// duration = compute + exposed + other; `hidden` ran beside compute and is not part of it.
struct PhaseTime {
  std::int64_t compute_ns = 0;  ///< kernels
  std::int64_t exposed_ns = 0;  ///< TP/CP/EP/ZeRO communication not hidden, and slow-down of compute by hidden
                                ///< communication
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

/// Bucket `bucket` of `buckets` equal parts; the parts add up to the whole exactly (component by component).
PhaseTime part_of(const PhaseTime& whole, int bucket, int buckets);

/// What a work changes in the memory of its rank: tensors held from its start on, needed only while it runs, and freed
/// at its end (negative). A chunk cut into buckets saves with the first and frees with the last.
struct MemoryStep {
  Bytes before, during, after;
  bool operator==(const MemoryStep&) const = default;
};

struct WorkCost {
  PhaseTime time;
  MemoryStep memory;
  bool operator==(const WorkCost&) const = default;
};

/// Static bytes of a rank by purpose.
struct StaticMemory {
  std::int64_t parameters = 0, gradients = 0, optimizer = 0, communication_buffers = 0, framework = 0;
  std::int64_t host = 0;  ///< in the memory of its host, not of the device: under offload
  [[nodiscard]] std::int64_t total() const { return parameters + gradients + optimizer + communication_buffers + framework; }
  bool operator==(const StaticMemory&) const = default;
};

/// What a rank of a stage holds throughout.
struct StageCost {
  StaticMemory memory;
  std::int64_t dense_parameters = 0;  ///< trained elements on a rank, before ZeRO
  std::int64_t expert_parameters = 0;
  std::int64_t frozen_dense_bytes = 0;  ///< of weights that are not trained, before ZeRO
  std::int64_t frozen_expert_bytes = 0;
  std::int64_t reduced_elements = 0;  ///< of these, whose gradients are reduced over other ranks
  /// Of the optimizer's compute_ns, what is not the device's update: host work once a step.
  Nanoseconds step_host;
  bool operator==(const StageCost&) const = default;
};

struct Costs {
  /// Of an optimizer: compute is the update and the host's work once a step; exposed is communication that the end of
  /// the step waits for; other are launches of the update.
  base::IndexedVector<WorkId, WorkCost> works;
  base::IndexedVector<CollectiveId, Nanoseconds> collectives;  ///< of one bucket
  base::IndexedVector<CollectiveId, MutualSlowdown>
      slowdowns;  ///< of each collective and compute next to it on its ranks, by each other
  base::IndexedVector<TransferId, Nanoseconds> transfers;  ///< 0 between chunks of one stage
  /// After a send has ended, until its message is there: what the way takes, during which the sender has the next
  /// message under way. Empty:
  /// nothing, the latency of the way is part of `transfers`.
  base::IndexedVector<TransferId, Nanoseconds> delays;
  base::IndexedVector<StageId, StageCost> stages;
  double allocator_reserve = 0.0;  ///< peak = tensors · (1 + reserve), rounded down
  Bytes message;                   ///< the largest that enters any chunk: one receive and one send of it are in flight
  bool operator==(const Costs&) const = default;

  /// Empty columns for a structure: everything takes nothing.
  void reset(const ProgramStructure& structure);
  /// Whether the columns belong to a structure.
  [[nodiscard]] bool fits(const ProgramStructure& structure) const;
  /// What one micro-batch keeps in a chunk, as the memory steps of its works say.
  [[nodiscard]] PassBytes bytes_of(const ProgramStructure& s, ChunkId chunk) const;
  void set_bytes(const ProgramStructure& s, ChunkId chunk, const PassBytes& bytes);
  /// Bytes that one micro-batch keeps of a chunk from its forward to its backward.
  [[nodiscard]] std::int64_t saved_bytes(const ProgramStructure& s, ChunkId chunk) const {
    return works[s.forward(chunk)].memory.before.count();
  }
};

}  // namespace espalier::cost
