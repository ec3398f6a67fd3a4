// SPDX-License-Identifier: Apache-2.0
// Describes engines: what each framework can run (a restriction of the space, rules by name) and how it uses memory
// (policies). Every figure is read from data/engines.yaml (plan/engine_reader.h) and has its source there. The cost
// model reads the policies; the search reads the restrictions; `check --engine` reports broken rules.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/facts.h"
#include "espalier/plan.h"
#include "plan/engine_facts.h"
#include "plan/engine_policies.h"
#include "plan/framework_coefficients.h"
#include "plan/layer_freedom.h"

namespace espalier::profile {
class MeasuredOperators;
}

namespace espalier {

/// Names the family whose rules an engine follows; it determines the prefix of its rule names.
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

/// Describes what an engine can run: the restrictions that its rules (engine_rules.cpp) read.
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
  RecomputeModules recompute_modules = RecomputeModules::all();  ///< modules that it can recompute
  bool chooses_modules = true;                                   ///< can recompute some of these; else all or none
  bool partial_recompute = true;                                 ///< can recompute only some blocks of a chunk
  bool operator_partitions = false;                              ///< operators split in space and time (docs/partition.md)
  bool listed_devices = false;       ///< ranks run on the devices that a stage lists, whatever their order
  bool fused_bucket_overlap = true;  ///< can overlap gradient reduction
  bool zero_grad_overlap = true;     ///< gradient reduction can overlap with ZeRO ≥ 1
  bool overlap_param_gather = true;
  bool overlap_p2p = true;
  bool overlap_tp = true;
  bool frozen_weights = false;      ///< adapters on frozen weights, and parts of a model that are not trained
  bool packed_sequences = false;    ///< several sequences in a sample, each attending to itself alone
  bool offload_optimizer = false;   ///< optimizer state in host memory, the update on the host
  bool offload_parameters = false;  ///< parameters, gradients and optimizer state in host memory
  ActivationOffload offload_activations = ActivationOffload::none;
  /// Formats with blocks of scales are those that an engine states.
  std::vector<Precision> precisions = {Precision::fp32, Precision::tf32, Precision::fp16, Precision::bf16, Precision::fp8};
  bool expert_tensor_parallel = true;  ///< tensor parallelism inside experts (etp > 1)
  bool megatron_sequence = true;       ///< Megatron's sequence parallelism
  bool copies_kv_heads = true;         ///< tp may exceed the key-value heads, whose projections are then copied
  bool beyond_context = true;          ///< a sequence may be longer than the model's context length
  bool chooses_overlap = true;         ///< overlapped reduction and gathering can be switched off
};

/// Describes what it keeps in memory.
struct EngineMemory {
  ActivationPolicy activations = ActivationPolicy::fused_attention;
  StatePolicy states;
  ZeroPolicy zero;
  LossPolicy loss;
  WorkspacePolicy workspace;
  /// FlashAttention-2 returns [batch, sequence, …]. If layers are [sequence, batch, …], the output projection keeps a
  /// copy of it.
  bool copies_attention_output = false;
  /// Under offload of activations, blocks keep this share of their activations for the backward pass in host memory.
  /// `blocks_on_device` blocks of the model keep theirs on the device (spread over all blocks, as the copies are).
  double offloaded_activations = 1;
  std::int32_t blocks_on_device = 0;
  /// Holds the modules that `recompute: selective` reruns, as far as a model has them.
  RecomputeModules selective = {RecomputeModule::layernorm, RecomputeModule::act};
  /// Norms are run inside the products after them that are split by columns (plan/recompute_modules.h).
  bool fuses_norms = false;
  /// A gated MLP in separate kernels keeps the activated gate in addition to its inputs and their product.
  bool eager_gate = false;
  /// Both matrices of an adapter are split over tp (NeMo's ParallelLinearAdapter); otherwise only the one at the
  /// split side of its linear (PEFT).
  bool splits_adapters = false;
  /// Token copies are weighted between the two products of an expert, so the combination after it keeps
  /// nothing of them.
  bool weighs_inside_experts = false;
  /// Unfused attention writes the scores before the softmax into one buffer, which stays from the first step on
  /// (Megatron's global memory buffer).
  bool keeps_score_buffer = false;
  bool eight_bit_activations = false;    ///< 8-bit training also keeps inputs of activations in one byte
  double allocator_reserve = 0.06;       ///< fraction of the tensor peak lost to fragmentation and rounding (prior)
  std::int32_t vocabulary_multiple = 1;  ///< vocabulary padded to a multiple of this × tp (Megatron: 128)
};

