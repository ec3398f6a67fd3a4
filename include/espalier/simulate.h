// SPDX-License-Identifier: Apache-2.0
// The result of simulating one step of a plan.
//
// The simulated step time is the number that Espalier predicts, optimises and prints: `plan`, `estimate` and
// `simulate` return the same time for one configuration, to the nanosecond. A Breakdown divides the timeline of the
// rank that finishes last (lowest id on a tie), interval by interval on its compute stream:
//   compute                 kernels
//   exposed_communication   collectives inside chunks that are not hidden, slowdown of compute by communication, and
//                           idle time of the compute stream while a collective of the rank runs
//   bubble                  idle time for any other reason (waiting for a neighbour's micro-batch)
//   optimizer               the end of the step: the update, and the host's work between two steps (step_host)
//   other                   kernel-launch gaps and per-micro-batch overhead
// The five add up to the step exactly, as integers. Communication that the end of the step waits for counts as
// exposed communication: the exposed share of overlapped reductions, and reductions inside tensor groups. Kernel
// launches of the update count as `other`.
#pragma once

#include <cstdint>
#include <vector>

namespace espalier {

/// Divides the time of a step into parts that sum to it.
struct Breakdown {
  std::int64_t compute_ns = 0, exposed_communication_ns = 0, bubble_ns = 0, optimizer_ns = 0, other_ns = 0;
  /// Holds the part of optimizer_ns that is not the update: host work once per step, during which the device idles
  /// (data loading, logging, synchronisation; FrameworkCoefficients::step_s). It is not a sixth part of the sum.
  std::int64_t step_host_ns = 0;
  [[nodiscard]] std::int64_t total_ns() const {
    return compute_ns + exposed_communication_ns + bubble_ns + optimizer_ns + other_ns;
  }
  bool operator==(const Breakdown&) const = default;
};

/// Holds the memory peak of a rank.
struct MemoryPeak {
  std::int64_t bytes = 0;         ///< total, allocator reserve included
  std::int64_t activations = 0;   ///< saved + transient at that moment
  std::int64_t reserve = 0;       ///< allocator reserve
  std::int64_t at_ns = 0;         ///< start of the instruction that reaches it (first, if several)
  std::int32_t instruction = -1;  ///< absolute index into the program
  bool operator==(const MemoryPeak&) const = default;
};

/// Holds one rank's step.
struct RankOutcome {
  std::int64_t end_ns = 0;
  Breakdown breakdown;  ///< covers [0, step): idle time after the end counts as bubble
  std::int64_t hidden_communication_ns = 0;
  MemoryPeak memory;
  bool operator==(const RankOutcome&) const = default;
};

/// Records when an instruction ran, if requested.
struct Span {
  std::int64_t start_ns = 0, end_ns = 0;
  bool operator==(const Span&) const = default;
};

/// Holds one simulated step.
struct Simulation {
  std::int64_t iteration_ns = 0;
  std::int32_t last_rank = 0;
  std::vector<RankOutcome> ranks;  ///< one per rank of the program
  std::vector<Span> spans;         ///< by absolute instruction index; empty unless recorded
  bool operator==(const Simulation&) const = default;
};

}  // namespace espalier
