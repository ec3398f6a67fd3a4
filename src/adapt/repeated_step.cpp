// SPDX-License-Identifier: Apache-2.0
#include "adapt/repeated_step.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "base/invariant.h"
#include "cluster/topology_builders.h"
#include "cost/cluster_costs.h"
#include "cost/rank_contexts.h"
#include "plan/engine.h"
#include "planner/prediction.h"
#include "sim/flow_executor.h"
#include "sim/program_traffic.h"
#include "sim/topology_network.h"

namespace espalier::adapt {
namespace {

/// Limits the number of steps that are simulated one by one to find a repetition of tokens.
constexpr std::int64_t kMostSteps = 200;
/// Define the difference up to which tokens are considered equal: bytes, and a share of the bucket.
constexpr double kSameBytes = 16;
constexpr double kSameShare = 1e-9;

using Tokens = std::vector<double>;  // by bucket of the topology

struct SimulatedStep {
  std::int64_t ns = 0;
  Tokens before, after, least;
  [[nodiscard]] bool runs_empty() const {
    return std::any_of(least.begin(), least.end(), [](double tokens) { return tokens <= 0.0; });
  }
};

class Repetition {
 public:
  Repetition(cluster::Topology topology, sim::ProgramTraffic traffic, planner::Timed timed)
      : topology_(std::move(topology)), traffic_(std::move(traffic)), timed_(std::move(timed)) {}

  Result<LongRun> run() {
    for (const cluster::LinkBucket& bucket : topology_.buckets()) tokens_.push_back(bucket.bucket);
    double passed_ns = 0;
    out_.lasts_s = std::numeric_limits<double>::infinity();
    for (out_.simulated = 1; out_.simulated <= kMostSteps; ++out_.simulated) {
      const auto step = once();
      if (!step) return step.error();
      if (out_.simulated == 1) out_.first_ns = step->ns;
      if (step->ns > out_.first_ns && std::isinf(out_.lasts_s)) out_.lasts_s = passed_ns * 1e-9;
      const bool as_before = before_ && alike(*before_, *step);
      if (ended(*step, as_before || !step->runs_empty())) return out_;
      const double steps = as_before ? repeats(*step) : 1;
      before_ = *step;
      passed_ns += steps * static_cast<double>(step->ns);
      for (std::size_t i = 0; i < tokens_.size(); ++i)
        tokens_[i] = std::clamp(tokens_[i] + steps * (step->after[i] - tokens_[i]), 0.0, topology_.buckets()[i].bucket);
    }
    out_.settled = false;
    out_.simulated = kMostSteps;
    out_.steps_ns = mean_since(starts_.size() / 2);
    return out_;
  }

 private:
  Result<SimulatedStep> once() {
    sim::FlowNetwork network = sim::flow_network(topology_);
    for (std::size_t i = 0; i < tokens_.size(); ++i) network.set_tokens(i, tokens_[i]);
    sim::FlowExecutor flow(std::move(network), traffic_);
    if (!flow.run(timed_.program, timed_.costs, false))
      return Error{ErrorKind::internal, "long run", "a step that does not end", "one that does", ""};
    SimulatedStep out;
    out.before = tokens_;
    out.ns = flow.iteration_ns();
    const double rest = static_cast<double>(out.ns - flow.network().now());
    ESPALIER_CHECK(rest >= 0.0);
    double most = 0;
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      const cluster::LinkBucket& bucket = topology_.buckets()[i];
      out.least.push_back(flow.network().least_tokens(i));
      out.after.push_back(std::min(bucket.bucket, flow.network().tokens(i) + rest * bucket.sustained * 1e-9));
      const double bytes = flow.network().utilisation(bucket.link).bytes;
      const double least_ns = bytes / bucket.sustained * 1e9;
      if (least_ns < most) continue;
      most = least_ns;
      out_.bytes = bytes;
      out_.least_ns = least_ns;
    }
    return out;
  }

  [[nodiscard]] bool same(std::size_t bucket, double a, double b) const {
    return std::abs(a - b) <= kSameBytes + kSameShare * topology_.buckets()[bucket].bucket;
  }

  /// Returns whether two consecutive steps take the same time and change the tokens equally.
  [[nodiscard]] bool alike(const SimulatedStep& a, const SimulatedStep& b) const {
    bool all = std::abs(static_cast<double>(a.ns - b.ns)) <= kSameShare * static_cast<double>(b.ns);
    for (std::size_t i = 0; i < b.after.size() && all; ++i) all = same(i, a.after[i] - a.before[i], b.after[i] - b.before[i]);
    return all;
  }

  /// Returns whether all steps from this one, or from an earlier one, are known. `known`: the next steps are like
  /// this one until another bucket runs empty.
  bool ended(const SimulatedStep& step, bool known) {
    const bool none_falls = [&] {
      for (std::size_t i = 0; i < tokens_.size(); ++i)
        if (step.after[i] < tokens_[i] && !same(i, step.after[i], tokens_[i])) return false;
      return true;
    }();
    if (known && none_falls) {
      out_.steps_ns = step.ns;
      return true;
    }
    starts_.emplace_back(tokens_, step.ns);
    for (std::size_t k = starts_.size(); k-- > 0;) {
      bool met = true;
      for (std::size_t i = 0; i < tokens_.size() && met; ++i) met = same(i, starts_[k].first[i], step.after[i]);
      if (!met) continue;
      out_.steps_ns = mean_since(k);
      return true;
    }
    return false;
  }

  /// Returns how many steps are like this one: until a bucket that loses tokens would run empty. Empty buckets lose
  /// none.
  [[nodiscard]] double repeats(const SimulatedStep& step) const {
    double steps = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < step.after.size(); ++i) {
      const double loses = step.before[i] - step.after[i];
      if (loses > 0 && !same(i, loses, 0)) steps = std::min(steps, std::floor(step.least[i] / loses));
    }
    return std::isinf(steps) ? 1 : std::max(1.0, steps);
  }

  [[nodiscard]] std::int64_t mean_since(std::size_t first) const {
    double sum = 0;
    for (std::size_t k = first; k < starts_.size(); ++k) sum += static_cast<double>(starts_[k].second);
    return static_cast<std::int64_t>(std::ceil(sum / static_cast<double>(starts_.size() - first)));
  }

  cluster::Topology topology_;
  sim::ProgramTraffic traffic_;
  planner::Timed timed_;
  Tokens tokens_;
  std::vector<std::pair<Tokens, std::int64_t>> starts_;  ///< tokens at the start of each step, and its duration
  std::optional<SimulatedStep> before_;
  LongRun out_;
};

}  // namespace

Result<LongRun> repeated_step(const Job& job, const EngineModel& engine, const Cluster& cluster, const Plan& plan) {
  for (const Pipeline& pipeline : plan.pipelines)
    for (const Stage& stage : pipeline.stages)
      if (uneven_replicas(stage))
        return Error{ErrorKind::bad_input, "plan", "replicas with unequal shares on links with token buckets", "equal shares",
                     ""};
  auto timed = planner::time_plan(job, engine, plan, false);
  if (!timed) return timed.error();
  auto topology = cluster::topology_of(cluster);
  if (!topology) return topology.error();
  const cost::ClusterCosts costs(job.model, job.cluster, job.training, engine);
  const cost::RankContexts contexts = cost::rank_contexts(costs, plan, timed->program);
  sim::ProgramTraffic traffic = sim::traffic_of(contexts, plan, timed->program, timed->costs, *topology);
  return Repetition(std::move(*topology), std::move(traffic), std::move(*timed)).run();
}

}  // namespace espalier::adapt
