// SPDX-License-Identifier: Apache-2.0
#include "search/pipeline_splits.h"

#include <algorithm>
#include <atomic>
#include <limits>

#include "base/invariant.h"
#include "cost/cluster_costs.h"
#include "cost/collective.h"
#include "cost/state_memory.h"
#include "plan/engine.h"
#include "plan/sequence_lengths.h"
#include "search/below_prices.h"
#include "search/budgets.h"
#include "search/single_group.h"

namespace espalier::search {
namespace {

cost::StagePlace first_device_of(std::size_t group) {
  cost::StagePlace place;
  place.group = group;
  return place;
}

/// Ends a search at the first plan that is fast enough.
class UntilFound : public Evaluator {
 public:
  UntilFound(Evaluator& judge, std::int64_t enough_ns, std::atomic<bool>& found)
      : judge_(judge), enough_ns_(enough_ns), found_(found) {}
  std::int64_t peak_bytes(const ProgramStructure& structure, const cost::Costs& costs, int worker) override {
    return judge_.peak_bytes(structure, costs, worker);
  }
  std::int64_t iteration_ns(const ProgramStructure& structure, const cost::Costs& costs, const CandidatePlan& plan,
                            int worker) override {
    // The step has the size of its micro-batches.
    Problem own = plan.problem;
    own.training.global_batch = std::int64_t{plan.schedule.microbatches} * plan.schedule.micro_batch * plan.strategy->dp;
    const std::int64_t ns =
        judge_.iteration_ns(structure, costs, {own, plan.context, plan.schedule, plan.strategy, nullptr}, worker);
    if (ns <= enough_ns_) found_ = true;
    return ns;
  }
  const std::vector<std::int64_t>* pass_ends(const ProgramStructure& structure, const cost::Costs& costs, int worker) override {
    return judge_.pass_ends(structure, costs, worker);
  }
  [[nodiscard]] std::int64_t lowered() const override { return judge_.lowered(); }

