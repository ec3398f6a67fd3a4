// SPDX-License-Identifier: Apache-2.0
// The table of contents: load → validate → cost → search → lower → simulate the best → check → result.
#include <algorithm>
#include <chrono>
#include <set>

#include "base/check.h"
#include "base/parallel.h"
#include "check/check.h"
#include "espalier/planner.h"
#include "planner/alternatives.h"
#include "planner/beside_answer.h"
#include "planner/claims.h"
#include "planner/infeasible.h"
#include "planner/legality.h"
#include "planner/memory_margin.h"
#include "planner/partition_report.h"
#include "planner/prediction.h"
#include "planner/reasons.h"
#include "planner/simplest.h"
#include "planner/simulated_evaluator.h"
#include "planner/watch.h"
#include "search/layerwise.h"
#include "search/partition_choices.h"
#include "search/search.h"
#include "sim/block_program.h"
#include "sim/trace.h"

namespace espalier {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// How many plans a phase may still simulate; 0: no limit. A budget that is used up leaves a phase one plan.
std::int64_t rest_of(const search::Options& how, std::int64_t simulated) {
  return how.node_limit > 0 ? std::max<std::int64_t>(1, how.node_limit - simulated) : 0;
}

SearchSummary summary_of(const search::Outcome& found) {
  SearchSummary s;
  s.space_size = found.space_size;
  s.by_dimension = found.by_dimension;
  s.bounded = found.bounded;
  s.simulated = found.simulations;
  s.pruned = found.pruning.counters();
  s.optimal = found.complete;
  s.lower_bound_ns = found.lower_bound_ns;
  if (found.best) {
    const double best = static_cast<double>(found.best->iteration_ns);
    s.gap = (best - static_cast<double>(found.lower_bound_ns)) / best;
  }
  s.reason = found.complete ? "optimal" : found.interrupted ? "interrupted" : "node limit";
  return s;
}

/// A finished plan is never trusted: the independent checker must agree with it before anyone sees it.
Status verify(const Job& job, const Plan& plan, const Timed& timed) {
  const auto claims = claims_of(job, plan);
  if (!claims) return claims.error();
  const check::Report report = check::check_plan(plan, job.model, job.cluster, timed.program, &*claims);
  for (const check::Finding& f : report.findings)
    if (!f.ok)
      return Error{ErrorKind::internal, "check", f.name + ": " + f.text, "a plan that the independent checker accepts",
                   "please report"};
  return std::nullopt;
}

struct Prepared {
  const EngineModel* engine;
  search::Problem problem;
};

Result<Prepared> prepare(const Job& job) {
  const auto engine = engine_of(job);
  if (!engine) return engine.error();
  if (auto refused = plannable(job)) return *refused;
  if (job.search.kind == "layerwise" || job.search.kind == "full")
    if (auto refused = layerwise_dimensions(job.search)) return *refused;
  return Prepared{*engine, {&job.model, &job.cluster, job.training, *engine, job.search}};
}

Result<PlannerResult> describe(const Job& job, const EngineModel& engine, Plan plan, bool spans, Timed* keep) {
  auto timed = time_plan(job, engine, plan, spans);
  if (!timed) return timed.error();
  PlannerResult result;
  result.plan = std::move(plan);
  result.notes = job.notes;
  stamp_calibration(job, result.plan);
  result.prediction = prediction_of(job, engine, *timed);
  result.operators = operator_reports(job, engine, result.plan);
  if (keep != nullptr) *keep = std::move(*timed);
  return result;
}

/// Beyond the uniform answer `flat`. `before`: the layer-wise search of a smaller space, whose plans are not counted again.
search::LayerwiseOutcome search_layers(const search::Problem& problem, SimulatedEvaluator& evaluator, const search::Outcome& flat,
                                       const search::LayerwiseOutcome* before, const search::Options& how) {
  search::LayerwiseOptions layered;
  layered.threads = how.threads;
  layered.node_limit = rest_of(how, flat.simulations + (before != nullptr ? before->simulations : 0));
  layered.interrupted = how.interrupted;
  layered.progress = how.progress;
  layered.uniform = flat.best;
  layered.starts = flat.simulated;
  layered.simulated = search::prints_of(problem, flat.simulated);
  if (before != nullptr) layered.simulated.insert(before->prints.begin(), before->prints.end());
  return search::layerwise(problem, evaluator, layered);
}

/// Beyond plans without operator partitions, where the job asks for them.
struct Partitioned {
  search::PartitionChoices choices;
  search::Outcome flat;                             ///< uniform strategies, with and without partitions
  std::optional<search::LayerwiseOutcome> layered;  ///< space full
};

/// The faster one; 0 is none.
std::int64_t faster(std::int64_t a, std::int64_t b) { return a == 0 ? b : b == 0 ? a : std::min(a, b); }
std::int64_t time_of(const search::Outcome& found) { return found.best ? found.best->iteration_ns : 0; }
std::int64_t time_of(const std::optional<search::LayerwiseOutcome>& found) {
  return found && found->best ? found->best->iteration_ns : 0;
}

std::optional<Partitioned> search_partitions(bool layers, search::Problem problem, SimulatedEvaluator& evaluator,
                                             const search::Outcome& uniform,
                                             const std::optional<search::LayerwiseOutcome>& layered, search::Options how) {
  if (uniform.interrupted) return std::nullopt;
  Partitioned out;
  search::PartitionOptions partitions;
  partitions.incumbent_ns = faster(time_of(uniform), time_of(layered)), partitions.threads = how.threads;
  partitions.interrupted = how.interrupted;
  partitions.progress = how.progress;
  out.choices = search::partition_choices(problem, partitions);
  problem.partitions = &out.choices;
  if (uniform.best) how.seeds.push_back(uniform.best->configuration);
  how.node_limit = rest_of(how, uniform.simulations + (layered ? layered->simulations : 0));
  out.flat = search::branch_and_bound(problem, evaluator, how);
  if (!layers || out.flat.interrupted) return out;
  out.layered = search_layers(problem, evaluator, out.flat, layered ? &*layered : nullptr, how);
  return out;
}

void add_partitions(const Partitioned& p, std::int64_t without_ns, SearchSummary& s) {
  PartitionSummary sum;
  sum.without_ns = without_ns, sum.solved = p.choices.solved, sum.certified = p.choices.certified;
  sum.groups = static_cast<std::int64_t>(p.choices.offers.size());
  for (const auto& [key, offer] : p.choices.offers) sum.offered += static_cast<std::int64_t>(offer.texts.size());
  sum.lower_bound_ns = p.layered ? p.choices.layered_lower_bound_ns : p.choices.lower_bound_ns;
  s.partitions = sum;
}

/// A layer-wise plan has to gain so much to be worth its layers: what rounds to 0.0 % keeps the uniform plan.
constexpr double kWorthwhile = 0.0005;

/// What is searched beyond uniform plans: of what the job asks for, what its engine can run.
struct Phases {
  bool layers = false, operators = false;
};
Phases phases_of(const Job& job, const EngineModel& engine) {
  const std::string& kind = job.search.kind;
  return {(kind == "layerwise" || kind == "full") && has_freedom(engine.layers),
          (kind == "spatial_temporal" || kind == "full") && engine.runs.operator_partitions};
}

/// What an engine with rules leaves of the space that the job asks for; empty: all of it, or uniform plans were asked for.
std::string freedom_of(const Job& job, const EngineModel& engine) {
  if (job.search.kind == "uniform" || is_unrestricted(engine.layers)) return "";
  return to_string(engine.layers);
}

/// All that was searched, and the fastest of it.
struct Searched {
  search::Outcome uniform;
  std::optional<search::LayerwiseOutcome> layered;
  std::optional<Partitioned> partitioned;

