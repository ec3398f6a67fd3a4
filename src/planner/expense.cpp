// SPDX-License-Identifier: Apache-2.0
#include "planner/expense.h"
#include "plan/engine.h"

#include <set>

namespace espalier::planner {
namespace {

/// Returns the nodes on which some rank runs.
std::set<std::int64_t> used_nodes(const Cluster& cluster, const Program& program) {
  std::set<std::int64_t> nodes;
  for (const RankClass& rank : program.ranks)
    for (const DeviceRange& range : rank.devices)
      for (std::int64_t i = 0; i < range.count; ++i) nodes.insert(cluster.node_of(range.first + i * range.stride));
  return nodes;
}

/// Returns the price of 10⁹ bytes from the devices of one rank class to those of another.
double egress_price(const Cluster& cluster, const RankClass& from, const RankClass& to) {
  return cluster.egress_price(cluster.group_of(from.device()), cluster.group_of(to.device()));
}

/// Prices the activations and their gradients of one step.
double message_egress(const Cluster& cluster, const EngineModel& engine, const Program& program) {
  double money = 0;
  for (const RankClass& rank : program.ranks)
    for (std::int32_t i = rank.begin; i < rank.end; ++i) {
      const Instruction& x = program.instructions[static_cast<std::size_t>(i)];
      if (x.stream != Stream::send) continue;
      const Transfer& transfer = program.transfers[x.transfer()];
      const double price = egress_price(cluster, rank, program.ranks[static_cast<std::size_t>(x.peer)]);
      if (price == 0) continue;
      const WorkRange& layout = program.ranges[static_cast<std::size_t>(transfer.gradient ? transfer.receiver : transfer.sender)];
      const Strategy& s = program.strategies[static_cast<std::size_t>(layout.strategy)];
      const bool parts = engine.communication.scattered_messages && s.sp == SequenceParallel::none;
      money += price * 1e-9 * static_cast<double>(transfer.bytes) * static_cast<double>(rank.represents()) / (parts ? s.tp : 1);
    }
  return money;
}

/// Prices the gradients that are reduced between pipelines, once per step.
double gradient_egress(const Cluster& cluster, const Program& program) {
  double money = 0;
  for (const Collective& meeting : program.collectives) {
    if (!meeting.pipelines.valid()) continue;
    const std::vector<std::int32_t>& members = program.groups[meeting.pipelines].members;
    const auto n = static_cast<double>(members.size());
    for (std::size_t k = 0; k < members.size(); ++k) {
      const RankClass &from = program.ranks[static_cast<std::size_t>(members[k])],
                      &to = program.ranks[static_cast<std::size_t>(members[(k + 1) % members.size()])];
      for (std::int32_t p = meeting.parts_begin; p < meeting.parts_end; ++p)
        money += egress_price(cluster, from, to) * 1e-9 * program.parts[static_cast<std::size_t>(p)].bytes * 2 * (n - 1) / n *
                 static_cast<double>(from.represents());
    }
  }
  return money;
}

}  // namespace

std::optional<Expense> expense_of(const Job& job, const EngineModel& engine, const Timed& timed, double tokens_per_step) {
  const Cluster& cluster = job.cluster;
  double hourly = 0;
  std::int64_t devices = 0;
  bool priced = !cluster.egress.empty();
  for (const std::int64_t node : used_nodes(cluster, timed.program)) {
    const NodeGroup& group = cluster.groups[cluster.group_of_node(node)];
    if (!group.price_per_device_hour) return std::nullopt;
    priced = true;
    hourly += *group.price_per_device_hour * static_cast<double>(group.devices_per_node);
    devices += group.devices_per_node;
  }
  if (!priced) return std::nullopt;
  Expense out;
  out.currency = cluster.currency;
  out.devices = devices;
  out.per_hour = hourly;
  out.egress_per_step =
      cluster.egress.empty() ? 0.0 : message_egress(cluster, engine, timed.program) + gradient_egress(cluster, timed.program);
  out.per_step = hourly * static_cast<double>(timed.simulation.iteration_ns) * 1e-9 / 3600.0 + out.egress_per_step;
  out.per_token = out.per_step / tokens_per_step;
  return out;
}

}  // namespace espalier::planner
