// SPDX-License-Identifier: Apache-2.0
// The product in one call: plan a job, estimate one configuration, or simulate a plan. Jobs are loaded by
// espalier/job.h.
//
//   auto job = espalier::load_job_file("examples/llama3-8b-on-8xh100.yaml", {});
//   auto result = espalier::plan(*job, {});
//   std::cout << result->brief();
#pragma once

#include <array>
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
#include "espalier/search_summary.h"
#include "espalier/simulate.h"
#include "espalier/timeline.h"

namespace espalier {

/// Splits the memory of a device by use, in bytes.
struct MemoryBreakdown {
  std::int64_t parameters = 0, gradients = 0, optimizer = 0, activations = 0, communication_buffers = 0, framework = 0;
};

/// Gives the interval of a prediction and its basis.
struct Confidence {
  double low_s = 0, high_s = 0, level = 0.8;
  std::string basis;  ///< "uncalibrated: priors of h100-sxm-80gb", or the calibration
};

/// Identifies the stage that the others wait for: its compute stream idles least (the lowest number on a tie). A
/// stage is busy while it computes, communicates within itself or updates: busy = 1 − bubble / step.
struct Bottleneck {
  std::int32_t stage = 0;
  double busy = 0;
  Breakdown breakdown;                 ///< breakdown of that stage
  std::vector<double> busy_per_stage;  ///< `busy` of all stages
};

/// Sums the use of all links of one name in a cluster ("rails out": the NICs of all devices) during one step
/// under the flow-level network.
struct LinkUse {
  std::string link;
  std::int64_t links = 0;
  double bytes = 0;         ///< carried by all of them
  double busy = 0;          ///< busiest link: share of the step with traffic on it
  double highest_load = 0;  ///< highest share of a link's capacity in use
};

/// Predicts how all traffic in flight uses the links of the cluster when it shares them (docs/network.md).
struct NetworkPrediction {
  std::int64_t closed_iteration_ns = 0;  ///< this plan with each message alone on its links
  std::vector<LinkUse> links;            ///< in the order of the topology; links without traffic are left out
};

/// Holds the price of training, if the cluster file states the price of its devices.
struct Expense {
  double per_step = 0;         ///< the devices for the duration of a step, and traffic that leaves groups and sites
  double per_token = 0;        ///< per sample for vision models
  double per_hour = 0;         ///< all devices of the nodes that the plan uses
  double egress_per_step = 0;  ///< part of per_step
  std::int64_t devices = 0;    ///< devices of the nodes that the plan uses
  double whole_run = 0;        ///< with training.tokens
  std::string currency;
};

/// Holds the predicted time, memory and price of a plan.
struct Prediction {
  std::int64_t iteration_ns = 0;
  double tokens_per_s_per_device = 0;  ///< samples per second for vision models
  double model_tflops_per_device = 0, mfu = 0, mfu_peak_tflops = 0;
  /// Counts only the half of the causal attention scores that is needed; `mfu` counts all of them.
  double mfu_causal = 0;
  Breakdown breakdown;          ///< breakdown of the rank that finishes last
  std::int32_t last_stage = 0;  ///< stage of that rank
  Bottleneck bottleneck;
  std::int64_t hidden_communication_ns = 0;
  std::int64_t peak_memory_bytes = 0;
  std::vector<std::int64_t> peak_memory_bytes_per_stage;
  MemoryBreakdown memory;  ///< fullest rank; framework includes the allocator reserve
  std::int64_t memory_limit_bytes = 0;
  bool fits = false;              ///< against memory_limit_bytes
  double memory_margin = 0;       ///< share of the limit that `plan` leaves free for the error of the memory model
  bool fits_with_margin = false;  ///< against memory_limit_bytes · (1 − memory_margin)
  Confidence confidence;
  double days = 0, device_hours = 0;                        ///< with training.tokens
  std::optional<NetworkPrediction> network = std::nullopt;  ///< for a job whose network is flow
  std::optional<Expense> cost = std::nullopt;               ///< if every node that the plan uses has a price
};

/// Identifies the build that made a result: its version, and a hash of the figures that ship with it
/// (devices, calibrations, intervals).
struct MadeBy {
  std::string version, calibration;
  bool operator==(const MadeBy&) const = default;
};
/// Returns the identity of this build.
const MadeBy& this_build();

/// Holds a named configuration to compare the answer with: a baseline preset or a runner-up. A layer-wise answer has
/// an additional baseline, the fastest plan with one strategy for all layers.
struct Alternative {
  /// Names a baseline ("DDP", "FSDP (ZeRO-3)", "HSDP", "Megatron 3-D default", "best uniform
  /// plan") or holds the plan's label.
  std::string label;
  bool baseline = false;
  bool fits = false;
  std::int64_t iteration_ns = 0;  ///< also set when it does not fit
  std::int64_t peak_memory_bytes = 0;
  /// Lists the parts of the difference to the answer, losses and gains: "exposed communication +0.210 s, bubble
  /// -0.050 s". For an illegal configuration, it states why.
  std::string lost_to;
  std::optional<Plan> plan;
  /// Holds a uniform configuration, as result.json names it; empty where the configuration is illegal.
  std::optional<std::pair<Strategy, Schedule>> configuration = std::nullopt;
  std::string plan_label = {};  ///< label of `plan`; a result that was read from a file has only the label
  std::string engine = {};      ///< engine with the options of a recipe's authors; empty: the engine of the job
  /// The search could not return it, because rules, search part, memory margin or options forbid it.
  bool outside_space = false;
};

/// Describes the plan with the fewest dimensions among those at most `within` slower than the fastest.
/// plan/dimensions_used.h defines the dimensions.
struct Simplest {
  std::string label;
  std::int64_t iteration_ns = 0;
  double loss = 0;  ///< its time over that of the fastest plan, less 1
  std::int32_t dimensions = 0;
  double within = 0.01;
  /// No plan of the space with fewer dimensions is within reach. False: the search was cut short.
  bool certified = false;
  std::int64_t simulated = 0;  ///< configurations simulated for it
  std::optional<Plan> plan;
};

/// States what an engine can run of the job.
enum class EngineStatus : std::uint8_t {
  runs,      ///< exactly the plan of the answer
  has_plan,  ///< a plan of its own
  none,      ///< no plan; EngineAnswer::why gives the reason
  unknown,   ///< no rules of the engine are known
};
inline constexpr std::array kEngineStatuses = {EngineStatus::runs, EngineStatus::has_plan, EngineStatus::none,
                                               EngineStatus::unknown};
std::string_view to_string(EngineStatus status);  ///< "runs" "has a plan" "none" "unknown"

/// Holds an engine's own best plan for the job, predicted as that engine runs it.
struct EngineAnswer {
  std::string engine;
  EngineStatus status = EngineStatus::none;
  std::string label;  ///< label of its best plan; empty: none
  std::int64_t iteration_ns = 0, peak_memory_bytes = 0;
  double loss = 0;  ///< its time over the answer's, less 1
  std::string why;
};

/// Holds the price of the rules of the job's engine: the best plan of the same space without them, with the engine's
/// own memory, kernels and coefficients. The engine itself does not run this plan, unless `rules` is empty.
struct RestrictionPrice {
  std::string engine;
  /// Holds the label of the plan without the rules. Empty: none fits, or the search was stopped before it found one.
  std::string label;
  std::int64_t iteration_ns = 0;
  double price = 0;        ///< the answer's time over that of this plan, less 1; below 0 only if not certified
  bool certified = false;  ///< no plan without the rules is faster
  /// Lists the rules that this plan breaks, by id (docs/engine-rules.md). Empty: the engine runs
  /// it, and the rules cost nothing.
  std::vector<std::string> rules;
};

/// Holds the best plan with options of the job's engine switched on (data/engines.yaml); only options that gain are
/// used.
struct OptionAnswer {
  /// States whether some options change the computation (moments in bf16, activations in 8 bits), not only its
  /// execution.
  bool numerics = false;
  std::vector<std::string> options;  ///< in the order of the catalogue
  /// Holds, for each option, the relative growth of the step when that option alone is removed; −1: it no longer fits.
  std::vector<double> losses;
  std::string engine;  ///< "generic+flex-dispatcher+overlap-experts"
  std::string label;
  std::int64_t iteration_ns = 0, peak_memory_bytes = 0;
  double gain = 0;         ///< share of the answer's step that it saves
  bool certified = false;  ///< no plan of the uniform space with these options is faster
};

/// Holds a configuration with one dimension changed, as simulated.
struct SingleChange {
  std::string dimension;  ///< "tp"
  std::string change;     ///< "tp 8 -> 4"
  std::string label;      ///< label of the plan
  std::int64_t iteration_ns = 0, peak_memory_bytes = 0;
  bool fits = false;         ///< with the memory margin
  double gain = 0;           ///< share of the present step that it saves; 0 if unknown
  Breakdown breakdown = {};  ///< breakdown of its busiest stage
  Strategy strategy = {};
  Schedule schedule = {};
};

/// Describes a larger global batch whose divisors allow a faster plan per sample.
struct BatchHint {
  std::int64_t global_batch = 0;
  std::string label;
  std::int64_t iteration_ns = 0;
  double gain = 0;  ///< share of the time saved against the current plan scaled to that batch (planner/batch_hint.h)
};

/// Keeps results of plan() for later calls of the same job on a changed cluster: slower or faster links, less memory,
/// and changes back. The caller keeps it and passes it to each call (PlannerOptions::memory). A later call
/// immediately prunes what an earlier one proved too slow by a sufficient margin, and starts from its best plans. On
/// other nodes it uses only the starts. Plan, prediction and certificate are those of a call without memory. Counters
/// of the search (bounded, simulated, pruned by rule) differ, and runners-up are the fastest of the fewer plans that
/// were simulated. The memory holds the last eight searches of a job, 24 at most, some megabytes each. It is not a
/// cache of answers: every answer is proven again. It serves one call at a time.
class PlannerMemory {
 public:
  PlannerMemory();
  ~PlannerMemory();
  PlannerMemory(PlannerMemory&&) noexcept;
  PlannerMemory& operator=(PlannerMemory&&) noexcept;
  PlannerMemory(const PlannerMemory&) = delete;
  PlannerMemory& operator=(const PlannerMemory&) = delete;
  /// Clears the memory.
  void clear();
  /// Returns the number of searches that it holds.
  [[nodiscard]] std::size_t size() const;

