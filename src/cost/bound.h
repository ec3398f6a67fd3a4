// SPDX-License-Identifier: Apache-2.0
// Lower bounds on the simulated iteration time, in the same integer nanoseconds. They never exceed
// Simulator::iteration_ns (property test), and are tight where pipelines are balanced.
//
// Chunk c (pipeline order) has forward F_c, backward B_c (zero-bubble: input part I_c, weight part W_c), and messages
// s_c that enter it and return. Stage i runs m micro-batches; its first chunk a is the smallest pipeline chunk on it.
// With work = m·Σ_{c on i}(F_c + B_c):
//   pre_i  = Σ_{c<a} (F_c + s_{c+1})        nothing can start on i before the first micro-batch has come down
//   post_i = Σ_{c<a} (B_c + s_{c+1})        after the last backward on i, its gradient still has to go up
//   wait_i = blocking sends between two computations of the stage   (when p2p is not overlapped)
//   tail_i = exposed reduction (last bucket, or all buckets), tied reduction, optimizer, exposed gather
//   (1) pre_i + work + wait_i + tail_i      (2) pre_i + work + wait_i + post_i + tail_first
//   (3) the data stream: pre_i + work − B_a + its first bucket + all buckets of chunk a + optimizer
//   (4) at most f micro-batches are in flight, so every f-th forward waits for a round trip R_i = Σ_{c≥a}(F + B + 2s):
//       pre_i + (⌊(m−1)/f⌋ + 1)·R_i + post_i + tail_first                                    (one chunk a stage)
// Each holds for any program with these dependencies, so the largest is a bound. Durations that are themselves lower
// bounds (cheapest recomputation, cheapest ZeRO stage) give a bound for a whole subtree, because every term grows
// with every duration.
#pragma once

#include <cstdint>

#include "cost/costs.h"
#include "plan/program.h"

namespace espalier::cost {

std::int64_t iteration_lower_bound_ns(const Costs& costs, const ProgramStructure& structure);
/// Returns tail_i: no stage ends its step sooner after its last pass.
std::int64_t tail_of_stage_ns(const Costs& costs, const ProgramStructure& structure, std::int32_t stage);

/// Returns a lower bound on the activations of `stage` at the peak that the simulator's replay finds: those in flight
/// at a moment that the schedule is sure to reach.
std::int64_t activations_lower_bound_bytes(const Costs& costs, const ProgramStructure& structure, std::int32_t stage);
/// Returns the peak of given static bytes and activations, allocator reserve included.
std::int64_t peak_bytes(std::int64_t static_bytes, std::int64_t activations, double allocator_reserve);

}  // namespace espalier::cost
