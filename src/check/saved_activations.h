// SPDX-License-Identifier: Apache-2.0
// Counts, tensor by tensor, the bytes that one rank keeps from the forward to the backward pass of one micro-batch.
//
// T = micro_batch · tokens / cp; a = bytes of an activation element (2; 4 in fp32 and tf32). A tensor of the
// *sequence* region (layer input, norm output, dropout mask, residual stream) is divided by q. q is tp under Megatron
// or Ulysses sequence parallelism, else 1. A tensor of the *split* region (between column and row linear, inside
// attention) is divided by tp. An operator that is not split over tp reads and writes the sequence region; a column
// or vocab linear reads it. Ulysses divides every tensor by tp: outside attention by tokens, inside by heads.
//
//   norm          a·in, and 4 bytes of statistics a token under fused-attention
//   linear        a·in of its input. Several linears that read one tensor (the output of the latest norm of that
//                 width, or the layer's input) keep it once. Cross-attention's keys and values read the encoder's
//                 tokens. Under fused-attention a linear after attention keeps nothing: attention keeps its own
//                 output. patch_embed: a·in
//   attention     unfused: a(H·qk + KV·qk) + a·KV·v, and per query and key H·(a + [score dropout: 1 + a]), which
//                 selective drops.
//                 Fused: a(H·qk + KV·qk + KV·v + H·v) + 4·H bytes log-sum-exp.
//                 With KV < tp key/value heads every rank keeps one of them: KV = tp above
//   activation    a·in
//   dropout       1 byte · in
//   router        4·experts (probabilities); its input is the norm's output
//   experts       R = ⌈T/q·top_k·imbalance⌉ routed copies, kept as they arrive. Where tokens are split over tp, an
//                 etp group gathers its R·etp copies again in the backward pass.
//                 First expert_linear: a·in·R (the dispatched tokens, counted once).
//                 expert_activation and row linear: a·in·R where gathered (R·etp copies of in/etp), else a·in/etp·R.
//   combine       a·in·top_k per token of the sequence region
//   cross_entropy engine.memory.loss.saved·in (fp32 softmax: 4), the vocabulary padded as the engine pads it
//   others        0: lookups keep only indices; residual, rotary and pool keep nothing
//
// Selective recomputation drops what the modules of run_again.h keep, but not their inputs.
// Full recomputation keeps a·hidden·T of the layer's input only; divided by q under fused-attention, whole under
// megatron-2022-unfused. Embedding and head are never recomputed.
// (Korthikanti et al. 2022, https://arxiv.org/abs/2205.05198 §4; Dao 2023, https://arxiv.org/abs/2307.08691, the fused
// kernel.)
#pragma once

#include <cstdint>
#include <vector>

#include "check/view.h"

namespace espalier::check {

/// Returns the bytes of one layer kind under the view's strategy.
std::int64_t saved_bytes_of_layer(const View& view, const LayerKind& kind, RecomputeKind recompute);
/// Returns the part of those bytes that waits in host memory under offload of activations. It is the engine's share
/// of a block's bytes, spread evenly over the model's blocks. Blocks that the engine leaves on the device reduce it.
std::int64_t hosted_bytes_of_layer(const View& view, const LayerKind& kind, RecomputeKind recompute);
/// Returns the bytes of each pipeline chunk with the plan's recomputation: on the device, and in host memory.
std::vector<std::int64_t> saved_bytes_per_chunk(const View& view);
std::vector<std::int64_t> hosted_bytes_per_chunk(const View& view);

}  // namespace espalier::check
