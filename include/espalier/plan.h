// SPDX-License-Identifier: Apache-2.0
// The plan: a document that states how every device takes part in training. It is independent of search, cost,
// simulation and runtime. It is a value type with equality, canonical text, validation and a JSON round trip (schema
// espalier.plan/2; version 1 is still read, and written where it can express the plan).
//
// A plan is one or more pipelines, each with its own stages, devices, micro-batches and share of the samples of
// a step. The pipelines average their gradients. Searches on equal devices return one pipeline of equal
// replicas. Searches on groups of unlike devices may return several pipelines or unequal replicas. A document can
// express features that cannot be priced. They are kept, validated and written back, and unsupported() rejects them
// by name where a price is needed.
//
// Degrees: world = tp · cp · dp · pp. Expert parallelism is folded into the tp·cp·dp devices of a stage:
// tp·cp·dp = etp · ep · edp. Here edp counts the replicas of each expert shard. The number of micro-batches is m =
// global_batch / (micro_batch · dp). A sample is never split over dp; cp splits its sequence, and tp splits weights.
// With sp = ulysses, the tp group splits the sequence and, inside attention, the heads; its weights are replicated.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/block_partition.h"
#include "espalier/cluster.h"
#include "espalier/model.h"
#include "espalier/recompute_modules.h"
#include "espalier/result.h"
#include "espalier/units.h"

