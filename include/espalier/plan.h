// SPDX-License-Identifier: Apache-2.0
// The plan: a document that says how every device takes part in training. It knows neither search, cost, simulation nor
// runtime. Value type with equality, canonical text, JSON round trip (schema espalier.plan/2; version 1 is still read,
// and written where it can say the plan) and validation.
//
// A plan is one or more pipelines, each with its own stages, devices, micro-batches and share of the samples of a step;
// the pipelines average their gradients. Every plan that is searched today is one pipeline of equal replicas: what a
// document may say beyond that is held, validated and written back, and refused by name where a price is asked for
// (unsupported).
//
// Degrees.  world = tp · cp · dp · pp.  Expert parallelism is folded into the tp·cp·dp devices of a stage:
// tp·cp·dp = etp · ep · edp (edp = replicas of each expert shard).  Micro-batches: m = global_batch / (micro_batch ·
// dp). A sample is never split over dp; cp splits its sequence, tp splits weights (sp = ulysses: the tp group splits
// the sequence and, inside attention, the heads, and its weights are replicated).
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
  megatron,  ///< norm/dropout/residual activations split over the tp group; all-reduce becomes reduce-scatter +
             ///< all-gather
             ///< (Korthikanti et al. 2022)
  ulysses,   ///< the tp group splits the sequence; all-to-all around attention (Jacobs et al. 2023); weights replicated
};
enum class ContextParallelKind : std::uint8_t {
  ring,        ///< keys/values travel round the cp ring under attention (Liu et al. 2023), zig-zag balanced when causal
  all_to_all,  ///< heads split over cp inside attention by all-to-all
};
enum class RecomputeKind : std::uint8_t { none, selective, full };
/// What the data-parallel ranks of a shard group share out in place of each holding all of it. Every stage shares what
/// the stage before does, and more (ZeRO, Rajbhandari et al. 2020). The numbers are those of documents and flags.
enum class ZeroStage : std::int32_t {
  none = 0,        ///< every rank holds all state
  optimizer = 1,   ///< master weights and optimizer state
  gradients = 2,   ///< gradients as well: they are scattered in every micro-batch
  parameters = 3,  ///< parameters as well: every layer is gathered before it runs
};
constexpr bool shards_optimizer(ZeroStage z) { return z >= ZeroStage::optimizer; }
constexpr bool shards_gradients(ZeroStage z) { return z >= ZeroStage::gradients; }
constexpr bool shards_parameters(ZeroStage z) { return z >= ZeroStage::parameters; }
constexpr bool is_stage(ZeroStage z) { return z >= ZeroStage::none && z <= ZeroStage::parameters; }
/// 0 to 3, as it is written everywhere.
constexpr std::int32_t number_of(ZeroStage z) { return static_cast<std::int32_t>(z); }
/// Order of the dimensions over device ids, innermost (fastest link) first.
enum class RankOrder : std::uint8_t { tp_cp_dp_pp, tp_cp_pp_dp, tp_dp_cp_pp };
enum class ScheduleKind : std::uint8_t { gpipe, one_f_one_b, interleaved, zb_h1, zb_v, zb_h2 };
/// Every kind, in the order of the dimension: readers, flags and random tests take their lists from here.
inline constexpr std::array kScheduleKinds = {ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::interleaved,
                                              ScheduleKind::zb_h1, ScheduleKind::zb_v,        ScheduleKind::zb_h2};