  /// Of uniform strategies, in the space that the job asks for.
  [[nodiscard]] const search::Outcome& flat() const { return partitioned ? partitioned->flat : uniform; }
  /// The layer-wise search of that space.
  [[nodiscard]] const search::LayerwiseOutcome* last() const {
    return partitioned && partitioned->layered ? &*partitioned->layered : layered ? &*layered : nullptr;
  }
  /// A layer-wise plan that is visibly faster than all uniform ones (kWorthwhile); of equally fast ones the first found.
  [[nodiscard]] const search::LayeredCandidate* faster_layered() const {
    const search::LayeredCandidate* best = nullptr;
    std::int64_t least = time_of(flat());
    if (least > 0) least -= static_cast<std::int64_t>(static_cast<double>(least) * kWorthwhile);
    for (const search::LayerwiseOutcome* found : {layered ? &*layered : nullptr, last()}) {
      if (found == nullptr || !found->best || (least > 0 && found->best->iteration_ns >= least)) continue;
      best = &*found->best, least = best->iteration_ns;
    }
    return best;
  }
  /// Whether the last search of the phases was begun.
  [[nodiscard]] bool reached(const Phases& phases) const {
    if (!phases.operators) return !phases.layers || layered.has_value();
    return partitioned && (!phases.layers || partitioned->layered);
  }
  [[nodiscard]] std::int64_t best_ns() const { return faster_layered() ? faster_layered()->iteration_ns : time_of(flat()); }
};

Plan answer_of(const Job& job, const EngineModel& engine, const Searched& all) {
  if (const auto* layered = all.faster_layered())
    return document_of(job, engine, layered->configuration.schedule, layered->configuration.chunks);
  return document_of(job, engine, all.flat().best->configuration.strategy, all.flat().best->configuration.schedule);
}

void add_layers(const Searched& all, SearchSummary& s) {
  const search::LayerwiseOutcome& last = *all.last();
  LayerwiseSummary l;
  l.uniform_ns = time_of(all.uniform);
  l.strategies = last.strategies, l.kept = last.leaves, l.outer = last.outer, l.solved = last.solved;
  l.simulated = last.simulations;
  if (&last != &*all.layered && all.layered) l.simulated += all.layered->simulations;
  // It speaks of the plan refined; where its gain is too small to show, the answer is another.
  const bool refined_is_answer = !last.best || all.best_ns() == last.best->iteration_ns;
  if (last.refinement && refined_is_answer) {
    l.refinement_tried = last.refinement->tried;
    l.refinement_left = last.refinement->left;
  }
  for (const auto& row : last.balance.rows)
    l.balance.push_back({row.name, row.first, row.alpha_t, row.alpha_m, row.iteration_ns});
  s.layerwise = std::move(l);
}

/// How the layers of uniform plans come to their stages, where there is a pipeline.
std::string split_of(const search::Outcome& flat, const EngineModel& engine, bool layerwise) {
  const auto pp = flat.by_dimension.find("pp");
  if (pp == flat.by_dimension.end() || pp->second.empty() || pp->second.rbegin()->first < 2) return "";
  const char* policy = engine.split == SplitPolicy::balanced      ? "balanced"
                       : engine.split == SplitPolicy::even_blocks ? "even blocks"
                                                                  : "cumulative";
  const std::string uniform = std::string("by policy (") + policy + "), not searched";
  return layerwise ? "searched; of uniform plans " + uniform : uniform;
}

/// The certificate of all searches together.
SearchSummary summary_of(const Job& job, const EngineModel& engine, const Searched& all, const Watch& watch) {
  SearchSummary s = summary_of(all.flat());
  s.space = job.search.kind;
  const MemoryMargin margin = memory_margin_of(job);
  s.memory_margin = margin.share;
  s.memory_margin_basis = margin.basis;
  const search::Outcome& flat = all.flat();
  const search::LayerwiseOutcome* last = all.last();
  s.split = split_of(flat, engine, last != nullptr);
  s.freedom = freedom_of(job, engine);
  bool complete = flat.complete, interrupted = flat.interrupted;
  const std::int64_t best = all.best_ns();
  s.lower_bound_ns = flat.complete ? best : std::min(best, flat.lower_bound_ns);
  if (last != nullptr) {
    add_layers(all, s);
    s.lower_bound_ns = std::min(s.lower_bound_ns, last->lower_bound_ns);
    complete &= last->complete, interrupted |= last->interrupted;
  }
  if (all.partitioned) {
    add_partitions(*all.partitioned, faster(time_of(all.uniform), time_of(all.layered)), s);
    s.lower_bound_ns = std::min(s.lower_bound_ns, s.partitions->lower_bound_ns);
  }
  if (!all.reached(phases_of(job, engine))) {  // nothing is known of plans that no search came to
    s.lower_bound_ns = 0;
    complete = false;
  }
  s.gap = static_cast<double>(best - s.lower_bound_ns) / static_cast<double>(best);
  s.optimal = s.lower_bound_ns == best && complete;
  s.reason = !complete ? "node limit" : s.optimal ? "optimal" : "gap";
  if (interrupted) s.reason = watch.reason();
  return s;
}

SearchRequest request_of(const Job& job, const PlannerOptions& options) {
  SearchRequest asked{job.search, options.node_limit, options.disabled_rules, options.exhaustive, options.alternatives};
  asked.simple = options.simple;
  asked.engines = options.engines;
  asked.simple_within = options.simple_within;
  return asked;
}

/// The certificate of the space as it stands for a plan that is not the fastest one found.
void restate(SearchSummary& s, std::int64_t iteration_ns) {
  s.optimal = s.optimal && s.lower_bound_ns == iteration_ns;
  s.gap = static_cast<double>(iteration_ns - s.lower_bound_ns) / static_cast<double>(iteration_ns);
  if (s.reason == "optimal" && !s.optimal) s.reason = "gap";
}

}  // namespace

