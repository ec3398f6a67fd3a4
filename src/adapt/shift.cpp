// SPDX-License-Identifier: Apache-2.0
// Changes the shares of samples: leaves replicas out, or gives slower ones fewer micro-batches.
#include <algorithm>
#include <map>
#include <set>

#include "adapt/actions.h"
#include "adapt/replica_devices.h"
#include "adapt/settle.h"
#include "base/division.h"
#include "base/format.h"
#include "base/invariant.h"
#include "cost/cluster_costs.h"
#include "plan/engine.h"
#include "plan/process_groups.h"
#include "planner/prediction.h"
#include "planner/simulated_evaluator.h"
#include "search/search.h"

namespace espalier::adapt {
namespace {

constexpr ActionKind kShift = ActionKind::shift;

/// Returns the nodes of every replica of a uniform plan.
std::vector<std::set<std::int64_t>> nodes_of_replicas(const Situation& s) {
  std::vector<std::set<std::int64_t>> out(static_cast<std::size_t>(s.plan->strategy().dp));
  each_device(*s.plan, [&](std::int64_t replica, std::int64_t device) {
    out[static_cast<std::size_t>(replica)].insert(s.whole.node_of(s.placed.devices[static_cast<std::size_t>(device)]));
  });
  return out;
}

/// Returns the nodes without the lost ones and all that share a replica with them, transitively. `left` receives the
/// number of whole replicas.
std::vector<std::int64_t> whole_replicas(const Situation& s, std::int64_t& left) {
  const std::vector<std::set<std::int64_t>> replicas = nodes_of_replicas(s);
  std::set<std::int64_t> gone(s.lost.begin(), s.lost.end());
  std::vector<bool> dropped(replicas.size());
  for (bool more = true; more;) {
    more = false;
    for (std::size_t r = 0; r < replicas.size(); ++r) {
      const bool hit = std::any_of(replicas[r].begin(), replicas[r].end(), [&](std::int64_t n) { return gone.count(n) > 0; });
      if (dropped[r] || !hit) continue;
      dropped[r] = more = true;
      gone.insert(replicas[r].begin(), replicas[r].end());
    }
  }
  left = std::count(dropped.begin(), dropped.end(), false);
  std::vector<std::int64_t> nodes;
  for (const std::int64_t node : s.used)
    if (gone.count(node) == 0) nodes.push_back(node);
  return nodes;
}

/// Gives the samples of replicas that lost nodes to the others.
Result<Change> without_broken(const Situation& s) {
  const Pipeline& pipeline = s.plan->only_pipeline();
  Strategy strategy = s.plan->strategy();
  std::int64_t left = 0;
  const std::vector<std::int64_t> nodes = whole_replicas(s, left);
  if (left == 0) return impossible(kShift, "every replica has lost a device, or shares nodes with one that has");
  Schedule schedule = pipeline.schedule;
  const std::int64_t all = std::int64_t{schedule.microbatches} * strategy.dp;
  schedule.microbatches = static_cast<std::int32_t>(ceil_div(all, left));
  const bool everywhere = strategy.shard == strategy.data_ranks();
  strategy.dp = static_cast<std::int32_t>(left);
  if (strategy.shards_optimizer()) {
    if (everywhere) strategy.shard = static_cast<std::int32_t>(strategy.data_ranks());
    if (strategy.shard == 1 || strategy.data_ranks() % strategy.shard != 0)
      return impossible(kShift, "the shard groups of the states do not divide the remaining replicas");
  }
  auto present = present_on(s.whole, s.source, s.state, nodes);
  if (!present) return impossible(kShift, present.error().message());
  Job job = job_on(s, *present, false);
  job.training.global_batch = std::int64_t{schedule.microbatches} * schedule.micro_batch * left;
  Situation changed = s;
  changed.job = &job;
  Plan plan = make_uniform_plan(job.model, present->cluster, job.training, job.engine, strategy, schedule, s.engine->split);
  planner::stamp_inputs(job, plan);
  const auto time = step_time(changed, *present, plan);
  if (!time) return impossible(kShift, time.error().found + "; expected " + time.error().expected);
  auto where = settled(s.scene(), s.placed, plan, *present, {});
  if (!where) return where.error();
  present->node_of = *where;
  auto move = move_of(s.scene(), s.placed, {&plan, device_numbers(*present, s.whole)});
  if (!move) return move.error();
  Change c;
  c.action = kShift;
  c.possible = time->fits;
  c.iteration_ns = time->ns;
  c.upper_bound = time->bound;
  c.nodes = present->node_of;
  c.move = std::move(*move);
  c.what = time->fits ? cat(left, left == 1 ? " replica takes" : " replicas take", " the samples of the others, ",
                            all % left == 0 ? "" : "up to ", schedule.microbatches, " micro-batches each")
                      : "the remaining replicas do not have enough memory";
  const bool whole = job.training.global_batch == s.job->training.global_batch;
  (whole ? c.plan : c.priced_as) = std::move(plan);
  return c;
}

/// Returns the slowest device factor of each replica.
std::vector<double> factors_of_replicas(const Situation& s) {
  std::map<std::int64_t, double> slow;
  for (const Slowdown& device : s.state.slow) slow[device.device] = device.factor;
  std::vector<double> out(static_cast<std::size_t>(s.plan->strategy().dp), 1.0);
  each_device(*s.plan, [&](std::int64_t replica, std::int64_t place) {
    const std::int64_t device = s.placed.devices[static_cast<std::size_t>(place)];
    const auto known = slow.find(device);
    const double factor = (known == slow.end() ? 1.0 : known->second) / s.whole.speed_of(device);
    double& most = out[static_cast<std::size_t>(replica)];
    most = std::max(most, factor);
  });
  return out;
}

/// Returns the micro-batches of each replica. Each micro-batch in turn goes to the replica that would end first.
std::vector<std::int32_t> shares(const std::vector<double>& factors, std::int64_t microbatches, std::int32_t stages) {
  std::vector<std::int32_t> out(factors.size(), 0);
  for (std::int64_t k = 0; k < microbatches; ++k) {
    std::size_t best = 0;
    const auto end = [&](std::size_t r) { return factors[r] * static_cast<double>(out[r] + 1 + stages - 1); };
    for (std::size_t r = 1; r < factors.size(); ++r)
      if (end(r) < end(best)) best = r;
    ++out[best];
  }
  return out;
}

/// Returns the plan with every replica as a pipeline of its own.
Plan as_pipelines(const Plan& plan, const std::vector<std::int32_t>& microbatches) {
  Plan out = plan;
  const Pipeline& one = plan.only_pipeline();
  const Strategy& strategy = plan.strategy();
  out.pipelines.clear();
  for (std::size_t r = 0; r < microbatches.size(); ++r) {
    Pipeline p = one;
    p.id = static_cast<std::int32_t>(r);
    p.schedule.microbatches = microbatches[r];
    p.samples = std::int64_t{microbatches[r]} * one.schedule.micro_batch;
    for (Stage& stage : p.stages) {
      const std::vector<std::int64_t> devices = devices_of(stage.devices);
      const std::int64_t each = std::int64_t{strategy.tp} * strategy.cp;
      stage.devices = {{devices[r * static_cast<std::size_t>(each)], each, 1}};
      for (Chunk& chunk : stage.chunks)
        for (LayerRange& range : chunk.ranges) range.strategy.dp = 1;
    }
    out.pipelines.push_back(std::move(p));
  }
  return out;
}

/// Gives slower replicas fewer micro-batches.
Result<Change> uneven(const Situation& s) {
  const Strategy& strategy = s.plan->strategy();
  const Schedule& schedule = s.plan->only_pipeline().schedule;
  if (strategy.order != RankOrder::tp_cp_dp_pp || strategy.overlap.p2p || schedule.kind != ScheduleKind::one_f_one_b)
    return impossible(kShift, "replicas with unequal samples can be priced only under 1f1b in the order tp-cp-dp-pp");
  if (strategy.shards_optimizer())
    return impossible(kShift, "ZeRO shards states over the replicas; replicas with unequal samples would hold whole states");
  if (std::int64_t{strategy.ep} * strategy.etp > std::int64_t{strategy.tp} * strategy.cp)
    return impossible(kShift, "experts are spread over several replicas");
  const std::vector<double> factors = factors_of_replicas(s);
  std::vector<std::int32_t> split = shares(factors, std::int64_t{schedule.microbatches} * strategy.dp, schedule.stages);
  if (std::adjacent_find(split.begin(), split.end(), std::not_equal_to<>()) == split.end())
    return impossible(kShift, "no replica is slow enough to give up a micro-batch");
  if (*std::min_element(split.begin(), split.end()) == 0)
    return impossible(kShift, "a replica is too slow for even one micro-batch: leave it out");
  const auto present = present_on(s.whole, s.source, s.state, s.used);
  if (!present) return impossible(kShift, present.error().message());
  Plan plan = as_pipelines(on_own_nodes(s), split);
  if (Status status = cost::unpriced_groups(plan); !status.ok()) return impossible(kShift, status.error().found);
  const cost::ClusterCosts costs(s.job->model, present->cluster, s.job->training, *s.engine);
  planner::SimulatedEvaluator evaluator(1);
  const search::Problem problem{&s.job->model, &present->cluster, s.job->training, s.engine, s.job->search};
  const auto time = evaluator.evaluate(problem, costs, plan);
  ESPALIER_CHECK(time.has_value());
  Change c;
  c.action = kShift;
  c.possible = time->fits;
  c.iteration_ns = time->iteration_ns;
  c.nodes = s.used;
  // The weights stay in place, and the new shares apply from the next step.
  auto move = move_of(s.scene(), s.placed, {&plan, device_numbers(*present, s.whole)});
  if (!move) return move.error();
  c.move = std::move(*move);
  c.move.restart_s = c.move.warm_up_s = 0;
  const auto slowest = std::max_element(factors.begin(), factors.end()) - factors.begin();
  c.what = time->fits ? cat("replica ", slowest, " takes ", split[static_cast<std::size_t>(slowest)], " micro-batches of ",
                            schedule.microbatches, ", the others up to ", *std::max_element(split.begin(), split.end()))
                      : "the replicas do not have enough memory to run as separate pipelines";
  c.plan = std::move(plan);
  return c;
}

}  // namespace

Result<Change> shift(const Situation& s) {
  if (s.lost.empty() && s.state.slow.empty()) return impossible(kShift, "no device is lost or slow");
  if (s.plan->pipelines.size() != 1 || !s.plan->uniform())
    return impossible(kShift,
                      "the stages of this plan have different strategies: exchanging their replicas is not supported yet");
  if (s.plan->strategy().dp == 1) return impossible(kShift, "there is only one replica");
  return s.lost.empty() ? uneven(s) : without_broken(s);
}

}  // namespace espalier::adapt