/// Whether the gradients of inputs and of weights are passes of their own, as in every zero-bubble schedule.
constexpr bool splits_backward(ScheduleKind k) {
  return k == ScheduleKind::zb_h1 || k == ScheduleKind::zb_h2 || k == ScheduleKind::zb_v;
}
/// Whether a search leaves the kind out of its space unless the job allows it by name (`allow` or `fix`).
constexpr bool only_where_allowed(ScheduleKind k) { return k == ScheduleKind::zb_h2; }
/// Whether a stage may hold several chunks.
constexpr bool has_chunks(ScheduleKind k) { return k == ScheduleKind::interleaved || k == ScheduleKind::zb_v; }
/// Who updates the weights.
enum class Optimizer : std::uint8_t { adam, sgd };
/// What stands in host memory instead of the device's. The numbers are the order of the dimension.
enum class Offload : std::uint8_t {
  none,
  optimizer,               ///< master weights and moments; gradients go down to the host, which updates, and parameters
                           ///< come back
                           ///< up
                           ///< (ZeRO-Offload, Ren et al. 2021)
  activations,             ///< what blocks keep for their backward pass, between their passes (of a recomputed block its
                           ///< input)
  optimizer_activations,   ///< both
  parameters,              ///< shards of parameters and gradients too, beside the optimizer: a layer's shard comes up
                           ///< before every
                           ///< gather (ZeRO-3
                           ///< with offload_param, FSDP2's CPUOffloadPolicy)
  parameters_activations,  ///< all of it
};
constexpr bool offloads_parameters(Offload o) { return o >= Offload::parameters; }
constexpr bool offloads_optimizer(Offload o) {
  return o == Offload::optimizer || o == Offload::optimizer_activations || offloads_parameters(o);
}
constexpr bool offloads_activations(Offload o) {
  return o == Offload::activations || o == Offload::optimizer_activations || o == Offload::parameters_activations;
}
/// In which type weights are kept that are not trained: as they compute, in 4 bits (NF4 with double quantisation,
/// Dettmers et al. 2023) or in 8.
enum class FrozenType : std::uint8_t { compute, nf4, int8 };
/// How sequences of unlike length become samples of sequence_length tokens.
enum class Packing : std::uint8_t {
  none,      ///< one sequence a sample, padded
  packed,    ///< several, each attending to itself alone; samples go to replicas as they come
  balanced,  ///< the same, and the samples of a step are dealt so that replicas have equal work
};

std::string_view to_string(SequenceParallel v);
std::string_view to_string(ContextParallelKind v);
std::string_view to_string(RecomputeKind v);
std::string_view to_string(RankOrder v);
std::string_view to_string(ScheduleKind v);  ///< "gpipe" "1f1b" "interleaved" "zb-h1" …
std::string_view to_string(Optimizer v);     ///< "adam" "sgd"
std::string_view to_string(Offload v);       ///< "none" "optimizer" "activations" "optimizer+activations" "parameters"
                                             ///< …
std::string_view to_string(FrozenType v);    ///< "none" "nf4" "int8"
std::string_view to_string(Packing v);       ///< "none" "packed" "balanced"

struct Recompute {
  RecomputeKind kind = RecomputeKind::none;
  std::int32_t layers = 0;  ///< full: the first `layers` blocks of every chunk (of a range) are recomputed; otherwise 0
  /// selective: what of a block runs again. None named: what the plan's engine means by the word; a plan that was made
  /// names them.
  RecomputeModules modules = {};
  auto operator<=>(const Recompute&) const = default;
};

/// Which communication may run beside compute.
struct Overlap {
  bool grad_reduce = false;   ///< gradient reduction beside the backward pass of the last micro-batch
  bool param_gather = false;  ///< ZeRO ≥ 1 parameter all-gather beside the forward pass of the first micro-batch
                              ///< (ZeRO-3:
                              ///< prefetch)
  bool p2p = false;           ///< pipeline sends do not block the next computation
  bool tp = false;            ///< tensor-parallel collectives beside the GEMM they feed (needs sp = megatron)
  bool ep = false;            ///< expert-parallel exchanges beside the compute of another micro-batch. Held, not priced
                              ///< yet
  auto operator<=>(const Overlap&) const = default;
};