/// Describes the kernels that it launches, and their host cost.
struct EngineKernels {
  AttentionKernel attention_kernel = AttentionKernel::vendor;
  double host_launches = 1.0;  ///< host time per kernel in bare launches: 1 from a graph, 9 for eager PyTorch
  /// The share of the host time of kernels outside routed experts (attention, norms, router, preparation of the
  /// dispatch) that remains; 0 if CUDA graphs replay them. The device time of a kernel stays.
  double graphed_launches = 1.0;
  /// Experts run one after the other, each of their linears in a separate module; the time of this is not predicted.
  bool looped_experts = false;
  bool fused_experts = false;        ///< casts and activation of routed experts run inside their grouped products
  double elementwise_traffic = 1.0;  ///< bytes of memory-bound operators (and copies), relative to the operator table
  double loss_forward_bytes = 14, loss_backward_bytes = 6;  ///< bytes per logit that the loss moves
  /// With ZeRO ≥ 2, counts the bytes per gathered parameter and per gradient on top of the collectives: copies into
  /// and out of the buffers, casts, averaging.
  double gather_copy_bytes = 0, reduce_copy_bytes = 0;
  /// Counts the bytes per updated element that copies, casts and scaling of gradients move on top of the update.
  double update_copy_bytes = 0;
};

/// Describes how it communicates.
struct EngineCommunication {
  /// Messages between stages that all tensor-parallel ranks hold are sent in tp parts, and the receivers gather them.
  bool scattered_messages = false;
  /// Token copies for several experts of one node (or, inside a node, of one rank) are sent once (DeepEP, HybridEP).
  bool deduplicates_dispatch = false;
  /// All-to-alls of experts overlap with the compute of another micro-batch (DualPipe,
  /// --overlap-moe-expert-parallel-comm). Each of the four of a layer overlaps with a quarter of its forward
  /// and backward compute.
  bool overlaps_experts = false;
  /// Under offload, gradients move to the host during the backward pass, and parameters return during
  /// the host's update.
  bool overlaps_offload = false;
  /// The collectives of tensor parallelism block: no computation can overlap with them.
  bool blocking_tensor = false;
  /// A rank keeps its own tile of a weight while tiles of a partitioned linear circulate (P_{2^k×2^k}). So no tile is
  /// returned after the backward, and the last tile of the forward is held until then.
  bool weights_stay = false;
};

/// Describes a runtime in plain PyTorch, kernel by kernel from Python. Nothing is fused, and messages announce their
/// shapes. Gradients are added up, clipped and reduced by code of its own. The defaults are those of other engines.
/// Only nanotron states these fields so far; any other engine can.
struct EngineEager {
  /// Queries and keys are rotated into new tensors, while values are a view into the whole product of all three. So
  /// queries and keys are kept twice.
  bool copies_rotated = false;
  /// Counts the blocks that the host launches ahead of the device. The outputs of their row linears, before they are
  /// reduced and scattered, are used on the stream of the collective. So their memory cannot be reused before the
  /// device is done (cost/queued_outputs.h). 0: it can.
  std::int32_t queued_blocks = 0;
  double eager_launches = 1.0;  ///< kernels of a layer relative to the operator table, if operators are split further
  /// The GEMM adds weight gradients to the accumulated ones, without a separate pass.
  bool fused_gradient_accumulation = true;
  /// Counts the bytes per element of the rank's whole gradient that are moved once a step (clipping, zeroing), with
  /// or without ZeRO.
  double whole_gradient_bytes = 0;
  bool zero1_all_reduces = false;  ///< ZeRO 1 all-reduces gradients instead of scattering them
  double reduce_bucket_bytes = 0;  ///< gradients on the wire per bucket when reduction overlaps; 0 = a layer
  /// Counts the host calls at each end of a pipeline message that the stage waits for (shapes sent first). The unit
  /// is a bare launch: these are driver calls, not modules of a framework.
  std::int32_t message_host_calls = 0;
  /// Holds the seconds for which each pipeline message blocks both stages in addition to the calls, whatever its size.
  double message_block_s = 0;
};

