// SPDX-License-Identifier: Apache-2.0
// The catalogue of engines. Every figure has its source in `note`; what a source does not say is not restricted.
//
// Bytes per parameter of mixed-precision Adam:
//   Megatron     2 + 4 + 4 + 8 = 18, with the distributed optimizer 6 + 12/dp   (megatron/training/theoretical_memory_usage.py)
//   DeepSpeed    2 + 2 + 4 + 8 = 16                                             (Rajbhandari et al. 2020, §3.1)
//   FSDP2        4 + 4 + 0 + 8 = 16: fp32 parameters are the sharded master, the bf16 copy exists only while gathered
#include "plan/engine.h"

#include <array>
#include <utility>

#include "plan/coefficients.h"

namespace espalier {
namespace {

using K = ScheduleKind;

EngineModel generic() {
  EngineModel e;
  e.name = "generic";
  e.schedules = {K::gpipe, K::one_f_one_b, K::interleaved, K::zb_h1, K::zb_v};
  e.zero = {0, 1, 2, 3};
  e.note = "everything the space has; states of Megatron mixed precision, fused attention, stages balanced by FLOPs";
  return e;
}

EngineModel megatron_core() {
  EngineModel e;
  e.name = "megatron-core";
  e.host_launches = kTransformerEngineHostLaunches;
  e.family = EngineFamily::megatron;
  e.split = SplitPolicy::even_blocks;
  e.vocabulary_multiple = 128;
  e.schedules = {K::one_f_one_b, K::interleaved};
  e.zero = {0, 1};
  e.workspace.transformer_engine = 1;
  e.ulysses = false;
  e.orders = {RankOrder::tp_cp_dp_pp, RankOrder::tp_cp_pp_dp};
  e.note =
      "Megatron-LM core 0.20 with Transformer Engine: bf16 parameters, fp32 gradients and Adam (theoretical_memory_usage.py, 18 "
      "bytes); "
      "zero 1 is --use-distributed-optimizer, shard groups --num-distributed-optimizer-instances; uneven stages by "
      "--pipeline-model-parallel-layout; vocabulary padded to 128 · tp (--make-vocab-size-divisible-by); Ulysses is spelled "
      "--cp-comm-type a2a; Megatron-FSDP (zero 2, 3) is not modelled";
  return e;
}

EngineModel megatron_core_unfused() {
  EngineModel e = megatron_core();
  e.name = "megatron-core-unfused";
  e.activations = ActivationPolicy::megatron_2022_unfused;
  e.context_parallel = false;
  e.note =
      "Megatron-LM core with --attention-backend unfused or local (its deterministic tests): scores are kept and softmax and "
      "dropout are kernels of their own (core/transformer/dot_product_attention.py); no context parallelism; the rest as "
      "megatron-core";
  return e;
}

EngineModel megatron_lm_2021() {
  EngineModel e;
  e.name = "megatron-lm-2021";
  e.host_launches = kEagerHostLaunches;
  e.family = EngineFamily::megatron;
  e.activations = ActivationPolicy::megatron_2022_unfused;
  e.loss_forward_bytes = 28,
  e.loss_backward_bytes = 6;  // operator times published with Aceso and Mist: 27 to 36 at full bandwidth, and 3 to 7
  e.states.reduce = 2;
  e.split = SplitPolicy::even_blocks;
  e.vocabulary_multiple = 128;
  e.schedules = {K::gpipe, K::one_f_one_b, K::interleaved};
  e.zero = {0};
  e.hybrid_shard = false;
  e.ulysses = false;
  e.context_parallel = false;
  e.expert_parallel = false;
  e.uneven_stages = false;
  e.fused_bucket_overlap = false;
  e.overlap_param_gather = false;
  e.overlap_p2p = false;
  e.overlap_tp = false;
  e.orders = {RankOrder::tp_cp_dp_pp};
  e.scattered_messages = true;
  e.note =
      "Megatron-LM of Narayanan et al. 2021 and Korthikanti et al. 2022: unfused attention with score dropout, fp16 parameters, "
      "18 bytes of state a parameter (fp32 gradient at the update), gradients reduced in fp16 after the last backward pass, "
      "interleaving only with more than 2 stages, no expert or context parallelism; messages between stages scattered over the "
      "tensor "
      "ranks and gathered (Narayanan et al. 2021, section 4.1)";
  return e;
}

EngineModel oneflow() {
  EngineModel e = megatron_lm_2021();
  e.name = "oneflow";
  e.host_launches = 2;
  e.fused_bucket_overlap = true;
  e.scattered_messages = false;
  e.note =
      "OneFlow and libai, GPT after Megatron-LM: a static graph run by actors in C++, so that host time per kernel is small; "
      "kernels "
      "and communication start as soon as their operands are ready, on streams of their own (Yuan et al. 2021, arXiv "
      "2110.15032); "
      "states and memory as megatron-lm-2021";
  return e;
}

EngineModel ddp() {
  EngineModel e = megatron_lm_2021();
  e.name = "ddp";
  e.family = EngineFamily::fsdp;
  e.split = SplitPolicy::balanced;
  e.vocabulary_multiple = 1;
  e.pipeline = false;
  e.tensor_parallel = false;
  e.schedules = {K::one_f_one_b};
  e.fused_bucket_overlap = true;
  e.note =
      "PyTorch DistributedDataParallel around an eager model of the BERT and GPT-2 kind: unfused attention with score dropout, "
      "fp16 "
      "by Apex with fp32 master weights, gradients reduced in buckets during the last backward pass (Li et al. 2020, arXiv "
      "2006.15704)";
  return e;
}

EngineModel megatron_deepspeed() {
  EngineModel e;
  e.name = "megatron-deepspeed";
  e.host_launches = kEagerHostLaunches;
  e.family = EngineFamily::megatron_deepspeed;
  e.activations = ActivationPolicy::megatron_2022_unfused;
  e.loss_forward_bytes = 28,
  e.loss_backward_bytes = 6;  // operator times published with Aceso and Mist: 27 to 36 at full bandwidth, and 3 to 7
  e.states = {2, 2, 4, 8, 2, 2};
  e.split = SplitPolicy::even_blocks;
  e.vocabulary_multiple = 128;
  e.schedules = {K::one_f_one_b};
  e.zero = {0, 1, 2, 3};
  e.zero_with_pipeline = false;
  e.context_parallel = false;
  e.overlap_p2p = false;
  e.overlap_tp = false;
  e.orders = {RankOrder::tp_cp_dp_pp};
  e.scattered_messages =
      true;  // deepspeed/runtime/pipe/engine.py, is_pipe_partitioned: messages are PartitionedTensors over the slice group
  e.note =
      "Megatron-DeepSpeed: PipelineModule runs 1F1B only, with partition_method type:transformer (equal numbers of blocks); ZeRO "
      "2 "
      "and 3 not with a pipeline (deepspeed/runtime/pipe/engine.py); gradients in the model's type (engine.get_data_types); axes "
      "pipe, data, model; Ulysses by --ds-sequence-parallel-size, not together with Megatron's sequence parallelism";
  return e;
}

EngineModel deepspeed() {
  EngineModel e;
  e.name = "deepspeed";
  e.host_launches = kEagerHostLaunches;
  e.family = EngineFamily::deepspeed;
  e.states = {2, 2, 4, 8, 2, 2};
  e.schedules = {K::one_f_one_b};
  e.zero = {0, 1, 2, 3};
  e.zero_with_pipeline = false;
  e.context_parallel = false;
  e.overlap_p2p = false;
  e.overlap_tp = false;
  e.orders = {RankOrder::tp_cp_dp_pp};
  e.note =
      "DeepSpeed 0.19 around a Hugging Face model: 16 bytes a parameter (Rajbhandari et al. 2020); pipeline engine needs ZeRO "
      "below 2; "
      "AutoTP training with ZeRO 0, 1 or 2 (deepspeed.ai/tutorials/autotp-training); shard groups are MiCS or hpZ, ZeRO 3 only";
  return e;
}

EngineModel fsdp2() {
  EngineModel e;
  e.name = "fsdp2";
  e.elementwise_traffic = kEagerTraffic;
  // all_gather_copy_out and chunk_cat (torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py): the gathered bf16 parameters are split
  // into their tensors, read and written; gradients are read and written in fp32 in the order of the shards.
  e.gather_copy_bytes = 4, e.reduce_copy_bytes = 6;
  e.host_launches = kEagerHostLaunches;
  e.family = EngineFamily::fsdp;
  e.states = {4, 4, 0, 8, 4, 2};
  e.schedules = {K::one_f_one_b};
  e.zero = {0, 2, 3};
  e.ulysses = false;
  e.pipeline = false;
  e.expert_parallel = false;
  e.overlap_p2p = false;
  e.orders = {RankOrder::tp_cp_dp_pp};
  e.cp_kinds = {ContextParallelKind::ring};
  e.note =
      "PyTorch fully_shard with MixedPrecisionPolicy(bf16, reduce fp32): fp32 sharded parameters, gathered in bf16; zero 3 is "
      "reshard_after_forward true, zero 2 false (counted with whole fp32 parameters, an overestimate), zero 0 is DDP, shard "
      "groups are HSDP; tensor parallelism by DTensor, context "
      "parallelism by torch.distributed ring attention; no pipeline (torchtitan adds one)";
  return e;
}

EngineModel fsdp1() {
  EngineModel e = fsdp2();
  e.name = "fsdp1";
  e.attention_kernel = AttentionKernel::flash2;
  e.states.reduce = 2;
  // flat parameters are gathered in place; gradients are divided before and after the reduction (torch/distributed/fsdp/_runtime_utils.py)
  e.gather_copy_bytes = 0, e.reduce_copy_bytes = 4;
  e.tensor_parallel = false;
  e.context_parallel = false;
  e.note =
      "PyTorch FullyShardedDataParallel (FSDP1) around eager modules with FlashAttention-2: a flat fp32 parameter per block, "
      "gathered in "
      "bf16 before its forward and again before its backward pass, gradients reduce-scattered per block and micro-batch "
      "(torch/distributed/fsdp/_runtime_utils.py), in bf16 (MixedPrecision: reduce_dtype is param_dtype unless given; fms-fsdp "
      "and "
      "llama-recipes give bf16); no tensor or context parallelism";
  return e;
}

EngineModel llm_foundry() {
  EngineModel e = fsdp1();
  e.name = "llm-foundry";
  e.attention_kernel = AttentionKernel::flash1;
  e.states.reduce = 4;
  e.reduce_copy_bytes = 14;  // cast to fp32 6, division 8
  e.note =
      "llm-foundry with Composer's FSDP1: eager MPT blocks with low-precision LayerNorm and fused cross-entropy, FlashAttention "
      "of "
      "2023 (attn_impl flash before flash-attn 2), backward_prefetch BACKWARD_POST, reduction of every micro-batch";
  return e;
}

EngineModel fsdp1_compiled() {
  EngineModel e = fsdp1();
  e.name = "fsdp1-compile";
  e.elementwise_traffic = kCompiledTraffic;
  e.host_launches = kCompiledHostLaunches;
  e.note =
      "FSDP1 with use_orig_params and torch.compile: as fsdp1, but what lies between matrix products is fused (fms-fsdp, "
      "nanoGPT)";
  return e;
}

EngineModel torchtitan() {
  EngineModel e = fsdp2();
  e.name = "torchtitan";
  e.family = EngineFamily::torchtitan;
  e.pipeline = true;
  e.expert_parallel = true;
  e.schedules = {K::gpipe, K::one_f_one_b, K::interleaved, K::zb_v};
  e.overlap_p2p = true;
  e.note =
      "torchtitan: FSDP2 with torch.distributed.pipelining (1F1B, GPipe, Interleaved1F1B, ZBVZeroBubble; stages by "
      "module_fqns_per_model_part) and expert parallelism over dp_shard · cp · tp; mesh pp, dp_replicate, dp_shard, cp, tp";
  return e;
}

EngineModel nemo_automodel() {
  EngineModel e = torchtitan();
  e.name = "nemo-automodel";
  e.elementwise_traffic = 1.0;
  e.host_launches = kTransformerEngineHostLaunches;
  e.deduplicates_dispatch = true;
  e.note =
      "NeMo AutoModel: FSDP2 around modules with Transformer Engine attention, linears, norms and rotation; experts dispatched "
      "by DeepEP "
      "or HybridEP, which send a token once to each node (github.com/deepseek-ai/DeepEP); rules of torchtitan";
  return e;
}

EngineModel torchtitan_compiled() {
  EngineModel e = torchtitan();
  e.name = "torchtitan-compile";
  e.elementwise_traffic = kCompiledTraffic;
  e.host_launches = kCompiledHostLaunches;
  e.note =
      "torchtitan with --compile.enable: as torchtitan, but each block runs through torch.compile, which fuses what lies between "
      "matrix products";
  return e;
}

/// Megatron-Core as NeMo and Megatron-Bridge run it: other defaults and another cost of a step than the bare Megatron-LM script.
EngineModel nemo() {
  EngineModel e = megatron_core();
  e.name = "nemo";
  e.loss_forward_bytes = 38, e.loss_backward_bytes = 14;  // vocab_parallel_cross_entropy in fp32 out of place (cross_entropy.py)
  e.note =
      "NeMo Framework and Megatron-Bridge: Megatron-Core with Transformer Engine, distributed_fused_adam or the distributed "
      "optimizer with overlapped reduction and gathers, tensor-parallel overlap by userbuffers in the performance recipes; rules "
      "of "
      "megatron-core";
  return e;
}

EngineModel internevo() {
  EngineModel e;
  e.name = "internevo";
  e.host_launches = kEagerHostLaunches;
  e.attention_kernel = AttentionKernel::flash2;
  e.states = {2, 2, 4, 8, 2, 2};
  e.split = SplitPolicy::even_blocks;
  e.schedules = {K::one_f_one_b, K::interleaved};
  e.zero = {0, 1, 3};
  e.ulysses = false;
  e.context_parallel = false;
  e.expert_parallel = false;
  e.overlap_p2p = false;
  e.overlap_tp = false;
  e.orders = {RankOrder::tp_cp_dp_pp};
  e.note =
      "InternEvo: HybridZeroOptimizer with bf16 parameters and gradients and fp32 master weights and moments "
      "(internlm/solver/optimizer/hybrid_zero_optim.py), gradients reduced in buckets during the last backward pass, updated "
      "parameters broadcast under the next forward pass, FlashAttention-2; weight parallelism (ISP) is zero 3";
  return e;
}

EngineModel jax() {
  EngineModel e;
  e.name = "jax";
  e.elementwise_traffic = kCompiledTraffic;
  // logits to fp32 6, maximum 4, exponential and sum 4, product with one-hot targets 8; backward softmax less targets 10, to bf16 6
  e.loss_forward_bytes = 22, e.loss_backward_bytes = 16;
  e.states = {4, 4, 0, 8, 2, 2};
  e.schedules = {K::gpipe, K::one_f_one_b, K::interleaved};
  e.zero = {0, 1, 3};
  e.overlap_tp = true;
  e.note =
      "JAX under XLA (Pax, MaxText, Levanter): one program a step, element-wise operators fused, fp32 parameters cast to bf16 "
      "and "
      "gathered by GSPMD over the fsdp axis of the mesh, gradients reduced in bf16, latency-hiding scheduler, cuDNN attention by "
      "Transformer Engine";
  return e;
}

EngineModel jax_unfused() {
  EngineModel e = jax();
  e.name = "jax-xla-attention";
  e.activations = ActivationPolicy::megatron_2022_unfused;
  e.note =
      "JAX under XLA without Transformer Engine: attention as matrix products over the whole score matrix (praxis "
      "DotProductAttention)";
  return e;
}

EngineModel nanotron() {
  EngineModel e;
  e.name = "nanotron";
  e.attention_kernel = AttentionKernel::flash2;  // flash_attn_varlen_func of flash-attn 2 (models/llama.py)
  e.host_launches = kEagerHostLaunches;
  e.family = EngineFamily::nanotron;
  // nanotron/parallel/tensor_parallel/functional.py, sharded_cross_entropy: bf16 logits, their fp32 copy, the same less the maximum
  // and its exponential, which is kept; LlamaForTraining casts the logits in a block of its own.
  e.split = SplitPolicy::cumulative;
  e.loss = {4, 10, 2};
  e.copies_attention_output = true;
  // Measured as reserved: eager kernels between gathered inputs leave holes (Ultra-Scale Playbook runs, 1,116 peaks).
  e.allocator_reserve = 0.14;
  e.eager_gate = true;  // nanotron/nn/activations.py: silu, then a product
  e.schedules = {K::gpipe, K::one_f_one_b};
  e.zero = {0, 1};
  e.hybrid_shard = false;
  e.ulysses = false;
  e.selective_recompute = false;
  e.partial_recompute = false;
  e.overlap_param_gather = false;
  e.overlap_p2p = false;
  e.orders = {RankOrder::tp_cp_dp_pp};
  e.cp_kinds = {ContextParallelKind::ring};
  // About 35 launches a block forward (models/llama.py: three GEMMs a column projection beside its gather, cumulative lengths, copies of
  // q, k and v, silu and product apart) and 70 backward, against about 20 and 40 of the operator table.
  e.eager_launches = 1.75;
  // bytes a token and layer: 104 h + 36 f (copies of q, k, v and the attention output; silu, product and their gradients one by one;
  // residual gradients added) against 60 h + 16 f
  e.elementwise_traffic = 2.0;
  e.fused_gradient_accumulation = false;
  // bytes: cast 6, maximum 4, difference 8, exponential 8, sum 4, quotient 8; backward product 8, cast 6
  e.loss_forward_bytes = 38, e.loss_backward_bytes = 14;
  // two sends before the data; 7 + 2·3 numbers read from the device one by one by the receiver, and as many copies by the sender
  e.message_host_calls = 30;
  e.reduce_bucket_bytes = 52428800;  // ddp_bucket_cap_mb 25 of bf16, reduced in fp32 (examples/config_tiny_llama_bench.yaml)
  e.whole_gradient_bytes = 16;       // norm 4, scaling 8, zeroing 4 of the fp32 buffers (optim/clip_grads.py, zero_grad)
  e.zero1_all_reduces = true;
  e.zero_grad_overlap = false;
  e.note =
      "nanotron: pp_engine 1f1b or afab, tp_mode ALL_REDUCE or REDUCE_SCATTER, zero_stage 0 or 1, recompute_layer on or off, "
      "blocks placed by their compute cost, bf16 with fp32 gradient accumulation (accumulate_grad_in_fp32) by a pass over all "
      "parameters after each backward (optim/gradient_accumulator.py). DistributedDataParallel, whose hook reduces buckets "
      "beside the "
      "last backward, wraps the model with zero_stage 0 only; else all gradients are all-reduced after it (trainer.py, "
      "sync_gradients_across_dp with reduce_scatter False). A pipeline message is three blocking sends, shapes first "
      "(parallel/pipeline_parallel/p2p.py). Loss in fp32 out of place (parallel/tensor_parallel/functional.py)";
  return e;
}

/// The engines with what was fitted of them.
std::vector<EngineModel> calibrated(std::vector<EngineModel> engines) {
  for (const auto& [name, coefficients] : framework_calibration().engines)  // "pooled" first: what an unmeasured engine has
    for (EngineModel& engine : engines)
      if (engine.name == name || name == "pooled") engine.coefficients = coefficients;
  return engines;
}

}  // namespace

std::string_view to_string(ActivationPolicy p) {
  switch (p) {
    case ActivationPolicy::megatron_2022_unfused: return "megatron-2022-unfused";
    case ActivationPolicy::fused_attention: return "fused-attention";
  }
  return "?";
}

const std::vector<EngineModel>& engine_catalogue() {
  // Read-only after construction: a constant that happens to be written as text.
  static const std::vector<EngineModel> catalogue = [] {
    constexpr std::array makers = {generic,
                                   megatron_core,
                                   megatron_lm_2021,
                                   megatron_deepspeed,
                                   deepspeed,
                                   fsdp2,
                                   torchtitan,
                                   nanotron,
                                   nemo,
                                   fsdp1,
                                   fsdp1_compiled,
                                   llm_foundry,
                                   torchtitan_compiled,
                                   internevo,
                                   jax,
                                   jax_unfused,
                                   nemo_automodel,
                                   megatron_core_unfused,
                                   oneflow,
                                   ddp};
    std::vector<EngineModel> engines;
    for (EngineModel (*make)() : makers) engines.push_back(make());
    return calibrated(std::move(engines));
  }();
  return catalogue;
}

const EngineModel* find_engine(std::string_view name) {
  for (const EngineModel& engine : engine_catalogue()) {
    if (engine.name == name) return &engine;
  }
  return nullptr;
}

}  // namespace espalier