 private:
  Evaluator& judge_;
  std::int64_t enough_ns_;
  std::atomic<bool>& found_;
};

}  // namespace

GroupReach::GroupReach(const Problem& problem, Evaluator& evaluator, const Options& options)
    : problem_(problem), evaluator_(evaluator), options_(options), work_(problem) {
  known_ = !problem.cluster->has_speeds() && evaluator.exact() && !length_facts(problem.training).packed;
}

bool GroupReach::trains_on(std::size_t group, std::int64_t nodes, std::int64_t samples, std::int64_t ns) {
  const Cluster alone = nodes_alone(*problem_.cluster, group, nodes);
  std::vector<double> devices(problem_.cluster->groups.size(), 0.0);
  devices[group] = static_cast<double>(nodes * alone.groups.front().devices_per_node);
  if (work_.ns(devices, samples) > ns) return false;
  if (choices_ > kMostSplitChoices) known_ = false;
  if (!known_) return true;
  Problem own = problem_;
  own.cluster = &alone;
  own.space = space_alone(problem_.space);
  own.training.global_batch = samples;
  own.at_least = true;
  std::atomic<bool> found = false, stopped = false;
  Options how;
  how.threads = options_.threads;
  how.slowest_ns = ns;
  how.interrupted = [&] {
    if (options_.interrupted && options_.interrupted()) stopped = true;
    return found || stopped;
  };
  UntilFound judge(evaluator_, ns, found);
  const Outcome outcome = branch_and_bound(own, judge, how);
  choices_ += outcome.bounded;
  simulations_ += outcome.simulations;
  if (stopped) known_ = false;
  return found || stopped || outcome.best.has_value();
}

bool GroupReach::trains(std::size_t group, std::int64_t samples, std::int64_t ns) {
  auto& [short_ns, enough_ns] =
      times_.try_emplace({group, samples}, std::pair<std::int64_t, std::int64_t>{-1, INT64_MAX}).first->second;
  if (ns <= short_ns) return false;
  if (ns >= enough_ns) return true;
  for (std::int64_t nodes = problem_.cluster->groups[group].nodes; nodes >= 1; --nodes)
    if (trains_on(group, nodes, samples, ns)) {
      if (known_) enough_ns = ns;
      return true;
    }
  short_ns = ns;
  return false;
}

std::int64_t GroupReach::samples(std::size_t group, std::int64_t ns) {
  std::int64_t low = 0, high = problem_.training.global_batch;  // low is trained, high may be
  while (low < high) {
    const std::int64_t middle = (low + high + 1) / 2;
    if (trains(group, middle, ns))
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

std::int64_t GroupReach::samples(std::int64_t ns) {
  std::int64_t sum = 0;
  for (std::size_t g = 0; g < problem_.cluster->groups.size(); ++g) sum += samples(g, ns);
  return sum;
}

namespace {

/// Returns the time of an all-reduce of `bytes` between two members over a link at full rate.
double pair_s(const EngineModel& engine, FabricLevel link, double bytes) {
  link.efficiency /= engine.coefficients.data_communication;
  cost::Group pair;
  pair.size = pair.members[0] = 2;
  pair.levels = 1;
  return cost::all_reduce_s({link}, pair, bytes * kFullRate) / kFullRate;
}

/// Returns the time over named links, by the devices of group `g` of `a` and `b`. A stage gets the bandwidth that a
/// link on the path gives its nodes, and no more than their interfaces. A device therefore has at most the rate of
/// its node. It also has at most the rate of one link to each node of the other group that has a link of its own.
double named_side_s(const Problem& problem, std::size_t a, std::size_t b, std::size_t g, double bytes) {
  const Cluster& cluster = *problem.cluster;
  const NodeGroup &at = cluster.groups[g], &other = cluster.groups[g == a ? b : a];
  const GroupPath path = cluster.path(a, b);
  double rate = at.node_bandwidth.count() > 0 ? at.node_bandwidth.count() : std::numeric_limits<double>::infinity();
  for (const std::size_t i : path.links) {
    const GroupLink& link = cluster.links[i];
    const double pairs = link.sharing == LinkSharing::node_pair ? static_cast<double>(other.nodes) : 1.0;
    rate = std::min(rate, link.bandwidth.count() * pairs);
  }
  if (path.links.empty()) rate = std::min(rate, path.bandwidth.count());
  FabricLevel link;
  link.bandwidth = link.bandwidth_alone = BytesPerSecond(rate);
  link.efficiency = 1.0;
  return pair_s(*problem.engine, link, bytes / static_cast<double>(at.nodes * at.devices_per_node));
}

/// Returns the time without links for scattered stages, by the devices of group `g`: the nodes of the group send all
/// bytes out once.
double joined_side_s(const Problem& problem, std::size_t g, double bytes) {
  const NodeGroup& at = problem.cluster->groups[g];
  FabricLevel link;
  link.bandwidth = link.bandwidth_alone = cost::joined_node_rate(*problem.cluster, g);
  link.efficiency = 1.0;
  return pair_s(*problem.engine, link, bytes / static_cast<double>(at.nodes));
}

/// Returns the least time in which `bytes` of gradients are reduced between two groups. Without named links there are
/// two cases. Stages on neighbouring devices are limited by the smaller group, at the slower rate of both. Scattered
/// stages, whose messages may use whole interfaces, are limited by the slower side.
double meeting_s(const Problem& problem, const cost::ClusterCosts& costs, std::size_t a, std::size_t b, double bytes) {
  const Cluster& cluster = *problem.cluster;
  if (!cluster.links.empty()) return std::max(named_side_s(problem, a, b, a, bytes), named_side_s(problem, a, b, b, bytes));
  const auto devices = [&](std::size_t g) { return cluster.groups[g].nodes * cluster.groups[g].devices_per_node; };
  const std::int64_t fewest = std::min(devices(a), devices(b));
  const double neighbouring =
      pair_s(*problem.engine, costs.link(first_device_of(a), first_device_of(b)), bytes / static_cast<double>(fewest));
  return std::min(neighbouring, std::max(joined_side_s(problem, a, bytes), joined_side_s(problem, b, bytes)));
}

}  // namespace

std::int64_t meeting_floor_ns(const Problem& problem) {
  const Cluster& cluster = *problem.cluster;
  const cost::ClusterCosts costs(*problem.model, cluster, problem.training, *problem.engine);
  const double bytes =
      static_cast<double>(trained_parameter_count(*problem.model)) * states_of(*problem.engine, problem.training).reduce;
  double least = -1;
  for (std::size_t a = 0; a < cluster.groups.size(); ++a)
    for (std::size_t b = a + 1; b < cluster.groups.size(); ++b) {
      const double own = meeting_s(problem, costs, a, b, bytes);
      least = least < 0 ? own : std::min(least, own);
    }
  return least < 0 ? 0 : static_cast<std::int64_t>(least * 1e9 * kBelow);
}

std::int64_t least_time(std::int64_t low, std::int64_t high, std::int64_t batch,
                        const std::function<std::int64_t(std::int64_t)>& samples) {
  if (low >= high || samples(high - 1) < batch) return high;
  std::int64_t reaches = high - 1;
  for (int round = 0; round < kSplitRounds && low < reaches; ++round) {
    const std::int64_t middle = low + (reaches - low) / 2;
    if (samples(middle) < batch)
      low = middle + 1;
    else
      reaches = middle;
  }
  return low;
}

std::int64_t pipelines_floor_ns(const Problem& problem) {
  return std::max(WorkBound(problem).ns(), meeting_floor_ns(problem) + WorkBound(problem, WorkBound::Passes::forward).ns());
}

std::int64_t splits_bound_ns(const Problem& problem, GroupReach& reach, std::int64_t best_ns) {
  const std::int64_t floor_ns = std::min(best_ns, pipelines_floor_ns(problem));
  if (!reach.known()) return floor_ns;
  return least_time(floor_ns, best_ns, problem.training.global_batch, [&](std::int64_t ns) { return reach.samples(ns); });
}

std::int64_t splits_bound_ns(const Problem& problem, Evaluator& evaluator, std::int64_t best_ns, const Options& options) {
  GroupReach reach(problem, evaluator, options);
  return splits_bound_ns(problem, reach, best_ns);
}

}  // namespace espalier::search
