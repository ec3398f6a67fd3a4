// SPDX-License-Identifier: Apache-2.0
// Contexts of pipelines that have a part of the global batch, as if they were jobs of their own.
//
// Packed samples of unequal length are more or less uneven depending on the number of micro-batches
// (plan/sequence_lengths.h). The micro-batches of the pipeline itself count, not those of the whole batch. A replica
// may take b samples of each of m micro-batches, unlike others of its stage. It then counts as one of d equal ones in
// a batch of m·b·d. Where samples are not packed a context stays as it is.
#pragma once

#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "cost/cost_context.h"
#include "espalier/plan.h"

namespace espalier::cost {

class SampledContexts {
 public:
  /// Returns `context` with a batch of `samples` samples: itself, or a copy that lives as long as this value. Equal
  /// arguments give the same context.
  const CostContext& of(const CostContext& context, std::int64_t samples);

 private:
  std::deque<CostContext> made_;  // a deque keeps their addresses
  std::vector<std::pair<const CostContext*, std::int64_t>> from_;
};

/// Returns the batch with which a stage is priced whose replicas take `of_replica` samples of a micro-batch; 0: all
/// take the same.
std::int64_t samples_of_stage(const Pipeline& pipeline, std::size_t stage, std::int64_t of_replica);

}  // namespace espalier::cost
