// SPDX-License-Identifier: Apache-2.0
#include "search/work_bound.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/invariant.h"
#include "cost/chunk_sum.h"
#include "plan/engine.h"
#include "profile/measured_operators.h"
#include "search/below_prices.h"

namespace espalier::search {
namespace {

/// Returns device-seconds under a profile, whose times need not grow when work is cut up. They are the least over the
/// sizes of tensor parallelism that it covers.
std::vector<double> measured_seconds(const Problem& problem, double speed) {
  const profile::MeasuredOperators& measured = *problem.engine->measured;
  const std::int64_t sequence = problem.training.sequence.main;
  std::vector<double> out;
  for (const LayerKind& kind : problem.model->kinds) {
    double seconds = 0;
    for (const Operator& op : kind.operators) {
      double least = std::numeric_limits<double>::infinity();
      for (std::int32_t tp = 1; tp <= problem.cluster->devices(); ++tp) {
        Strategy s;
        s.tp = tp;
        const auto [shape, tokens] = profile::work_on_rank(kind, op, s, problem.model->vocabulary, sequence, 1);
        if (!measured.covers(shape)) continue;
        const double ranks = op.split != TpSplit::none ? tp : 1;
        least = std::min(least, ranks * static_cast<double>(tokens) * measured.least_per_token(shape));
      }
      seconds += std::isfinite(least) ? least : 0;
    }
    out.push_back(kBelow * seconds / speed);
  }
  return out;
}

/// Returns device-seconds per sample of each layer kind, forward and backward, on one device of a group as fast as
/// its kind.
std::vector<double> device_seconds(const Problem& problem, std::size_t group, WorkBound::Passes passes) {
  const bool both = passes == WorkBound::Passes::both;
  if (problem.engine->measured != nullptr && !both) return std::vector<double>(problem.model->kinds.size(), 0.0);
  if (problem.engine->measured != nullptr) return measured_seconds(problem, problem.cluster->groups[group].device.speed);
  const Cluster alone = problem.cluster->alone(group);
  const cost::CostContext context(*problem.model, alone, problem.training, *problem.engine);
  const auto batch = static_cast<std::int32_t>(problem.training.global_batch);
  std::vector<cost::LayerCost> layers;
  const Strategy one;
  cost::layer_costs(context, one, 1, batch, layers);
  const cost::StrategyCost x = cost::strategy_cost_of(context, one, 1, layers, cost::ChunkEdges::exposed);
  std::vector<double> out;
  for (std::size_t k = 0; k < layers.size(); ++k) {
    cost::ChunkTotal total;
    cost::ChunkSum sum(total);
    sum.add(x, static_cast<std::int32_t>(k), 1, RecomputeKind::none);
    const auto ns = static_cast<double>(total.forward.compute_ns + (both ? total.backward.compute_ns : 0));
    out.push_back(kBelow * ns * 1e-9 / static_cast<double>(batch));
  }
  return out;
}

/// Returns device-seconds per sample of each layer kind, by group.
std::vector<std::vector<double>> seconds_of(const Problem& problem, WorkBound::Passes passes) {
  std::vector<std::vector<double>> out;
  for (std::size_t g = 0; g < problem.cluster->groups.size(); ++g) out.push_back(device_seconds(problem, g, passes));
  return out;
}

}  // namespace

WorkBound::WorkBound(const Problem& problem, Passes passes) : problem_(&problem), seconds_(seconds_of(problem, passes)) {}

double WorkBound::capacity(std::size_t group) const { return capacity(group, problem_->cluster->groups[group].nodes); }

double WorkBound::capacity(std::size_t group, std::int64_t nodes) const {
  const Cluster& cluster = *problem_->cluster;
  const std::int64_t first = cluster.first_device(group);
  double sum = 0;
  for (std::int64_t d = 0; d < nodes * cluster.groups[group].devices_per_node; ++d) sum += cluster.speed_of(first + d);
  return sum;
}

std::int64_t WorkBound::ns(const std::vector<double>& devices, std::int64_t samples) const {
  ESPALIER_CHECK(devices.size() == seconds_.size());
  std::vector<double> weight(devices.size(), 0.0);
  double capacity = 0;
  for (std::size_t g = 0; g < devices.size(); ++g) {
    if (devices[g] <= 0) continue;
    double whole = 0;
    for (const std::int32_t kind : problem_->model->layers) whole += seconds_[g][static_cast<std::size_t>(kind)];
    if (whole <= 0) return 0;
    weight[g] = 1.0 / whole;
    capacity += weight[g] * devices[g];
  }
  if (capacity <= 0) return 0;
  double work = 0;
  for (const std::int32_t kind : problem_->model->layers) {
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t g = 0; g < devices.size(); ++g)
      if (devices[g] > 0) least = std::min(least, weight[g] * seconds_[g][static_cast<std::size_t>(kind)]);
    work += least;
  }
  return static_cast<std::int64_t>(1e9 * static_cast<double>(samples) * work / capacity);
}

std::int64_t WorkBound::ns() const {
  std::vector<double> devices;
  for (std::size_t g = 0; g < seconds_.size(); ++g) devices.push_back(capacity(g));
  return ns(devices, problem_->training.global_batch);
}

std::int64_t work_bound_ns(const Problem& problem) { return WorkBound(problem).ns(); }

double least_cost_of_work(const Problem& problem) {
  const std::vector<NodeGroup>& groups = problem.cluster->groups;
  for (const NodeGroup& group : groups)
    if (!group.price_per_device_hour) return 0;
  const std::vector<std::vector<double>> seconds = seconds_of(problem, WorkBound::Passes::both);
  double cost = 0;
  for (const std::int32_t kind : problem.model->layers) {
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t g = 0; g < groups.size(); ++g)
      least = std::min(least, seconds[g][static_cast<std::size_t>(kind)] * *groups[g].price_per_device_hour / 3600);
    cost += least;
  }
  return cost * static_cast<double>(problem.training.global_batch);
}

}  // namespace espalier::search
