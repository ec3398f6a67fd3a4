// SPDX-License-Identifier: Apache-2.0
// Bounds the bytes that a pipeline chunk holds while one micro-batch passes through it, and the bytes that a rank
// holds in addition to states and activations.
//
// Layers run one after the other. While layer i runs, forward or backward, the tensors that layers 1 … i keep and the
// working set of the running operator are held (Miao et al. 2023, Galvatron-BMW, §5.2):
//     forward   max_i (Σ_{k≤i} saved_k + output_i)
//     backward  max_i (Σ_{k≤i} saved_k + restored_i + input_i + output_i)
// where restored_i are the tensors that recomputation of layer i makes again. Under offload of activations saved_k is
// the part on the device. The offloaded part of layer i counts twice: a second copy is in transit.
//
// Working set of an operator, T tokens, a bytes an element, largest operator of the layer: forward its output,
// backward the gradients of its input and its output. Both are divided by tp in the split region, by the sequence
// parts outside.
//     column linear     its input whole where sequence parallelism gathers it (forward), and once more for the
//                       gradient (backward)
//     row linear        its output whole, before it is reduced
//     attention         forward queries, backward queries and output; unfused also the scores once, and twice
//     loss              the engine's bytes a logit, forward and backward; logits are counted there, not with the
//                       output projection
//     experts           routed copies, gathered over etp where tokens are split
//     embedding         its output rows, in both passes
// For blocks whose operators are partitioned: between nothing and the tiles of the largest operator with their second
// buffers (partition_text.h).
//
// A rank also holds:
//     messages          two buffers for the largest pipeline message
//     ZeRO              ≥ 2: the whole gradient of the largest layer; 3: two gathered layers; both under offload of
//                       parameters. DeepSpeed's: held_by_zero.h
//     workspaces        of the GEMM libraries (torch's, Transformer Engine's): 32 MiB on Hopper and later, else 8.125
//                       and 4 MiB
//     deferred logits   logit gradients of micro-batches whose weight gradient the engine defers, on the last of
//                       several stages
//     queued outputs    outputs of row linears that are scattered on another stream, of as many blocks as the host
//                       starts ahead of the device (queued_blocks). Its messages limit the passes: two without a
//                       pipeline (one for one micro-batch), else two fewer than the stage has in flight.
#pragma once

#include <cstdint>
#include <vector>

#include "check/view.h"

namespace espalier::check {

struct ChunkPeak {
  std::int64_t forward = 0, backward = 0;  ///< bytes, including those that the chunk keeps of this micro-batch
};

/// Returns the peak of each pipeline chunk. `most` selects the bound if operators are partitioned; otherwise the
/// bounds are equal.
std::vector<ChunkPeak> chunk_peaks(const View& view, bool most);
/// Returns the bytes of buffers and workspaces of each stage.
std::vector<std::int64_t> buffer_bytes_per_stage(const View& view);

}  // namespace espalier::check