/// How one layer is spread over the devices of its stage. In the uniform space all layers share one.
struct Strategy {
  std::int32_t tp = 1;
  SequenceParallel sp = SequenceParallel::none;
  std::int32_t cp = 1;
  ContextParallelKind cp_kind = ContextParallelKind::ring;
  std::int32_t ep = 1;
  std::int32_t etp = 1;
  std::int32_t dp = 1;
  ZeroStage zero = ZeroStage::none;
  std::int32_t shard = 1;  ///< ranks over which ZeRO shards dense state; divides data_ranks(); 1 iff nothing is
                           ///< sharded;
                           ///< < data_ranks() is hybrid sharding (HSDP): replicated over data_ranks()/shard groups
  RankOrder order = RankOrder::tp_cp_dp_pp;
  Recompute recompute;
  Overlap overlap;
  Offload offload = Offload::none;
  /// How every operator of a block is partitioned over the tp = 2^n devices of its group, "attn.qkv K,P2; attn.core
  /// H,H; …" (plan/operator_partition.h): weights are split and replicated as it says; sp none, cp, ep and etp 1.
  /// Embedding and head are split over the vocabulary as without it. None: tensor parallelism as above.
  BlockPartition partition;
  auto operator<=>(const Strategy&) const = default;

  /// Ranks that hold the same dense weights: dp·cp, times tp with Ulysses.
  [[nodiscard]] std::int64_t data_ranks() const { return std::int64_t{dp} * cp * (sp == SequenceParallel::ulysses ? tp : 1); }
  /// Degree by which dense weights are split: tp, or 1 with Ulysses.
  [[nodiscard]] std::int32_t weight_tp() const { return sp == SequenceParallel::ulysses ? 1 : tp; }
  /// Replicas of each expert shard.
  [[nodiscard]] std::int64_t expert_data_ranks() const { return devices() / (std::int64_t{ep} * etp); }
  /// Devices of a stage whose layers all have this strategy: tp·cp·dp.
  [[nodiscard]] std::int64_t devices() const { return std::int64_t{tp} * cp * dp; }
  [[nodiscard]] bool shards_optimizer() const { return zero >= ZeroStage::optimizer; }
  [[nodiscard]] bool shards_gradients() const { return zero >= ZeroStage::gradients; }
  [[nodiscard]] bool shards_parameters() const { return zero >= ZeroStage::parameters; }
};

struct Schedule {
  ScheduleKind kind = ScheduleKind::one_f_one_b;
  std::int32_t stages = 1;          ///< pp
  std::int32_t virtual_stages = 1;  ///< chunks a stage holds (v); zb-v: 2
  std::int32_t microbatches = 1;    ///< m
  std::int32_t micro_batch = 1;     ///< samples on a rank of the first layers
  auto operator<=>(const Schedule&) const = default;
  /// Into which a pipeline cuts the layers: stages · virtual stages.
  [[nodiscard]] constexpr std::int32_t chunks() const { return stages * virtual_stages; }
};

/// Low-rank adapters (LoRA, Hu et al. 2021): beside a frozen linear of in -> out features two trained ones, in -> rank
/// and rank -> out.
struct Adapter {
  std::int32_t rank = 0;  ///< 0: there are none, the model itself is trained
  double alpha = 0;       ///< what they add is scaled by alpha / rank; no time and no byte depends on it. 0: rank
  /// Operators ("attn.qkv"), or projections by PEFT's names inside them ("q_proj", "up_proj"), each with a pair of its
  /// own; in the order of the job.
  std::vector<std::string> targets = {};
  FrozenType base = FrozenType::compute;  ///< of the linears of blocks, but routers; all else stays in the type of
                                          ///< compute
  bool operator==(const Adapter&) const = default;
  [[nodiscard]] bool any() const { return rank > 0; }
};

/// Sequences of so many tokens, and how many of them there are relative to the others.
struct LengthShare {
  std::int64_t tokens = 0;
  double weight = 0;
  bool operator==(const LengthShare&) const = default;
};
/// Of how many tokens the sequences are of which samples are made; none: every sample is one sequence of
/// sequence_length tokens.
struct Lengths {
  std::vector<LengthShare> histogram = {};  ///< ascending tokens, each once; longer ones than sequence_length are cut
                                            ///< to it
  Packing packing = Packing::none;
  bool operator==(const Lengths&) const = default;
  [[nodiscard]] bool any() const { return !histogram.empty(); }
};