namespace espalier {

enum class SequenceParallel : std::uint8_t {
  none,
  /// Splits norm, dropout and residual activations over the tp group; all-reduce becomes reduce-scatter and
  /// all-gather (Korthikanti et al. 2022).
  megatron,
  ulysses,  ///< the tp group splits the sequence; all-to-all around attention (Jacobs et al. 2023); weights replicated
};
enum class ContextParallelKind : std::uint8_t {
  ring,        ///< keys/values travel around the cp ring during attention (Liu et al. 2023), zig-zag balanced if causal
  all_to_all,  ///< heads split over cp inside attention by all-to-all
};
enum class RecomputeKind : std::uint8_t { none, selective, full };
/// Selects what the data-parallel ranks of a shard group divide among themselves instead of each holding a copy.
/// Every stage divides what the previous stage divides, and more (ZeRO, Rajbhandari et al. 2020). Documents and flags
/// use the same numbers.
enum class ZeroStage : std::int32_t {
  none = 0,        ///< every rank holds all state
  optimizer = 1,   ///< master weights and optimizer state
  gradients = 2,   ///< also gradients: every micro-batch scatters them
  parameters = 3,  ///< also parameters: every layer is gathered before it runs
};
constexpr bool shards_optimizer(ZeroStage z) { return z >= ZeroStage::optimizer; }
constexpr bool shards_gradients(ZeroStage z) { return z >= ZeroStage::gradients; }
constexpr bool shards_parameters(ZeroStage z) { return z >= ZeroStage::parameters; }
constexpr bool is_stage(ZeroStage z) { return z >= ZeroStage::none && z <= ZeroStage::parameters; }
/// Returns 0 to 3, the usual notation.
constexpr std::int32_t number_of(ZeroStage z) { return static_cast<std::int32_t>(z); }
/// Orders the dimensions over device ids, innermost (fastest link) first.
enum class RankOrder : std::uint8_t { tp_cp_dp_pp, tp_cp_pp_dp, tp_dp_cp_pp };
enum class ScheduleKind : std::uint8_t { gpipe, one_f_one_b, interleaved, zb_h1, zb_v, zb_h2 };
/// Lists every kind, in the order of the dimension; readers, flags and random tests take their lists from here.
inline constexpr std::array kScheduleKinds = {ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::interleaved,
                                              ScheduleKind::zb_h1, ScheduleKind::zb_v,        ScheduleKind::zb_h2};
/// Returns whether gradients of inputs and of weights are separate passes, as in every zero-bubble schedule.
constexpr bool splits_backward(ScheduleKind k) {
  return k == ScheduleKind::zb_h1 || k == ScheduleKind::zb_h2 || k == ScheduleKind::zb_v;
}
/// Returns whether a search leaves the kind out of its space unless the job allows it by name (`allow` or `fix`).
constexpr bool only_where_allowed(ScheduleKind k) { return k == ScheduleKind::zb_h2; }
/// Returns whether a stage may hold several chunks.
constexpr bool has_chunks(ScheduleKind k) { return k == ScheduleKind::interleaved || k == ScheduleKind::zb_v; }
/// Selects the optimizer that updates the weights.
enum class Optimizer : std::uint8_t { adam, sgd };
/// Selects what is kept in host memory instead of device memory. The numbers are the order of the dimension.
enum class Offload : std::uint8_t {
  none,
  /// Offloads master weights and moments. Gradients go to the host, which computes the update, and parameters return
  /// (ZeRO-Offload, Ren et al. 2021).
  optimizer,
  /// Offloads the activations that blocks keep for their backward pass, between the two passes. For a
  /// recomputed block this is its input.
  activations,
  optimizer_activations,  ///< both
  /// Offloads the shards of parameters and gradients in addition to the optimizer. A layer's shard is copied to the
  /// device before every gather (ZeRO-3 with offload_param, FSDP2's CPUOffloadPolicy).
  parameters,
  parameters_activations,  ///< all of these
};
constexpr bool offloads_parameters(Offload o) { return o >= Offload::parameters; }
constexpr bool offloads_optimizer(Offload o) {
  return o == Offload::optimizer || o == Offload::optimizer_activations || offloads_parameters(o);
}
constexpr bool offloads_activations(Offload o) {
  return o == Offload::activations || o == Offload::optimizer_activations || o == Offload::parameters_activations;
}
/// Selects the type of weights that are not trained: the compute type, 4 bits (NF4 with double quantisation,
/// Dettmers et al. 2023) or 8 bits.
enum class FrozenType : std::uint8_t { compute, nf4, int8 };
/// Selects how sequences of different lengths become samples of sequence_length tokens.
enum class Packing : std::uint8_t {
  none,      ///< one sequence per sample, padded
  packed,    ///< several, each attending only to itself; samples go to replicas in their order
  balanced,  ///< like `packed`, with the samples of a step distributed so that replicas have equal work
};

std::string_view to_string(SequenceParallel v);
std::string_view to_string(ContextParallelKind v);
std::string_view to_string(RecomputeKind v);
std::string_view to_string(RankOrder v);
std::string_view to_string(ScheduleKind v);  ///< "gpipe" "1f1b" "interleaved" "zb-h1" …
std::string_view to_string(Optimizer v);     ///< "adam" "sgd"
std::string_view to_string(Offload v);       ///< "none" "optimizer" "activations" "optimizer+activations" …
std::string_view to_string(FrozenType v);    ///< "none" "nf4" "int8"
std::string_view to_string(Packing v);       ///< "none" "packed" "balanced"

/// Describes which parts of a layer are recomputed in its backward pass.
struct Recompute {
  RecomputeKind kind = RecomputeKind::none;
  /// Counts the recomputed blocks with kind full: the first `layers` blocks of every chunk (of a range). Otherwise 0.
  std::int32_t layers = 0;
  /// Lists the parts of a block that are recomputed with kind selective. Empty: the default of the plan's
  /// engine; a finished plan names them.
  RecomputeModules modules = {};
  auto operator<=>(const Recompute&) const = default;
};

/// Selects the communication that may overlap with compute.
struct Overlap {
  bool grad_reduce = false;   ///< gradient reduction during the backward pass of the last micro-batch
  bool param_gather = false;  ///< ZeRO ≥ 1 parameter all-gather during the first forward pass (ZeRO-3: prefetch)
  bool p2p = false;           ///< pipeline sends do not block the next computation
  bool tp = false;            ///< tensor-parallel collectives during the GEMM they feed (needs sp = megatron)
  bool ep = false;            ///< expert-parallel exchanges during another micro-batch's compute; held, not priced
  auto operator<=>(const Overlap&) const = default;
};

/// Describes how one layer is distributed over the devices of its stage. In the uniform space all layers share one
/// strategy.
struct Strategy {
  std::int32_t tp = 1;
  SequenceParallel sp = SequenceParallel::none;
  std::int32_t cp = 1;
  ContextParallelKind cp_kind = ContextParallelKind::ring;
  std::int32_t ep = 1;
  std::int32_t etp = 1;
  std::int32_t dp = 1;
  ZeroStage zero = ZeroStage::none;
  /// Counts the ranks over which ZeRO shards dense state. It divides data_ranks(), and it is 1 if and only if nothing
  /// is sharded. A value below data_ranks() is hybrid sharding (HSDP): replicated over data_ranks()/shard groups.
  std::int32_t shard = 1;
  RankOrder order = RankOrder::tp_cp_dp_pp;
  Recompute recompute;
  Overlap overlap;
  Offload offload = Offload::none;
  /// Describes how every operator of a block is partitioned over the tp = 2^n devices of its group, "attn.qkv K,P2;
  /// attn.core H,H; …" (plan/operator_partition.h). Weights are split and replicated accordingly; sp is none, and cp,
  /// ep and etp are 1. Embedding and head are split over the vocabulary as usual. Empty: tensor parallelism as above.
  BlockPartition partition;
  auto operator<=>(const Strategy&) const = default;

