// SPDX-License-Identifier: Apache-2.0
#include "planner/question.h"

#include <utility>

#include "plan/engine.h"
#include "planner/infeasible_pins.h"
#include "planner/legality.h"
#include "planner/memory.h"
#include "planner/memory_margin.h"
#include "planner/search_options.h"

namespace espalier::planner {

Question::Question(const Job& asked, const PlannerOptions& how, Watch& stop)
    : job(asked),
      options(how),
      watch(stop),
      equal(asked.cluster.equal_devices()),
      order(sorted_groups(asked.cluster)),
      sorted(sorted_job(asked, order)),
      room(with_memory_room(sorted)) {}

Result<std::unique_ptr<Question>> question_of(const Job& job, const PlannerOptions& options, Watch& watch) {
  auto question = std::make_unique<Question>(job, options, watch);
  auto prepared = prepare(question->room);
  if (!prepared) return prepared.error();
  question->engine = prepared->engine;
  question->problem = std::move(prepared->problem);
  if (Status status = searched_pins(question->room); !status.ok()) return status.error();
  auto phases = search_options(job, *question->engine, options, watch);
  if (!phases) return phases.error();
  question->phases = std::move(*phases);
  return question;
}

Baselines baselines_of(Question& q) {
  Baselines out;
  if (q.equal) {
    out.presets = judge_baselines(q.job, *q.engine);
    q.how().seeds = seeds_of(out.presets);
    return out;
  }
  out.whole = whole_cluster_plans_as_listed(q.sorted, *q.engine, q.how().threads, q.how().interrupted);
  q.phases.starts = starts_of(q.sorted, out.whole);
  for (ClusterBaseline& one : out.whole)
    if (one.plan) to_file_order(q.order, *one.plan);
  return out;
}

search::SearchResult search_for(Question& q, search::Evaluator& evaluator) {
  PlannerMemory* memory = q.memory();
  q.carried = carried_for(memory, q.room);
  q.phases.carried = q.carried ? &*q.carried : nullptr;
  q.phases.keep_record = memory != nullptr;
  if (!q.carried && q.options.node_limit.value_or(0) == 0) {
    std::vector<search::Configuration> seeds = seeds_for(memory, q.room);
    q.how().seeds.insert(q.how().seeds.begin(), seeds.begin(), seeds.end());
  }
  search::SearchResult found = search::search(q.problem, evaluator, q.phases);
  to_file_order(q.order, found);
  remember(memory, q.room, std::move(found.uniform.record));
  return found;
}

}  // namespace espalier::planner
