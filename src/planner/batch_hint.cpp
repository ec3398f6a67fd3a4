// SPDX-License-Identifier: Apache-2.0
#include "planner/batch_hint.h"

#include <algorithm>
#include <set>

#include "base/division.h"
#include "plan/engine.h"
#include "plan/rules.h"
#include "planner/prediction.h"

namespace espalier::planner {
namespace {

constexpr double kLeastGain = 0.01;
constexpr std::size_t kMostBatches = 6;

/// Returns whether the divisors of the job's own batch forbid the configuration.
bool forbidden_by_batch(const Job& job, const search::Configuration& c) {
  const RuleFacts facts = rule_facts(job.model, job.cluster, job.training);
  search::Configuration here = c;
  const std::int64_t samples = std::int64_t{c.schedule.micro_batch} * c.strategy.dp;
  if (job.training.global_batch % samples != 0) return true;
  here.schedule.microbatches = static_cast<std::int32_t>(microbatches_of(facts, here.strategy, here.schedule));
  const std::vector<RuleViolation> broken = violations(job.model, job.cluster, job.training, here.strategy, here.schedule);
  return std::any_of(broken.begin(), broken.end(), [](const RuleViolation& v) { return v.rule == "interleaved-batch"; });
}

}  // namespace

std::vector<std::int64_t> batches_to_try(std::int64_t devices, std::int64_t global_batch) {
  std::set<std::int64_t> out;
  for (std::int64_t degree = 2; degree <= std::min(devices, 2 * global_batch); ++degree) {
    if (devices % degree != 0 || global_batch % degree == 0) continue;
    const std::int64_t next = round_up(global_batch, degree);
    if (next <= 2 * global_batch) out.insert(next);
  }
  std::vector<std::int64_t> ascending(out.begin(), out.end());
  if (ascending.size() > kMostBatches) ascending.resize(kMostBatches);
  return ascending;
}

std::optional<BatchHint> batch_hint(const Job& room, const EngineModel& engine, search::Evaluator& evaluator, search::Options how,
                                    const search::Outcome& found, std::int64_t fixed_ns) {
  if (!found.complete || !found.best || found.space_size > kLargestHintSpace) return std::nullopt;
  const auto fixed = static_cast<double>(std::min(fixed_ns, found.best->iteration_ns));
  const double grows = (static_cast<double>(found.best->iteration_ns) - fixed) / static_cast<double>(room.training.global_batch);
  how.seeds.clear();
  how.keep_within = 0;
  how.progress = nullptr;
  how.pruning = {};
  for (const std::int64_t batch : batches_to_try(room.cluster.devices(), room.training.global_batch)) {
    Job larger = room;
    larger.training.global_batch = batch;
    const double today = fixed + grows * static_cast<double>(batch);
    how.slowest_ns = static_cast<std::int64_t>((1 - kLeastGain) * today);
    const search::Outcome there =
        search::branch_and_bound({&larger.model, &larger.cluster, larger.training, &engine, larger.search}, evaluator, how);
    if (there.interrupted) return std::nullopt;
    if (!there.best || !forbidden_by_batch(room, there.best->configuration)) continue;
    const search::Configuration& c = there.best->configuration;
    const double gain = 1 - static_cast<double>(there.best->iteration_ns) / today;
    return BatchHint{batch, document_of(larger, engine, c.strategy, c.schedule).label(), there.best->iteration_ns, gain};
  }
  return std::nullopt;
}

}  // namespace espalier::planner
