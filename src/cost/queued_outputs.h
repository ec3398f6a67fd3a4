// SPDX-License-Identifier: Apache-2.0
// Memory that a host running ahead of its device cannot reuse.
//
// A row linear under sequence parallelism outputs a whole tensor, a·T·h, that is reduced and scattered on the stream
// of the collective. PyTorch's allocator reuses such a block only once that stream has finished with it
// (record_stream). Frees of all other tensors count from the moment at which the host calls them. The host is ahead
// by as many launches as its queue takes, 1,024. It is never further ahead than the last message whose shape it read
// from the device.
//
//     queued   = min(passes · blocks, queued_blocks) / blocks · Σ over the stage's layers of row linears' outputs
//     passes   = min(m, 2)        without a pipeline: the forward pass, and the backward pass before it, whose input
//                                 gradients of column linears are as large
//                max(0, w − 2)    with one; w: micro-batches of the stage between forward and backward at most
//                                 (plan/program.h, max_whole).
//
// The mechanism was measured on one H100 with nanotron's own layers, and with collectives on a stream of their own.
// The number of passes under a pipeline is read off peaks of the Ultra-Scale Playbook (lab/accuracy-report.md).
// Engines with queued_blocks have one chunk per stage.
#pragma once

#include <cstdint>

#include "cost/activation_memory.h"
#include "espalier/plan.h"

namespace espalier::cost {

/// Returns the bytes that row linears of the layer output before they are reduced and scattered; 0 where nothing is.
std::int64_t scattered_outputs(const LayerKind& kind, const LayerGeometry& g);

/// Returns the number of passes of a micro-batch through the stage whose launches the host may have queued at once.
std::int32_t queued_passes(const Schedule& schedule, std::int32_t stage);

/// Returns the queued bytes of a stage whose `blocks` layers with such outputs write `bytes` in one pass. `most` is
/// EngineEager::queued_blocks.
std::int64_t queued_bytes(std::int64_t bytes, std::int64_t blocks, std::int32_t passes, std::int32_t most);

}  // namespace espalier::cost