/// What is trained with what; part of every plan.
struct Training {
  Sequence sequence;
  std::int64_t global_batch = 1;  ///< samples
  Precision precision = Precision::bf16;
  Optimizer optimizer = Optimizer::adam;
  double moe_imbalance = 1.0;  ///< load of the fullest expert rank over the mean
  double tokens = 0;           ///< total training tokens for days and GPU-hours; 0 = not asked
  Adapter adapter = {};
  std::vector<std::string> freeze =
      {};  ///< parts that are not trained: "embedding", "head", "layers 0-15" (blocks, from 0), "layers 3"
  Lengths lengths = {};
  bool operator==(const Training&) const = default;
};

/// Whether weights of the model stay as they are: no gradients of them, no state for them.
inline bool freezes_weights(const Training& training) { return training.adapter.any() || !training.freeze.empty(); }
/// Marks in the model what `training` trains (Operator::frozen and its adapter, LayerKind::backward); layers that come
/// to differ in it get kinds of their own. A model is marked once, before anything is computed of it. Error: a target
/// or part that the model does not have; `where` is the place of `training` in messages.
Status mark_trained(Model& model, const Training& training, const std::string& where);

/// Layers first … last (inclusive, indices into Model::layers) under one strategy.
struct LayerRange {
  std::int32_t first = 0;
  std::int32_t last = 0;
  Strategy strategy;
  bool operator==(const LayerRange&) const = default;
};

/// A pipeline chunk: consecutive ranges, at least one. In the uniform space one; in the layer-wise space a range ends
/// where the strategy changes. All strategies of a stage spread their layers over the same devices: tp·cp·dp is the
/// same for all, and so is the number of samples of a micro-batch in all replicas together; a range of another dp has
/// another micro-batch a rank:
/// Schedule::micro_batch · (dp of the plan's first range) / dp.
struct Chunk {
  std::vector<LayerRange> ranges;
  bool operator==(const Chunk&) const = default;
  [[nodiscard]] std::int32_t first() const { return ranges.front().first; }
  [[nodiscard]] std::int32_t last() const { return ranges.back().last; }
};

/// Devices first, first+stride, …, `count` of them.
struct DeviceRange {
  std::int64_t first = 0;
  std::int64_t count = 1;
  std::int64_t stride = 1;
  auto operator<=>(const DeviceRange&) const = default;
};

struct Stage {
  /// In rank order inside the stage: which devices form a tensor, context, expert or data group follows from their
  /// places in this list.
  std::vector<DeviceRange> devices;
  std::vector<Chunk> chunks;  ///< virtual_stages of them; chunk k of stage i is pipeline chunk pipeline_chunk(...)
  /// Samples of a micro-batch that each of the dp replicas takes; their sum is micro_batch · dp. Empty: equal shares.
  /// Priced where every replica takes some, all stages divide a micro-batch alike, and no cp or ep is used
  /// (unsupported).
  std::vector<std::int64_t> samples_per_replica = {};
  /// Weights by which the ranks of a shard group divide the states that ZeRO shards, one for each of `shard` ranks.
  /// Empty: equal shares. Priced where ZeRO shards over all of dp and no cp or ep is used (unsupported).
  std::vector<std::int64_t> state_shares = {};
  bool operator==(const Stage&) const = default;
};

/// Whether replicas of the stage differ in samples or states.
inline bool uneven_replicas(const Stage& stage) { return !stage.samples_per_replica.empty() || !stage.state_shares.empty(); }

/// One pipeline: every layer of the model once, on devices of its own.
struct Pipeline {
  std::int32_t id = 0;  ///< differs from those of the plan's other pipelines
  Schedule schedule;
  std::int64_t samples = 0;  ///< of the global batch; all pipelines together have all of them
  std::vector<Stage> stages;
  bool operator==(const Pipeline&) const = default;

  /// Of the first layer; of all layers in a uniform pipeline.
  [[nodiscard]] const Strategy& strategy() const { return stages.front().chunks.front().ranges.front().strategy; }
  /// Samples of one micro-batch in all replicas together: micro_batch · dp.
  [[nodiscard]] std::int64_t samples_per_microbatch() const { return std::int64_t{schedule.micro_batch} * strategy().dp; }
};

