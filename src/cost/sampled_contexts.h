// SPDX-License-Identifier: Apache-2.0
// Contexts of pipelines that have a part of the global batch, as of jobs of their own.
//
// How uneven packed samples of unlike length come out depends on how many micro-batches there are
// (plan/sequence_lengths.h): those of the pipeline itself, not of the whole batch. A replica that takes b samples of
// each of m micro-batches, unlike others of its stage, counts as one of d equal ones in a batch of m·b·d. Where samples
// are not packed a context is what it was.
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
  /// `context` with a batch of so many samples: itself, or a copy that lives as long as this value. The same for the
  /// same arguments.
  const CostContext& of(const CostContext& context, std::int64_t samples);

 private:
  std::deque<CostContext> made_;  // a deque: their addresses stay
  std::vector<std::pair<const CostContext*, std::int64_t>> from_;
};

/// The batch as which a stage is priced whose replicas take `of_replica` samples of a micro-batch; 0: what all take.
std::int64_t samples_of_stage(const Pipeline& pipeline, std::size_t stage, std::int64_t of_replica);

}  // namespace espalier::cost
