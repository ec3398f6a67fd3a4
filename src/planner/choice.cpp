// SPDX-License-Identifier: Apache-2.0
#include "planner/choice.h"

#include "base/invariant.h"
#include "planner/prediction.h"
#include "planner/simplest.h"

namespace espalier::planner {

Choice choose(const Question& q, const search::SearchResult& found, search::Evaluator& evaluator) {
  const auto best = found.best();
  ESPALIER_CHECK(best.has_value());
  Choice out;
  out.fastest = document_of(q.job, *q.engine, *best);
  out.fastest_ns = best->iteration_ns;
  out.equal_stages = best->pipelines.empty();
  if (!out.equal_stages) return out;
  search::Problem flat = q.problem;
  flat.partitions = found.partitioned ? &found.choices : nullptr;
  const SimplestQuestion simplest{&out.fastest, out.fastest_ns, q.options.simple_within, &found.flat()};
  out.simplest = simplest_plan(q.job, *q.engine, flat, evaluator, q.how(), simplest);
  out.simple = q.options.simple && out.simplest;
  return out;
}

}  // namespace espalier::planner
