// SPDX-License-Identifier: Apache-2.0
#include "search/phases.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "base/invariant.h"
#include "plan/engine.h"
#include "plan/listed_devices.h"
#include "search/cluster_parts.h"
#include "search/phase_context.h"
#include "search/speed_classes.h"
#include "search/work_bound.h"

namespace espalier::search {
namespace {

using Clock = std::chrono::steady_clock;

std::int64_t time_of(const Outcome& found) { return found.best ? found.best->iteration_ns : 0; }
std::int64_t time_of(const std::optional<LayerwiseOutcome>& found) {
  return found && found->best ? found->best->iteration_ns : 0;
}
/// Returns the smaller time; 0 counts as none.
std::int64_t faster(std::int64_t a, std::int64_t b) { return a == 0 ? b : b == 0 ? a : std::min(a, b); }

/// Holds the state that phases pass on.
struct PhaseState {
  Problem problem;
  Evaluator& evaluator;
  const PhaseOptions& options;
  SearchResult& found;
  const SpeedClasses* classes = nullptr;  ///< classes of a cluster with speeds
  JudgeOfClasses* of_classes = nullptr;
  Problem by_class;  ///< the problem on them

  /// Returns how many plans a phase may still simulate; 0: no limit. An exhausted budget leaves a phase one plan.
  [[nodiscard]] std::int64_t rest_after(std::int64_t simulated) const {
    const std::int64_t limit = options.how.node_limit;
    return limit > 0 ? std::max<std::int64_t>(1, limit - simulated) : 0;
  }
};

/// Runs the layer-wise search beyond the uniform answer `flat`. `before` is the layer-wise search of a smaller space,
/// whose plans are not counted again.
LayerwiseOutcome search_layers(PhaseState& s, const Outcome& flat, const LayerwiseOutcome* before) {
  LayerwiseOptions layered;
  layered.threads = s.options.how.threads;
  layered.node_limit = s.rest_after(flat.simulations + (before != nullptr ? before->simulations : 0));
  layered.interrupted = s.options.how.interrupted;
  layered.progress = s.options.how.progress;
  layered.uniform = flat.best;
  layered.starts = flat.simulated;
  layered.simulated = prints_of(s.problem, flat.simulated);
  if (before != nullptr) layered.simulated.insert(before->prints.begin(), before->prints.end());
  return layerwise(s.problem, s.evaluator, layered);
}

/// Reports the result of a phase; `bounded` is the number of nodes that it examined.
template <typename Outcome>
void report(const Outcome& found, std::int64_t bounded, PhaseSummary& out) {
  out.complete = found.complete;
  out.counters[SearchCounter::bounded] = bounded;
  out.counters[SearchCounter::simulated] = found.simulations;
  out.best_ns = found.best ? found.best->iteration_ns : 0;
  out.lower_bound_ns = found.lower_bound_ns;
}

void run_uniform(PhaseState& s, PhaseSummary& out) {
  Options how = s.options.how;
  // Under a limit the answer depends on the order of work, which a record changes.
  const bool whole = how.node_limit == 0;
  how.carried = whole ? s.options.carried : nullptr;
  how.keep_record = whole && s.options.keep_record;
  s.found.uniform =
      s.options.exhaustive ? exhaustive(s.problem, s.evaluator, how) : branch_and_bound(s.problem, s.evaluator, how);
  report(s.found.uniform, s.found.uniform.bounded, out);
}

/// Returns a sum of whole numbers that is held as a real number.
std::int64_t whole_count(double sum) { return static_cast<std::int64_t>(std::min(sum, 0x1p53)); }

void report_layers(const LayerwiseOutcome& found, PhaseSummary& out) {
  report(found, found.solved, out);
  out.counters[SearchCounter::strategies] = whole_count(found.strategies);
  out.counters[SearchCounter::kept] = whole_count(found.leaves);
  out.counters[SearchCounter::choices] = found.outer;
}

void run_layers(PhaseState& s, PhaseSummary& out) {
  s.found.layered = search_layers(s, s.found.uniform, nullptr);
  report_layers(*s.found.layered, out);
}

void report_partitions(const PartitionChoices& found, PhaseSummary& out) {
  std::int64_t offered = 0;
  for (const auto& [key, offer] : found.offers) offered += static_cast<std::int64_t>(offer.partitions.size());
  out.partition_bound_ns = found.lower_bound_ns;
  out.counters[SearchCounter::tensor_groups] = static_cast<std::int64_t>(found.offers.size());
  out.counters[SearchCounter::operator_searches] = found.solved;
  out.counters[SearchCounter::inexact_searches] = found.inexact;
  out.counters[SearchCounter::partitions] = offered;
}

void run_operators(PhaseState& s, PhaseSummary& out) {
  const SearchResult& before = s.found;
  PartitionOptions partitions;
  partitions.incumbent_ns = faster(time_of(before.uniform), time_of(before.layered));
  partitions.threads = s.options.how.threads;
  partitions.interrupted = s.options.how.interrupted;
  partitions.progress = s.options.how.progress;
  s.found.choices = partition_choices(s.problem, partitions);
  s.problem.partitions = &s.found.choices;
  Options how = s.options.how;
  if (before.uniform.best) how.seeds.push_back(before.uniform.best->configuration);
  how.node_limit = s.rest_after(before.uniform.simulations + (before.layered ? before.layered->simulations : 0));
  s.found.partitioned = branch_and_bound(s.problem, s.evaluator, how);
  report(*s.found.partitioned, s.found.partitioned->bounded, out);
  report_partitions(s.found.choices, out);
  out.lower_bound_ns = std::min(out.lower_bound_ns, s.found.choices.lower_bound_ns);
}

void run_operators_by_layer(PhaseState& s, PhaseSummary& out) {
  s.found.both = search_layers(s, *s.found.partitioned, s.found.layered ? &*s.found.layered : nullptr);
  report_layers(*s.found.both, out);
  out.partition_bound_ns = s.found.choices.layered_lower_bound_ns;
  out.lower_bound_ns = std::min(out.lower_bound_ns, s.found.choices.layered_lower_bound_ns);
}

/// Where devices are of unequal speed, converts results on the classes into plans of their devices. The bounds of the
/// classes count where they are exact.
void on_devices(const PhaseState& s, PhaseOutcome& found) {
  if (s.classes == nullptr) return;
  if (found.best) found.best->pipelines = s.classes->on_devices(std::move(found.best->pipelines));
  if (!s.classes->exact()) found.lower_bound_ns = std::min(found.lower_bound_ns, work_bound_ns(s.problem));
}

const Problem& unlike_problem(const PhaseState& s) { return s.classes != nullptr ? s.by_class : s.problem; }
Evaluator& unlike_evaluator(const PhaseState& s) { return s.classes != nullptr ? *s.of_classes : s.evaluator; }

/// Where every device must have work, plans on one of several groups are no answers; only later phases use them.
void leave_to_others(const Problem& on, SingleGroupOutcome& found) {
  if (on.space.devices != DeviceChoice::all || on.cluster->groups.size() < 2) return;
  found.best.reset();
  found.lower_bound_ns = INT64_MAX;
}

/// Adds the plans on each class.
void add_classes(const PhaseState& s, SingleGroupOutcome& found) {
  s.found.of_classes = single_group(s.by_class, *s.of_classes, s.options.how);
  SingleGroupOutcome& more = *s.found.of_classes;
  leave_to_others(s.by_class, more);
  on_devices(s, more);
  merge(found, more);
}

void run_single_group(PhaseState& s, PhaseSummary& out) {
  s.found.alone = single_group(s.problem, s.evaluator, s.options.how, s.found.best_ns(), !s.problem.cluster->equal_devices());
  leave_to_others(s.problem, *s.found.alone);
  if (s.classes != nullptr) add_classes(s, *s.found.alone);
  report(*s.found.alone, s.found.alone->bounded, out);
  double configurations = 0;
  for (const GroupAlone& group : s.found.alone->groups) configurations += group.space_size;
  out.counters[SearchCounter::configurations] = whole_count(configurations);
}

/// Holds the fastest of the plans handed in that fits.
struct Started {
  std::optional<GroupedCandidate> best;
  std::int64_t judged = 0, out_of_memory = 0;
};
Started judge_starts(PhaseState& s) {
  Started out;
  if (s.options.starts.empty()) return out;
  const cost::ClusterCosts costs(*s.problem.model, *s.problem.cluster, s.problem.training, *s.problem.engine);
  for (const Pipeline& start : s.options.starts) {
    if (s.problem.space.devices == DeviceChoice::all && device_count(start) < s.problem.cluster->devices()) continue;
    Plan plan;
    plan.training = s.problem.training;
    plan.engine = s.problem.engine->name;
    plan.pipelines = {start};
    const std::optional<PlanEvaluation> judged = s.evaluator.evaluate(s.problem, costs, plan);
    ESPALIER_CHECK(judged.has_value());
    ++out.judged;
    if (!judged->fits) ++out.out_of_memory;
    if (!judged->fits || (out.best && out.best->iteration_ns <= judged->iteration_ns)) continue;
    out.best = {std::move(plan.pipelines), judged->iteration_ns};
  }
  return out;
}

std::int64_t simulated_before(const SearchResult& found) {
  std::int64_t out = 0;
  for (const PhaseOutcome* phase : found.on_groups()) out += phase->simulations;
  return out;
}

/// Returns the options without progress: a bound of a part is none of the cluster.
Options silent(Options how) {
  how.progress = nullptr;
  return how;
}

/// Runs a phase on parts of `on` by `run(problem, nodes, incumbent_ns)`. The best plan of each part is timed again by
/// `judge` on the whole. The bound is the least of the parts.
template <typename Run>
PhaseOutcome run_on_parts(const PhaseState& s, const Problem& on, Evaluator& judge, const std::vector<ClusterPart>& parts,
                          const Run& run) {
  PhaseOutcome out;
  out.lower_bound_ns = INT64_MAX;
  PhaseContext context(on, judge, {s.found.best_ns(), 0, s.options.how.interrupted}, out);
  for (const ClusterPart& part : parts) {
    if (context.stopped()) break;
    Problem own = on;
    own.cluster = &part.cluster;
    PhaseOutcome of_part = run(own, part.nodes, context.best_ns() == INT64_MAX ? 0 : context.best_ns());
    const std::optional<GroupedCandidate> best = std::exchange(of_part.best, std::nullopt);
    merge(out, of_part);
    if (!best) continue;
    Plan plan = context.empty_plan();
    plan.pipelines = search::on_devices(best->pipelines, devices_of(*on.cluster, part.nodes));
    context.offer(plan.pipelines, context.simulate(plan));
    --out.simulations;  // it was counted on the part
  }
  out.complete = !out.interrupted;  // a part that reached a budget has the bound of its work
  return out;
}

/// Returns the time that a plan of a part must beat.
std::int64_t beaten_ns(const PhaseState& s) {
  const std::int64_t best_ns = s.found.best_ns();
  return best_ns == 0 ? INT64_MAX : best_ns;
}

/// Chains of a part are searched up to this part above the best plan, since changes of them may be faster.
constexpr std::int64_t kPartRoom = 20;

/// Repeats a phase on fewer groups. Its bound covers these already, so a limit may leave them out, and no part is
/// searched where the phase has shown that no plan of the cluster is faster.
template <typename Run>
void repeat_on_fewer_groups(const PhaseState& s, PhaseOutcome& found, const Run& run) {
  const bool limited = s.options.on_part || s.options.how.node_limit > 0 || found.interrupted;
  if (limited || found.lower_bound_ns >= beaten_ns(s)) return;
  PhaseOutcome more = run_on_parts(s, s.problem, s.evaluator, fewer_groups(s.problem, beaten_ns(s)), run);
  more.lower_bound_ns = found.lower_bound_ns;
  more.complete = true;
  merge(found, more);
}

/// Searches concurrent pipelines on a part with devices of unequal speed, whose classes are not those of the cluster.
MultiPipelineOutcome pipelines_of_part(const PhaseState& s, const Problem& part) {
  PhaseOptions own = s.options;
  own.starts.clear();
  own.on_part = true;
  own.how = silent(own.how);
  own.left_out = {std::string(kDeviceGroupsPhase), std::string(kWholeClusterPhase), std::string(kReplicasPhase)};
  SearchResult found = search(part, s.evaluator, own);
  return found.multi_pipeline ? std::move(*found.multi_pipeline) : MultiPipelineOutcome{};
}

/// Adds the counters of the phase on a part.
void add_counters(GroupedOutcome& to, const GroupedOutcome& by) {
  to.sizes += by.sizes;
  to.refused += by.refused;
  to.options += by.options;
  to.dropped += by.dropped;
  to.tried += by.tried;
  to.candidates += by.candidates;
  to.refined += by.refined;
}

void run_device_groups(PhaseState& s, PhaseSummary& out) {
  const SearchResult& before = s.found;
  DeviceGroupsOptions how;
  how.threads = s.options.how.threads;
  how.node_limit = s.rest_after(before.uniform.simulations + (before.alone ? before.alone->simulations : 0));
  how.incumbent_ns =
      faster(time_of(before.flat()), before.last() != nullptr && before.last()->best ? before.last()->best->iteration_ns : 0);
  if (before.alone && before.alone->best) how.incumbent_ns = faster(how.incumbent_ns, before.alone->best->iteration_ns);
  const Started start = judge_starts(s);
  if (start.best) how.incumbent_ns = faster(how.incumbent_ns, start.best->iteration_ns);
  how.interrupted = s.options.how.interrupted;
  how.progress = s.options.how.progress;
  s.found.grouped = device_groups(unlike_problem(s), unlike_evaluator(s), how);
  on_devices(s, *s.found.grouped);
  GroupedOutcome& found = *s.found.grouped;
  if (s.classes != nullptr)
    for (GroupedCandidate& plan : found.simulated) plan.pipelines = s.classes->on_devices(std::move(plan.pipelines));
  if (start.best && (!found.best || start.best->iteration_ns < found.best->iteration_ns)) {
    found.best = start.best;  // the phase "whole cluster" bounds stages across groups
  }
  if (s.classes == nullptr)
    repeat_on_fewer_groups(s, found, [&](const Problem& part, const NodeSet&, std::int64_t incumbent_ns) {
      DeviceGroupsOptions own = how;
      own.incumbent_ns = incumbent_ns + incumbent_ns / kPartRoom;
      own.progress = nullptr;
      const GroupedOutcome of_part = device_groups(part, s.evaluator, own);
      add_counters(found, of_part);
      return PhaseOutcome(of_part);
    });
  found.candidates += start.judged;
  found.simulations += start.judged;
  found.out_of_memory += start.out_of_memory;
  report(found, found.bounded, out);
  out.counters[SearchCounter::out_of_memory] = found.out_of_memory;
  out.counters[SearchCounter::batch_sizes] = found.sizes;
  out.counters[SearchCounter::options] = found.options;
  out.counters[SearchCounter::dropped] = found.dropped;
  out.counters[SearchCounter::candidates] = found.candidates;
  out.counters[SearchCounter::refined] = found.refined;
}

void run_whole_cluster(PhaseState& s, PhaseSummary& out) {
  Options how = s.options.how;
  how.node_limit = s.rest_after(simulated_before(s.found));
  for (const Pipeline& start : s.options.starts) how.seeds.push_back({start.strategy(), start.schedule});
  s.found.across = whole_cluster(s.problem, s.evaluator, s.found.best_ns(), how);
  report(*s.found.across, s.found.across->bounded, out);
}

void run_multi_pipeline(PhaseState& s, PhaseSummary& out) {
  const auto search = [&](const Problem& problem, Evaluator& evaluator, const SingleGroupOutcome& columns) {
    Options how = s.options.how;
    how.node_limit = s.rest_after(simulated_before(s.found));
    return multi_pipeline(problem, evaluator, columns, s.found.best_ns(), how);
  };
  s.found.multi_pipeline =
      search(unlike_problem(s), unlike_evaluator(s), s.classes != nullptr ? *s.found.of_classes : *s.found.alone);
  on_devices(s, *s.found.multi_pipeline);
  // A pipeline may hold a slow device among fast ones. Where every device must have work, this may be the only way to
  // use it.
  if (s.classes != nullptr && !s.found.multi_pipeline->interrupted) {
    const MultiPipelineOutcome groups = search(s.problem, s.evaluator, *s.found.alone);
    merge(*s.found.multi_pipeline, groups);
    s.found.multi_pipeline->columns += groups.columns;
  }
  const auto on_part = [&](const Problem& part, const NodeSet& nodes, std::int64_t incumbent_ns) {
    SingleGroupOutcome alone;
    for (const GroupPart& group : nodes) alone.groups.push_back(s.found.alone->groups[group.group]);
    const MultiPipelineOutcome of_part = s.classes != nullptr
                                             ? pipelines_of_part(s, part)
                                             : multi_pipeline(part, s.evaluator, alone, incumbent_ns, silent(s.options.how));
    s.found.multi_pipeline->columns += of_part.columns;
    return PhaseOutcome(of_part);
  };
  repeat_on_fewer_groups(s, *s.found.multi_pipeline, on_part);
  report(*s.found.multi_pipeline, s.found.multi_pipeline->bounded, out);
  out.counters[SearchCounter::pipelines] = s.found.multi_pipeline->columns;
}

/// Adds the replicas on some nodes of a group. A limit leaves them out, and their bounds of all work then count.
void add_node_parts(const PhaseState& s, PhaseOutcome& found) {
  const Problem& on = unlike_problem(s);
  const NodeParts parts = node_parts(on, beaten_ns(s));
  const bool limited = s.options.on_part || s.options.how.node_limit > 0 || found.interrupted;
  if (limited) {
    found.lower_bound_ns = std::min({found.lower_bound_ns, parts.rest_bound_ns, parts.listed_bound_ns});
    return;
  }
  const auto replicas = [&](const Problem& part, const NodeSet&, std::int64_t incumbent_ns) {
    return uneven_replicas(part, s.evaluator, incumbent_ns, silent(s.options.how));
  };
  PhaseOutcome more = run_on_parts(s, on, unlike_evaluator(s), parts.parts, replicas);
  more.lower_bound_ns = std::min(more.lower_bound_ns, parts.rest_bound_ns);
  if (more.interrupted) more.lower_bound_ns = std::min(more.lower_bound_ns, parts.listed_bound_ns);
  merge(found, more);
  if (found.best) found.lower_bound_ns = std::min(found.lower_bound_ns, found.best->iteration_ns);
}

void run_uneven_replicas(PhaseState& s, PhaseSummary& out) {
  Options how = s.options.how;
  how.node_limit = s.rest_after(simulated_before(s.found));
  s.found.replicas = uneven_replicas(unlike_problem(s), unlike_evaluator(s), s.found.best_ns(), how);
  add_node_parts(s, *s.found.replicas);
  on_devices(s, *s.found.replicas);
  report(*s.found.replicas, s.found.replicas->bounded, out);
}

bool never(const PhaseState&) { return false; }
bool uniform_interrupted(const PhaseState& s) {
  return s.found.uniform.interrupted || (s.found.alone && s.found.alone->interrupted);
}
bool groups_unfinished(const PhaseState& s) { return !s.found.alone || uniform_interrupted(s); }
/// Returns whether layer-wise plans with partitions cannot start, because the uniform search with partitions is
/// unfinished.
bool operators_unfinished(const PhaseState& s) { return !s.found.partitioned || s.found.partitioned->interrupted; }

struct SearchPhase {
  std::string_view name;
  /// These require the space and the engine to have strategies that vary by layer, and partitioned operators.
  bool by_layer, operators;
  bool any_devices;     ///< the job lets stages lie on groups of heterogeneous devices
  bool unlike_devices;  ///< the cluster has several node groups, or devices of unequal speed
  bool unlike_stages;   ///< needs an engine whose stages may differ
  bool (*cut_short)(const PhaseState&);
  void (*run)(PhaseState&, PhaseSummary&);
};

constexpr std::array<SearchPhase, 9> kPhases = {{
    {kUniformPhase, false, false, false, false, false, never, run_uniform},
    {kLayersPhase, true, false, false, false, false, uniform_interrupted, run_layers},
    {kOperatorsPhase, false, true, false, false, false, uniform_interrupted, run_operators},
    {kOperatorsByLayerPhase, true, true, false, false, false, operators_unfinished, run_operators_by_layer},
    {kEachGroupPhase, false, false, true, false, false, uniform_interrupted, run_single_group},
    {kDeviceGroupsPhase, false, false, true, false, true, uniform_interrupted, run_device_groups},
    {kWholeClusterPhase, false, false, true, true, false, groups_unfinished, run_whole_cluster},
    {kPipelinesPhase, false, false, true, true, true, groups_unfinished, run_multi_pipeline},
    {kReplicasPhase, false, false, true, true, true, groups_unfinished, run_uneven_replicas},
}};

/// Returns whether a phase belongs to the search of a problem. Phases of equal devices require equal devices.
bool belongs(const SearchPhase& phase, const Problem& problem, const PhaseOptions& options) {
  const bool equal = problem.cluster->equal_devices();
  if (!phase.any_devices) return equal;
  // It has no parts.
  if (phase.run == run_single_group && equal && problem.space.devices == DeviceChoice::all) return false;
  if (phase.run == run_uneven_replicas && !options.uneven_replicas) return false;
  return options.any_devices && (!phase.unlike_devices || !equal) && (!phase.unlike_stages || options.unlike_stages);
}

}  // namespace

std::vector<std::string> phase_names() {
  std::vector<std::string> names;
  for (const SearchPhase& phase : kPhases) names.emplace_back(phase.name);
  return names;
}

const LayeredCandidate* SearchResult::faster_layered() const {
  const LayeredCandidate* best = nullptr;
  std::int64_t least = time_of(flat());
  if (least > 0) least -= static_cast<std::int64_t>(static_cast<double>(least) * kWorthwhile);
  for (const LayerwiseOutcome* found : {layered ? &*layered : nullptr, last()}) {
    if (found == nullptr || !found->best || (least > 0 && found->best->iteration_ns >= least)) continue;
    best = &*found->best;
    least = best->iteration_ns;
  }
  return best;
}

std::vector<const PhaseOutcome*> SearchResult::on_groups() const {
  std::vector<const PhaseOutcome*> out;
  const auto add = [&out](const auto& phase) {
    if (phase) out.push_back(&*phase);
  };
  add(alone);
  add(grouped);
  add(across);
  add(multi_pipeline);
  add(replicas);
  return out;
}

const GroupedCandidate* SearchResult::faster_grouped() const {
  const GroupedCandidate* best = nullptr;
  for (const PhaseOutcome* phase : on_groups())
    if (phase->best && (best == nullptr || phase->best->iteration_ns < best->iteration_ns)) best = &*phase->best;
  if (best == nullptr) return nullptr;
  const std::int64_t equal = best_equal_ns();
  return equal == 0 || best->iteration_ns < equal ? best : nullptr;
}

std::optional<PlanCandidate> SearchResult::best() const {
  if (const GroupedCandidate* on_groups = faster_grouped()) {
    PlanCandidate out;
    out.schedule = on_groups->pipelines.front().schedule;
    out.pipelines = on_groups->pipelines;
    out.iteration_ns = on_groups->iteration_ns;
    return out;
  }
  if (const LayeredCandidate* by_layer = faster_layered())
    return PlanCandidate{by_layer->configuration.schedule, by_layer->configuration.chunks, {}, {}, by_layer->iteration_ns};
  if (!flat().best) return std::nullopt;
  const Candidate& one = *flat().best;
  return PlanCandidate{one.configuration.schedule, {}, one.configuration.strategy, {}, one.iteration_ns};
}

std::int64_t SearchResult::best_ns() const {
  const GroupedCandidate* on_groups = faster_grouped();
  return on_groups != nullptr ? on_groups->iteration_ns : best_equal_ns();
}

std::int64_t SearchResult::best_equal_ns() const {
  const LayeredCandidate* by_layer = faster_layered();
  return by_layer != nullptr ? by_layer->iteration_ns : time_of(flat());
}

std::int64_t SearchResult::best_without_partitions_ns() const { return faster(time_of(uniform), time_of(layered)); }

std::int64_t SearchResult::lower_bound_ns() const {
  const std::int64_t best = best_ns();
  std::int64_t bound = flat().complete ? best : std::min(best, flat().lower_bound_ns);
  if (last() != nullptr) bound = std::min(bound, last()->lower_bound_ns);
  if (partitioned) bound = std::min(bound, both ? choices.layered_lower_bound_ns : choices.lower_bound_ns);
  for (const PhaseOutcome* phase : on_groups()) bound = std::min(bound, phase->lower_bound_ns);
  // Plans of phases that did not begin have no bound.
  return all_begun() ? bound : 0;
}

bool SearchResult::all_begun() const {
  return std::all_of(phases.begin(), phases.end(), [](const PhaseSummary& p) { return !p.counters.empty(); });
}

bool SearchResult::complete() const {
  const std::vector<const PhaseOutcome*> phases_on_groups = on_groups();
  return flat().complete && (last() == nullptr || last()->complete) && all_begun() &&
         std::all_of(phases_on_groups.begin(), phases_on_groups.end(), [](const PhaseOutcome* p) { return p->complete; });
}

bool SearchResult::interrupted() const {
  const std::vector<const PhaseOutcome*> phases_on_groups = on_groups();
  return flat().interrupted || (last() != nullptr && last()->interrupted) ||
         std::any_of(phases_on_groups.begin(), phases_on_groups.end(), [](const PhaseOutcome* p) { return p->interrupted; });
}

bool SearchResult::left_out() const {
  return std::any_of(phases.begin(), phases.end(), [](const PhaseSummary& p) { return p.left_out; });
}

namespace {

void run(const SearchPhase& phase, PhaseState& state, PhaseSummary& out) {
  const std::int64_t lowered = state.evaluator.lowered();
  const Clock::time_point start = Clock::now();
  phase.run(state, out);
  out.counters[SearchCounter::lowered] = state.evaluator.lowered() - lowered;
  out.seconds = std::chrono::duration<double>(Clock::now() - start).count();
}

/// Adds the refinement of the answer to the last layer-wise phase. If the gain of the refined plan is too small to
/// show, the answer is another plan.
void add_refinement(SearchResult& found) {
  const LayerwiseOutcome* last = found.last();
  if (last == nullptr || !last->refinement) return;
  if (last->best && found.best_ns() != last->best->iteration_ns) return;
  const std::string_view name = found.both ? kOperatorsByLayerPhase : kLayersPhase;
  const auto phase =
      std::find_if(found.phases.begin(), found.phases.end(), [&](const PhaseSummary& p) { return p.name == name; });
  phase->counters[SearchCounter::refinement_tried] = last->refinement->tried;
  phase->counters[SearchCounter::refinement_left] = last->refinement->left;
}

}  // namespace

SearchResult search(const Problem& problem, Evaluator& evaluator, const PhaseOptions& options) {
  const bool by_layer = varies_by_layer(options.space) && options.by_layer;
  const bool operators = partitions_operators(options.space) && options.operators;
  SearchResult found;
  std::optional<SpeedClasses> classes;
  std::optional<JudgeOfClasses> of_classes;
  PhaseState state{problem, evaluator, options, found, nullptr, nullptr, problem};
  if (options.any_devices && has_classes(*problem.cluster)) {
    state.classes = &classes.emplace(*problem.cluster);
    state.of_classes = &of_classes.emplace(problem, evaluator, *classes);
    state.by_class.cluster = &classes->cluster();
  }
  for (const SearchPhase& phase : kPhases) {
    if ((phase.by_layer && !by_layer) || (phase.operators && !operators)) continue;
    if (!belongs(phase, problem, options)) continue;
    PhaseSummary out;
    out.name = phase.name;
    out.left_out = options.left_out.contains(out.name);
    if (!out.left_out && !phase.cut_short(state)) run(phase, state, out);
    found.phases.push_back(std::move(out));
  }
  ESPALIER_CHECK(!found.phases.empty());
  // A phase without plans has none that is faster than the answer.
  for (PhaseSummary& phase : found.phases) {
    if (phase.lower_bound_ns == INT64_MAX) phase.lower_bound_ns = found.best_ns();
    if (phase.partition_bound_ns == INT64_MAX) phase.partition_bound_ns = 0;
  }
  add_refinement(found);
  ESPALIER_CHECK(found.best_ns() == 0 || found.lower_bound_ns() <= found.best_ns());
  return found;
}

}  // namespace espalier::search
