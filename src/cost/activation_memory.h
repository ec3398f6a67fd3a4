// SPDX-License-Identifier: Apache-2.0
// Bytes a layer keeps from its forward to its backward pass, as the sum of the saved tensors of its operators.
//
// Two regions (Korthikanti et al. 2022, https://arxiv.org/abs/2205.05198 §4): "split" tensors lie between a column and
// a row linear or inside the attention core and are divided by tp; "sequence" tensors (layer input, norm output,
// dropout mask) are divided by tp only under sequence parallelism. T = micro_batch · tokens / cp tokens, a = bytes per
// activation element.
//
// Policy megatron-2022-unfused             | Policy fused-attention
//   norm          a·in            sequence |   norm         a·in + 4 (statistics)       sequence
//   linear        a·in of its input, once for tensors already kept:
//     column      a·in            sequence |   column       a·in   sequence (norm output or other input)
//     row         a·in            split    |   row          a·in   split; not after attention, which keeps its own output
//   attention Q,K a(H·d_qk + KV·d_qk), V a·KV·d_v, split (KV at least tp: whole heads); softmax a·H·keys; with score
//   dropout: mask 1·H·keys, output a·H·keys
//                                          |   Q, K, V, output a(H·d_qk + KV·d_qk + KV·d_v + H·d_v) + 4·H (log-sum-exp), split
//   activation    a·in            split    |   activation   a·in   split; with engine.memory.eager_gate a·out more of a gated one
//   dropout       1·in (mask)     sequence |   the same
//   cross-entropy                          |   engine.memory.loss.saved·in (fp32 softmax: 4), split by vocabulary (both policies); of loss.chunk tokens at most
//   causal_conv   a·in            split    |   the same
//   scan          u, Δ 2a·C and 8·C·N/l (states every l tokens, fp32) split, B and C 2a·N whole (both policies)
//   chunked_scan  q, k, v a(2·G·k + H·v) + 8·H (step and decay, fp32) split; gated_delta also its inverse a·H·l (both
//   policies)
//   MoE           router input a·in (unless shared experts keep it), probabilities 4·experts; routed copies
//                 T·top_k·imbalance: dispatch a·in, expert inputs; combine a·in·T·top_k
// Frozen weights (Operator::frozen) have no gradient that would need the input of their linear, router or experts: it
// is not kept for them. An adapter needs it, and a·r·pairs of its own, whole on every rank.
// With engine.memory.copies_attention_output (fused) the output once more, with copies_rotated queries and keys.
// Under offload of activations a share of a block's bytes waits in host memory
// (hosted_activations): that of the engine, less the blocks that it leaves on the device, as if all blocks put down as
// much. With weighs_inside_experts combine keeps nothing, but experts without a gate keep what comes out of their
// activation once more, before it is weighted (no fused kernel does both); with eight_bit_activations 8-bit training
// keeps one byte of an activation's input. selective drops, of the modules that run again (plan/recompute_modules.h):
//   core_attn        unfused the scores (softmax, mask, dropout output); fused the log-sum-exp, and the output where
//                    the projection behind it keeps a copy
//                    or a cast of its own, or needs none
//   layernorm        outputs of norms that feed products and routers
//   act              outputs of activations, and an activated gate
//   mlp              all that the products and the activation of a dense MLP keep but what enters them: the output of
//                    its norm, or nothing where the norm
//                    runs inside the first product (fuses_norms)
//   moe              all that router, experts and shared experts keep but what enters them
//   moe_act          the inputs of experts' second products
//   mla_up_proj      q, k and v that column linears make of a normalised latent (a width that is not the layer's), and
//                    the normalised latent
//   shared_experts   all that shared experts keep but what enters them
//   every_second_mm  half of what a gated activation reads: torchtitan's policy keeps the first of two products
//   grouped_mm       what experts keep; copies of tokens too, unless they were exchanged: outputs of exchanges are
//                    saved
// full: the layer's input only — unsplit under
// megatron-2022-unfused, in the sequence region otherwise.
#pragma once