  struct Content;  ///< planner/memory.h
  [[nodiscard]] Content& content() { return *content_; }

 private:
  std::unique_ptr<Content> content_;
};

/// Holds a uniform configuration that the search simulated and that fits.
struct SearchedPlan {
  std::string label;
  Strategy strategy;
  Schedule schedule;
  std::int64_t iteration_ns = 0, peak_memory_bytes = 0;
};

/// Describes a running search.
struct SearchState {
  std::string phase;                           ///< "uniform", "layer-wise", "operators", "device groups", …
  std::optional<std::int64_t> best_ns;         ///< best plan so far; none: there is none yet
  std::optional<std::int64_t> lower_bound_ns;  ///< no plan left in the phase takes less; none: unknown
  std::int64_t done = 0;                       ///< units of the phase that are finished
  std::optional<std::int64_t> total;           ///< units of the phase; none: unknown
};

/// Holds the options of plan().
struct PlannerOptions {
  int threads = 0;                          ///< 0: hardware threads; never changes the answer
  std::optional<std::int64_t> node_limit;   ///< deterministic budget of simulated plans over all phases
  std::optional<double> time_limit_s;       ///< wall-clock seconds after which the best plan so far is returned
  std::vector<std::string> disabled_rules;  ///< pruning rules to switch off, by name
  /// Lists the phases of the search to leave out, by name: "layer-wise", "operators", "operators by layer". The
  /// certificate then covers less.
  std::vector<std::string> left_out_phases;
  bool exhaustive = false;  ///< reference mode: simulate every legal configuration that fits
  int alternatives = 5;
  double simple_within = 0.01;  ///< by how much the simplest plan may be slower than the fastest
  bool simple = false;          ///< return the simplest plan as the answer
  bool engines = false;         ///< also find the best plan of every engine
  /// Also finds what the rules of the job's engine cost, by another search of the space without them.
  bool restriction = false;
  /// Also finds the best plans with options of the job's engine, by two further searches of the space.
  bool engine_options = false;
  bool keep_searched = false;         ///< fill PlannerResult::searched
  std::function<bool()> interrupted;  ///< polled continuously, from any thread; true stops with the best plan so far
  /// Holds results of earlier calls, and keeps those of this call for later ones; null: none. It must outlive the call.
  PlannerMemory* memory = nullptr;
  /// Receives the state of the search: at most one line per second, one at a time, from any thread.
  std::function<void(const std::string&)> progress;
  /// Receives the state whenever the best time falls or the lower bound changes, one call at a time, from any thread.
  /// It covers the search for the answer, and none of the searches for figures that accompany it.
  std::function<void(const SearchState&)> observer;
};

/// Reports one operator of a partitioned block: forward and backward of one micro-batch on one device.
struct OperatorReport {
  std::int32_t first_layer = 0;  ///< first layer of the range with this partition
  std::int32_t devices = 1;
  std::string name, sequence;  ///< "attn.qkv", "K,P2"
  std::int64_t compute_ns = 0;
  std::int64_t collective_ns = 0;  ///< all-reduces
  std::int64_t ring_hidden_ns = 0, ring_exposed_ns = 0;
  std::int64_t redistribution_ns = 0;  ///< redistribution of its inputs and their gradients
  std::int64_t gradient_sync_ns = 0;   ///< once per step, inside the group
};

/// Holds the answer of plan(), estimate() or simulate().
struct PlannerResult {
  Plan plan;
  Prediction prediction;
  SearchSummary search;
  /// Lists the baselines first, with the best uniform plan last among them; then runners-up by time.
  std::vector<Alternative> alternatives;
  std::vector<std::string> reasons;       ///< why this plan, in sentences
  std::vector<OperatorReport> operators;  ///< if the plan partitions operators
  /// Lists the searched plans by time, then canonical text; 4,096 at most. It needs PlannerOptions::keep_searched and
  /// equal devices, and is not part of result.json.
  std::vector<SearchedPlan> searched = {};
  MadeBy made_by = this_build();                    ///< for a result that was read: the build that wrote it
  std::optional<std::vector<std::string>> runs_on;  ///< engines whose rules accept exactly `plan`
  /// Holds a plan to run instead if no engine runs the answer: the best plan of megatron-core, megatron-bridge,
  /// torchtitan, torchtitan-compile, deepspeed and fsdp2. On several node groups it lies on the one in its label.
  std::optional<EngineAnswer> runnable;
  std::vector<EngineAnswer> engines;            ///< with PlannerOptions::engines, in the order of the catalogue
  std::optional<RestrictionPrice> restriction;  ///< with PlannerOptions::restriction, for an engine with rules
  std::optional<Simplest> simplest;             ///< simplest plan close to `plan`
  std::optional<BatchHint> batch_hint;
  /// Lists option answers with PlannerOptions::engine_options: options of execution alone, then also those that
  /// change numerics. Only gains over 2 % are included.
  std::vector<OptionAnswer> options = {};
  /// Lists single changes of this plan for `explain`, the report and `improve`. It is not part of result.json.
  std::vector<SingleChange> changes = {};
  std::vector<std::string> notes;    ///< parts of the job's inputs that the plan does not cover
  double total_s = 0, search_s = 0;  ///< wall clock; printed only under "timing"
  int threads = 1;

