// SPDX-License-Identifier: Apache-2.0
#include "sim/program_traffic.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "cost/part_times.h"
#include "plan/process_groups.h"
#include "sim/collective_flow.h"

namespace espalier::sim {
namespace {

using Devices = std::vector<std::int64_t>;

void add_flow(const Flow& flow, LinkLoads& loads) {
  for (const solve::LinkUse& use : flow.uses) loads[use.link] += use.weight * static_cast<double>(flow.bytes);
}

/// One message from each device to the one at its place in another list.
void add_messages(const cluster::Topology& topology, const Devices& from, const Devices& to, double bytes, LinkLoads& loads) {
  ESPALIER_CHECK(from.size() == to.size());
  for (std::size_t n = 0; n < from.size(); ++n)
    for (const cluster::LinkId link : topology.route(from[n], to[n])) loads[link] += bytes;
}

/// Bytes that each rank of a ring passes on for a tensor of `bytes`.
double passed_on(CollectiveKind kind, std::size_t ranks, double bytes) {
  const double once = bytes * static_cast<double>(ranks - 1) / static_cast<double>(ranks);
  return kind == CollectiveKind::all_reduce ? 2.0 * once : once;
}

class TrafficWriter {
 public:
  TrafficWriter(const cost::CostContext& context, const Program& program, const cost::Costs& costs,
                const cluster::Topology& topology)
      : context_(context), program_(program), costs_(costs), topology_(topology) {
    for (const RankClass& rank : program.ranks) devices_.push_back(devices_of(rank.devices));
  }

  ProgramTraffic write() {
    made_.collectives.resize(program_.ranks.size());
    for (std::size_t r = 0; r < program_.ranks.size(); ++r) {
      const RankClass& rank = program_.ranks[r];
      for (std::int32_t i = rank.begin; i < rank.end; ++i) {
        const Instruction& here = program_.instructions[static_cast<std::size_t>(i)];
        if (here.stream == Stream::data && !made_.collectives[r].contains(here.id)) write_collective(r, here);
        if (here.stream == Stream::send && !made_.transfers.contains(here.id)) write_transfer(r, here);
      }
    }
    return std::move(made_);
  }

 private:
  void write_transfer(std::size_t r, const Instruction& send) {
    LinkLoads loads;
    const Transfer& transfer = program_.transfers[send.transfer()];
    add_messages(topology_, devices_[r], devices_[static_cast<std::size_t>(send.peer)], static_cast<double>(transfer.bytes),
                 loads);
    made_.transfers[send.id] = {piece_of(topology_, loads, 0, costs_.transfers[send.transfer()])};
  }

  void write_collective(std::size_t r, const Instruction& call) {
    Pieces& pieces = made_.collectives[r][call.id];
    const Collective& collective = program_.collectives[call.collective()];
    const std::vector<std::int64_t> times = cost::part_times(context_, program_, costs_, call.collective());
    std::int64_t offset = 0;
    for (std::size_t n = 0; n < times.size(); ++n) {
      const CollectivePart& part = program_.parts[static_cast<std::size_t>(collective.parts_begin) + n];
      const LinkLoads loads = part.group == GroupKind::table_copies ? copies(r, part) : groups(r, part);
      pieces.push_back(piece_of(topology_, loads, offset, times[n]));
      offset += times[n];
    }
  }

  /// Rings of all groups of the rank's devices.
  [[nodiscard]] LinkLoads groups(std::size_t r, const CollectivePart& part) const {
    LinkLoads loads;
    const Strategy& strategy = program_.strategies[static_cast<std::size_t>(part.strategy)];
    for (Devices& group : process_groups(part.group, strategy, devices_[r])) {
      if (group.size() < 2) continue;
      std::sort(group.begin(), group.end());
      add_flow(ring_flow(topology_, group, part.share * passed_on(part.kind, group.size(), part.bytes)), loads);
    }
    return loads;
  }

  /// The rank's hops of the rings through the stages that hold a copy: each device passes on to its place in the next of them.
  [[nodiscard]] LinkLoads copies(std::size_t r, const CollectivePart& part) const {
    LinkLoads loads;
    const std::vector<std::int32_t>& members = program_.groups.at(program_.ranks[r].table_copies).members;
    const auto here = std::find(members.begin(), members.end(), static_cast<std::int32_t>(r));
    ESPALIER_CHECK(here != members.end());
    const std::int32_t next = here + 1 == members.end() ? members.front() : *(here + 1);
    const double bytes =
        part.kind == CollectiveKind::point_to_point ? part.bytes : passed_on(part.kind, members.size(), part.bytes);
    add_messages(topology_, devices_[r], devices_[static_cast<std::size_t>(next)], bytes, loads);
    return loads;
  }

  const cost::CostContext& context_;
  const Program& program_;
  const cost::Costs& costs_;
  const cluster::Topology& topology_;
  std::vector<Devices> devices_;  // by rank
  ProgramTraffic made_;
};

}  // namespace

TrafficPiece piece_of(const cluster::Topology& topology, const LinkLoads& loads, std::int64_t offset_ns,
                      std::int64_t duration_ns) {
  TrafficPiece piece{offset_ns, offset_ns + duration_ns, {}};
  piece.activity.duration_ns = duration_ns;
  piece.activity.fixed_ns = duration_ns;
  double slowest_s = 0, on_slowest = 0;
  for (const auto& [link, bytes] : loads) {
    const double seconds = bytes / topology.range_of(link).capacity;
    if (seconds > slowest_s) {
      slowest_s = seconds;
      on_slowest = bytes;
    }
  }
  const double longest_s = static_cast<double>(duration_ns) * 1e-9;
  const double carried = slowest_s > longest_s ? std::floor(on_slowest * longest_s / slowest_s) : std::floor(on_slowest);
  if (duration_ns == 0 || carried < 1) return piece;
  const auto needed = static_cast<std::int64_t>(std::ceil(std::min(slowest_s, longest_s) * 1e9));
  piece.activity.fixed_ns = duration_ns - std::min(duration_ns, std::max<std::int64_t>(1, needed));
  Flow& flow = piece.activity.flows.emplace_back();
  flow.bytes = static_cast<std::int64_t>(carried);
  for (const auto& [link, bytes] : loads)
    if (bytes > 0) flow.uses.push_back({link, bytes / on_slowest});
  return piece;
}

ProgramTraffic traffic_of(const cost::CostContext& context, const Program& program, const cost::Costs& costs,
                          const cluster::Topology& topology) {
  ESPALIER_CHECK(program.folded);
  return TrafficWriter(context, program, costs, topology).write();
}

}  // namespace espalier::sim