#include <cstdint>

#include "espalier/model.h"
#include "espalier/plan.h"
#include "plan/engine_fwd.h"
#include "plan/engine_policies.h"

namespace espalier::cost {

/// Local sizes of one micro-batch on one rank, for one layer kind.
struct LayerGeometry {
  std::int64_t tokens = 0;               ///< T: micro_batch · tokens per sample / cp
  std::int64_t keys = 0;                 ///< keys per query in all: tokens per sample of the attended stream
  std::int64_t cross_tokens = 0;         ///< micro_batch · encoder tokens / cp
  std::int64_t cross_keys = 0;           ///< encoder tokens per sample
  std::int32_t element_bytes = 2;        ///< a
  std::int32_t operand_bytes = 0;        ///< of what matrix products keep of their inputs: 1 under fp8, 0: as
                                         ///< `element_bytes`
  std::int32_t split = 1;                ///< divisor of split tensors: tp
  std::int32_t sequence_split = 1;       ///< divisor of sequence tensors: tp with sequence parallelism, else 1
  std::int32_t weight_split = 1;         ///< parts of a split weight: tp, 1 under Ulysses
  std::int32_t expert_split = 1;         ///< etp
  std::int64_t expert_parts = 1;         ///< of the weights of all experts: ep · etp
  double imbalance = 1.0;                ///< routed copies of the fullest rank over the mean
  LossPolicy loss;                       ///< bytes per logit
  bool copies_attention_output = false;  ///< of the engine
  bool eager_gate = false;               ///< of the engine
  bool copies_rotated = false;           ///< of the engine
  double offloaded = 0;                  ///< share of what blocks keep that waits in host memory
  bool writes_weights_out = false;       ///< frozen linears of blocks are kept in fewer bits than compute takes
  bool weighs_inside_experts = false;    ///< of the engine
  RecomputeModules again;                ///< what runs again under selective recomputation
  bool fuses_norms = false;              ///< of the engine
  bool exchanges_tokens = false;         ///< experts lie on several ranks
  std::int32_t activation_bytes = 0;     ///< of what activations keep of their inputs; 0: as `element_bytes`
  std::int64_t padded_vocabulary = 0;    ///< replaces the vocabulary where an operator has split == vocab; 0 = as in
                                         ///< the model
};

struct SavedBytes {
  std::int64_t none = 0, selective = 0, full = 0;
  /// Of a layer that is recomputed so.
  [[nodiscard]] std::int64_t under(RecomputeKind how) const {
    return how == RecomputeKind::none ? none : how == RecomputeKind::selective ? selective : full;
  }
};

SavedBytes saved_activations(const LayerKind& kind, const LayerGeometry& g, ActivationPolicy policy);

/// The share of what blocks keep that `engine` offloads.
double offloaded_share(const EngineModel& engine, const Model& model);
/// Of `saved` what waits in host memory, rounded down; nothing of embedding and head.
SavedBytes hosted_activations(const LayerKind& kind, const LayerGeometry& g, const SavedBytes& saved);
/// Of the buffer for unfused scores before the softmax, a·H·keys by query and split, that its engine never frees: of
/// the largest attention.
std::int64_t score_buffer(const LayerKind& kind, const LayerGeometry& g);

/// Largest working set of one operator beyond saved tensors: its output in the forward, the gradients of its input and
/// output in the backward; of unfused attention also the scores before the softmax, and two gradients of them; of the
/// loss what engine.memory.loss says per logit. A weight of fewer bits than compute takes is written out beside its
/// product.
struct TransientBytes {
  std::int64_t forward = 0, backward = 0;
};
TransientBytes transient_activations(const LayerKind& kind, const LayerGeometry& g, ActivationPolicy policy);

}  // namespace espalier::cost