  /// Returns the answer for a terminal, wrapped at `width` columns; 0 does not wrap.
  [[nodiscard]] std::string brief(std::size_t width = 0) const;
  /// Returns the first screen of it: at most 22 lines where `width` is 80, and the table of engines where one was asked
  /// for.
  [[nodiscard]] std::string screen(std::size_t width = 0) const;
};

/// Returns the fastest plan of the job's space. Fails with infeasible (exit 4) when nothing fits;
/// `hint` is the nearest change.
Result<PlannerResult> plan(const Job& job, const PlannerOptions& options);

/// Predicts one given configuration. An illegal one is an Error that names every broken rule. One that does not fit
/// is a result with prediction.fits = false.
Result<PlannerResult> estimate(const Job& job, const Strategy& strategy, const Schedule& schedule);

/// Simulates a plan without changing it. `job` must be the plan's own (job_of_plan) or one with the same devices and
/// layers.
Result<PlannerResult> simulate(const Job& job, const Plan& plan);

/// Holds the figures of a simulated plan, and the instructions from which they were computed.
struct SimulatedPlan {
  PlannerResult result;
  Timeline timeline;
};
/// Selects the contents of a timeline: the instructions of each rank, or also the steps inside them
/// (operators and their collectives).
enum class TimelineDetail : std::uint8_t { instructions, steps };
/// Simulates a plan like simulate(), and also returns the timeline of the step; to_trace()
/// writes it for trace viewers.
Result<SimulatedPlan> simulate_with_timeline(const Job& job, const Plan& plan,
                                             TimelineDetail detail = TimelineDetail::instructions);
/// Returns one micro-batch, forward and backward through the plan's first block with an operator partition, step by
/// step on one device, as Chrome trace-event JSON. Fails if the plan partitions no operators.
Result<std::string> block_timeline(const Job& job, const Plan& plan);

/// Returns JSON of schema espalier.result/2 (docs/file-formats.md). Without `timing`, wall-clock values are left out.
std::string to_json(const PlannerResult& result, bool timing = true, PlanSchema plan_schema = PlanSchema::two);
/// Reads the output of to_json, and version 1 of it. Wall-clock values are not part of a result and come back as 0.
/// Errors give the place; `where` names the text in messages.
Result<PlannerResult> result_from_json(std::string_view text, const std::string& where);

}  // namespace espalier
