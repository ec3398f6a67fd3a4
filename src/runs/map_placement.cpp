// SPDX-License-Identifier: Apache-2.0
// Maps the places of a mixed run's ranks, and the layers of its stages. The ranks are on devices that the cluster
// numbers group by group.
//
//   default             ranks in the order of the machines: as in the matrix file, else as the cluster numbers them
//   random, seeded      the map of that seed in the matrix file
//   scheduled           the best places found (planner/placement_search.h).
//
// A stage may hold an uneven part of the layers (`stages[].layer_list_range`).
#include <algorithm>
#include <numeric>

#include "base/format.h"
#include "base/invariant.h"
#include "plan/engine.h"
#include "plan/process_groups.h"
#include "planner/estimate.h"
#include "planner/placement_search.h"
#include "planner/prediction.h"
#include "runs/mapper.h"

namespace espalier::runs {

namespace {

/// Returns devices in the order of machines with these consecutive sizes; empty where the cluster has other nodes.
std::vector<std::int64_t> in_order_of(const Cluster& cluster, const std::vector<std::int64_t>& sizes) {
  std::vector<std::int64_t> next(cluster.groups.size(), 0), out;
  for (const std::int64_t size : sizes) {
    std::size_t g = 0;
    while (g < cluster.groups.size() && (cluster.groups[g].devices_per_node != size || next[g] == cluster.groups[g].nodes)) ++g;
    if (g == cluster.groups.size()) return {};
    const std::int64_t first = cluster.first_device(g) + size * next[g]++;
    for (std::int64_t d = 0; d < size; ++d) out.push_back(first + d);
  }
  return static_cast<std::int64_t>(out.size()) == cluster.devices() ? out : std::vector<std::int64_t>{};
}

/// Moves the places of a plan, in their usual order of ranks, to other devices.
void move_devices(Plan& plan, const std::vector<std::int64_t>& device_of) {
  std::vector<std::int64_t> each = device_of;
  std::sort(each.begin(), each.end());
  // The map must contain every device once.
  for (std::size_t n = 0; n < each.size(); ++n) ESPALIER_CHECK(each[n] == static_cast<std::int64_t>(n));
  for (Pipeline& pipeline : plan.pipelines)
    for (Stage& stage : pipeline.stages) {
      std::vector<DeviceRange> moved;
      for (const std::int64_t rank : devices_of(stage.devices))
        moved.push_back({device_of[static_cast<std::size_t>(rank)], 1, 1});
      stage.devices = std::move(moved);
    }
}

}  // namespace

void Mapper::place_ranks(Plan& plan) {
  const RunMixture& m = r_.mixture;
  const Cluster& cluster = run_.job.cluster;
  const auto devices = static_cast<std::size_t>(cluster.devices());
  std::vector<std::int64_t> order(devices);
  std::iota(order.begin(), order.end(), std::int64_t{0});
  if (case_ && !case_->node_sizes.empty()) {
    const std::vector<std::int64_t> told = in_order_of(cluster, case_->node_sizes);
    if (told.size() == devices) order = told;
  }
  if (job::mentions(m.placement, {"scheduled"})) {
    move_devices(plan, order);
    plan = planner::placed(run_.job, *find_engine(run_.job.engine), plan);
    used("placement", "searched",
         "scheduled placements are not part of the record: the search finds the best one for its degrees");
    return;
  }
  if (job::mentions(m.placement, {"random"})) {
    const auto map =
        case_ && m.seed ? case_->random_ranks.find(*m.seed) : std::map<std::int64_t, std::vector<std::int64_t>>::const_iterator{};
    if (!case_ || !m.seed || map == case_->random_ranks.end()) return skip("placement unknown", m.placement);
    std::vector<std::int64_t> moved(devices, 0), seen(devices, 0);
    for (std::size_t rank = 0; rank < devices; ++rank) {
      const std::int64_t place = rank < map->second.size() ? map->second[rank] : -1;
      if (place < 0 || place >= static_cast<std::int64_t>(devices) || seen[static_cast<std::size_t>(place)]++ > 0)
        return skip("placement unknown", cat("the map for seed ", *m.seed));
      moved[rank] = order[static_cast<std::size_t>(place)];
    }
    order = std::move(moved);
    used("placement", cat("seed ", *m.seed), "random_rank_map of the matrix file");
  }
  move_devices(plan, order);
}

/// Sets the model's layers from ranges of a framework's list: [embedding, blocks, head] with entries among them that
/// hold nothing.
void Mapper::place_layers(Plan& plan) {
  const std::vector<RunStage>& stages = r_.mixture.stages;
  const auto blocks = static_cast<std::int64_t>(run_.job.model.blocks());
  const bool ranges = std::all_of(stages.begin(), stages.end(), [](const RunStage& s) { return s.layer_range.size() == 2; });
  if (stages.empty() || !ranges || run_.schedule.virtual_stages != 1) return;
  const std::int64_t entries = stages.back().layer_range.back();
  // DeepSpeed's list for Megatron holds embedding, a function, blocks, a function, the last norm, the head, the loss
  // (megatron/model/gpt2_model.py).
  const std::int64_t before = entries == blocks ? 0 : entries == blocks + 6 ? 2 : entries == blocks + 2 ? 1 : -1;
  if (before < 0 || stages.size() != plan.only_pipeline().stages.size())
    return skip("stages with unknown layers", cat(entries, " entries"));
  std::int64_t next = 0;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const std::int64_t until = std::clamp<std::int64_t>(stages[i].layer_range[1] - before, 0, blocks);
    const std::int64_t first = i == 0 ? 0 : next + 1, last = i + 1 == stages.size() ? blocks + 1 : until;
    if (last < first) return skip("stages without layers", cat("stage ", i));
    LayerRange& range = plan.only_pipeline().stages[i].chunks.front().ranges.front();
    range.first = static_cast<std::int32_t>(first);
    range.last = static_cast<std::int32_t>(last);
    if (range.strategy.recompute.kind == RecomputeKind::full)
      range.strategy.recompute.layers = static_cast<std::int32_t>(std::min(last, blocks) - std::max<std::int64_t>(1, first) + 1);
    // Full recomputation covers blocks, so a stage of only the embedding or the head has none.
    if (range.strategy.recompute.kind == RecomputeKind::full && range.strategy.recompute.layers <= 0)
      range.strategy.recompute = {};
    next = until;
  }
}

void Mapper::place_run() {
  const RunMixture& m = r_.mixture;
  if (!m.network.stated()) return;
  // A rank that waits for the arrival of each message also waits for its latency.
  const bool asynchronous = framework_ != nullptr && framework_->overlap.p2p;
  run_.wan_latency = asynchronous && run_.schedule.stages > 1 && planner::is_wan_latency(m.network.delay_ms.value_or(0) * 1e-3);
  const bool places = run_.job.cluster.groups.size() > 1 || job::mentions(m.placement, {"random", "scheduled"});
  const bool layers = std::any_of(m.stages.begin(), m.stages.end(), [](const RunStage& s) { return !s.layer_range.empty(); });
  if (!places && !layers && !run_.wan_latency) return;
  Plan plan = planner::document_of(run_.job, *find_engine(run_.job.engine), run_.strategy, run_.schedule);
  if (places) place_ranks(plan);
  if (!skip_ && layers) place_layers(plan);
  if (skip_) return;
  // The configuration keeps the rules, moved to other devices or cut elsewhere.
  ESPALIER_CHECK(validate(plan).ok());
  run_.plan = std::move(plan);
}

}  // namespace espalier::runs
