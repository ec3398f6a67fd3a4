// SPDX-License-Identifier: Apache-2.0
// Bytes that one rank keeps from the forward to the backward pass of one micro-batch, counted again tensor by tensor.
//
// T = micro_batch · tokens / cp; a = bytes of an activation element (2; 4 in fp32 and tf32). A tensor of the *sequence*
// region (layer input, norm output, dropout mask, residual stream) is divided by q = tp under Megatron or Ulysses
// sequence parallelism, else 1; one of the *split* region (between column and row linear, inside attention) by tp. An
// operator that is not split over tp reads and writes the sequence region; a column or vocab linear reads it. Ulysses
// divides every tensor by
// tp: outside attention by tokens, inside by heads.
//
//   norm          a·in, and 4 bytes of statistics a token under fused-attention
//   linear        a·in of its input, once when several linears read one tensor (the output of the latest norm of that
//                 width,
//                 or the layer's input); cross-attention's keys and values read the encoder's tokens. Under
//                 fused-attention
//                 not where attention comes before: it keeps its output itself. patch_embed: a·in
//   attention     unfused: a(H·qk + KV·qk) + a·KV·v, and per query and key H·(a + [score dropout: 1 + a]), the latter
//                 dropped
//                 by selective; fused: a(H·qk + KV·qk + KV·v + H·v) + 4·H bytes log-sum-exp
//                 with KV < tp key/value heads every rank keeps one of them: KV = tp above
//   activation    a·in
//   dropout       1 byte · in
//   router        4·experts (probabilities); its input is the norm's output
//   experts       R = ⌈T/q·top_k·imbalance⌉ routed copies, kept as they arrive; where tokens are split over tp, an etp
//                 group
//                 gathers its R·etp copies again in the backward pass. First expert_linear a·in·R (what dispatch
//                 brought:
//                 counted once); expert_activation and row linear a·in·R where gathered (R·etp copies of in/etp), else
//                 a·in/etp·R
//   combine       a·in·top_k per token of the sequence region
//   cross_entropy engine.memory.loss.saved·in (fp32 softmax: 4), the vocabulary padded as the engine pads it
//   others        0: lookups keep indices only; residual, rotary and pool can do without
// selective drops what the modules of run_again.h make again: what they keep, but not what enters them.
// full: a·hidden·T of the layer's input only; divided by q under fused-attention, whole under
// megatron-2022-unfused. Embedding and head are never recomputed.
// (Korthikanti et al. 2022, https://arxiv.org/abs/2205.05198 §4; Dao 2023, https://arxiv.org/abs/2307.08691, the fused
// kernel.)
#pragma once

#include <cstdint>
#include <vector>

#include "check/view.h"

namespace espalier::check {

/// One layer kind under the view's strategy.
std::int64_t saved_bytes_of_layer(const View& view, const LayerKind& kind, RecomputeKind recompute);
/// Of that, what waits in host memory under offload of activations: the engine's share of a block's bytes, evenly over
/// all blocks of the model but those that it leaves on the device.
std::int64_t hosted_bytes_of_layer(const View& view, const LayerKind& kind, RecomputeKind recompute);
/// Each pipeline chunk, with the plan's recomputation: on the device, and in host memory.
std::vector<std::int64_t> saved_bytes_per_chunk(const View& view);
std::vector<std::int64_t> hosted_bytes_per_chunk(const View& view);

}  // namespace espalier::check