/// The types in which states and activations are kept.
struct StatePrecision {
  Precision parameters = Precision::bf16;  ///< the copy that computes
  Precision gradients = Precision::fp32;   ///< as accumulated over micro-batches
  Precision moments = Precision::fp32;     ///< of the optimizer
  Precision saved = Precision::bf16;       ///< activations between forward and backward
  bool operator==(const StatePrecision&) const = default;
};
/// What an engine keeps under a training precision (data/engines.yaml); of an engine that is not known what generic
/// keeps.
StatePrecision state_precision(std::string_view engine, const Training& training);

struct Plan {
  std::string model_name, model_hash, cluster_name, cluster_hash;
  std::string model_summary, cluster_summary;  ///< one line each
  std::string model_source, cluster_source;    ///< the inputs themselves as canonical JSON (base::to_json), so that a
                                               ///< plan file
                                               ///< stands alone; the hashes are base::content_hash of these texts
  /// A user's calibration that was in force, as the inputs above; empty: none.
  std::string calibration_name, calibration_hash, calibration_source;
  std::string engine = "generic";
  Training training;
  /// Types other than those that the engine keeps under the training's precision; nothing: those. Held, not priced yet.
  std::optional<StatePrecision> precision;
  std::vector<Pipeline> pipelines = std::vector<Pipeline>(1);
  bool operator==(const Plan&) const = default;

  /// The plan that one of its pipelines is by itself, with that pipeline's samples as global batch.
  [[nodiscard]] Plan alone(std::size_t pipeline) const;
  /// The one pipeline of a plan that has one. Whatever cannot treat several reads a plan through this, after
  /// unsupported() has refused them.
  [[nodiscard]] const Pipeline& only_pipeline() const;
  [[nodiscard]] Pipeline& only_pipeline();
  /// Of the first layer of the only pipeline; of all layers in a uniform plan.
  [[nodiscard]] const Strategy& strategy() const { return only_pipeline().strategy(); }
  /// Whether there is one pipeline and every chunk of it is one range of that strategy. (Full recomputation counts the
  /// blocks of a range.)
  [[nodiscard]] bool uniform() const;
  /// Samples of one micro-batch of the only pipeline in all replicas together: micro_batch · dp.
  [[nodiscard]] std::int64_t samples_per_microbatch() const { return only_pipeline().samples_per_microbatch(); }
  /// One line, fixed-width numbers, so that text order = order of the fields: the tie-break of every comparison. What
  /// no search chooses (several pipelines, unequal shares, devices in an order of their own) follows where the plan
  /// says it.
  [[nodiscard]] std::string canonical_text() const;
  /// Human form: "TP8·SP CP1 PP4(v2) DP16 ZeRO-1 mb1 interleaved full-recompute×2". Of a plan that is not uniform the
  /// pipeline, micro-batches × samples in each, and the strategies with how many layers have them: "layer-wise PP4 1f1b
  /// 64×4 samples overlap:p2p: TP4 ×28, TP2·DP2 ZeRO-1 ×22". Devices that one pipeline lists in an order of their own
  /// follow, the first few ranges:
  /// "… on devices 8-15, 0-7".
  [[nodiscard]] std::string label() const;
};

/// Short form of the strategy of one layer, what is unusual alone: "TP2·SP·CP2·DP4 ZeRO-3/4 +recompute". Degrees of 1
/// are left out (all 1: "DP1"); how many layers are recomputed and what overlaps are matters of a range and of the
/// plan.
std::string label(const Strategy& strategy);

/// Consecutive layers that are treated alike.
struct LayerRun {
  std::int32_t first = 0;
  std::int32_t last = 0;
  Strategy strategy;  ///< of each layer by itself: full recomputation counts one layer, the embedding and the head have
                      ///< none
  [[nodiscard]] std::int32_t layers() const { return last - first + 1; }
};
/// A chunk as the fewest such runs. The embedding (layer 0) and the head (`last_layer` of the plan) are runs of their
/// own.
std::vector<LayerRun> layer_runs(const Chunk& chunk, std::int32_t last_layer);

/// A strategy and how many layers have it, embedding and head included.
struct StrategyCount {
  Strategy strategy;  ///< as in LayerRun
  std::int32_t layers = 0;
};
/// The distinct strategies of a plan, most layers first; among equals in the order of the document.
std::vector<StrategyCount> strategy_counts(const Plan& plan);

