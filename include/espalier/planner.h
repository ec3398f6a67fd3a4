// SPDX-License-Identifier: Apache-2.0
// The product in one call: plan a job, estimate one configuration, simulate a plan. How a job is loaded is in
// espalier/job.h.
//
//   auto job = espalier::load_job_file("examples/llama3-8b-on-8xh100.yaml", {});
//   auto result = espalier::plan(*job, {});
//   std::cout << result->brief();
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "espalier/job.h"
#include "espalier/plan.h"
#include "espalier/result.h"
#include "espalier/search_space.h"
#include "espalier/simulate.h"
#include "espalier/timeline.h"

namespace espalier {

struct MemoryBreakdown {
  std::int64_t parameters = 0, gradients = 0, optimizer = 0, activations = 0, communication_buffers = 0, framework = 0;
};

struct Confidence {
  double low_s = 0, high_s = 0, level = 0.8;
  std::string basis;  ///< "uncalibrated: priors of h100-sxm-80gb" or which calibration
};

/// The stage that the others wait for: the one whose compute stream idles least (the lowest number on a tie). A stage
/// is busy while it computes, communicates within itself or updates: busy = 1 − bubble / iteration.
struct Bottleneck {
  std::int32_t stage = 0;
  double busy = 0;
  Breakdown breakdown;                 ///< of that stage
  std::vector<double> busy_per_stage;  ///< of all
};

/// All links of one name of a cluster ("rails out": the NICs of all devices) during one iteration under the flow-level
/// network.
struct LinkUse {
  std::string link;
  std::int64_t links = 0;
  double bytes = 0;         ///< carried by all of them
  double busy = 0;          ///< of the busiest: share of the iteration with traffic on it
  double highest_load = 0;  ///< of any: highest share of its capacity in use
};

/// What everything in flight makes of the links of the cluster when it shares them (docs/network.md).
struct NetworkPrediction {
  std::int64_t closed_iteration_ns = 0;  ///< of the same plan, were each message alone on its links
  std::vector<LinkUse> links;            ///< in the order of the topology; those without traffic are left out
};

/// What training costs in money, where the cluster file says what its devices cost.
struct Expense {
  double per_step = 0;         ///< devices for the time of a step, and what leaves groups and sites
  double per_token = 0;        ///< of vision models per sample
  double per_hour = 0;         ///< of all devices of the nodes that the plan uses
  double egress_per_step = 0;  ///< of this per_step
  std::int64_t devices = 0;    ///< of the nodes that the plan uses
  double whole_run = 0;        ///< with training.tokens
  std::string currency;
};

struct Prediction {
  std::int64_t iteration_ns = 0;
  double tokens_per_s_per_device = 0;  ///< samples per second for vision models
  double model_tflops_per_device = 0, mfu = 0, mfu_peak_tflops = 0;
  double mfu_causal = 0;        ///< `mfu` counts causal attention in full, this one the half of the scores that is
                                ///< needed
  Breakdown breakdown;          ///< of the rank that finishes last
  std::int32_t last_stage = 0;  ///< its stage
  Bottleneck bottleneck;
  std::int64_t hidden_communication_ns = 0;
  std::int64_t peak_memory_bytes = 0;
  std::vector<std::int64_t> peak_memory_bytes_per_stage;
  MemoryBreakdown memory;  ///< of the fullest rank; framework includes the allocator reserve
  std::int64_t memory_limit_bytes = 0;
  bool fits = false;              ///< against memory_limit_bytes
  double memory_margin = 0;       ///< share of the limit that `plan` leaves free for the error of the memory model
  bool fits_with_margin = false;  ///< against memory_limit_bytes · (1 − memory_margin)
  Confidence confidence;
  double days = 0, device_hours = 0;                        ///< with training.tokens
  std::optional<NetworkPrediction> network = std::nullopt;  ///< of a job whose network is flow
  std::optional<Expense> cost = std::nullopt;               ///< where every node that the plan uses has a price
};

/// The build that made a result: its version, and a hash of the figures that ship with it (devices, calibrations,
/// intervals).
struct MadeBy {
  std::string version, calibration;
  bool operator==(const MadeBy&) const = default;
};
/// This build.
const MadeBy& this_build();

/// A named configuration beside the answer: a baseline preset or a runner-up. A layer-wise answer has one baseline
/// more: the fastest plan with one strategy for all layers.
struct Alternative {
  std::string label;  ///< "DDP", "FSDP (ZeRO-3)", "HSDP", "Megatron 3-D default", "best uniform plan", or the plan's
                      ///< label
  bool baseline = false;
  bool fits = false;
  std::int64_t iteration_ns = 0;  ///< also when it does not fit
  std::int64_t peak_memory_bytes = 0;
  /// Where the difference to the answer lies, losses and gains: "exposed communication +0.210 s, bubble -0.050 s"; or
  /// why it is illegal.
  std::string lost_to;
  std::optional<Plan> plan;
  /// Of a uniform configuration, as result.json names it; empty where the configuration is illegal.
  std::optional<std::pair<Strategy, Schedule>> configuration = std::nullopt;
  std::string plan_label = {};  ///< label of `plan`; a result that was read has it and no `plan`
  std::string engine = {};      ///< with the options that a recipe's authors used; empty: the engine of the job
  bool outside_space = false;   ///< the search could not answer with it: rules, search part, memory margin or options
                                ///< forbid it
};

/// What a search was asked for, so that a result can be searched again.
struct SearchRequest {
  SearchSpace space;
  std::int64_t node_limit = 0;
  std::vector<std::string> disabled_rules;
  bool exhaustive = false;
  int alternatives = 5;
  std::vector<std::string> left_out_phases = {};
  bool simple = false;  ///< the simplest plan was the answer
  bool engines = false;
  bool restriction = false;
  double simple_within = 0.01;
  bool engine_options = false;
};

/// Partitions of the layers of a layer-wise answer over its stages, each with the strategies that are best for it.
struct StageBalance {
  std::string name;                 ///< "even", "time-balanced", "memory-balanced", "bi-objective", "exact"
  std::vector<std::int32_t> first;  ///< first layer of each stage
  double alpha_t = 0, alpha_m = 0;  ///< 1 − largest share of a stage in time, in memory; at most 1 − 1/stages
  std::int64_t iteration_ns = 0;    ///< simulated; 0: does not fit
};

/// What the search of layer-wise plans did beyond the uniform ones.
struct LayerwiseSummary {
  std::int64_t uniform_ns = 0;  ///< the best uniform plan; 0: none fits
  double strategies = 0;        ///< of a layer kind, summed over pipelines and batches
  double kept = 0;              ///< of these, not beaten in every component by another of the same layout
  std::int64_t outer = 0;       ///< choices of stages and samples a micro-batch
  std::int64_t solved = 0;      ///< of these, whose programs were solved; the others are beaten by their bound
  std::vector<StageBalance> balance;
  std::int64_t simulated = 0;  ///< different layer-wise plans, none of which SearchSummary::simulated counts
  /// Single changes of the answer (one layer's strategy, one boundary between chunks, the overlap switches) that were
  /// simulated, and those that were not; left 0 of tried > 0: none of them makes it faster.
  std::int64_t refinement_tried = 0, refinement_left = 0;
};

/// What operator partitions (Strategy::partition) add to a search.
struct PartitionSummary {
  std::int64_t without_ns = 0;      ///< the best plan without them; 0: none fits
  std::int64_t groups = 0;          ///< choices of tensor group and samples whose operators were partitioned
  std::int64_t solved = 0;          ///< operator searches
  std::int64_t offered = 0;         ///< partitions that strategies could take
  bool certified = true;            ///< of every operator search: its answer equals trying all
  std::int64_t lower_bound_ns = 0;  ///< for plans with any partition, offered or not
};

/// What the search of plans on groups of unlike devices did.
struct DeviceGroupsSummary {
  std::int64_t sizes = 0;         ///< numbers of samples that a micro-batch may have
  std::int64_t options = 0;       ///< ways to make a stage, over all sizes
  std::int64_t dropped = 0;       ///< of these: another on as many devices of the same kind is no worse
  std::int64_t states = 0;        ///< partial plans that were kept
  std::int64_t candidates = 0;    ///< plans of the least bounds
  std::int64_t simulated = 0;     ///< of these, whose bound was below the best plan so far, and single changes of the
                                  ///< best of them
  std::int64_t refined = 0;       ///< of the simulated, single changes
  std::int64_t without_room = 0;  ///< of the simulated, that do not fit
  double alone = 0;               ///< uniform configurations on one node group alone, of a cluster of several: all of them are
                                  ///< slower or the
                                  ///< answer
  std::int64_t alone_simulated = 0;
  std::int64_t columns = 0;       ///< pipelines on one of several node groups that were put beside each other
  std::int64_t combinations = 0;  ///< sets of them, samples dealt
  std::int64_t beside_simulated = 0;
  /// The answer has several pipelines; the bound then speaks of chains of stages and of pipelines beside each other,
  /// each on one group (1f1b, or what the job asks for instead; no interleaving on groups).
  bool several_pipelines = false;
  std::int64_t replica_plans = 0;  ///< of one stage with replicas on several node groups
  std::int64_t replicas_simulated = 0;
  /// The answer is one of them; the bound then speaks of chains of stages and of one stage with such replicas, without
  /// cp and ep.
  bool uneven_replicas = false;
  bool operator==(const DeviceGroupsSummary&) const = default;
};

/// What one phase of the search did (docs/search.md).
struct PhaseSummary {
  std::string name;       ///< "uniform", "layer-wise", "operators", "operators by layer"
  bool left_out = false;  ///< by name
  bool complete = false;  ///< false: limit, interruption, or not begun
  std::int64_t bounded = 0, lowered = 0, simulated = 0;
  std::int64_t lower_bound_ns = 0;  ///< no plan of the phase takes less; 0: not known
  double seconds = 0;               ///< wall clock; printed only under "timing"
};

/// Why a search ended.
enum class SearchEnd : std::uint8_t {
  none,            ///< nothing was searched: one given configuration
  optimal,         ///< all of the space is covered, and nothing in it is faster
  gap,             ///< all of the space is covered; a bound says by how much something could be faster at most
  node_limit,      ///< so many nodes were asked for
  time_limit,      ///< so many seconds were asked for
  interrupted,     ///< by a signal
  phase_left_out,  ///< by name
};
constexpr bool searched(SearchEnd end) { return end != SearchEnd::none; }
/// Whether all of the space is covered.
constexpr bool is_whole(SearchEnd end) { return end == SearchEnd::optimal || end == SearchEnd::gap; }
/// Whether another run may end elsewhere.
constexpr bool ended_by_clock(SearchEnd end) { return end == SearchEnd::time_limit || end == SearchEnd::interrupted; }
std::string_view to_string(SearchEnd end);  ///< "" "optimal" "gap" "node limit" "time limit" "interrupted" "phase left
                                            ///< out"
std::optional<SearchEnd> search_end_of(std::string_view words);

struct SearchSummary {
  double space_size = 0;                                               ///< legal configurations (exact integer below
                                                                       ///< 2^53)
  std::map<std::string, std::map<std::int64_t, double>> by_dimension;  ///< "pp" -> value -> configurations
  std::int64_t bounded = 0;                                            ///< nodes whose bound was computed
  std::int64_t simulated = 0;            ///< configurations of the uniform space, each once: space_size = simulated + Σ
                                         ///< pruned
  std::map<std::string, double> pruned;  ///< configurations removed, by rule
  bool optimal = false;                  ///< certificate: no configuration of the space is faster
  std::int64_t lower_bound_ns = 0;
  double gap = 0;
  SearchEnd reason = SearchEnd::none;
  SpaceKind space = SpaceKind::uniform;
  std::optional<LayerwiseSummary> layerwise;                        ///< of spaces with layer-wise plans
  std::optional<PartitionSummary> partitions = std::nullopt;        ///< of spaces with operator partitions
  std::optional<DeviceGroupsSummary> device_groups = std::nullopt;  ///< where plans may lie on groups of unlike devices
  double memory_margin = 0;           ///< the space holds what fits into memory limit · (1 − margin)
  std::string memory_margin_basis{};  ///< "search.memory_margin", or which runs the default rests on
  SearchRequest asked = {};
  /// How layers come to stages, where there is a pipeline: "by policy (balanced), not searched"; empty: none.
  std::string split = {};
  std::int64_t lowered = 0;  ///< programs timed for `simulated`; equal timings once, good starts of the search included
  std::vector<PhaseSummary> phases = {};  ///< of the space, in order
  /// What the engine lets layers and stages of one plan differ in: "layers may differ in: zero, recompute; stages in:
  /// nothing"; empty: uniform plans were asked for, or the engine restricts nothing.
  std::string freedom = {};
};

/// The plan of fewest dimensions among those at most `within` slower than the fastest; what counts as a dimension:
/// plan/dimensions_used.h.
struct Simplest {
  std::string label;
  std::int64_t iteration_ns = 0;
  double loss = 0;  ///< its time over that of the fastest plan, less 1
  std::int32_t dimensions = 0;
  double within = 0.01;
  bool certified = false;      ///< no plan of the space with fewer dimensions is within reach; false: the search was
                               ///< cut short
  std::int64_t simulated = 0;  ///< configurations simulated for it
  std::optional<Plan> plan;
};

/// What an engine makes of the job: its own best plan, predicted as that engine runs it.
struct EngineAnswer {
  std::string engine;
  std::string status;  ///< "runs" (the very plan of the answer), "has a plan", "none" (`why`), "unknown": no rules of
                       ///< it
                       ///< are known
  std::string label;   ///< of its best plan; empty: none
  std::int64_t iteration_ns = 0, peak_memory_bytes = 0;
  double loss = 0;  ///< its time over the answer's, less 1
  std::string why;
};

/// What the rules of the job's engine cost: the best plan that the same space holds without them, with the engine's own
/// memory, kernels and coefficients. It is no plan that the engine runs.
struct RestrictionPrice {
  std::string engine;
  std::string label;  ///< of the plan without the rules; empty: none fits, or the search was stopped before it found
                      ///< one
  std::int64_t iteration_ns = 0;
  double price = 0;        ///< the answer's time over that of this plan, less 1; below 0 only where it is not certified
  bool certified = false;  ///< nothing without the rules is faster than this plan
  std::vector<std::string>
      rules;  ///< that this plan breaks, by id (docs/engine-rules.md); empty: the engine runs it, the rules cost
              ///< nothing
};

/// The best plan with options of the job's engine switched on (data/engines.yaml), of those that gain.
struct OptionAnswer {
  /// Whether options among them change what is computed (moments in bf16, activations in 8 bits), not only how.
  bool numerics = false;
  std::vector<std::string> options;  ///< in the order of the catalogue
  std::vector<double> losses;        ///< of each: the step's growth, as a share, when that option alone is taken away; −1: it
                                     ///< no
                                     ///< longer fits
  std::string engine;                ///< "generic+flex-dispatcher+overlap-experts"
  std::string label;
  std::int64_t iteration_ns = 0, peak_memory_bytes = 0;
  double gain = 0;         ///< share of the answer's step that it saves
  bool certified = false;  ///< no plan of the uniform space with these options is faster
};

/// One dimension of a configuration with another value, simulated.
struct SingleChange {
  std::string dimension;  ///< "tp"
  std::string change;     ///< "tp 8 -> 4"
  std::string label;      ///< of the plan
  std::int64_t iteration_ns = 0, peak_memory_bytes = 0;
  bool fits = false;         ///< with the memory margin
  double gain = 0;           ///< share of the present step that it saves; 0 where that is not known
  Breakdown breakdown = {};  ///< of its busiest stage
  Strategy strategy = {};
  Schedule schedule = {};
};

/// A larger global batch whose divisors allow a faster plan per sample.
struct BatchHint {
  std::int64_t global_batch = 0;
  std::string label;
  std::int64_t iteration_ns = 0;
  double gain = 0;  ///< share of the time saved against the plan of today, grown to that batch (planner/batch_hint.h)
};

/// What calls of plan() leave for later calls of the same job on a changed cluster: links slower or faster, less
/// memory, and back again. The caller keeps it and hands it to each call (PlannerOptions::memory). A later call then
/// drops at once what an earlier one proved too slow by enough, and starts from its best plans; on other nodes it has
/// the starts alone. Its plan, prediction and certificate are those of a call without memory. Counters of the search
/// (bounded, simulated, pruned by rule) differ, and runners-up are the fastest of the fewer plans that were simulated.
/// It holds what the last eight searches of a job found, 24 at most, some megabytes each, and is no cache of answers:
/// every answer is proven anew. For one call at a time.
class PlannerMemory {
 public:
  PlannerMemory();
  ~PlannerMemory();
  PlannerMemory(PlannerMemory&&) noexcept;
  PlannerMemory& operator=(PlannerMemory&&) noexcept;
  PlannerMemory(const PlannerMemory&) = delete;
  PlannerMemory& operator=(const PlannerMemory&) = delete;
  /// Forgets everything.
  void clear();
  /// Searches that it remembers.
  [[nodiscard]] std::size_t size() const;

