// SPDX-License-Identifier: Apache-2.0
#include "planner/compute_split.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "plan/dimension.h"
#include "plan/engine.h"
#include "planner/legality.h"
#include "planner/prediction.h"

namespace espalier::planner {
namespace {

/// Places a future stage on consecutive devices of one group.
struct StageSlot {
  std::int64_t first = 0;
  double rate = 0;
};

/// Returns the places of stages of `size` devices each, group after group; empty if a group is not whole stages.
std::vector<StageSlot> places(const Job& job, std::int64_t size, bool fast_first) {
  const Cluster& cluster = job.cluster;
  const auto peak = [&](std::size_t g) { return cluster.groups[g].device.peak_of(job.training.precision).count(); };
  std::vector<std::size_t> order(cluster.groups.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return fast_first ? peak(a) > peak(b) : peak(a) < peak(b); });
  std::vector<StageSlot> out;
  for (const std::size_t g : order) {
    const std::int64_t begin = cluster.first_device(g), devices = cluster.groups[g].nodes * cluster.groups[g].devices_per_node;
    if (devices % size != 0) return {};
    for (std::int64_t d = begin; d < begin + devices; d += size) out.push_back({d, peak(g) * cluster.slowest_of(d, size)});
  }
  return out;
}

/// Returns the uniform plan with layers and devices assigned by rates.
Plan dealt(const Job& job, const EngineModel& engine, const Strategy& strategy, const Schedule& schedule,
           const std::vector<StageSlot>& places) {
  std::vector<double> rates;
  for (const StageSlot& p : places) rates.push_back(p.rate);
  const std::vector<std::int32_t> first = split_by_rates(split_weights(job.model, job.training.sequence), rates);
  Plan plan = document_of(job, engine, strategy, schedule);
  const auto layers = static_cast<std::int32_t>(job.model.layers.size());
  for (std::size_t i = 0; i < places.size(); ++i) {
    Stage& stage = plan.only_pipeline().stages[i];
    stage.devices = {{places[i].first, std::int64_t{strategy.tp} * strategy.dp, 1}};
    LayerRange& range = stage.chunks.front().ranges.front();
    range.first = first[i];
    range.last = (i + 1 < places.size() ? first[i + 1] : layers) - 1;
    if (strategy.recompute.kind != RecomputeKind::full) continue;
    const std::int32_t blocks = range.last - range.first + 1 - (range.first == 0 ? 1 : 0) - (range.last == layers - 1 ? 1 : 0);
    range.strategy.recompute = blocks > 0 ? Recompute{RecomputeKind::full, blocks} : Recompute{};
  }
  return plan;
}

struct Degrees {
  std::int32_t tp = 1, dp = 1, stages = 1, micro_batch = 1;
};

RecomputeLadder ladder(const Job& job, const Job& equal, const EngineModel& engine, const Degrees& d,
                       const std::vector<StageSlot>& places) {
  Strategy s;
  s.tp = d.tp;
  s.sp = d.tp > 1 ? SequenceParallel::megatron : SequenceParallel::none;
  s.dp = d.dp;
  if (d.dp > 1) {
    s.zero = ZeroStage::optimizer;
    s.shard = d.dp;
    s.overlap.grad_reduce = s.overlap.param_gather = true;
  }
  s.overlap.p2p = d.stages > 1;
  Schedule schedule;
  schedule.stages = d.stages;
  schedule.micro_batch = d.micro_batch;
  schedule.microbatches = static_cast<std::int32_t>(job.training.global_batch / (std::int64_t{d.dp} * d.micro_batch));
  RecomputeLadder out;
  for (const RecomputeKind kind : {RecomputeKind::none, RecomputeKind::selective, RecomputeKind::full}) {
    s.recompute = {kind, kind == RecomputeKind::full ? 1 : 0};
    if (!illegal(equal, engine, s, schedule).ok()) continue;
    Plan plan = dealt(job, engine, s, schedule, places);
    if (admitted(job.search, plan)) out.push_back(std::move(plan));
  }
  return out;
}

}  // namespace

std::vector<std::int32_t> split_by_rates(const std::vector<double>& weights, const std::vector<double>& rates) {
  const double all = std::accumulate(weights.begin(), weights.end(), 0.0),
               rate = std::accumulate(rates.begin(), rates.end(), 0.0);
  const auto layers = static_cast<std::int32_t>(weights.size()), stages = static_cast<std::int32_t>(rates.size());
  std::vector<std::int32_t> out = {0};
  double before = 0, wanted = 0;
  std::int32_t at = 0;
  for (std::int32_t i = 0; i + 1 < stages; ++i) {
    wanted += all * rates[static_cast<std::size_t>(i)] / rate;
    const std::int32_t least = out.back() + 1, most = layers - (stages - 1 - i);
    // Adds a layer while that brings the sum nearer.
    while (at < most &&
           (at < least || std::abs(before + weights[static_cast<std::size_t>(at)] - wanted) < std::abs(before - wanted)))
      before += weights[static_cast<std::size_t>(at++)];
    out.push_back(at);
  }
  return out;
}

bool admitted(const SearchSpace& space, const Plan& plan) {
  for (const Pipeline& pipeline : plan.pipelines)
    for (const Stage& stage : pipeline.stages)
      for (const Chunk& chunk : stage.chunks)
        for (const LayerRange& range : chunk.ranges)
          for (const Dimension d : {Dimension::tp, Dimension::sp, Dimension::cp, Dimension::ep, Dimension::etp, Dimension::dp,
                                    Dimension::pp, Dimension::zero, Dimension::recompute, Dimension::micro_batch})
            if (!space.admits(d, get(d, range.strategy, pipeline.schedule))) return false;
  return true;
}

std::vector<RecomputeLadder> compute_splits(const Job& job, const Job& equal, const EngineModel& engine) {
  const std::int64_t devices = job.cluster.devices(), node = equal.cluster.groups.front().devices_per_node;
  const std::int64_t batch = job.training.global_batch, layers = static_cast<std::int64_t>(job.model.layers.size());
  std::vector<RecomputeLadder> out;
  for (std::int64_t tp = 1; tp <= node; tp *= 2)
    for (std::int64_t size = tp; size <= devices; size += tp) {
      if (devices % size != 0 || devices / size > layers || batch % (size / tp) != 0) continue;
      for (const bool fast_first : {true, false}) {
        const std::vector<StageSlot> where = places(job, size, fast_first);
        for (const std::int64_t micro_batch : {1, 2, 4, 8}) {
          if (where.empty() || batch / (size / tp) % micro_batch != 0) continue;
          const Degrees d{static_cast<std::int32_t>(tp), static_cast<std::int32_t>(size / tp),
                          static_cast<std::int32_t>(where.size()), static_cast<std::int32_t>(micro_batch)};
          RecomputeLadder rungs = ladder(job, equal, engine, d, where);
          if (!rungs.empty()) out.push_back(std::move(rungs));
        }
      }
    }
  return out;
}

}  // namespace espalier::planner
