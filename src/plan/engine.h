// SPDX-License-Identifier: Apache-2.0
// Engines: what each framework can run (a restriction of the space, rules by name) and what it does with memory
// (policies). Data: every figure is from data/engines.yaml (plan/engine_reader.h), where its source stands beside it.
// The cost model reads the policies; the search reads the restrictions; `check --engine` reports broken rules.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "espalier/plan.h"
#include "plan/engine_policies.h"
#include "plan/framework_coefficients.h"
#include "plan/layer_freedom.h"

namespace espalier::profile {
class MeasuredOperators;
}

namespace espalier {

/// Whose rules an engine follows; the prefix of its rule names.
enum class EngineFamily : std::uint8_t {
  generic,             ///< no restrictions
  megatron,            ///< "MEG-"
  megatron_deepspeed,  ///< "DS-": Megatron-DeepSpeed, DeepSpeed's engine around Megatron's layers
  deepspeed,           ///< "DS-"
  fsdp,                ///< "FSDP-": PyTorch fully_shard alone
  torchtitan,          ///< "TT-"
  nanotron,            ///< "NANO-"
  galvatron,           ///< "GAL-": Galvatron's strategy file
  espalier,            ///< "ESP-": our own runtime, without restrictions
};

/// What an engine can run: the restrictions that its rules (engine_rules.cpp) read.
struct EngineRuns {
  std::vector<ScheduleKind> schedules;
  std::vector<ZeroStage> zero;
  std::vector<RankOrder> orders = {RankOrder::tp_cp_dp_pp, RankOrder::tp_cp_pp_dp, RankOrder::tp_dp_cp_pp};
  std::vector<ContextParallelKind> cp_kinds = {ContextParallelKind::ring, ContextParallelKind::all_to_all};
  bool ulysses = true, context_parallel = true, tensor_parallel = true, pipeline = true, expert_parallel = true;
  bool hybrid_shard = true;                                      ///< shard < data_ranks
  bool zero_with_pipeline = true;                                ///< zero ≥ 2 together with pp > 1
  bool uneven_stages = true;                                     ///< layer counts may differ between stages
  bool selective_recompute = true;                               ///< can recompute parts of a block
  RecomputeModules recompute_modules = RecomputeModules::all();  ///< which of them
  bool partial_recompute = true;                                 ///< can recompute some blocks of a chunk and not
                                                                 ///< others
  bool operator_partitions = false;                              ///< operators split in space and time
                                                                 ///< (docs/partition.md)
  bool listed_devices = false;       ///< ranks run on the devices that a stage lists, whatever their order
  bool fused_bucket_overlap = true;  ///< can overlap gradient reduction
  bool zero_grad_overlap = true;     ///< gradient reduction can overlap with ZeRO ≥ 1
  bool overlap_param_gather = true;
  bool overlap_p2p = true;
  bool overlap_tp = true;
  bool frozen_weights = false;      ///< adapters beside frozen weights, and parts of a model that are not trained
  bool packed_sequences = false;    ///< several sequences in a sample, each attending to itself alone
  bool offload_optimizer = false;   ///< optimizer state in host memory, the update on the host
  bool offload_parameters = false;  ///< parameters, gradients and optimizer state in host memory
  ActivationOffload offload_activations = ActivationOffload::none;
  std::vector<Precision> precisions = {Precision::fp32, Precision::tf32, Precision::fp16, Precision::bf16, Precision::fp8};
  bool expert_tensor_parallel = true;  ///< tensor parallelism inside experts (etp > 1)
  bool megatron_sequence = true;       ///< Megatron's sequence parallelism
  bool copies_kv_heads = true;         ///< tp may exceed the key-value heads, whose projections are then copied
  bool beyond_context = true;          ///< a sequence may be longer than the model's context length
  bool chooses_overlap = true;         ///< overlapped reduction and gathering can be switched off
};

/// What it keeps in memory.
struct EngineMemory {
  ActivationPolicy activations = ActivationPolicy::fused_attention;
  StatePolicy states;
  LossPolicy loss;
  WorkspacePolicy workspace;
  /// FlashAttention-2 returns [batch, sequence, …]; where layers are [sequence, batch, …] the output projection keeps a
  /// copy of it.
  bool copies_attention_output = false;
  /// Queries and keys are rotated into new tensors, and values are a view into the product of all three, which stays
  /// whole with them: queries and keys are kept twice.
  bool copies_rotated = false;
  /// Blocks that the host starts ahead of the device. What row linears of them put out before it is reduced and
  /// scattered is used on the stream of the collective, so that its blocks of memory cannot be used again before the
  /// device is through (cost/queued_outputs.h). 0: they can.
  std::int32_t queued_blocks = 0;
  /// Under offload of activations: share of what blocks keep for the backward pass that waits in host memory, and how
  /// many blocks of the model keep theirs on the device all the same (spread over all blocks, as the copies are).
  double offloaded_activations = 1;
  std::int32_t blocks_on_device = 0;
  /// The meaning of `recompute: selective`: which modules run again, of those that a model has.
  RecomputeModules selective = {RecomputeModule::layernorm, RecomputeModule::act};
  bool fuses_norms = false;  ///< norms before products that are split by columns run inside them
                             ///< (plan/recompute_modules.h)
  /// A gated MLP in separate kernels keeps the activated gate as well as its inputs and their product.
  bool eager_gate = false;
  /// Both matrices of an adapter are divided over tp (NeMo's ParallelLinearAdapter); else the one at the divided side
  /// of its linear (PEFT).
  bool splits_adapters = false;
  /// Copies of tokens are weighted between the two products of an expert: nothing of them is kept for the combination
  /// after it.
  bool weighs_inside_experts = false;
  /// Unfused: the scores before the softmax are written into one buffer that stays from the first step on (Megatron's
  /// global memory buffer).
  bool keeps_score_buffer = false;
  bool eight_bit_activations = false;    ///< 8-bit training keeps inputs of activations in one byte too
  double allocator_reserve = 0.06;       ///< fraction of the tensor peak lost to fragmentation and rounding (prior)
  std::int32_t vocabulary_multiple = 1;  ///< vocabulary padded to a multiple of this × tp (Megatron: 128)
};

/// Which kernels it launches, and what they cost its host.
struct EngineKernels {
  AttentionKernel attention_kernel = AttentionKernel::vendor;
  /// Weight gradients are added to the accumulated ones by the GEMM, not by a pass of their own.
  bool fused_gradient_accumulation = true;
  double host_launches = 1.0;  ///< host time per kernel in bare launches: 1 where nothing lies between them, 9 for
                               ///< eager PyTorch
  /// Share of the host time of kernels outside routed experts (attention, norms, router, preparation of the dispatch)
  /// that remains: 0 where CUDA graphs replay them. What a kernel occupies on the device stays.
  double graphed_launches = 1.0;
  /// Experts run one after the other, each of their linears a module of its own: what that takes is not predicted.
  bool looped_experts = false;
  bool fused_experts = false;        ///< casts and activation of routed experts run inside their grouped products
  double eager_launches = 1.0;       ///< kernels of a layer relative to the operator table, where operators are split
                                     ///< further
  double elementwise_traffic = 1.0;  ///< bytes of memory-bound operators, copies included, relative to the operator
                                     ///< table
  double loss_forward_bytes = 14, loss_backward_bytes = 6;  ///< bytes per logit that the loss moves
  /// Bytes per element of the rank's whole gradient moved once a step (clipping, zeroing), ZeRO or not.
  double whole_gradient_bytes = 0;
  /// ZeRO ≥ 2 beside its collectives, bytes a gathered parameter and a gradient: copies into and out of the buffers,
  /// casts, averaging.
  double gather_copy_bytes = 0, reduce_copy_bytes = 0;
};

/// How it communicates.
struct EngineCommunication {
  /// Messages between stages that all tensor-parallel ranks hold are sent in tp parts and gathered by the receivers.
  bool scattered_messages = false;
  /// Calls of the host at each end of a pipeline message that the stage waits for (shapes sent first), in bare
  /// launches: calls of the driver, no modules of a framework.
  std::int32_t message_host_calls = 0;
  /// Seconds that each pipeline message blocks both stages beside these calls, whatever its size (a state that runs of
  /// nanotron were seen in).
  double message_block_s = 0;
  double reduce_bucket_bytes = 0;  ///< gradients on the wire per bucket when reduction overlaps; 0 = a layer
  /// Token copies for several experts of one node (or, inside a node, of one rank) are sent once (DeepEP, HybridEP).
  bool deduplicates_dispatch = false;
  /// All-to-alls of experts run beside the compute of another micro-batch (DualPipe,
  /// --overlap-moe-expert-parallel-comm): each of the four of a layer beside a quarter of its forward and backward
  /// compute.
  bool overlaps_experts = false;
  bool zero1_all_reduces = false;  ///< ZeRO 1 all-reduces gradients instead of scattering them
  /// Under offload gradients go to the host beside the backward pass, and parameters come back beside the host's
  /// update.
  bool overlaps_offload = false;
  /// Collectives of tensor parallelism stand between computations: nothing runs beside them.
  bool blocking_tensor = false;
  /// A rank keeps its own tile of a weight while tiles of a partitioned linear go round (P_{2^k×2^k}): none is brought
  /// back after the backward, and the one that the forward ends with is held until then.
  bool weights_stay = false;
};

/// A mode that a run of an engine can have switched on beside its degrees: statements that replace those of the engine.
struct EngineOption {
  std::string name;  ///< "cuda-graphs": an engine with it is called "megatron-core+cuda-graphs"
  std::string note;
  bool numerics = false;  ///< it changes what is computed, not only how: results of a run differ
  bool script = false;    ///< the script that trains sets it, or its environment: no file of the engine says it
  /// As the engine's launch command says it, each a flag and its value, if it has one: "--cuda-graph-impl
  /// full_iteration". Empty: no command says it.
  std::vector<std::string> flags{};
};

struct EngineModel {
  std::string name;  ///< "generic", "megatron-core", "megatron-core+cuda-graphs", …: the engine, then its options in
                     ///< the order
                     ///< of the catalogue
  std::string base;  ///< the engine without options: what rules, coefficients and intervals are kept for
  std::string like;  ///< the engine that it equals in all that it does not state itself; empty: none
  std::string note;  ///< what it is; figures have their sources in data/engines.yaml
  EngineFamily family = EngineFamily::generic;
  std::string fitted_as;  ///< the engine whose coefficients it shares: the same code under another name; empty: its own
  bool planned = false;   ///< its runtime is no part of this release: named by no `runs_on`
  std::vector<std::string> model_types;  ///< `model_type` of the models that it trains; empty: any
  std::vector<std::string> formats;      ///< exporters that write its plans, the usual one first
  std::string unwritten;                 ///< why there are none, and what helps
  SplitPolicy split = SplitPolicy::balanced;
  std::vector<EngineOption> options;  ///< that can be switched on
  EngineRuns runs;
  LayerFreedom layers;  ///< in what layers and stages of one plan may differ
  EngineMemory memory;
  EngineKernels kernels;
  EngineCommunication communication;
  FrameworkCoefficients coefficients;  ///< fitted; see above
  /// Times of operators as they were measured on the devices of the job (profile/measured_operators.h); null: those of
  /// the device model.
  std::shared_ptr<const profile::MeasuredOperators> measured;
};

/// Bytes per element of the states of what is trained under a precision (fp32: no separate master copy).
StatePolicy states_of(const EngineModel& engine, const Training& training);
/// Bytes of an element that is not trained: in the type of compute, or as the adapter's `base` says of a linear of a
/// block. NF4: 4 bits, an 8-bit constant for 64 of them, and a 32-bit one for 256 of those (Dettmers et al. 2023,
/// "double quantization": 4.127 bits); int8: 8 bits and a 32-bit constant for each output feature, which are not
/// counted (Dettmers et al. 2022).
double frozen_bytes(const StatePolicy& states, const Training& training, const LayerKind& kind, const Operator& op);

/// Engines without options.
const std::vector<EngineModel>& engine_catalogue();
/// An engine of the catalogue, or one with options ("nemo+flex-dispatcher+cuda-graphs", in any order); null: there is
/// none.
const EngineModel* find_engine(std::string_view name);
/// `name` up to its first option.
std::string_view base_engine(std::string_view name);
/// Host seconds of a pipeline message at each end, `call_s` for a bare launch.
inline double message_host_s(const EngineModel& engine, double call_s) {
  return engine.communication.message_host_calls * call_s + engine.communication.message_block_s;
}
/// The engine under whose name the coefficients of `engine` are fitted and shipped.
inline const std::string& fitted_engine(const EngineModel& engine) {
  return engine.fitted_as.empty() ? engine.base : engine.fitted_as;
}
}  // namespace espalier