Result<PlannerResult> plan(const Job& job, const PlannerOptions& options) {
  const auto start = Clock::now();
  const Job room = with_memory_room(job);  // what is searched: the margin for the error of the memory model stays free
  const auto prepared = prepare(room);
  if (!prepared) return prepared.error();
  const EngineModel& engine = *prepared->engine;
  search::Options how;
  how.threads = options.threads > 0 ? options.threads : base::hardware_threads();
  how.node_limit = options.node_limit;
  Watch watch(options);
  how.interrupted = [&watch] { return watch.stopped(); };
  if (options.progress) how.progress = [&watch](const search::Standing& standing) { watch.stands(standing); };
  how.keep_within = options.simple_within;
  for (const std::string& rule : options.disabled_rules)
    if (!how.pruning.disable(rule)) return unknown_pruning_rule(rule);
  SimulatedEvaluator evaluator(how.threads);
  const std::vector<JudgedBaseline> presets = judge_baselines(job, engine);
  how.seeds = seeds_of(presets);
  const auto searching = Clock::now();
  Searched all;
  all.uniform = options.exhaustive ? search::exhaustive(prepared->problem, evaluator, how)
                                   : search::branch_and_bound(prepared->problem, evaluator, how);
  const Phases phases = phases_of(job, engine);
  if (phases.layers && !all.uniform.interrupted)
    all.layered = search_layers(prepared->problem, evaluator, all.uniform, nullptr, how);
  if (phases.operators)
    all.partitioned = search_partitions(phases.layers, prepared->problem, evaluator, all.uniform, all.layered, how);
  if (all.best_ns() == 0) return infeasible(job, engine, all.flat(), watch);
  const Plan fastest = answer_of(job, engine, all);
  search::Problem flat = prepared->problem;
  flat.partitions = all.partitioned ? &all.partitioned->choices : nullptr;
  Simplest simplest =
      simplest_plan(job, engine, flat, evaluator, how, {&fastest, all.best_ns(), options.simple_within, &all.flat()});
  const double search_s = since(searching);
  Timed timed;
  auto result = describe(job, engine, options.simple ? *simplest.plan : fastest, false, &timed);
  if (!result) return result;
  ESPALIER_CHECK(result->prediction.iteration_ns == (options.simple ? simplest.iteration_ns : all.best_ns()));
  if (auto broken = verify(job, result->plan, timed)) return *broken;
  result->search = summary_of(job, engine, all, watch);
  result->search.asked = request_of(job, options);
  restate(result->search, result->prediction.iteration_ns);
  if (options.simple && !simplest.certified && !watch.reason().empty()) result->search.reason = watch.reason();
  result->simplest = std::move(simplest);
  result->alternatives = alternatives_of(job, engine, *result, presets, all.flat(), options.alternatives);
  if (!(result->plan == fastest)) add_fastest(job, engine, fastest, *result);
  PlannerOptions watched = options;  // the time limit holds for what stands beside the answer too
  watched.interrupted = how.interrupted;
  add_beside(room, engine, evaluator, how, {job, watched, all.uniform}, *result);
  result->reasons = reasons_of(job, *result);
  result->threads = how.threads, result->search_s = search_s, result->total_s = since(start);
  return result;
}

