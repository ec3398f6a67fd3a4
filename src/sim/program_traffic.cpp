// SPDX-License-Identifier: Apache-2.0
#include "sim/program_traffic.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "base/check.h"
#include "cost/chunk_steps.h"
#include "cost/part_times.h"
#include "plan/process_groups.h"
#include "sim/collective_flow.h"

namespace espalier::sim {
namespace {

constexpr double kUnit = 1e12;  // bytes

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
  if (kind == CollectiveKind::ring_shift || kind == CollectiveKind::point_to_point) return bytes;
  const double once = bytes * static_cast<double>(ranks - 1) / static_cast<double>(ranks);
  return kind == CollectiveKind::all_reduce ? 2.0 * once : once;
}

cost::ChunkPhase phase_of(InstructionKind kind) {
  switch (kind) {
    case InstructionKind::forward: return cost::ChunkPhase::forward;
    case InstructionKind::backward_input: return cost::ChunkPhase::backward_input;
    case InstructionKind::backward_weight: return cost::ChunkPhase::backward_weight;
    default: return cost::ChunkPhase::backward;
  }
}

/// When the rank waits for the traffic of a span: at its end, or, beside compute, when that compute has ended.
std::int64_t due_of(const cost::ChunkSteps& steps, const cost::ChunkSpan& span) {
  std::int64_t due = span.end_ns;
  if (span.beside.empty()) return due;
  for (const cost::ChunkSpan& other : steps.spans) {
    if (other.track != cost::StepTrack::compute) continue;
    const bool runs_at_the_end = other.start_ns < span.end_ns && span.end_ns <= other.end_ns;
    const bool same_layer = span.track == cost::StepTrack::zero && other.layer == span.layer;
    if (runs_at_the_end || same_layer) due = std::max(due, other.end_ns);
  }
  return due;
}

class TrafficWriter {
 public:
  TrafficWriter(const cost::CostContext& context, const Plan& plan, const Program& program, const cost::Costs& costs,
                const cluster::Topology& topology)
      : context_(context),
        program_(program),
        costs_(costs),
        topology_(topology),
        chunks_(cost::chunks_of(plan, program.structure().table_chunks)),
        book_(context, chunks_) {
    for (const RankClass& rank : program.ranks) devices_.push_back(devices_of(rank.devices));
  }

  ProgramTraffic write() {
    made_.collectives.resize(program_.ranks.size());
    for (std::size_t r = 0; r < program_.ranks.size(); ++r) {
      const RankClass& rank = program_.ranks[r];
      for (std::int32_t i = rank.begin; i < rank.end; ++i) {
        const Instruction& here = program_.instructions[static_cast<std::size_t>(i)];
        if (here.stream == Stream::data && !made_.collectives[r].contains(here.id)) write_collective(r, here);
        if (here.stream == Stream::compute && here.kind != InstructionKind::optimizer && !made_.works.contains(here.id))
          write_work(r, here);
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
    made_.transfers[send.id] = {piece_of(topology_, loads, 0, costs_.transfers[send.transfer()].count())};
  }

  void write_collective(std::size_t r, const Instruction& call) {
    Pieces& pieces = made_.collectives[r][call.id];
    const Collective& collective = program_.collectives[call.collective()];
    const std::vector<std::int64_t> times = cost::part_times(context_, program_, costs_, call.collective());
    std::int64_t offset = 0;
    for (std::size_t n = 0; n < times.size(); ++n) {
      const CollectivePart& part = program_.parts[static_cast<std::size_t>(collective.parts_begin) + n];
      const LinkLoads loads = part.group == GroupKind::table_copies
                                  ? copies(r, part)
                                  : groups(r, part.kind, part.group, part.strategy, part.share * part.bytes);
      pieces.push_back(piece_of(topology_, loads, offset, times[n]));
      offset += times[n];
    }
  }

  void write_work(std::size_t r, const Instruction& here) {
    Pieces& pieces = made_.works[here.id];
    const Work& work = program_.works[here.work()];
    const cost::ChunkSteps steps = book_.chunk(work.chunk.value, phase_of(here.kind));
    ESPALIER_CHECK(steps.whole == costs_.works[here.work()].time);
    for (const cost::ChunkSpan& span : steps.spans) {
      if (span.traffic.times <= 0 || span.end_ns <= span.start_ns) continue;
      const std::int32_t strategy = strategy_of(work, span.layer);
      const LinkLoads loads = groups(r, span.traffic.kind, span.traffic.group, strategy, span.traffic.total());
      TrafficPiece piece = piece_of(topology_, loads, span.start_ns, span.end_ns - span.start_ns);
      piece.due_ns = due_of(steps, span);
      if (!piece.activity.flows.empty()) pieces.push_back(std::move(piece));
    }
    std::stable_sort(pieces.begin(), pieces.end(),
                     [](const TrafficPiece& a, const TrafficPiece& b) { return a.offset_ns < b.offset_ns; });
  }

  [[nodiscard]] std::int32_t strategy_of(const Work& work, std::int32_t layer) const {
    for (std::int32_t n = work.ranges_begin; n < work.ranges_end; ++n) {
      const WorkRange& range = program_.ranges[static_cast<std::size_t>(n)];
      if (range.first <= layer && layer <= range.last) return range.strategy;
    }
    return program_.ranges[static_cast<std::size_t>(work.ranges_begin)].strategy;
  }

  /// A collective of `bytes` (cost/collective.h) in all groups of the rank's devices.
  LinkLoads groups(std::size_t r, CollectiveKind kind, GroupKind group, std::int32_t strategy, double bytes) {
    const auto [known, fresh] = unit_loads_.try_emplace({r, kind, group, strategy});
    if (fresh) known->second = loads_of_unit(r, kind, group, program_.strategies[static_cast<std::size_t>(strategy)]);
    LinkLoads loads = known->second;
    for (auto& [link, load] : loads) load *= bytes / kUnit;
    return loads;
  }

  [[nodiscard]] LinkLoads loads_of_unit(std::size_t r, CollectiveKind kind, GroupKind group, const Strategy& strategy) const {
    LinkLoads loads;
    for (Devices& members : process_groups(group, strategy, devices_[r])) {
      if (members.size() < 2) continue;
      std::sort(members.begin(), members.end());
      const bool each_to_each = kind == CollectiveKind::all_to_all || kind == CollectiveKind::resharding;
      add_flow(each_to_each ? exchange_flow(topology_, members, kUnit)
                            : ring_flow(topology_, members, passed_on(kind, members.size(), kUnit)),
               loads);
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
  cost::PlanChunks chunks_;
  cost::StepBook book_;
  std::vector<Devices> devices_;                                                                      // by rank
  std::map<std::tuple<std::size_t, CollectiveKind, GroupKind, std::int32_t>, LinkLoads> unit_loads_;  // of kUnit bytes
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

ProgramTraffic traffic_of(const cost::CostContext& context, const Plan& plan, const Program& program, const cost::Costs& costs,
                          const cluster::Topology& topology) {
  ESPALIER_CHECK(program.folded);
  return TrafficWriter(context, plan, program, costs, topology).write();
}

}  // namespace espalier::sim
