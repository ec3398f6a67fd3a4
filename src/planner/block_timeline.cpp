// SPDX-License-Identifier: Apache-2.0
// Builds the timeline of one block whose operators are partitioned one by one.
#include "espalier/planner.h"
#include "planner/legality.h"
#include "planner/prediction.h"
#include "planner/support.h"
#include "sim/block_trace.h"

namespace espalier {

using namespace planner;

Result<std::string> block_timeline(const Job& job, const Plan& plan) {
  const auto engine = engine_of(job);
  if (!engine) return engine.error();
  if (Status status = plannable(job); !status.ok()) return status.error();
  if (Status status = unsupported(plan); !status.ok()) return status.error();
  if (Status status = plan_fits_job(job, plan); !status.ok()) return status.error();
  if (Status status = support(job, **engine, plan); !status.ok()) return status.error();
  const cost::CostContext context(job.model, job.cluster, job.training, **engine);
  for (const Pipeline& pipeline : plan.pipelines)
    for (const Stage& stage : pipeline.stages)
      for (const Chunk& chunk : stage.chunks)
        for (const LayerRange& range : chunk.ranges)
          for (std::int32_t i = range.first; i <= range.last && !range.strategy.partition.empty(); ++i) {
            const LayerKind& kind = job.model.layer(static_cast<std::size_t>(i));
            if (kind.role != LayerRole::block) continue;
            return sim::block_trace(context, kind, pipeline.samples_per_microbatch() / range.strategy.dp, range.strategy.tp,
                                    range.strategy.partition);
          }
  return Error{ErrorKind::bad_input, "plan", "no operator partition", "a plan of search.space: spatial_temporal or full",
               "omit --block for this plan"};
}

}  // namespace espalier
