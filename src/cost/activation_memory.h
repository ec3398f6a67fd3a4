// SPDX-License-Identifier: Apache-2.0
// Saved activations: the bytes that a layer keeps from its forward to its backward pass. They are the sum of the
// saved tensors of its operators.
//
// Tensors lie in one of two regions (Korthikanti et al. 2022, https://arxiv.org/abs/2205.05198 §4). Tensors of region
// "split" lie between a column and a row linear or inside the attention core; they are divided by tp. Tensors of
// region "sequence" (layer input, norm output, dropout mask) are divided by tp only under sequence parallelism.
// T = micro_batch · tokens / cp tokens, a = bytes per activation element.
//
// Policy megatron-2022-unfused             | Policy fused-attention
//   norm          a·in            sequence |   norm         a·in + 4 (statistics)       sequence
//   linear        a·in of its input, once for tensors that are already kept:
//     column      a·in            sequence |   column       a·in   sequence (norm output or other input)
//     row         a·in            split    |   row          a·in   split; not after attention, which keeps its output
//   attention     Q, K: a(H·d_qk + KV·d_qk) and V: a·KV·d_v, split (KV is at least tp: whole heads); softmax a·H·keys;
//                 with score dropout: mask 1·H·keys, output a·H·keys
//                                          |   Q, K, V, output a(H·d_qk + KV·d_qk + KV·d_v + H·d_v), split,
//                                          |                + 4·H (log-sum-exp), split
//   activation    a·in            split    |   activation   a·in   split; a gated one keeps a·out extra with
//                                          |                engine.memory.eager_gate
//   dropout       1·in (mask)     sequence |   as left
//   cross-entropy (both policies)          engine.memory.loss.saved·in (fp32 softmax: 4), split by vocabulary;
//                 at most loss.chunk tokens
//   causal_conv   a·in            split    |   as left
//   scan          (both policies)          u, Δ: 2a·C and 8·C·N/l (states every l tokens, fp32), split;
//                 B and C: 2a·N, whole
//   chunked_scan  (both policies)          q, k, v: a(2·G·k + H·v) + 8·H (step and decay, fp32), split;
//                 gated_delta keeps its inverse a·H·l as well
//   MoE           router input a·in (unless shared experts keep it), probabilities 4·experts;
//                 routed copies T·top_k·imbalance: dispatch a·in, expert inputs; combine a·in·T·top_k.
//
// Frozen weights (Operator::frozen) have no gradient that would need the input of their linear, router or experts.
// That input is not kept for them. An adapter needs it, and keeps a·r·pairs of its own, whole on every rank. Some
// engines keep tensors a second time: the output with engine.memory.copies_attention_output (fused), queries and keys
// with copies_rotated. Under offload of activations a share of a block's bytes waits in host memory
// (hosted_activations). It is the engine's share, less the blocks that the engine leaves on the device, spread evenly
// over all blocks. With weighs_inside_experts combine keeps nothing. Experts without a gate then keep the output of
// their activation a second time, before it is weighted, because no fused kernel does both. With
// eight_bit_activations 8-bit training keeps one byte of an activation's input.
//
// "selective" drops the tensors of the modules that run again (plan/recompute_modules.h):
//   core_attn        unfused: the scores (softmax, mask, dropout output); fused: the log-sum-exp. Fused attention also
//                    drops the output where the projection behind it keeps a copy or a cast of its own, or needs none.
//   layernorm        outputs of norms that feed products and routers
//   act              outputs of activations, and an activated gate
//   mlp              what the products and the activation of a dense MLP keep, except their input. That is the output
//                    of its norm, or nothing where the first product includes the norm (fuses_norms).
//   moe              what router, experts and shared experts keep, except their input
//   moe_act          the inputs of experts' second products
//   mla_up_proj      q, k and v that column linears make of a normalised latent (a width that is not the layer's), and
//                    the normalised latent
//   shared_experts   what shared experts keep, except their input
//   every_second_mm  half of what a gated activation reads: torchtitan's policy keeps the first of two products
//   grouped_mm       what experts keep. Copies of tokens are dropped as well, unless they were exchanged: outputs of
//                    exchanges are saved.
//
// Full recomputation keeps only the layer's input: unsplit under megatron-2022-unfused, in the sequence region
// otherwise.
#pragma once