/// Describes a mode that a run can switch on in addition to its degrees: statements that replace those of the engine.
struct EngineOption {
  std::string name;  ///< "cuda-graphs": an engine with it is called "megatron-core+cuda-graphs"
  std::string note;
  bool numerics = false;  ///< it changes what is computed, not only how: results of a run differ
  bool script = false;    ///< set by the training script or its environment, not by a file of the engine
  /// Holds the flags of the engine's launch command, each with its value if it has one: "--cuda-graph-impl
  /// full_iteration". Empty if no command sets the option.
  std::vector<std::string> flags{};
  /// Names the number that a value of the option sets: "zero.live" for "live-parameters=2000000000". Empty: the option
  /// takes no value.
  std::string sets{};
};

struct EngineModel {
  /// Holds the engine, its version if one is named, then its options in the order of the catalogue: "generic",
  /// "megatron-core", "megatron-core+cuda-graphs", "megatron-core@0.17+cuda-graphs", "deepspeed+sub-group=100000000", …
  std::string name;
  std::string base;               ///< without version and options: the key of rules, coefficients and intervals
  std::string like;               ///< the engine that it equals in everything it does not state itself; empty: none
  std::string note;               ///< a description; figures have their sources in data/engines.yaml
  std::vector<std::string> also;  ///< other names that people use for it; messages suggest the engine for them
  EngineFamily family = EngineFamily::generic;
  std::string fitted_as;  ///< the engine whose coefficients it shares: the same code under another name; empty: its own
  bool planned = false;   ///< its runtime is no part of this release: named by no `runs_on`
  std::vector<std::string> model_types;  ///< `model_type` of the models that it trains; empty: any
  std::vector<std::string> formats;      ///< exporters that write its plans, the usual one first
  std::string unwritten;                 ///< why there are no formats, and what helps
  SplitPolicy split = SplitPolicy::balanced;
  std::vector<EngineOption> options;  ///< options that can be switched on
  EngineRuns runs;
  LayerFreedom layers;  ///< dimensions in which layers and stages of one plan may differ
  EngineMemory memory;
  EngineKernels kernels;
  EngineCommunication communication;
  EngineEager eager;
  FrameworkCoefficients coefficients;    ///< fitted; see above
  std::optional<base::Version> version;  ///< the version that the name states; none: the newest known
  std::vector<base::Version> eras;       ///< versions at which statements of its own begin, rising
  /// Holds the figures of data/facts.yaml for the engine.
  EngineFacts facts = engine_facts(base::shipped_facts());
  /// Holds operator times as measured on the devices of the job (profile/measured_operators.h); null: those of
  /// the device model.
  std::shared_ptr<const profile::MeasuredOperators> measured;
};

/// Returns the bytes per element of the states of trained weights under a precision (fp32: no separate master copy).
StatePolicy states_of(const EngineModel& engine, const Training& training);
/// Returns the bytes of an element that is not trained. It has the compute type, or the adapter's `base` in a linear
/// of a block. NF4 has 4 bits, an 8-bit constant per 64 elements and a 32-bit constant per 256 of those (Dettmers et
/// al. 2023, "double quantization": 4.127 bits). int8 has 8 bits and a 32-bit constant for each output feature, which
/// is not counted (Dettmers et al. 2022).
double frozen_bytes(const StatePolicy& states, const Training& training, const LayerKind& kind, const Operator& op);

/// Returns the engines without options.
const std::vector<EngineModel>& engine_catalogue();
/// Returns an engine of the catalogue, or one with options ("nemo+flex-dispatcher+cuda-graphs", in any order), or at a
/// version ("megatron-core@0.17", "megatron-core@0.17+cuda-graphs"); null if there is none. The newest known statements
/// hold for newer versions and where the name states none.
const EngineModel* find_engine(std::string_view name);
/// Returns a hint for a word that names no engine: `did you mean "megatron-core"?`. Empty if there is none.
std::string engine_suggestion(std::string_view word);
/// Returns `name` up to its version and first option.
std::string_view base_engine(std::string_view name);
/// Returns the host seconds of a pipeline message at each end; `call_s` is a bare launch.
inline double message_host_s(const EngineModel& engine, double call_s) {
  return engine.eager.message_host_calls * call_s + engine.eager.message_block_s;
}
/// Returns the name of the engine whose fitted coefficients `engine` uses.
inline const std::string& fitted_engine(const EngineModel& engine) {
  return engine.fitted_as.empty() ? engine.base : engine.fitted_as;
}
}  // namespace espalier