/// Position in the pipeline (0 … p·v−1) of local chunk k on stage i. Interleaved: k·p + i; zb-v: i, then 2p−1−i.
std::int32_t pipeline_chunk(const Schedule& schedule, std::int32_t stage, std::int32_t local_chunk);
/// Layer ranges of each pipeline chunk.
std::vector<std::vector<LayerRange>> chunk_ranges(const Pipeline& pipeline);
struct ChunkPlace {
  std::int32_t stage = 0, local_chunk = 0;
};
ChunkPlace place_of_chunk(const Schedule& schedule, std::int32_t pipeline_chunk);

/// Contiguous split of `weights` into `chunks` non-empty ranges that minimises the largest range sum, and among those
/// stays closest to even quantiles. Returns the first index of each range. Deterministic. Requires chunks ≤
/// weights.size().
std::vector<std::int32_t> balanced_split(const std::vector<double>& weights, std::int32_t chunks);
/// Weight of each layer for the split: its forward FLOPs (strategy-independent).
std::vector<double> split_weights(const Model& model, const Sequence& sequence);

/// How an engine cuts the layers into chunks.
enum class SplitPolicy : std::uint8_t {
  balanced,     ///< balanced_split of split_weights
  even_blocks,  ///< equal numbers of blocks (remainder to the first chunks), embedding with the first, head with the
                ///< last
  cumulative,   ///< nanotron: a chunk ends with the layer whose cumulative weight passes its share, so that the first
                ///< chunks hold more
};

/// Builds the uniform plan: every layer `strategy`, chunks by `policy`, devices by strategy.order.
Plan make_uniform_plan(const Model& model, const Cluster& cluster, const Training& training, const std::string& engine,
                       const Strategy& strategy, const Schedule& schedule, SplitPolicy policy);

/// A broken rule of a configuration, by name (docs/search.md lists them all): "divide-heads", "divide-batch", …
struct RuleViolation {
  std::string rule;
  std::string text;  ///< with the numbers: "32 heads are not divisible by tp 6"
  std::string hint;  ///< nearest legal value
};
/// Every divisibility and consistency rule that `strategy` + `schedule` break on this model and cluster; empty = legal.
/// This is the definition of the uniform space: the search enumerates exactly the configurations with no violation that
/// the job's search part admits and its engine runs (overlap_tp and offload are held off unless the job names them:
/// search_space.h).
std::vector<RuleViolation> violations(const Model& model, const Cluster& cluster, const Training& training,
                                      const Strategy& strategy, const Schedule& schedule,
                                      SplitPolicy policy = SplitPolicy::balanced);
/// The names of all rules with one sentence each.
std::vector<std::pair<std::string, std::string>> rule_catalogue();

/// Structure of a plan by itself: pipelines, stages, ranges, devices each exactly once, schedule fields consistent.
/// Places in the document are those of version 2.
Status validate(const Plan& plan);

/// What the plan says that nothing prices yet, by its place in the document: several pipelines, unequal shares of
/// samples or states, expert exchanges overlapped, other types of states. Nothing: all of it has a price. Whoever
/// predicts, checks or converts a plan asks this first, so that nothing a document says is passed over.
Status unsupported(const Plan& plan);

/// Whether every stage lists its devices as its strategies' `order` assigns them, device by device
/// (src/plan/uniform.cpp).
bool devices_in_order(const Plan& plan);

/// Versions of the document.
enum class PlanSchema : std::uint8_t { one = 1, two = 2 };
/// What of the plan version 1 cannot say, by its place: an error of kind check_failed. Nothing: it can be written.
Status unwritable(const Plan& plan, PlanSchema schema);
/// `schema` can say the plan (unwritable).
std::string to_json(const Plan& plan, PlanSchema schema = PlanSchema::two);
/// Of either version: version 1 is one pipeline of equal replicas. Equal shares that are written out are read as none.
Result<Plan> plan_from_json(std::string_view text, const std::string& where);
/// base::content_hash of the document in version 2: equal plans have one, whatever version they were read from.
std::string content_hash(const Plan& plan);

}  // namespace espalier