  struct Content;  ///< planner/memory.h
  [[nodiscard]] Content& content() { return *content_; }

 private:
  std::unique_ptr<Content> content_;
};

/// A uniform configuration that the search simulated and that fits.
struct SearchedPlan {
  std::string label;
  Strategy strategy;
  Schedule schedule;
  std::int64_t iteration_ns = 0, peak_memory_bytes = 0;
};

struct PlannerOptions {
  int threads = 0;                          ///< 0 = hardware; never changes the answer
  std::int64_t node_limit = 0;              ///< deterministic budget of simulated plans, of all phases together; 0 =
                                            ///< none
  double time_limit_s = 0;                  ///< wall-clock seconds after which the best so far is the answer; 0 = none
  std::vector<std::string> disabled_rules;  ///< pruning rules switched off, by name
  /// Phases of the search left out, by name: "layer-wise", "operators", "operators by layer". The certificate then
  /// speaks of less.
  std::vector<std::string> left_out_phases;
  bool exhaustive = false;  ///< reference: simulate every legal configuration that fits
  int alternatives = 5;
  double simple_within = 0.01;        ///< how much slower than the fastest the simplest plan may be
  bool simple = false;                ///< the simplest plan is the answer
  bool engines = false;               ///< also the best plan of every engine
  bool restriction = false;           ///< also what the rules of the job's engine cost: the space is searched once more
                                      ///< without them
  bool engine_options = false;        ///< also the best plans with options of the job's engine: the space is searched
                                      ///< twice
                                      ///< more
  bool keep_searched = false;         ///< fills PlannerResult::searched
  std::function<bool()> interrupted;  ///< polled all the time, from any thread; true stops with the best so far
  PlannerMemory* memory = nullptr;    ///< of earlier calls, and for later ones; null: none. Lives as long as the call
  /// Where the search stands: a line a second at most, one at a time, from any thread.
  std::function<void(const std::string&)> progress;
};

/// One operator of a partitioned block: forward and backward of one micro-batch on one device.
struct OperatorReport {
  std::int32_t first_layer = 0;  ///< of the range that is partitioned so
  std::int32_t devices = 1;
  std::string name, sequence;  ///< "attn.qkv", "K,P2"
  std::int64_t compute_ns = 0;
  std::int64_t collective_ns = 0;  ///< all-reduces
  std::int64_t ring_hidden_ns = 0, ring_exposed_ns = 0;
  std::int64_t redistribution_ns = 0;  ///< of its inputs and their gradients
  std::int64_t gradient_sync_ns = 0;   ///< once a step, inside the group
};

struct PlannerResult {
  Plan plan;
  Prediction prediction;
  SearchSummary search;
  std::vector<Alternative> alternatives;  ///< baselines first, the best uniform plan last of them; then runners-up by
                                          ///< time
  std::vector<std::string> reasons;       ///< why this plan, in sentences
  std::vector<OperatorReport> operators;  ///< where the plan partitions operators
  /// With PlannerOptions::keep_searched, on equal devices: by time, then canonical text; 4,096 at most. Not part of
  /// result.json.
  std::vector<SearchedPlan> searched = {};
  MadeBy made_by = this_build();                    ///< of a result that was read: the build that wrote it
  std::optional<std::vector<std::string>> runs_on;  ///< of `plan`: engines whose rules accept this very plan
  /// Where no engine runs the answer: the best plan of the first of megatron-core, torchtitan and deepspeed that has
  /// one.
  std::optional<EngineAnswer> runnable;
  std::vector<EngineAnswer> engines;            ///< with PlannerOptions::engines, in the order of the catalogue
  std::optional<RestrictionPrice> restriction;  ///< with PlannerOptions::restriction, of an engine with rules
  std::optional<Simplest> simplest;             ///< of `plan`
  std::optional<BatchHint> batch_hint;
  /// With PlannerOptions::engine_options: execution alone, then with those that change numerics; only where they gain
  /// over 2 %.
  std::vector<OptionAnswer> options = {};
  /// For `explain`, the report and `improve`: single changes of this plan. Not part of result.json.
  std::vector<SingleChange> changes = {};
  std::vector<std::string> notes;    ///< of the job: what was not planned of the inputs
  double total_s = 0, search_s = 0;  ///< wall clock; printed only under "timing"
  int threads = 1;

