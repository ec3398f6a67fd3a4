// SPDX-License-Identifier: Apache-2.0
// Reference search: simulates every legal configuration without bounds, order or shortcuts.
#include <algorithm>

#include "base/invariant.h"
#include "cost/offload.h"
#include "search/cost_book.h"
#include "search/search.h"

namespace espalier::search {

Outcome exhaustive(const Problem& problem, Evaluator& evaluator, const Options& options) {
  Outcome out;
  const Space space(*problem.model, *problem.cluster, problem.training, *problem.engine, problem.space, problem.partitions);
  CostBook book(problem);
  Workspace w;
  space.for_each([&](const Configuration& c) {
    if (out.interrupted) return;
    if (options.node_limit > 0 && out.simulations >= options.node_limit) {
      out.complete = false;
      return;
    }
    if (options.interrupted && options.interrupted()) {
      out.interrupted = true;
      out.complete = false;
      return;
    }
    ++out.space_size;
    ++out.by_dimension["pp"][c.schedule.stages];
    book.prepare(c.schedule.stages);
    cost::layer_costs(book.context(), c.strategy, c.schedule.stages, c.schedule.micro_batch, w.layers);
    assemble(book, c, w);
    const std::int64_t peak = evaluator.peak_bytes(w.structure, w.costs, 0);
    if (peak > book.memory_limit() || !cost::host_fits(*problem.cluster, w.costs)) {
      out.pruning.count(Pruning::memory, 1);
      return;
    }
    const CandidatePlan plan{problem, book.context(), c.schedule, &c.strategy, nullptr};
    const Candidate found{c, evaluator.iteration_ns(w.structure, w.costs, plan, 0), peak};
    ++out.simulations;
    out.simulated.push_back(found);
    const bool better = !out.best || found.iteration_ns < out.best->iteration_ns ||
                        (found.iteration_ns == out.best->iteration_ns && canonical_less(c, out.best->configuration));
    if (better) out.best = found;
  });
  std::sort(out.simulated.begin(), out.simulated.end(), [](const Candidate& a, const Candidate& b) {
    return a.iteration_ns != b.iteration_ns ? a.iteration_ns < b.iteration_ns : canonical_less(a.configuration, b.configuration);
  });
  ESPALIER_CHECK(static_cast<std::int64_t>(out.simulated.size()) == out.simulations);
  ESPALIER_CHECK(!out.best || out.best->iteration_ns == out.simulated.front().iteration_ns);
  if (out.best && out.complete) out.lower_bound_ns = out.best->iteration_ns;
  return out;
}

}  // namespace espalier::search
