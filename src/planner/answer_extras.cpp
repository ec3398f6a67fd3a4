// SPDX-License-Identifier: Apache-2.0
#include "planner/answer_extras.h"

#include "plan/engine.h"
#include "planner/alternatives.h"
#include "planner/batch_hint.h"
#include "planner/engine_options.h"
#include "planner/runs_on.h"

namespace espalier::planner {
namespace {

/// Of answers that are there already, what runnable_plan would find.
std::optional<EngineAnswer> first_usual(const std::vector<EngineAnswer>& answers) {
  for (const std::string_view name : kUsualEngines)
    for (const EngineAnswer& answer : answers)
      if (answer.engine == name && !answer.label.empty()) return answer;
  return std::nullopt;
}

void add_engines(const AnswerContext& context, PlannerResult& result) {
  const Job& job = context.job;
  const std::int64_t answer_ns = result.prediction.iteration_ns;
  result.runs_on = engines_that_run(job, result.plan);
  const EngineQuestion question{job, answer_ns, context.options, context.uniform.simulated};
  if (context.options.engines) result.engines = all_engines(question, result.plan);
  if (job.engine != "generic" || !result.runs_on->empty()) return;
  result.runnable = context.options.engines ? first_usual(result.engines) : runnable_plan(question);
}

void add_options(const AnswerContext& context, const EngineModel& engine, PlannerResult& result) {
  if (!context.options.engine_options || !context.job.cluster.equal_devices()) return;
  result.options = option_answers(context.job, engine, context.options, context.uniform, result.prediction.iteration_ns);
}

}  // namespace

void add_beside(const Job& room, const EngineModel& engine, search::Evaluator& evaluator, const search::Options& how,
                const AnswerContext& context, PlannerResult& result) {
  if (context.uniform.interrupted) return;
  add_engines(context, result);
  add_options(context, engine, result);
  if (!context.uniform.best || context.uniform.best->iteration_ns != result.prediction.iteration_ns)
    return;  // another plan's parts
  const Breakdown& parts = result.prediction.bottleneck.breakdown;
  result.batch_hint = batch_hint(room, engine, evaluator, how, context.uniform, parts.bubble_ns + parts.optimizer_ns);
}

void add_fastest(const Job& job, const EngineModel& engine, const Plan& fastest, PlannerResult& result) {
  if (auto beside = alternative_of(job, engine, result, fastest, "fastest plan"))
    result.alternatives.insert(result.alternatives.begin(), std::move(*beside));
}

}  // namespace espalier::planner
