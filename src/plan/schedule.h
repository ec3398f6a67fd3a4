// SPDX-License-Identifier: Apache-2.0
// Defines pipeline schedules: the order in which the compute steps of a stage run. There is no communication, no
// buckets and no times: lower.cpp adds the first two, the simulator the last.
//
// Each family has its own file (schedule_<family>.cpp), with its source and the idle time that it reaches. The
// symbols are p stages, i the stage (0 … p−1), m micro-batches and v chunks per stage. F, B, W are the times of
// forward, input gradient and weight gradient of a stage.
//
//   family        idle time of a stage, no communication    in flight on stage i at most
//   gpipe         (p−1)(F+B+W)                              m micro-batches
//   1f1b          (p−1)(F+B+W)                              min(m, p−i) micro-batches
//   interleaved   (p−1)(F+B+W)/v        (m mod p = 0)       min(m·v, p·v + p − 2i − 1) chunk passes
//   zb-h1         (p−1)(F+B−W)          (W ≤ F, B; m ≥ p)   min(m, p) micro-batches *
//   zb-h2         (p−1)·max(F, F+B−2W)  (W ≤ F, B; m ≥ 2p−1)   min(m, 2p−1) micro-batches *
//   zb-v          0 between first and last step (F = B = W)    min(2m, 2p) chunk passes *
//                                                           * counted until their weight gradient
#pragma once

#include <cstdint>
#include <vector>

#include "espalier/plan.h"
#include "plan/program.h"

namespace espalier {

/// Describes one compute step. `kind` is forward, backward, backward_input or backward_weight.
struct ChunkPass {
  InstructionKind kind = InstructionKind::forward;
  std::int16_t local_chunk = 0;
  std::int32_t microbatch = 0;
  bool operator==(const ChunkPass&) const = default;
};

std::vector<ChunkPass> gpipe_order(const Schedule& schedule, std::int32_t stage);
std::vector<ChunkPass> one_f_one_b_order(const Schedule& schedule, std::int32_t stage);
std::vector<ChunkPass> interleaved_order(const Schedule& schedule, std::int32_t stage);
std::vector<ChunkPass> zb_h1_order(const Schedule& schedule, std::int32_t stage);
std::vector<ChunkPass> zb_h2_order(const Schedule& schedule, std::int32_t stage);
std::vector<ChunkPass> zb_v_order(const Schedule& schedule, std::int32_t stage);

/// Returns the order of schedule.kind.
std::vector<ChunkPass> compute_order(const Schedule& schedule, std::int32_t stage);

}  // namespace espalier
