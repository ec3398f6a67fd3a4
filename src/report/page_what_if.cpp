// SPDX-License-Identifier: Apache-2.0
// Simulates the plan with one thing changed at a time: links, devices, overlap. Each row is simulated; nothing is
// planned again.
#include <cmath>
#include <functional>

#include "adapt/actions.h"
#include "base/format.h"
#include "report/page_parts.h"

namespace espalier::report {
namespace {

class WhatIfTable {
 public:
  WhatIfTable(const Job& job, const PlannerResult& result) : job_(job), result_(result) {}

  PageTable write() {
    for (std::size_t g = 0; g < job_.cluster.groups.size(); ++g) {
      levels(g, &NodeGroup::intra);
      levels(g, &NodeGroup::inter);
    }
    for (std::size_t i = 0; i < job_.cluster.inter.size(); ++i)
      link(
          job_.cluster.inter[i].name, [i](Cluster& c) -> BytesPerSecond& { return c.inter[i].bandwidth; },
          [i](Cluster& c) -> BytesPerSecond& { return c.inter[i].bandwidth_alone; });
    for (std::size_t i = 0; i < job_.cluster.links.size(); ++i)
      link(
          job_.cluster.links[i].name(), [i](Cluster& c) -> BytesPerSecond& { return c.links[i].bandwidth; }, nullptr);
    devices();
    overlaps();
    disturbances();
    return std::move(table_);
  }

 private:
  using Rate = std::function<BytesPerSecond&(Cluster&)>;

  void row(const std::string& what, std::int64_t ns, std::int64_t peak, bool fits, bool bound = false) {
    const double change = static_cast<double>(ns) / static_cast<double>(result_.prediction.iteration_ns) - 1;
    constexpr double kShown = 0.0005;  // the precision of a percentage with one decimal
    const std::string against = std::abs(change) < kShown ? "0.0 %" : cat(change > 0 ? "+" : "", percent(change));
    table_.rows.push_back(
        {what, cat(bound ? "≤ " : "", seconds(ns)), {against, change}, peak > 0 ? cat(gib(peak), fits ? "" : " !") : "–"});
  }
  void refused(const std::string& what, const Error& why) { table_.rows.push_back({what, "–", "–", why.message()}); }
  void simulated(const std::string& what, const Job& job, const Plan& plan) {
    const auto again = simulate(job, plan);
    if (!again) return refused(what, again.error());
    row(what, again->prediction.iteration_ns, again->prediction.peak_memory_bytes, again->prediction.fits);
  }

  void link(const std::string& name, const Rate& bandwidth, const Rate& alone) {
    for (const double factor : {0.5, 2.0}) {
      Job changed = job_;
      bandwidth(changed.cluster) = bandwidth(changed.cluster) * factor;
      if (alone) alone(changed.cluster) = alone(changed.cluster) * factor;
      simulated(cat(name, factor < 1 ? " at half its bandwidth" : " at twice its bandwidth"), changed, result_.plan);
    }
  }
  void levels(std::size_t g, std::vector<FabricLevel> NodeGroup::*list) {
    const NodeGroup& group = job_.cluster.groups[g];
    for (std::size_t i = 0; i < (group.*list).size(); ++i)
      link(
          cat((group.*list)[i].name, job_.cluster.groups.size() > 1 ? cat(" of ", group.name) : ""),
          [=](Cluster& c) -> BytesPerSecond& { return (c.groups[g].*list)[i].bandwidth; },
          [=](Cluster& c) -> BytesPerSecond& { return (c.groups[g].*list)[i].bandwidth_alone; });
  }

  void devices() {
    for (const double factor : {0.9, 1.25}) {
      Job changed = job_;
      for (NodeGroup& group : changed.cluster.groups) group.device = group.device.at_speed(factor);
      simulated(factor < 1 ? "all devices 10 % slower" : "all devices 25 % faster", changed, result_.plan);
    }
  }

  /// Removes an overlap from every layer of the plan, where any has it.
  void without(const char* name, bool Overlap::*flag) {
    Plan plan = result_.plan;
    bool had = false;
    for (Pipeline& pipeline : plan.pipelines)
      for (Stage& stage : pipeline.stages)
        for (Chunk& chunk : stage.chunks)
          for (LayerRange& range : chunk.ranges) {
            had |= range.strategy.overlap.*flag;
            range.strategy.overlap.*flag = false;
          }
    if (had) simulated(cat(name, ", not overlapped with compute"), job_, plan);
  }
  void overlaps() {
    without("reduction of gradients", &Overlap::grad_reduce);
    without("gather of parameters", &Overlap::param_gather);
    without("messages of the pipeline", &Overlap::p2p);
    without("tensor-parallel collectives", &Overlap::tp);
  }

  void stay(const std::string& what, const adapt::Disturbance& disturbance) {
    auto situation = adapt::situation_of(job_, result_.plan, disturbance, {});
    if (!situation) return refused(what, situation.error());
    const auto change = adapt::stay(*situation);
    if (!change) return refused(what, change.error());
    if (change->possible)
      row(what, change->iteration_ns, 0, true, change->upper_bound);
    else
      table_.rows.push_back({what, "–", "–", change->what});
  }
  void disturbances() {
    stay("rank 0 computes 20 % slower", adapt::Disturbance{{}, {{"rank:0", 1.2}}, {}, {}});
    if (job_.cluster.nodes() < 2) return;
    stay("node 0 has half its network bandwidth", adapt::Disturbance{{}, {}, {{"node:0", 0.5}}, {}});
  }

  const Job& job_;
  const PlannerResult& result_;
  PageTable table_{"what-if",
                   "What if",
                   "simulations of the same plan with one change each; `espalier what-if` plans again and prices the move",
                   {"change", "step", "against", "memory"},
                   {},
                   {}};
};

}  // namespace

PageTable what_if_table(const Job& job, const PlannerResult& result) { return WhatIfTable(job, result).write(); }

}  // namespace espalier::report
