// SPDX-License-Identifier: Apache-2.0
#include "job/configuration.h"

#include <algorithm>

#include "base/division.h"
#include "plan/engine.h"
#include "plan/split.h"

namespace espalier {
namespace {

std::int32_t clamped(std::int64_t value) { return static_cast<std::int32_t>(std::clamp<std::int64_t>(value, 1, 1 << 30)); }

/// Returns the blocks of the fullest chunk under the engine's split; at least 1.
std::int32_t fullest_chunk(const Job& job, const Schedule& schedule) {
  const std::int64_t chunks = std::max<std::int64_t>(1, std::int64_t{schedule.stages} * schedule.virtual_stages);
  const EngineModel* engine = find_engine(job.engine);
  const bool even = engine && engine->split == SplitPolicy::even_blocks;
  if (even || chunks > static_cast<std::int64_t>(job.model.layers.size())) return clamped(ceil_div(job.model.blocks(), chunks));
  const auto firsts = split_layers(job.model, job.training.sequence, engine ? engine->split : SplitPolicy::balanced,
                                   static_cast<std::int32_t>(chunks));
  return std::max(1, largest_chunk_blocks(job.model, firsts));
}

}  // namespace

void complete_configuration(const Job& job, Strategy& strategy, Schedule& schedule) {
  const std::int64_t model_parallel =
      std::max<std::int64_t>(1, std::int64_t{strategy.tp} * strategy.cp) * std::max(1, schedule.stages);
  if (strategy.dp == 0) strategy.dp = clamped(job.cluster.devices() / model_parallel);
  if (strategy.shard == 0) strategy.shard = strategy.shards_optimizer() ? clamped(strategy.data_ranks()) : 1;
  if (schedule.microbatches == 0) {
    const std::int64_t samples = std::int64_t{std::max(1, schedule.micro_batch)} * std::max(1, strategy.dp);
    schedule.microbatches = clamped(job.training.global_batch / samples);
  }
  if (strategy.recompute.kind == RecomputeKind::full && strategy.recompute.layers == 0) {
    strategy.recompute.layers = fullest_chunk(job, schedule);
  }
}

}  // namespace espalier

namespace espalier::job {

std::string joined_violations(const std::vector<RuleViolation>& broken) {
  std::string out;
  for (const RuleViolation& v : broken) {
    out.append(out.empty() ? "" : "; ").append(v.rule).append(": ").append(v.text);
    if (!v.hint.empty()) out.append(" (").append(v.hint).append(")");
  }
  return out;
}

}  // namespace espalier::job
