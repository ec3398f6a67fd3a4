// SPDX-License-Identifier: Apache-2.0
#include "planner/placement_search.h"

#include <algorithm>
#include <numeric>

#include "cost/collective.h"
#include "cost/scattered_stages.h"
#include "plan/engine.h"
#include "plan/process_groups.h"
#include "planner/prediction.h"

namespace espalier::planner {
namespace {

constexpr std::size_t kSimulated = 16;  ///< starts with the lowest figures
constexpr int kRounds = 4;              ///< passes over all pairs of places
constexpr std::size_t kSwapped = 128;   ///< devices up to which exchanges are tried

/// Lists devices by place: stage after stage, in rank order.
using Places = std::vector<std::int64_t>;

class Judge {
 public:
  Judge(const Job& job, const EngineModel& engine, const Pipeline& pipeline) : job_(job), engine_(engine), pipeline_(pipeline) {
    const Strategy& s = pipeline_.strategy();
    const LayerKind& block = job.model.kinds[static_cast<std::size_t>(job.model.layers[job.model.layers.size() / 2])];
    message_bytes_ = 2.0 * static_cast<double>(pipeline_.schedule.micro_batch) *
                     static_cast<double>(boundary_elements(block, job.training.sequence)) / s.cp;
    gradient_bytes_ =
        2.0 * static_cast<double>(parameter_count(job.model)) / (pipeline_.schedule.stages * static_cast<double>(s.weight_tp()));
  }

  [[nodiscard]] double operator()(const Places& places) {
    set(places);
    const cost::ScatteredStages spread(job_.cluster, pipeline_, paths_);
    double slowest = 0, latency = 0, reduction = 0;
    for (std::size_t i = 0; i + 1 < pipeline_.stages.size(); ++i) {
      const FabricLevel link = spread.link(i, i + 1);
      slowest = std::max(slowest, message_bytes_ / std::max(1.0, link.bandwidth.count() * link.efficiency));
      latency += link.latency.count();
    }
    const Strategy& s = pipeline_.strategy();
    for (std::size_t i = 0; i < pipeline_.stages.size() && s.data_ranks() > 1; ++i) {
      const cost::Fabric fabric = spread.fabric(i, usual(spread.kinds(i).front().group), engine_);
      const cost::Group group = cost::data_group(fabric.placing(), s, pipeline_.schedule.stages, s.data_ranks());
      reduction = std::max(reduction, cost::all_reduce_s(fabric.data_levels, group, gradient_bytes_));
    }
    return 2.0 * static_cast<double>(pipeline_.schedule.microbatches) * slowest + 2.0 * latency + reduction;
  }

  /// Sets the devices of the pipeline.
  void set(const Places& places) {
    std::size_t next = 0;
    for (Stage& stage : pipeline_.stages) {
      const std::size_t count = devices_of(stage.devices).size();
      stage.devices.clear();
      for (std::size_t n = 0; n < count; ++n) stage.devices.push_back({places[next++], 1, 1});
    }
  }
  [[nodiscard]] const Pipeline& pipeline() const { return pipeline_; }

 private:
  [[nodiscard]] const cost::Fabric& usual(std::size_t group) {
    while (usual_.size() < job_.cluster.groups.size()) {
      const NodeGroup& alone = job_.cluster.groups[usual_.size()];
      Cluster one;
      one.groups = {alone};
      one.inter = job_.cluster.homogeneous() ? job_.cluster.inter : alone.inter;
      usual_.emplace_back(one, engine_);
    }
    return usual_[group];
  }

  const Job& job_;
  const EngineModel& engine_;
  const std::shared_ptr<const cost::GroupPaths> paths_ = cost::group_paths(job_.cluster);
  Pipeline pipeline_;
  std::vector<cost::Fabric> usual_;
  double message_bytes_ = 0, gradient_bytes_ = 0;
};

/// Returns the devices group after group, in each order of the groups if they are few.
std::vector<Places> device_orders(const Cluster& cluster) {
  std::vector<std::size_t> groups(cluster.groups.size());
  std::iota(groups.begin(), groups.end(), std::size_t{0});
  std::vector<Places> out;
  do {
    Places devices;
    for (const std::size_t g : groups) {
      const std::int64_t first = cluster.first_device(g), count = cluster.groups[g].nodes * cluster.groups[g].devices_per_node;
      for (std::int64_t d = 0; d < count; ++d) devices.push_back(first + d);
    }
    out.push_back(std::move(devices));
  } while (groups.size() <= kPermuted && std::next_permutation(groups.begin(), groups.end()));
  return out;
}

/// Assigns the next devices stage by stage, or replica by replica, each a whole pipeline.
std::vector<Places> starts(const Cluster& cluster, const Pipeline& pipeline) {
  const auto stages = pipeline.stages.size();
  const Strategy& s = pipeline.strategy();
  const auto inner = static_cast<std::size_t>(s.tp) * static_cast<std::size_t>(s.cp), replicas = static_cast<std::size_t>(s.dp);
  std::vector<Places> out;
  for (const Places& devices : device_orders(cluster)) {
    out.push_back(devices);
    Places by_pipeline(devices.size());
    for (std::size_t p = 0; p < stages; ++p)
      for (std::size_t d = 0; d < replicas; ++d)
        for (std::size_t n = 0; n < inner; ++n)
          by_pipeline[n + inner * (d + replicas * p)] = devices[n + inner * (p + stages * d)];
    out.push_back(std::move(by_pipeline));
  }
  return out;
}

/// Swaps pairs of devices of different nodes, as long as each swap lowers the figure.
std::pair<double, Places> exchanged(Judge& judge, const Cluster& cluster, std::pair<double, Places> from) {
  auto& [least, best] = from;
  bool better = best.size() <= kSwapped;
  for (int round = 0; round < kRounds && better; ++round) {
    better = false;
    for (std::size_t a = 0; a < best.size(); ++a)
      for (std::size_t b = a + 1; b < best.size(); ++b) {
        if (cluster.node_of(best[a]) == cluster.node_of(best[b])) continue;
        std::swap(best[a], best[b]);
        const double here = judge(best);
        if (here < least * (1 - 1e-9)) {
          least = here;
          better = true;
        } else {
          std::swap(best[a], best[b]);
        }
      }
  }
  return from;
}

}  // namespace

Plan placed(const Job& job, const EngineModel& engine, Plan plan) {
  Pipeline& pipeline = plan.only_pipeline();
  Judge judge(job, engine, pipeline);
  std::vector<std::pair<double, Places>> found;
  for (Places& places : starts(job.cluster, pipeline)) found.emplace_back(judge(places), std::move(places));
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  if (found.size() > kSimulated) found.resize(kSimulated);
  found.push_back(exchanged(judge, job.cluster, found.front()));
  Places own;  // the placement of the plan itself
  for (const Stage& stage : pipeline.stages)
    for (const std::int64_t device : devices_of(stage.devices)) own.push_back(device);
  const double figure_of_own = judge(own);
  found.emplace_back(figure_of_own, std::move(own));
  std::int64_t fastest = -1;
  Plan best = plan;
  for (const auto& [figure, places] : found) {
    judge.set(places);
    pipeline.stages = judge.pipeline().stages;
    const auto timed = time_plan(job, engine, plan, false);
    if (!timed || (fastest >= 0 && timed->simulation.iteration_ns >= fastest)) continue;
    fastest = timed->simulation.iteration_ns;
    best = plan;
  }
  return best;
}

}  // namespace espalier::planner
