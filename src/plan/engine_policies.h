// SPDX-License-Identifier: Apache-2.0
// Defines the policies of an engine (plan/engine.h) that the cost model reads: the tensors that it keeps in memory,
// and its attention kernels.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/division.h"

namespace espalier {

/// Names the tensors that an engine keeps for the backward pass (docs/cost-model.md, "Saved activations").
enum class ActivationPolicy : std::uint8_t {
  megatron_2022_unfused,  ///< Korthikanti et al. 2022 §4: unfused attention with score dropout, 34sbh + 5as²b
  /// Keeps what FlashAttention (q, k, v, out, log-sum-exp), fused norm and activation need: Megatron-Core + TE, FSDP2 …
  fused_attention,
};
/// Names the fused attention kernels that an engine runs. `vendor` kernels are those of the measured device model
/// (cuDNN, FlashAttention-3 or TensorRT-LLM on Hopper and later). FlashAttention-2 uses the matrix instructions of
/// Ampere on every device. FlashAttention (version 1, 2022) reaches about half of that (Dao 2023, arXiv 2307.08691,
/// section 4.1: "around 2x faster"). `sdpa` is torch.nn.functional.scaled_dot_product_attention. It prefers cuDNN on
/// Hopper and later and FlashAttention-2 before: the faster of the two.
enum class AttentionKernel : std::uint8_t { vendor, flash2, flash1, sdpa };
std::string_view to_string(ActivationPolicy p);  ///< "megatron-2022-unfused", "fused-attention"

/// Holds the bytes per element of each state under mixed precision.
struct StatePolicy {
  std::int32_t parameter = 2;  ///< the copy used by compute
  std::int32_t gradient = 4;   ///< the accumulated gradient
  std::int32_t master = 4;     ///< fp32 master weight (0 when parameters are fp32)
  std::int32_t optimizer = 8;  ///< Adam moments
  std::int32_t reduce = 4;     ///< bytes per element on the wire in gradient reduction
  std::int32_t gather = 2;     ///< bytes per element on the wire in parameter all-gather
  /// With ZeRO 1, only the shard of a gradient stays after its chunk's last micro-batch has passed and it is
  /// reduced (cost/state_memory.h).
  bool frees_reduced = false;
  /// Counts the bytes on top of the accumulated gradients. 2: whole-parameter gradients that autograd leaves. 4 and
  /// more: copies that an optimizer makes of the gradients for its update, sharded as the optimizer is. Examples are
  /// an fp32 copy, flat copies, and terms of an update that is not fused.
  std::int32_t autograd = 0;
  /// Counts the bytes of the gradients that an update on the host reads there, sharded as the optimizer is.
  std::int32_t host_gradient = 0;
};

/// Holds one number for each ZeRO stage.
using ByStage = std::array<std::int32_t, 4>;

/// Describes what a ZeRO implementation holds in addition to the states, by stage (cost/zero_buffers.h). An engine that
/// states none of it holds two gathered layers and one whole gradient.
struct ZeroPolicy {
  std::int64_t bucket = 0;           ///< elements of a buffer that collects gradients for their reduction; 0: no such buffer
  ByStage buckets = {};              ///< such buffers
  ByStage overlapped_buckets = {};   ///< further buffers where the reduction overlaps the backward pass
  ByStage bucket_copies = {};        ///< copies of the gradients that one buffer collects
  ByStage whole = {};                ///< bytes of every trained element, not sharded, while gradients are reduced
  ByStage update = {};               ///< bytes of copies of the gradient of each element that the rank updates
  ByStage norm = {};                 ///< bytes of an element of the largest tensor while its norm is computed
  std::int64_t update_elements = 0;  ///< elements that stage 3 updates at a time; 0: all
  /// Stage 3 gathers ahead up to this number of elements, and frees none of them before their next use; < 0: it
  /// gathers the layer in use and the next.
  std::int64_t live = -1;
  std::int64_t reuse = 0;  ///< elements between two uses of a parameter within which stage 3 keeps it
  [[nodiscard]] bool keeps_gathered() const { return live >= 0; }
  /// Returns the elements that stay gathered from the forward to the backward pass. The last ones of the model do.
  /// Between the two uses of an element, all elements after it are used twice.
  [[nodiscard]] std::int64_t kept() const { return live > reuse / 2 ? live : reuse / 2; }
};

/// Counts the bytes that the loss holds per logit of the rank's share of the vocabulary. `saved` stays from forward
/// to backward. On top of it come `forward` while the loss is computed and `backward` while its gradient is. Both end
/// before a block runs: the head is the last layer forward and the first backward. In fp32 the logits need no copy in
/// the compute type (2 bytes less in both).
struct LossPolicy {
  std::int32_t saved = 4;     ///< fp32 softmax
  std::int32_t forward = 2;   ///< logits in the compute type
  std::int32_t backward = 2;  ///< their gradient; the fp32 gradient overwrites the softmax
  /// Counts the micro-batches whose logit gradients wait on the last of several stages for the weight gradient of the
  /// output layer (Megatron's --defer-embedding-wgrad-compute, --wgrad-deferral-limit); INT32_MAX: all.
  std::int32_t deferred = 0;
  /// Counts the tokens of a micro-batch whose logits exist at once; 0: all. Fused or chunked linear losses compute
  /// the gradient of a chunk together with it.
  std::int32_t chunk = 0;
  /// Counts the equal parts of a micro-batch's tokens whose logits exist one after the other
  /// (torchtitan's ChunkedLossWrapper).
  std::int32_t chunks = 1;
  /// Returns the number of tokens of a micro-batch whose logits exist at once.
  [[nodiscard]] std::int64_t tokens_at_once(std::int64_t tokens) const {
    const std::int64_t part = ceil_div(tokens, chunks);
    return chunk > 0 && chunk < part ? std::int64_t{chunk} : part;
  }
};

/// Describes the scratch memory of the GEMM libraries, which torch counts as allocated. torch keeps one cuBLAS
/// workspace for each thread that launches GEMMs, forward and autograd. It is larger on Hopper and later, and in
/// torch's deterministic mode, which demands CUBLAS_WORKSPACE_CONFIG=:4096:8. Transformer Engine adds a workspace, and
/// one for each of the four streams of grouped GEMMs (transformer_engine/pytorch/module/base.py). data/facts.yaml has
/// their sizes.
struct WorkspacePolicy {
  std::int32_t cublas = 2;              ///< torch workspaces
  bool deterministic = false;           ///< CUBLAS_WORKSPACE_CONFIG=:4096:8
  std::int32_t transformer_engine = 0;  ///< workspaces of its GEMMs: 1; with grouped ones 5
};

/// Names the cases in which an engine can keep the activations of blocks for their backward pass in host memory.
enum class ActivationOffload : std::uint8_t {
  none,
  any,
  checkpoints,   ///< only inputs of fully recomputed blocks (DeepSpeed's cpu_checkpointing)
  one_pipeline,  ///< without pipeline and without recomputation (Megatron's cpu_offloading)
};

}  // namespace espalier
