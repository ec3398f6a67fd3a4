// SPDX-License-Identifier: Apache-2.0
#include "planner/answer_extras.h"

#include "base/format.h"
#include "plan/engine.h"
#include "planner/alternatives.h"
#include "planner/batch_hint.h"
#include "planner/engine_options.h"
#include "planner/group_baselines.h"
#include "planner/restriction.h"
#include "planner/runs_on.h"

namespace espalier::planner {
namespace {

/// Holds the inputs of the extras of a plan on equal devices.
struct AnswerContext {
  const Job& job;
  const PlannerOptions& options;
  const search::Outcome& uniform;  ///< the search of uniform plans
};

/// Returns the answer that runnable_plan would find, from answers that already exist.
std::optional<EngineAnswer> fastest_usual(const std::vector<EngineAnswer>& answers) {
  std::optional<EngineAnswer> best;
  for (const std::string_view name : kUsualEngines)
    for (const EngineAnswer& answer : answers)
      if (answer.engine == name && !answer.label.empty() && (!best || answer.iteration_ns < best->iteration_ns)) best = answer;
  return best;
}

void add_engines(const AnswerContext& context, PlannerResult& result) {
  const Job& job = context.job;
  const std::int64_t answer_ns = result.prediction.iteration_ns;
  result.runs_on = engines_that_run(job, result.plan);
  const EngineQuestion question{job, answer_ns, context.options, context.uniform.simulated};
  if (context.options.engines) result.engines = all_engines(question, result.plan);
  if (job.engine != "generic" || !result.runs_on->empty()) return;
  result.runnable = context.options.engines ? fastest_usual(result.engines) : runnable_plan(question);
}

/// Finds the plan to run instead of one on several node groups that no engine runs: the best of the usual engines on
/// one group. A job that must use all devices has none.
void add_engines_of_groups(const AnswerContext& context, PlannerResult& result) {
  const Job& job = context.job;
  result.runs_on = engines_that_run(job, result.plan);
  const bool all = job.search.devices == DeviceChoice::all;
  if (job.engine != "generic" || !result.runs_on->empty() || all) return;
  PlannerOptions options = context.options;
  options.memory = nullptr;  // its records are about the whole cluster
  const std::vector<search::Candidate> none;
  for (GroupBaseline& group : groups_alone(job)) {
    if (options.interrupted && options.interrupted()) return;
    group.job.search.memory_margin = job.search.memory_margin;  // otherwise that of each engine
    const std::int64_t slowest_ns = result.runnable ? result.runnable->iteration_ns : INT64_MAX;
    std::optional<EngineAnswer> own = runnable_plan({group.job, result.prediction.iteration_ns, options, none}, slowest_ns);
    if (!own || own->iteration_ns >= slowest_ns) continue;
    own->label += base::cat(" on ", group.label);
    result.runnable = std::move(own);
  }
}

void add_options(const AnswerContext& context, const EngineModel& engine, PlannerResult& result) {
  if (!context.options.engine_options || !context.job.cluster.equal_devices()) return;
  result.options = option_answers(context.job, engine, context.options, context.uniform, result.prediction.iteration_ns);
}

/// Adds engines, options and the batch of a plan on equal devices.
void add_of_equal_stages(const Question& q, search::Evaluator& evaluator, const AnswerContext& context, PlannerResult& result) {
  if (context.uniform.interrupted) return;
  add_engines(context, result);
  add_options(context, *q.engine, result);
  if (!context.uniform.best || context.uniform.best->iteration_ns != result.prediction.iteration_ns)
    return;  // the parts are those of another plan
  const Breakdown& parts = result.prediction.bottleneck.breakdown;
  result.batch_hint = batch_hint(q.room, *q.engine, evaluator, q.how(), context.uniform, parts.bubble_ns + parts.optimizer_ns);
}

}  // namespace

void add_alternatives(const Question& q, const search::SearchResult& found, const Baselines& baselines, const Choice& choice,
                      PlannerResult& result) {
  result.alternatives = q.equal
                            ? alternatives_of(q.job, *q.engine, result, baselines.presets, found.flat(), q.options.alternatives)
                            : group_alternatives(q.job, *q.engine, result, found.alone ? &*found.alone : nullptr, baselines.whole,
                                                 q.how().threads, q.how().interrupted);
  if (q.options.keep_searched && q.equal) result.searched = searched_of(q.job, *q.engine, found.flat());
  if (result.plan == choice.fastest) return;
  if (auto fastest = alternative_of(q.job, *q.engine, result, choice.fastest, "fastest plan"))
    result.alternatives.insert(result.alternatives.begin(), std::move(*fastest));
}

Status add_extras(const Question& q, const search::SearchResult& found, const Choice& choice, search::Evaluator& evaluator,
                  PlannerResult& result) {
  PlannerOptions watched = q.options;
  watched.interrupted = q.how().interrupted;
  watched.observer = nullptr;
  if (choice.equal_stages)
    add_of_equal_stages(q, evaluator, {q.job, watched, found.uniform}, result);
  else
    add_engines_of_groups({q.job, watched, found.uniform}, result);
  if (!q.options.restriction || !has_rules(*q.engine)) return {};
  auto price = restriction_price(q.job, *q.engine, watched, result);
  if (!price) return price.error();
  result.restriction = std::move(*price);
  return {};
}

}  // namespace espalier::planner
