// SPDX-License-Identifier: Apache-2.0
#include "cost/sampled_contexts.h"

#include <algorithm>

namespace espalier::cost {

const CostContext& SampledContexts::of(const CostContext& context, std::int64_t samples) {
  if (!context.workload.lengths.packed || context.workload.training.global_batch == samples) return context;
  const auto known = std::find(from_.begin(), from_.end(), std::pair(&context, samples));
  if (known != from_.end()) return made_[static_cast<std::size_t>(known - from_.begin())];
  from_.emplace_back(&context, samples);
  made_.push_back(context);
  made_.back().workload.training.global_batch = samples;
  return made_.back();
}

std::int64_t samples_of_stage(const Pipeline& pipeline, std::size_t stage, std::int64_t of_replica) {
  if (of_replica == 0) return pipeline.samples;
  const Strategy& s = pipeline.stages[stage].chunks.front().ranges.front().strategy;
  return pipeline.schedule.microbatches * of_replica * s.dp;
}

}  // namespace espalier::cost
