// SPDX-License-Identifier: Apache-2.0
// A partitioned block as a program: what one device of the group runs, operator after operator, and how long that takes when it is simulated.
//
//   compute            a step of an operator (PrimePar's 2^k steps of P), on `compute`; step t + 1 waits for the shift issued with step t
//   ring_shift         what neighbours pass on during a step, on `data`: starts with the step, beside it
//   block_collective   all-reduces after an operator, redistributions before it (backward: of gradients, after it), on `data`
// Chunk i of the program is its item i: ChunkTiming::forward or block_communication_ns. Backward: operators from the last to the first,
// gradients of inputs before those of weights. A last compute item is the wait for kernel launches.
// The simulated phases are cost::BlockCost's to the nanosecond (tested).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cost/partitioned_block.h"
#include "espalier/result.h"
#include "plan/program.h"

namespace espalier::sim {

enum class BlockPhase : std::uint8_t { forward, backward, backward_input, backward_weight };

/// A span of the timeline.
struct BlockSpan {
  std::string name;  ///< "attn.qkv K,P2 step 0", "attn.qkv shift 0", "attn.out all-reduce", "to mlp.up"
  Stream stream = Stream::compute;
  std::int64_t start_ns = 0, end_ns = 0;
};

struct BlockTimeline {
  std::int64_t duration_ns = 0;
  std::vector<BlockSpan> spans;
};

/// One phase of a block. `samples`, `devices`, `partition`: as cost::partitioned_block.
Result<BlockTimeline> simulate_block(const cost::CostContext& context, const LayerKind& kind, std::int64_t samples,
                                     std::int32_t devices, const std::string& partition, BlockPhase phase);

/// Forward and backward of one block as Chrome trace-event JSON.
Result<std::string> block_trace(const cost::CostContext& context, const LayerKind& kind, std::int64_t samples,
                                std::int32_t devices, const std::string& partition);

}  // namespace espalier::sim