  /// Returns the number of ranks that hold the same dense weights: dp·cp, times tp with Ulysses.
  [[nodiscard]] std::int64_t data_ranks() const { return std::int64_t{dp} * cp * (sp == SequenceParallel::ulysses ? tp : 1); }
  /// Returns the degree by which dense weights are split: tp, or 1 with Ulysses.
  [[nodiscard]] std::int32_t weight_tp() const { return sp == SequenceParallel::ulysses ? 1 : tp; }
  /// Returns the number of replicas of each expert shard.
  [[nodiscard]] std::int64_t expert_data_ranks() const { return devices() / (std::int64_t{ep} * etp); }
  /// Returns the number of devices of a stage whose layers all have this strategy: tp·cp·dp.
  [[nodiscard]] std::int64_t devices() const { return std::int64_t{tp} * cp * dp; }
  [[nodiscard]] bool shards_optimizer() const { return zero >= ZeroStage::optimizer; }
  [[nodiscard]] bool shards_gradients() const { return zero >= ZeroStage::gradients; }
  [[nodiscard]] bool shards_parameters() const { return zero >= ZeroStage::parameters; }
};

/// Describes the order in which a pipeline runs its micro-batches.
struct Schedule {
  ScheduleKind kind = ScheduleKind::one_f_one_b;
  std::int32_t stages = 1;          ///< pp
  std::int32_t virtual_stages = 1;  ///< chunks of a stage (v); zb-v: 2
  std::int32_t microbatches = 1;    ///< m
  std::int32_t micro_batch = 1;     ///< samples per rank of the first layers
  auto operator<=>(const Schedule&) const = default;
  /// Returns the number of chunks into which a pipeline cuts the layers: stages · virtual stages.
  [[nodiscard]] constexpr std::int32_t chunks() const { return stages * virtual_stages; }
};

/// Describes low-rank adapters (LoRA, Hu et al. 2021). A targeted linear layer of in -> out features is frozen and
/// gets two trained ones, in -> rank and rank -> out.
struct Adapter {
  std::int32_t rank = 0;  ///< 0: no adapters, and the model itself is trained
  double alpha = 0;       ///< scales their output by alpha / rank, at no cost in time or bytes; 0: rank
  /// Lists operators ("attn.qkv"), or projections inside them by PEFT's names ("q_proj", "up_proj"), each with its
  /// own pair; in the order of the job.
  std::vector<std::string> targets = {};
  /// Applies to the linear layers of blocks except routers; everything else stays in the compute type.
  FrozenType base = FrozenType::compute;
  bool operator==(const Adapter&) const = default;
  [[nodiscard]] bool any() const { return rank > 0; }
};

/// Gives the number of sequences of this length, relative to other lengths.
struct LengthShare {
  std::int64_t tokens = 0;
  double weight = 0;
  bool operator==(const LengthShare&) const = default;
};
/// Describes the lengths of the sequences that make up samples. Empty: every sample is one sequence of
/// sequence_length tokens.
struct Lengths {
  /// Lists the lengths by ascending tokens, each once; sequences longer than sequence_length are cut to it.
  std::vector<LengthShare> histogram = {};
  Packing packing = Packing::none;
  bool operator==(const Lengths&) const = default;
  [[nodiscard]] bool any() const { return !histogram.empty(); }
};

/// Describes the training: data, batch, precision, optimizer and trained parts. It is part of every plan.
struct Training {
  Sequence sequence;
  std::int64_t global_batch = 1;  ///< samples
  Precision precision = Precision::bf16;
  Optimizer optimizer = Optimizer::adam;
  double moe_imbalance = 1.0;  ///< load of the fullest expert rank over the mean
  double tokens = 0;           ///< total training tokens, for days and GPU-hours; 0: not requested
  Adapter adapter = {};
  /// Lists the parts that are not trained: "embedding", "head", "layers 0-15" (blocks, from 0), "layers 3".
  std::vector<std::string> freeze = {};
  Lengths lengths = {};
  bool operator==(const Training&) const = default;
};

/// Returns whether some weights of the model are frozen: they have no gradients and no optimizer state.
inline bool freezes_weights(const Training& training) { return training.adapter.any() || !training.freeze.empty(); }
/// Marks in the model what `training` trains (Operator::frozen and adapters, LayerKind::backward). Layers that now
/// differ get separate kinds. A model is marked once, before anything is computed from it. Returns an Error for a
/// target or part that the model does not have; `where` is the place of `training` in messages.
Status mark_trained(Model& model, const Training& training, const std::string& where);

/// Holds layers first … last (inclusive, indices into Model::layers) under one strategy.
struct LayerRange {
  std::int32_t first = 0;
  std::int32_t last = 0;
  Strategy strategy;
  bool operator==(const LayerRange&) const = default;
};

/// Holds a pipeline chunk: consecutive ranges, at least one. In the uniform space there is one; in the layer-wise space
/// a range ends where the strategy changes. All strategies of a stage distribute their layers over the same devices,
/// so tp·cp·dp is the same for all. The samples of a micro-batch in all replicas together are also the same. A range
/// with another dp therefore has another micro-batch per rank: Schedule::micro_batch · (dp of the plan's first range)
/// / dp.
struct Chunk {
  std::vector<LayerRange> ranges;
  bool operator==(const Chunk&) const = default;
  [[nodiscard]] std::int32_t first() const { return ranges.front().first; }
  [[nodiscard]] std::int32_t last() const { return ranges.back().last; }
};

/// Holds the devices first, first+stride, …, `count` of them.
struct DeviceRange {
  std::int64_t first = 0;
  std::int64_t count = 1;
  std::int64_t stride = 1;
  auto operator<=>(const DeviceRange&) const = default;
};

/// Holds one stage of a pipeline: its devices and its chunks.
struct Stage {
  /// Lists the devices in rank order inside the stage. Their positions determine which devices form a tensor,
  /// context, expert or data group.
  std::vector<DeviceRange> devices;
  std::vector<Chunk> chunks;  ///< virtual_stages of them; chunk k of stage i is pipeline chunk pipeline_chunk(...)
  /// Lists the samples of a micro-batch for each of the dp replicas; their sum is micro_batch · dp. Empty: equal
  /// shares. Other shares can be priced if every replica has samples, all stages divide a micro-batch in the same
  /// way, and no cp or ep is used (unsupported).
  std::vector<std::int64_t> samples_per_replica = {};
  /// Lists the weights by which the ranks of a shard group divide the states that ZeRO shards, one for each
  /// of `shard` ranks. Empty: equal shares. Other shares can be priced if ZeRO shards over all of dp and no cp or ep
  /// is used (unsupported).
  std::vector<std::int64_t> state_shares = {};
  bool operator==(const Stage&) const = default;
};

/// Returns whether replicas of the stage differ in samples or states.
inline bool uneven_replicas(const Stage& stage) { return !stage.samples_per_replica.empty() || !stage.state_shares.empty(); }

/// Holds one pipeline: every layer of the model once, on its own devices.
struct Pipeline {
  std::int32_t id = 0;  ///< unique among the pipelines of the plan
  Schedule schedule;
  std::int64_t samples = 0;  ///< share of the global batch; the shares of all pipelines add up to it
  std::vector<Stage> stages;
  bool operator==(const Pipeline&) const = default;