#include <cstdint>

#include "espalier/model.h"
#include "espalier/plan.h"
#include "plan/engine_fwd.h"
#include "plan/engine_policies.h"

namespace espalier::cost {

/// Holds the local sizes of one micro-batch on one rank, for one layer kind.
struct LayerGeometry {
  std::int64_t tokens = 0;               ///< T: micro_batch · tokens per sample / cp
  std::int64_t keys = 0;                 ///< all keys of a query: tokens per sample of the attended stream
  std::int64_t cross_tokens = 0;         ///< micro_batch · encoder tokens / cp
  std::int64_t cross_keys = 0;           ///< encoder tokens per sample
  std::int32_t element_bytes = 2;        ///< a
  std::int32_t operand_size = 0;         ///< size kept of a product's input, in 1/32 bytes; 0: as `element_bytes`
  std::int32_t split = 1;                ///< divisor of split tensors: tp
  std::int32_t sequence_split = 1;       ///< divisor of sequence tensors: tp with sequence parallelism, else 1
  std::int32_t weight_split = 1;         ///< parts of a split weight: tp, 1 under Ulysses
  std::int32_t expert_split = 1;         ///< etp
  std::int64_t expert_parts = 1;         ///< parts of the weights of all experts: ep · etp
  double imbalance = 1.0;                ///< routed copies of the fullest rank over the mean
  LossPolicy loss;                       ///< bytes per logit
  bool copies_attention_output = false;  ///< engine option
  bool eager_gate = false;               ///< engine option
  bool copies_rotated = false;           ///< engine option
  double offloaded = 0;                  ///< share of the blocks' saved bytes that waits in host memory
  bool writes_weights_out = false;       ///< blocks keep frozen linears in fewer bits than compute takes
  bool weighs_inside_experts = false;    ///< engine option
  RecomputeModules again;                ///< modules that run again under selective recomputation
  bool fuses_norms = false;              ///< engine option
  double second_products = 1;            ///< share of the products that run again under every_second_mm
  bool exchanges_tokens = false;         ///< experts lie on several ranks
  std::int32_t activation_size = 0;      ///< size kept of an activation's input, in 1/32 bytes; 0: as `element_bytes`
  /// Replaces the vocabulary where an operator has split == vocab; 0 = as in the model.
  std::int64_t padded_vocabulary = 0;
};

struct SavedBytes {
  std::int64_t none = 0, selective = 0, full = 0;
  /// Returns the bytes of a layer that is recomputed as `how` says.
  [[nodiscard]] std::int64_t under(RecomputeKind how) const {
    return how == RecomputeKind::none ? none : how == RecomputeKind::selective ? selective : full;
  }
};

SavedBytes saved_activations(const LayerKind& kind, const LayerGeometry& g, ActivationPolicy policy);

/// Returns the share of the blocks' saved bytes that `engine` offloads.
double offloaded_share(const EngineModel& engine, const Model& model);
/// Returns the part of `saved` that waits in host memory, rounded down; 0 for embedding and head.
SavedBytes hosted_activations(const LayerKind& kind, const LayerGeometry& g, const SavedBytes& saved);
/// Returns the bytes of the buffer for unfused scores before the softmax, a·H·keys by query and split. The engine
/// never frees this buffer, so the largest attention determines its size.
std::int64_t score_buffer(const LayerKind& kind, const LayerGeometry& g);

/// Holds the largest working set of one operator beyond saved tensors: its output in the forward, the gradients of
/// its input and output in the backward. Unfused attention adds the scores before the softmax, and two gradients of
/// them. The loss takes the bytes per logit of engine.memory.loss. A weight of fewer bits than compute takes is also
/// written out for the duration of its product.
struct TransientBytes {
  std::int64_t forward = 0, backward = 0;
};
TransientBytes transient_activations(const LayerKind& kind, const LayerGeometry& g, ActivationPolicy policy);

}  // namespace espalier::cost
