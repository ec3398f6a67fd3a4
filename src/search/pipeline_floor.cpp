// SPDX-License-Identifier: Apache-2.0
#include "search/pipeline_floor.h"

#include <algorithm>

#include "cost/bound.h"

namespace espalier::search {
namespace {

/// Fills in passes and messages alone, as whole durations.
void fill_pipeline(const Workspace& w, PipelineAlone& out) {
  out.structure.schedule = w.structure.schedule;
  out.structure.buckets.assign(w.structure.buckets.size(), 1);
  out.structure.overlap_p2p = true;
  out.costs.reset(out.structure);
  out.costs.transfers = w.costs.transfers;
  for (std::int32_t i = 0; i < out.structure.phases() * out.structure.chunks(); ++i)
    out.costs.works[WorkId(i)].time.compute_ns = w.costs.works[WorkId(i)].time.duration_ns();
}

std::int64_t first_gather_ns(const Workspace& w) {
  return w.structure.overlap_gather ? w.costs.collectives[w.structure.param_gather(ChunkId(0))].count() : 0;
}

}  // namespace

std::int64_t floor_of_ends(const Workspace& w, const std::vector<std::int64_t>& ends) {
  std::int64_t last = 0;
  for (std::size_t i = 0; i < ends.size(); ++i)
    last = std::max(last, ends[i] + cost::tail_of_stage_ns(w.costs, w.structure, static_cast<std::int32_t>(i)));
  return first_gather_ns(w) + last;
}

std::int64_t pipeline_floor_ns(Evaluator& evaluator, Workspace& w, int worker) {
  fill_pipeline(w, w.pipeline);
  const std::vector<std::int64_t>* ends = evaluator.pass_ends(w.pipeline.structure, w.pipeline.costs, worker);
  return ends == nullptr ? 0 : floor_of_ends(w, *ends);
}

std::vector<std::int64_t> latest_pass_ends(const Workspace& w, std::int64_t iteration_ns) {
  std::vector<std::int64_t> ends;
  for (std::int32_t i = 0; i < w.structure.schedule.stages; ++i)
    ends.push_back(iteration_ns - first_gather_ns(w) - cost::tail_of_stage_ns(w.costs, w.structure, i));
  return ends;
}

Configuration pipeline_of(const Configuration& c) {
  Configuration out = c;
  Strategy& s = out.strategy;
  s.overlap.p2p = false;
  if (s.shards_gradients()) return out;  // states are gathered or reduced inside passes
  s.zero = ZeroStage::none;
  s.shard = 1;
  s.overlap.grad_reduce = s.overlap.param_gather = false;
  return out;
}

Configuration schedule_choice_of(const Configuration& c) {
  Configuration out = c;
  out.strategy.zero = ZeroStage::none;
  out.strategy.shard = 1;
  take_overlap({}, out.strategy);
  out.strategy.recompute = {};
  return out;
}

}  // namespace espalier::search