  /// Returns the strategy of the first layer, which all layers of a uniform pipeline share.
  [[nodiscard]] const Strategy& strategy() const { return stages.front().chunks.front().ranges.front().strategy; }
  /// Returns the samples of one micro-batch in all replicas together: micro_batch · dp.
  [[nodiscard]] std::int64_t samples_per_microbatch() const { return std::int64_t{schedule.micro_batch} * strategy().dp; }
};

/// Holds the types in which states and activations are kept.
struct StatePrecision {
  Precision parameters = Precision::bf16;  ///< the copy that computes
  Precision gradients = Precision::fp32;   ///< as accumulated over micro-batches
  Precision moments = Precision::fp32;     ///< moments of the optimizer
  Precision saved = Precision::bf16;       ///< activations between forward and backward
  bool operator==(const StatePrecision&) const = default;
};
/// Returns the types that an engine keeps under a training precision (data/engines.yaml). For an unknown engine,
/// it returns those of generic.
StatePrecision state_precision(std::string_view engine, const Training& training);

/// Holds a plan and the inputs for which it was made.
struct Plan {
  std::string model_name, model_hash, cluster_name, cluster_hash;
  std::string model_summary, cluster_summary;  ///< one line each
  /// Holds the inputs themselves as canonical JSON (base::to_json), which makes a plan file self-contained. The
  /// hashes are base::content_hash of these texts.
  std::string model_source, cluster_source;
  /// Holds a user's calibration that was in force, in the same form as the inputs above; empty: none.
  std::string calibration_name, calibration_hash, calibration_source;
  std::string engine = "generic";
  Training training;
  /// Holds types other than those that the engine keeps under the training's precision; they are not priced
  /// yet. None: the engine's types.
  std::optional<StatePrecision> precision;
  std::vector<Pipeline> pipelines = std::vector<Pipeline>(1);
  bool operator==(const Plan&) const = default;

