// SPDX-License-Identifier: Apache-2.0
#include "sim/program_traffic.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <tuple>

#include "base/invariant.h"
#include "cost/chunk_steps.h"
#include "cost/part_times.h"
#include "plan/process_groups.h"
#include "sim/collective_flow.h"

namespace espalier::sim {
namespace {

constexpr double kUnit = 1e12;      // bytes
constexpr double kSameTime = 1e-9;  // as a share of a time

using Devices = std::vector<std::int64_t>;

void add_flow(const Flow& flow, LinkLoads& loads) {
  for (const solve::FlowLink& use : flow.uses) loads[use.link] += use.weight * static_cast<double>(flow.bytes);
}

/// Adds one message for each device of the longer list. The `bytes` of each of the `sharing` devices are divided
/// evenly among the messages. If both lists have one length, each device sends to the one at its index.
void add_messages(const cluster::Topology& topology, const Devices& from, const Devices& to, double bytes, std::size_t sharing,
                  LinkLoads& loads) {
  ESPALIER_CHECK(!from.empty() && !to.empty());
  const std::size_t pairs = std::max(from.size(), to.size());
  const double each = bytes * (static_cast<double>(sharing) / static_cast<double>(pairs));
  for (std::size_t n = 0; n < pairs; ++n)
    for (const cluster::LinkId link : topology.route(from[n * from.size() / pairs], to[n * to.size() / pairs]))
      loads[link] += each;
}

/// Returns the bytes that each rank of a ring passes on for a tensor of `bytes`.
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

/// Returns when the rank waits for the traffic of a span: at its end, or, if compute hides it, when that compute has
/// ended.
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
  TrafficWriter(const cost::RankContexts& contexts, const Plan& plan, const Program& program, const cost::Costs& costs,
                const cluster::Topology& topology)
      : contexts_(contexts), program_(program), costs_(costs), topology_(topology) {
    Plan one = plan;
    for (std::size_t k = 0; k < plan.pipelines.size(); ++k) {
      one.pipelines = {plan.pipelines[k]};
      chunks_.push_back(cost::chunks_of(one, *contexts.of.front().front().context->workload.model));
    }
    for (const RankClass& rank : program.ranks) devices_.push_back(devices_of(rank.devices));
    for (std::size_t k = 0; k < chunks_.size(); ++k) mark_apart(k);
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
  /// Marks chunks whose stage differs from that of the previous chunk (price_chunk.cpp).
  void mark_apart(std::size_t k) {
    const PipelineProgram& part = program_.pipelines[k];
    cost::PlanChunks& chunks = chunks_[k];
    for (std::int32_t c = 0; c < static_cast<std::int32_t>(chunks.ranges.size()); ++c) {
      const auto rank = [&](std::int32_t chunk) {
        return static_cast<std::size_t>(part.first_rank + place_of_chunk(chunks.schedule, chunk).stage);
      };
      const std::size_t here = rank(c), before = rank(std::max(0, c - 1));
      chunks.apart.push_back(contexts_.of[here].front().context != contexts_.of[before].front().context ||
                             devices_[here].size() != devices_[before].size());
    }
  }

  void write_transfer(std::size_t r, const Instruction& send) {
    LinkLoads loads;
    const Transfer& transfer = program_.transfers[send.transfer()];
    // A transfer states the bytes that a rank of the stage sends which the activation leaves. That stage also takes
    // its gradient.
    const auto other = static_cast<std::size_t>(send.peer);
    const std::size_t senders = devices_[transfer.gradient ? other : r].size();
    add_messages(topology_, devices_[r], devices_[other], static_cast<double>(transfer.bytes), senders, loads);
    made_.transfers[send.id] = {piece_of(topology_, loads, 0, costs_.transfers[send.transfer()].count())};
  }

  void write_collective(std::size_t r, const Instruction& call) {
    const Collective& collective = program_.collectives[call.collective()];
    if (collective.pipelines.valid()) return write_meeting(r, call);
    Pieces& pieces = made_.collectives[r][call.id];
    const std::vector<std::int64_t> times =
        cost::part_times(*contexts_.of[r].front().context, program_, costs_, call.collective());
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
    const cost::ChunkSteps steps = steps_of(r, here);
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

  /// Writes a ring through all pipelines: each rank passes on to its index in the next one. The traffic belongs to
  /// the first.
  void write_meeting(std::size_t r, const Instruction& call) {
    const Collective& collective = program_.collectives[call.collective()];
    const std::vector<std::int32_t>& members = program_.groups.at(collective.pipelines).members;
    if (members.front() != static_cast<std::int32_t>(r)) return;
    LinkLoads loads;
    const CollectivePart& part = program_.parts[static_cast<std::size_t>(collective.parts_begin)];
    const double bytes = passed_on(CollectiveKind::all_reduce, members.size(), part.bytes);
    for (std::size_t n = 0; n < members.size(); ++n) {
      const Devices &from = devices_[static_cast<std::size_t>(members[n])],
                    &to = devices_[static_cast<std::size_t>(members[(n + 1) % members.size()])];
      // The ranks of the smaller stage send the larger parts.
      add_messages(topology_, from, to, bytes, std::min(from.size(), to.size()), loads);
    }
    made_.collectives[r][call.id] = {piece_of(topology_, loads, 0, costs_.collectives[call.collective()].count())};
  }

  /// Returns the steps as they were priced: for the slowest kind of device. A copy of the token table is priced as
  /// its first stage holds it, which the steps do not include. If the times differ, the steps are stretched to the
  /// priced time.
  [[nodiscard]] cost::ChunkSteps steps_of(std::size_t r, const Instruction& here) {
    const auto pipeline = static_cast<std::size_t>(program_.ranks[r].pipeline);
    const std::int32_t chunk = program_.works[here.work()].chunk.value;
    const cost::PhaseTime& priced = costs_.works[here.work()].time;
    cost::ChunkSteps steps;
    for (const cost::RankContext& on : contexts_.of[r]) {
      steps = book_of(on, pipeline, chunk).chunk(chunk, phase_of(here.kind));
      if (steps.whole == priced) return steps;
    }
    return stretched(std::move(steps), priced);
  }

  /// Returns the step book of a pipeline. Replicas with an unequal share of samples price their passes with their own
  /// samples.
  cost::StepBook& book_of(const cost::RankContext& on, std::size_t pipeline, std::int32_t chunk) {
    const auto key = std::pair(on.context, pipeline);
    if (const auto known = books_.find(key); known != books_.end()) return known->second;
    const cost::PlanChunks* chunks = &chunks_[pipeline];
    if (on.samples > 0) {
      unequal_.push_back(*chunks);
      unequal_.back().samples = on.samples * chunks->ranges[static_cast<std::size_t>(chunk)].front().strategy.dp;
      chunks = &unequal_.back();
    }
    return books_.try_emplace(key, *on.context, *chunks).first->second;
  }

  static cost::ChunkSteps stretched(cost::ChunkSteps steps, const cost::PhaseTime& to) {
    const auto from_ns = static_cast<double>(std::max<std::int64_t>(1, steps.whole.duration_ns()));
    const double scale = static_cast<double>(to.duration_ns()) / from_ns;
    for (cost::ChunkSpan& span : steps.spans) {
      span.start_ns = static_cast<std::int64_t>(static_cast<double>(span.start_ns) * scale);
      span.end_ns = static_cast<std::int64_t>(static_cast<double>(span.end_ns) * scale);
    }
    steps.whole = to;
    return steps;
  }

  [[nodiscard]] std::int32_t strategy_of(const Work& work, std::int32_t layer) const {
    for (std::int32_t n = work.ranges_begin; n < work.ranges_end; ++n) {
      const WorkRange& range = program_.ranges[static_cast<std::size_t>(n)];
      if (range.first <= layer && layer <= range.last) return range.strategy;
    }
    return program_.ranges[static_cast<std::size_t>(work.ranges_begin)].strategy;
  }

  /// Returns the loads of a collective of `bytes` (cost/collective.h) in all groups of the rank's devices.
  LinkLoads groups(std::size_t r, CollectiveKind kind, GroupKind group, std::int32_t strategy, double bytes) {
    const auto [known, fresh] = unit_loads_.try_emplace({r, kind, group, strategy});
    if (fresh) known->second = loads_of_unit(r, kind, group, laid_out(r, strategy));
    LinkLoads loads = known->second;
    for (auto& [link, load] : loads) load *= bytes / kUnit;
    return loads;
  }

  /// Returns the strategy, or the rank's own if the strategy spans another number of devices. A copy of the token
  /// table is reduced in the layout of the embedding, whose stage may be larger or smaller.
  [[nodiscard]] const Strategy& laid_out(std::size_t r, std::int32_t strategy) const {
    const auto at = [&](std::int32_t i) -> const Strategy& { return program_.strategies[static_cast<std::size_t>(i)]; };
    const auto devices = [](const Strategy& s) { return static_cast<std::size_t>(s.tp) * static_cast<std::size_t>(s.cp * s.dp); };
    if (devices(at(strategy)) == devices_[r].size()) return at(strategy);
    for (std::int32_t i = program_.ranks[r].begin; i < program_.ranks[r].end; ++i) {
      const Instruction& here = program_.instructions[static_cast<std::size_t>(i)];
      if (here.stream != Stream::compute || here.kind == InstructionKind::optimizer) continue;
      return at(program_.ranges[static_cast<std::size_t>(program_.works[here.work()].ranges_begin)].strategy);
    }
    return at(strategy);
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

  /// Returns the loads of the rank's hops in the rings through the stages that hold a copy. Each device passes on to
  /// its index in the next stage.
  [[nodiscard]] LinkLoads copies(std::size_t r, const CollectivePart& part) const {
    LinkLoads loads;
    const std::vector<std::int32_t>& members = program_.groups.at(program_.ranks[r].table_copies).members;
    const auto here = std::find(members.begin(), members.end(), static_cast<std::int32_t>(r));
    ESPALIER_CHECK(here != members.end());
    const std::int32_t next = here + 1 == members.end() ? members.front() : *(here + 1);
    const double bytes =
        part.kind == CollectiveKind::point_to_point ? part.bytes : passed_on(part.kind, members.size(), part.bytes);
    const Devices &from = devices_[r], &to = devices_[static_cast<std::size_t>(next)];
    add_messages(topology_, from, to, bytes, std::min(from.size(), to.size()), loads);
    return loads;
  }

  const cost::RankContexts& contexts_;
  const Program& program_;
  const cost::Costs& costs_;
  const cluster::Topology& topology_;
  std::vector<cost::PlanChunks> chunks_;  // by pipeline
  std::deque<cost::PlanChunks> unequal_;
  std::map<std::pair<const cost::CostContext*, std::size_t>, cost::StepBook> books_;
  std::vector<Devices> devices_;  // by rank
  // For kUnit bytes.
  std::map<std::tuple<std::size_t, CollectiveKind, GroupKind, std::int32_t>, LinkLoads> unit_loads_;
  ProgramTraffic made_;
};

}  // namespace

TrafficPiece piece_of(const cluster::Topology& topology, const LinkLoads& loads, std::int64_t offset_ns,
                      std::int64_t duration_ns) {
  TrafficPiece piece{offset_ns, offset_ns + duration_ns, {}};
  piece.activity.duration_ns = duration_ns;
  piece.activity.fixed_ns = duration_ns;
  double slowest_s = 0, on_slowest = 0;
  for (const auto& [link, bytes] : loads) slowest_s = std::max(slowest_s, bytes / topology.range_of(link).capacity);
  // Links take shares of the flow's bytes. Among equally slow links the one with most bytes defines them, independent
  // of link numbers.
  for (const auto& [link, bytes] : loads)
    if (bytes / topology.range_of(link).capacity >= slowest_s * (1 - kSameTime)) on_slowest = std::max(on_slowest, bytes);
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

ProgramTraffic traffic_of(const cost::RankContexts& contexts, const Plan& plan, const Program& program, const cost::Costs& costs,
                          const cluster::Topology& topology) {
  ESPALIER_CHECK(program.folded && plan.pipelines.size() == program.pipelines.size());
  return TrafficWriter(contexts, plan, program, costs, topology).write();
}

}  // namespace espalier::sim
