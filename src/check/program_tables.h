// SPDX-License-Identifier: Apache-2.0
// Lookup tables over a Program: where each pass of each chunk and micro-batch stands on a rank, and what is known to
// have ended when an instruction starts. Built by check_program, read by the checks of order, memory and collectives.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "check/view.h"
#include "plan/program.h"

namespace espalier::check {

/// Whether it is a forward pass, a backward pass, or a part of one.
inline bool is_pass(InstructionKind kind) { return kind <= InstructionKind::backward_weight; }

/// One pass (forward, input gradient or weight gradient) of one chunk and micro-batch; absolute indices.
struct PassInstructions {
  std::int32_t first = -1, last = -1;
  std::int32_t done = 0, buckets = 0;  ///< buckets seen in order, of how many
  [[nodiscard]] bool complete() const { return buckets > 0 && done == buckets; }
};

/// All that one chunk does with one micro-batch on one rank.
struct ChunkPasses {
  PassInstructions forward, input, weight;                  ///< a combined `backward` counts as input and as weight
  std::int32_t recv_activation = -1, send_activation = -1;  ///< entering this chunk; leaving it to the next chunk
  std::int32_t recv_gradient = -1, send_gradient = -1;      ///< coming back from the next chunk; leaving to the one
                                                            ///< before
};

/// What one rank does. `work[k·m + b]`: k-th chunk of the rank's stage, micro-batch b.
struct RankTable {
  std::vector<ChunkPasses> work;
  std::vector<std::vector<std::int32_t>> reduces, gathers;  ///< per local chunk, in order
  std::vector<std::int32_t> tied, optimizers;
};

struct ProgramTables {
  std::vector<RankTable> ranks;
  /// For each instruction and stream: the latest instruction of that stream of the same rank that has ended when it
  /// starts (−1: none). Streams are in order, so all earlier ones of that stream have ended as well.
  std::vector<std::array<std::int32_t, kStreams>> ended;

  /// Whether `before` has certainly ended when `after` starts, by what their own rank knows.
  [[nodiscard]] bool precedes(const Program& program, std::int32_t before, std::int32_t after) const {
    const auto stream = static_cast<std::size_t>(program.instructions[static_cast<std::size_t>(before)].stream);
    return ended[static_cast<std::size_t>(after)][stream] >= before;
  }
};

}  // namespace espalier::check