  /// Returns one of the pipelines as a separate plan, with that pipeline's samples as the global batch.
  [[nodiscard]] Plan alone(std::size_t pipeline) const;
  /// Returns the pipeline of a plan that has exactly one. Code that cannot handle several pipelines reads a plan
  /// through this function, after it has rejected them.
  [[nodiscard]] const Pipeline& only_pipeline() const;
  [[nodiscard]] Pipeline& only_pipeline();
  /// Returns the strategy of the first layer of the only pipeline, which all layers of a uniform plan share.
  [[nodiscard]] const Strategy& strategy() const { return only_pipeline().strategy(); }
  /// Returns whether there is one pipeline and every chunk of it is one range of that strategy. (Full recomputation
  /// counts the blocks of a range.)
  [[nodiscard]] bool uniform() const;
  /// Returns the samples of one micro-batch of the only pipeline in all replicas together: micro_batch · dp.
  [[nodiscard]] std::int64_t samples_per_microbatch() const { return only_pipeline().samples_per_microbatch(); }
  /// Returns one line with numbers of fixed width, so that text order is the order of the fields: the tie-break of
  /// every comparison. Features that no uniform search chooses (several pipelines, unequal shares, devices in another
  /// order) follow if the plan has them.
  [[nodiscard]] std::string canonical_text() const;
  /// Returns the human-readable form: "TP8·SP CP1 PP4(v2) DP16 ZeRO-1 mb1 interleaved full-recompute×2". A plan that
  /// is not uniform shows the pipeline, micro-batches × samples in each, and the strategies with their numbers of
  /// layers: "layer-wise PP4 1f1b 64×4 samples overlap:p2p: TP4 ×28, TP2·DP2 ZeRO-1 ×22". If a pipeline lists its
  /// devices in another order, the first few ranges follow: "… on devices 8-15, 0-7".
  [[nodiscard]] std::string label() const;
};

/// Returns the short form of the strategy of one layer, without usual values: "TP2·SP·CP2·DP4 ZeRO-3/4
/// +recompute". Degrees of 1 are left out (all 1: "DP1"). So are the number of recomputed layers and the overlaps,
/// which belong to a range and to the plan.
std::string label(const Strategy& strategy);

/// Returns the label of a uniform plan.
std::string label(const Strategy& strategy, const Schedule& schedule);

/// Holds consecutive layers that are treated in the same way.
struct LayerRun {
  std::int32_t first = 0;
  std::int32_t last = 0;
  /// Holds the strategy of each single layer. Full recomputation counts one layer; the
  /// embedding and the head have none.
  Strategy strategy;
  [[nodiscard]] std::int32_t layers() const { return last - first + 1; }
};
/// Returns a chunk as the fewest such runs. The embedding (layer 0) and the head (`last_layer` of
/// the plan) are separate runs.
std::vector<LayerRun> layer_runs(const Chunk& chunk, std::int32_t last_layer);

/// Holds a strategy and the number of layers that have it, including embedding and head.
struct StrategyCount {
  Strategy strategy;  ///< as in LayerRun
  std::int32_t layers = 0;
};
/// Returns the distinct strategies of a plan, most layers first; ties keep the order of the document.
std::vector<StrategyCount> strategy_counts(const Plan& plan);

/// Returns the position in the pipeline (0 … p·v−1) of local chunk k on stage i. Interleaved:
/// k·p + i; zb-v: i, then 2p−1−i.
std::int32_t pipeline_chunk(const Schedule& schedule, std::int32_t stage, std::int32_t local_chunk);
/// Returns the layer ranges of each pipeline chunk.
std::vector<std::vector<LayerRange>> chunk_ranges(const Pipeline& pipeline);
/// Holds the stage of a pipeline chunk, and the chunk's number there.
struct ChunkPlace {
  std::int32_t stage = 0, local_chunk = 0;
};
/// Returns the inverse of pipeline_chunk().
ChunkPlace place_of_chunk(const Schedule& schedule, std::int32_t pipeline_chunk);

/// Splits `weights` into `chunks` contiguous, non-empty ranges that minimise the largest range sum; ties
/// stay closest to even quantiles. Returns the first index of each range. The result is deterministic.
/// Requires chunks ≤ weights.size().
std::vector<std::int32_t> balanced_split(const std::vector<double>& weights, std::int32_t chunks);
/// Returns the weight of each layer for the split: its forward FLOPs, independent of the strategy.
std::vector<double> split_weights(const Model& model, const Sequence& sequence);

/// Selects how an engine cuts the layers into chunks.
enum class SplitPolicy : std::uint8_t {
  balanced,  ///< balanced_split of split_weights
  /// Gives every chunk an equal number of blocks (remainder to the first chunks). The embedding is with the first
  /// block, the head with the last.
  even_blocks,
  /// Ends a chunk with the layer whose cumulative weight passes its share, as in nanotron; the first chunks hold more.
  cumulative,
};

/// Builds the uniform plan: every layer has `strategy`, `policy` cuts the chunks, and
/// strategy.order assigns the devices.
Plan make_uniform_plan(const Model& model, const Cluster& cluster, const Training& training, const std::string& engine,
                       const Strategy& strategy, const Schedule& schedule, SplitPolicy policy);

/// Names a broken rule of a configuration: "divide-heads", "divide-batch", … (docs/search.md lists all rules).
struct RuleViolation {
  std::string rule;
  std::string text;  ///< sentence with the numbers: "32 heads are not divisible by tp 6"
  std::string hint;  ///< nearest legal value
};
/// Returns every divisibility and consistency rule that `strategy` and `schedule` break on this model and cluster.
/// Empty: the configuration is legal. This defines the uniform space: the search enumerates exactly the
/// configurations without violation that the job's search part admits and its engine runs. The space leaves
/// overlap_tp and offload off unless the job names them (search_space.h).
std::vector<RuleViolation> violations(const Model& model, const Cluster& cluster, const Training& training,
                                      const Strategy& strategy, const Schedule& schedule,
                                      SplitPolicy policy = SplitPolicy::balanced);
/// Returns the names of all rules, with one sentence each.
std::vector<std::pair<std::string, std::string>> rule_catalogue();

/// Validates the structure of a plan by itself: pipelines, stages, ranges, devices that occur exactly once, and
/// consistent schedule fields. Errors give places in a document of version 2.
Status validate(const Plan& plan);

/// Returns an error for a part of the plan that cannot be priced yet, by its place in the document. These are
/// overlapped expert exchanges, other types of states, some unequal shares of samples or states, and several
/// pipelines under an engine with restrictions. Returns nothing if everything can be priced. Callers that predict,
/// check or convert a plan call this first, so that no part of a document is ignored.
Status unsupported(const Plan& plan);

/// Returns whether every stage lists its devices as its strategies' `order` assigns them, device by
/// device (src/plan/uniform.cpp).
bool devices_in_order(const Plan& plan);

/// Lists the versions of the document.
enum class PlanSchema : std::uint8_t { one = 1, two = 2 };
/// Returns an error of kind check_failed for a part of the plan that version 1 cannot express, by its place. Returns
/// nothing if the plan can be written.
Status unwritable(const Plan& plan, PlanSchema schema);
/// Returns the document of a plan; `schema` must be able to express it (unwritable).
std::string to_json(const Plan& plan, PlanSchema schema = PlanSchema::two);
/// Reads either version; version 1 is one pipeline of equal replicas. Explicit equal shares are read as none.
Result<Plan> plan_from_json(std::string_view text, const std::string& where);
/// Returns base::content_hash of the document in version 2. Equal plans have the same hash, whatever version was read.
std::string content_hash(const Plan& plan);

}  // namespace espalier
