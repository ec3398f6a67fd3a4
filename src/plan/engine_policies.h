// SPDX-License-Identifier: Apache-2.0
// Policies of an engine (plan/engine.h) that the cost model reads: the tensors that it keeps in memory, and its
// attention kernels.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/division.h"

namespace espalier {

/// Which tensors an engine keeps for the backward pass (docs/cost-model.md, "Saved activations").
enum class ActivationPolicy : std::uint8_t {
  megatron_2022_unfused,  ///< Korthikanti et al. 2022 §4: unfused attention with score dropout, 34sbh + 5as²b
  fused_attention,        ///< FlashAttention (q, k, v, out, log-sum-exp), fused norm and activation: Megatron-Core +
                          ///< TE,
                          ///< FSDP2 …
};
/// The fused attention kernels an engine runs: `vendor` are those the device model was measured with (cuDNN,
/// FlashAttention-3 or TensorRT-LLM on Hopper and later); FlashAttention-2 uses the matrix instructions of Ampere on
/// every device, FlashAttention (version 1, 2022) reaches about half of that (Dao 2023, arXiv 2307.08691, section 4.1:
/// "around 2x faster"). `sdpa`:
/// torch.nn.functional.scaled_dot_product_attention since it prefers cuDNN's on Hopper and later, FlashAttention-2
/// before: the faster of the two.
enum class AttentionKernel : std::uint8_t { vendor, flash2, flash1, sdpa };
std::string_view to_string(ActivationPolicy p);  ///< "megatron-2022-unfused", "fused-attention"

/// Bytes per element of each state under mixed precision.
struct StatePolicy {
  std::int32_t parameter = 2;  ///< the copy used by compute
  std::int32_t gradient = 4;   ///< the accumulated gradient
  std::int32_t master = 4;     ///< fp32 master weight (0 when parameters are fp32)
  std::int32_t optimizer = 8;  ///< Adam moments
  std::int32_t reduce = 4;     ///< bytes per element on the wire in gradient reduction
  std::int32_t gather = 2;     ///< bytes per element on the wire in parameter all-gather
  /// ZeRO 1 keeps the shard alone of a gradient once its chunk's last micro-batch has passed and it is reduced
  /// (cost/state_memory.h).
  bool frees_reduced = false;
  /// Bytes on top of the accumulated gradients. 2: gradients that autograd leaves of whole parameters. 4 and more:
  /// copies that an optimizer makes of the gradients that it updates with, sharded as the optimizer is (an fp32 copy,
  /// flat copies, terms of an update that is not fused).
  std::int32_t autograd = 0;
};

/// Bytes that the loss holds per logit of the rank's share of the vocabulary: `saved` from forward to backward, and on
/// top of it `forward` while the loss is computed and `backward` while its gradient is. Both end before a block runs:
/// the head is the last layer forward and the first backward. In fp32 the logits need no copy in the type of compute (2
/// bytes less in both).
struct LossPolicy {
  std::int32_t saved = 4;     ///< fp32 softmax
  std::int32_t forward = 2;   ///< logits in the type of compute
  std::int32_t backward = 2;  ///< their gradient; the fp32 gradient overwrites the softmax
  /// Micro-batches whose logit gradients wait on the last of several stages for the weight gradient of the output layer
  /// (Megatron's --defer-embedding-wgrad-compute, --wgrad-deferral-limit); INT32_MAX: all.
  std::int32_t deferred = 0;
  /// Tokens of a micro-batch whose logits exist at once (fused or chunked linear losses, which compute the gradient of
  /// a chunk with it); 0: all.
  std::int32_t chunk = 0;
  /// Equal parts of a micro-batch's tokens whose logits exist one after the other (torchtitan's ChunkedLossWrapper).
  std::int32_t chunks = 1;
  /// Tokens of a micro-batch whose logits exist at once.
  [[nodiscard]] std::int64_t tokens_at_once(std::int64_t tokens) const {
    const std::int64_t part = ceil_div(tokens, chunks);
    return chunk > 0 && chunk < part ? std::int64_t{chunk} : part;
  }
};

/// Scratch memory of the GEMM libraries, which torch counts as allocated. torch keeps one cuBLAS workspace for each
/// thread that launches GEMMs, forward and autograd: 32 MiB on Hopper and later, 8.125 MiB before
/// (aten/src/ATen/cuda/CUDABlas.cpp, getChosenWorkspaceSize), and CUBLAS_WORKSPACE_CONFIG=:4096:8, which torch's
/// deterministic mode demands, makes it 32 MiB everywhere. Transformer Engine adds its own of 32 or 4 MiB, and one for
/// each of the four streams of grouped GEMMs (transformer_engine/pytorch/module/base.py).
struct WorkspacePolicy {
  std::int32_t cublas = 2;              ///< torch workspaces
  bool deterministic = false;           ///< CUBLAS_WORKSPACE_CONFIG=:4096:8
  std::int32_t transformer_engine = 0;  ///< workspaces of its GEMMs: 1, with grouped ones 5
};

/// When an engine can keep in host memory what blocks keep for their backward pass.
enum class ActivationOffload : std::uint8_t {
  none,
  any,
  checkpoints,   ///< only inputs of blocks that are recomputed in full (DeepSpeed's cpu_checkpointing)
  one_pipeline,  ///< without pipeline and without recomputation (Megatron's cpu_offloading)
};

}  // namespace espalier
