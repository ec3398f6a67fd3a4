// SPDX-License-Identifier: Apache-2.0
// Builds lookup tables over a Program: the place of each pass of each chunk and micro-batch on a rank, and the
// instructions that must have ended when another starts. The tables are built by check_program and read by the checks
// of order, memory and collectives.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "check/view.h"
#include "plan/program.h"

namespace espalier::check {

/// Returns whether the instruction is a forward pass, a backward pass, or a part of one.
inline bool is_pass(InstructionKind kind) { return kind <= InstructionKind::backward_weight; }

/// Holds the absolute indices of one pass (forward, input gradient or weight gradient) of one chunk and micro-batch.
struct PassInstructions {
  std::int32_t first = -1, last = -1;
  std::int32_t done = 0, buckets = 0;  ///< buckets seen in order, and their total
  [[nodiscard]] bool complete() const { return buckets > 0 && done == buckets; }
};

/// Holds the instructions of one chunk for one micro-batch on one rank.
struct ChunkPasses {
  PassInstructions forward, input, weight;                  ///< a combined `backward` counts as input and as weight
  std::int32_t recv_activation = -1, send_activation = -1;  ///< enters this chunk; leaves it for the next one
  /// Hold the gradient's transfers: from the next chunk, and to the previous one.
  std::int32_t recv_gradient = -1, send_gradient = -1;
};

/// Holds the instructions of one rank. `work[k·m + b]` belongs to the k-th chunk of the rank's stage and micro-batch
/// b.
struct RankTable {
  std::vector<ChunkPasses> work;
  std::vector<std::vector<std::int32_t>> reduces, gathers;  ///< per local chunk, in order
  std::vector<std::int32_t> tied, optimizers;
};

struct ProgramTables {
  std::vector<RankTable> ranks;
  /// Holds, for each instruction and stream, the latest instruction of that stream of the same rank that has ended
  /// when it starts (−1: none). Streams are in order, so all earlier ones of that stream have ended as well.
  std::vector<std::array<std::int32_t, kStreams>> ended;

  /// Returns whether `before` must have ended when `after` starts, according to their own rank's streams and waits.
  [[nodiscard]] bool precedes(const Program& program, std::int32_t before, std::int32_t after) const {
    const auto stream = static_cast<std::size_t>(program.instructions[static_cast<std::size_t>(before)].stream);
    return ended[static_cast<std::size_t>(after)][stream] >= before;
  }
};

}  // namespace espalier::check