Result<PlannerResult> estimate(const Job& job, const Strategy& strategy, const Schedule& schedule) {
  const auto start = Clock::now();
  const auto prepared = prepare(job);
  if (!prepared) return prepared.error();
  const EngineModel& engine = *prepared->engine;
  if (auto broken = illegal(job, engine, strategy, schedule)) return *broken;
  auto result = describe(job, engine, document_of(job, engine, strategy, schedule), false, nullptr);
  if (!result) return result;
  result->alternatives = alternatives_of(job, engine, *result, judge_baselines(job, engine), {}, 0);
  result->reasons = reasons_of(job, *result);
  result->total_s = since(start);
  return result;
}

Result<std::string> block_timeline(const Job& job, const Plan& plan) {
  const auto prepared = prepare(job);
  if (!prepared) return prepared.error();
  if (auto broken = plan_fits_job(job, plan)) return *broken;
  const cost::CostContext context(job.model, job.cluster, job.training, *prepared->engine);
  for (const Stage& stage : plan.stages)
    for (const Chunk& chunk : stage.chunks)
      for (const LayerRange& range : chunk.ranges)
        for (std::int32_t i = range.first; i <= range.last && !range.strategy.partition.empty(); ++i) {
          const LayerKind& kind = job.model.layer(static_cast<std::size_t>(i));
          if (kind.role != LayerRole::block) continue;
          return sim::block_trace(context, kind, plan.samples_per_microbatch() / range.strategy.dp, range.strategy.tp,
                                  range.strategy.partition);
        }
  return Error{ErrorKind::bad_input, "plan", "no operator partition", "a plan of search.space: spatial_temporal or full",
               "leave --block out for this plan"};
}

Result<PlannerResult> simulate(const Job& job, const Plan& plan, std::string* trace) {
  const auto start = Clock::now();
  const auto prepared = prepare(job);
  if (!prepared) return prepared.error();
  if (auto broken = validate(plan)) return *broken;
  if (auto broken = plan_fits_job(job, plan)) return *broken;
  Timed timed;
  auto result = describe(job, *prepared->engine, plan, trace != nullptr, &timed);
  if (!result) return result;
  if (trace != nullptr) *trace = sim::write_trace(plan, timed.program, timed.costs, timed.simulation);
  result->reasons = reasons_of(job, *result);
  result->total_s = since(start);
  return result;
}

}  // namespace espalier
