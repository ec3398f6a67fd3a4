// SPDX-License-Identifier: Apache-2.0
#include "search/pipeline_splits.h"

#include <algorithm>

#include "base/check.h"
#include "plan/sequence_lengths.h"
#include "search/each_group.h"

namespace espalier::search {

std::int64_t split_step(std::int64_t batch) {
  for (std::int64_t steps = kSplitSteps; steps > 1; steps /= 2) {
    const std::int64_t step = batch / steps;
    if (batch % steps != 0) continue;
    bool ordered = true;
    for (std::int64_t s = 1; s <= batch && ordered; ++s) ordered = batch % s != 0 || step % s == 0 || s % step == 0;
    if (ordered) return step;
  }
  return 0;
}

std::int64_t splits_bound_ns(const std::vector<std::vector<std::int64_t>>& least, std::int64_t step, std::int64_t batch,
                             std::int64_t best_ns) {
  std::vector<std::int64_t> times{0};
  for (const std::vector<std::int64_t>& of_group : least)
    for (const std::int64_t ns : of_group)
      if (ns < best_ns) times.push_back(ns);
  std::sort(times.begin(), times.end());
  for (const std::int64_t time : times) {
    std::int64_t reached = 0;
    for (const std::vector<std::int64_t>& of_group : least) {
      auto j = static_cast<std::int64_t>(of_group.size());
      while (j > 0 && of_group[static_cast<std::size_t>(j) - 1] > time) --j;
      reached += (j + 1) * step - 1;
    }
    if (reached >= batch) return time;
  }
  return best_ns;
}

std::int64_t splits_bound_ns(const Problem& problem, Evaluator& evaluator, std::int64_t best_ns, const Options& options) {
  const std::int64_t batch = problem.training.global_batch, step = split_step(batch);
  if (step == 0 || problem.cluster->has_speeds() || !evaluator.exact()) return 0;
  if (length_facts(problem.training).packed) return 0;  // a micro-batch takes less where there are more of them
  Options how;
  how.threads = options.threads;
  how.interrupted = options.interrupted;
  how.slowest_ns = best_ns;
  std::vector<std::vector<std::int64_t>> least;
  for (std::size_t g = 0; g < problem.cluster->groups.size(); ++g) {
    const Cluster alone = group_alone(*problem.cluster, g);
    Problem own = problem;
    own.cluster = &alone;
    own.space = space_alone(problem.space);
    least.emplace_back();
    for (std::int64_t samples = step; samples < batch; samples += step) {
      own.training.global_batch = samples;
      const Outcome found = branch_and_bound(own, evaluator, how);
      if (!found.complete) return 0;
      least.back().push_back(found.best ? std::min(best_ns, found.best->iteration_ns) : best_ns);
    }
  }
  return splits_bound_ns(least, step, batch, best_ns);
}

}  // namespace espalier::search