  /// The terminal answer, no line longer than `width` columns; 0: as wide as it is.
  [[nodiscard]] std::string brief(std::size_t width = 0) const;
  /// Returns the first screen of it: at most 24 lines where `width` is 80.
  [[nodiscard]] std::string screen(std::size_t width = 0) const;
};

/// The fastest plan of the job's space. Error kind infeasible (exit 4) when nothing fits: `hint` is the nearest change.
Result<PlannerResult> plan(const Job& job, const PlannerOptions& options);

/// One given configuration. Illegal ones are an Error that names every broken rule; one that does not fit is a result
/// with prediction.fits = false.
Result<PlannerResult> estimate(const Job& job, const Strategy& strategy, const Schedule& schedule);

/// A plan as it stands, simulated again. `job` must be the plan's own (job_of_plan) or one with the same devices and
/// layers.
Result<PlannerResult> simulate(const Job& job, const Plan& plan);

/// A simulated plan with every instruction of it: the figures, and where they come from.
struct SimulatedPlan {
  PlannerResult result;
  Timeline timeline;
};
/// What a timeline shows: the instructions of each rank, or the steps inside them too (operators and their
/// collectives).
enum class TimelineDetail : std::uint8_t { instructions, steps };
/// As simulate(), and the timeline of the iteration; to_trace() writes it for trace viewers.
Result<SimulatedPlan> simulate_with_timeline(const Job& job, const Plan& plan,
                                             TimelineDetail detail = TimelineDetail::instructions);
/// One micro-batch forward and backward through the plan's first block with an operator partition, step by step on one
/// device, as Chrome trace-event JSON. Error: the plan partitions no operators.
Result<std::string> block_timeline(const Job& job, const Plan& plan);

/// schema espalier.result/1 (docs/file-formats.md). `timing` false leaves wall-clock values out.
std::string to_json(const PlannerResult& result, bool timing = true, PlanSchema plan_schema = PlanSchema::two);
/// What to_json wrote, read back. Wall-clock values are not part of a result and come back as 0. Errors name the place:
/// `where` is what messages call the text.
Result<PlannerResult> result_from_json(std::string_view text, const std::string& where);

}  // namespace espalier
