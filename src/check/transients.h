// SPDX-License-Identifier: Apache-2.0
// The most that a pipeline chunk holds while one micro-batch passes through it, and what a rank holds beside states and
// activations.
//
// Layers run one after the other. While layer i runs, forward or backward, there are the tensors that layers 1 … i
// keep, and the working set of the operator that runs (Miao et al. 2023, Galvatron-BMW, §5.2):
//     forward   max_i (Σ_{k≤i} saved_k + output_i)
//     backward  max_i (Σ_{k≤i} saved_k + restored_i + input_i + output_i)     restored: what recomputation of layer i brings back
// Under offload of activations saved_k is what stays on the device, and what goes to the host of layer i is there
// twice: as much again is on its way. Working set of an operator, T tokens, a bytes an element, largest operator of the
// layer: forward its output, backward the gradients of its input and its output; both divided by tp in the split
// region, by the sequence parts outside.
//     column linear     its input whole where sequence parallelism gathers it (forward), and once more for the gradient
//                       (backward)
//     row linear        its output whole, before it is reduced
//     attention         forward queries, backward queries and output; unfused also the scores once, and twice
//     loss              the engine's bytes a logit, forward and backward; logits are counted there, not with the output
//                       projection
//     experts           routed copies, gathered over etp where tokens are split
//     embedding         its rows out, both ways
// Blocks whose operators are partitioned: between nothing and the tiles of the largest operator with their second
// buffers (operator_partition.h).
//
// Beside: two buffers for the largest pipeline message; ZeRO ≥ 2 the whole gradient of the largest layer, ZeRO 3 two
// gathered layers; under offload of parameters both; workspaces of the GEMM libraries (torch's, Transformer Engine's;
// 32 MiB on Hopper and later, else 8.125 and 4 MiB); logit gradients of micro-batches whose weight gradient the engine
// defers, on the last of several stages; outputs of row linears that are scattered on another stream, of as many blocks
// as the host starts ahead of the device (queued_blocks) and of as many passes as its messages let it: two without a
// pipeline (one micro-batch:
// one), else two fewer than the stage has in flight.
#pragma once

#include <cstdint>
#include <vector>

#include "check/view.h"

namespace espalier::check {

struct ChunkPeak {
  std::int64_t forward = 0, backward = 0;  ///< bytes, what the chunk keeps of this micro-batch included
};

/// Of each pipeline chunk. `most` decides which end is taken where operators are partitioned; else both are the same.
std::vector<ChunkPeak> chunk_peaks(const View& view, bool most);
/// Of each stage: buffers and workspaces.
std::vector<std::int64_t> buffer_bytes_per_stage(const View& view);

}  // namespace espalier::check
