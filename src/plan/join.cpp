// SPDX-License-Identifier: Apache-2.0
#include "plan/join.h"

#include <algorithm>
#include <set>

#include "base/invariant.h"

namespace espalier {
namespace {

using Kind = InstructionKind;

LayerSpan layers_of(const Program& program, std::int32_t chunk) {
  const Work& work = program.works[program.structure().forward(ChunkId(chunk))];
  ESPALIER_CHECK(work.ranges_begin < work.ranges_end);
  return {program.ranges[static_cast<std::size_t>(work.ranges_begin)].first,
          program.ranges[static_cast<std::size_t>(work.ranges_end) - 1].last};
}

/// Appends `from` to `to`.
template <class Vector>
void append(Vector& to, const Vector& from) {
  to.insert(to.end(), from.begin(), from.end());
}

class Joiner {
 public:
  explicit Joiner(const std::vector<Program>& pipelines) : pipelines_(pipelines), segments_(segments_of(pipelines)) {
    out_.pipelines.clear();
    out_.folded = pipelines.front().folded;
  }
  Program run() {
    for (const Program& part : pipelines_) add_tables(part);
    add_reductions();
    place_lists();
    for (std::size_t k = 0; k < pipelines_.size(); ++k)
      for (std::size_t r = 0; r < pipelines_[k].ranks.size(); ++r) add_list(k, static_cast<std::int32_t>(r));
    return std::move(out_);
  }

 private:
  void add_tables(const Program& part);
  void add_reductions();
  void place_lists();
  void add_list(std::size_t k, std::int32_t local);
  /// Returns the number of instructions of one rank class before its update.
  [[nodiscard]] static std::int32_t update_of(const Program& part, const RankClass& rank);
  [[nodiscard]] std::int32_t held(std::size_t rank) const { return static_cast<std::int32_t>(reductions_[rank].size()); }
  /// Returns the position of an instruction of rank class `rank` of a part in the whole program.
  [[nodiscard]] std::int32_t place(std::size_t k, std::int32_t rank, std::int32_t instruction) const {
    const RankClass& source = pipelines_[k].ranks[static_cast<std::size_t>(rank)];
    const auto r = static_cast<std::size_t>(out_.pipelines[k].first_rank + rank);
    const std::int32_t after = instruction >= update_of(pipelines_[k], source) ? held(r) : 0;
    return begins_[r] + instruction - source.begin + after;
  }

  const std::vector<Program>& pipelines_;
  const std::vector<JoinedSegment> segments_;
  Program out_;
  std::vector<std::vector<CollectiveId>> reductions_;  // by rank class of the whole program
  std::vector<std::int32_t> begins_;                   // by rank class of the whole program
  std::vector<std::int32_t> groups_;                   // by pipeline: its first process group
};

void Joiner::add_tables(const Program& part) {
  ESPALIER_CHECK(part.folded == out_.folded && part.pipelines.size() == 1);
  PipelineProgram pipeline = part.pipelines.front();
  pipeline.first_rank = static_cast<std::int32_t>(reductions_.size());
  pipeline.first_work = static_cast<std::int32_t>(out_.works.size());
  pipeline.first_collective = static_cast<std::int32_t>(out_.collectives.size());
  pipeline.first_transfer = static_cast<std::int32_t>(out_.transfers.size());
  const auto ranges = static_cast<std::int32_t>(out_.ranges.size()),
             strategies = static_cast<std::int32_t>(out_.strategies.size());
  const auto parts = static_cast<std::int32_t>(out_.parts.size());
  for (Work work : part.works) {
    work.ranges_begin += ranges;
    work.ranges_end += ranges;
    out_.works.add(work);
  }
  for (Collective collective : part.collectives) {
    collective.parts_begin += parts;
    collective.parts_end += parts;
    out_.collectives.add(collective);
  }
  for (Transfer transfer : part.transfers) {
    transfer.sender += ranges;
    transfer.receiver += ranges;
    out_.transfers.add(transfer);
  }
  append(out_.ranges, part.ranges);
  append(out_.parts, part.parts);
  append(out_.strategies, part.strategies);
  for (std::size_t i = static_cast<std::size_t>(ranges); i < out_.ranges.size(); ++i) out_.ranges[i].strategy += strategies;
  for (std::size_t i = static_cast<std::size_t>(parts); i < out_.parts.size(); ++i) out_.parts[i].strategy += strategies;
  groups_.push_back(static_cast<std::int32_t>(out_.groups.size()));
  for (ProcessGroup group : part.groups) {
    for (std::int32_t& member : group.members) member += pipeline.first_rank;
    out_.groups.add(std::move(group));
  }
  reductions_.resize(reductions_.size() + part.ranks.size());
  out_.pipelines.push_back(std::move(pipeline));
}

void Joiner::add_reductions() {
  if (pipelines_.size() == 1) return;
  for (const JoinedSegment& segment : segments_) {
    Collective reduction;
    reduction.kind = Kind::grad_reduce;
    reduction.stage = StageId(segment.holders.front().stage);
    reduction.chunk = ChunkId(segment.holders.front().chunk);
    reduction.layers = segment.layers;
    ProcessGroup group{GroupKind::data_replica, {}};
    for (const SegmentHolder& holder : segment.holders) {
      const auto k = static_cast<std::size_t>(holder.pipeline);
      for (std::size_t r = 0; r < pipelines_[k].ranks.size(); ++r)
        if (pipelines_[k].ranks[r].stage.value == holder.stage)
          group.members.push_back(out_.pipelines[k].first_rank + static_cast<std::int32_t>(r));
    }
    reduction.pipelines = out_.groups.add(group);
    const CollectiveId id = out_.collectives.add(reduction);
    for (const std::int32_t rank : group.members) reductions_[static_cast<std::size_t>(rank)].push_back(id);
  }
}

std::int32_t Joiner::update_of(const Program& part, const RankClass& rank) {
  std::int32_t i = rank.end - 1;
  while (part.instructions[static_cast<std::size_t>(i)].kind != Kind::optimizer) --i;
  ESPALIER_CHECK(i > rank.begin);
  return i;
}

void Joiner::place_lists() {
  std::int32_t next = 0;
  std::size_t r = 0;
  for (const Program& part : pipelines_)
    for (const RankClass& rank : part.ranks) {
      begins_.push_back(next);
      next += rank.end - rank.begin + held(r++);
    }
  out_.instructions.reserve(static_cast<std::size_t>(next));
}

void Joiner::add_list(std::size_t k, std::int32_t local) {
  const PipelineProgram& pipeline = out_.pipelines[k];
  const Program& part = pipelines_[k];
  const RankClass& source = part.ranks[static_cast<std::size_t>(local)];
  const std::int32_t update = update_of(part, source);
  const auto r = static_cast<std::size_t>(pipeline.first_rank + local);
  RankClass rank = source;
  rank.pipeline = static_cast<std::int32_t>(k);
  rank.data.value += groups_[k];
  if (rank.table_copies.valid()) rank.table_copies.value += groups_[k];
  rank.begin = begins_[r];
  rank.end = rank.begin + source.end - source.begin + held(r);
  std::int32_t last_compute = -1;
  for (std::int32_t i = source.begin; i < source.end; ++i) {
    Instruction x = part.instructions[static_cast<std::size_t>(i)];
    if (x.wait0 >= 0) x.wait0 = place(k, local, x.wait0);
    if (x.wait1 >= 0) x.wait1 = place(k, local, x.wait1);
    if (x.match >= 0) x.match = place(k, x.peer, x.match);
    if (x.peer >= 0) x.peer += pipeline.first_rank;
    if (x.stream == Stream::compute)
      x.id += pipeline.first_work;
    else
      x.id += x.stream == Stream::data ? pipeline.first_collective : pipeline.first_transfer;
    if (i == update) {
      for (const CollectiveId id : reductions_[r]) {
        Instruction meet;
        meet.kind = Kind::grad_reduce;
        meet.stream = Stream::data;
        meet.id = id.value;
        meet.wait0 = last_compute;
        out_.instructions.push_back(meet);
        x.wait0 = static_cast<std::int32_t>(out_.instructions.size()) - 1;
      }
    }
    out_.instructions.push_back(x);
    if (x.stream == Stream::compute) last_compute = static_cast<std::int32_t>(out_.instructions.size()) - 1;
  }
  ESPALIER_CHECK(static_cast<std::int32_t>(out_.instructions.size()) == rank.end);
  out_.ranks.push_back(std::move(rank));
}

}  // namespace

std::vector<JoinedSegment> segments_of(const std::vector<Program>& pipelines) {
  std::set<std::int32_t> firsts;
  std::int32_t last = -1;
  for (const Program& part : pipelines) {
    const std::int32_t chunks = part.structure().chunks();
    for (std::int32_t c = 0; c < chunks; ++c) firsts.insert(layers_of(part, c).first);
    ESPALIER_CHECK(last < 0 || last == layers_of(part, chunks - 1).last);
    last = layers_of(part, chunks - 1).last;
  }
  std::vector<JoinedSegment> segments;
  for (auto at = firsts.rbegin(); at != firsts.rend(); ++at) {
    JoinedSegment segment;
    segment.layers = {*at, last};
    last = *at - 1;
    for (const Program& part : pipelines) {
      std::int32_t chunk = 0;
      while (layers_of(part, chunk).last < segment.layers.last) ++chunk;
      const auto pipeline = static_cast<std::int32_t>(segment.holders.size());
      segment.holders.push_back({pipeline, place_of_chunk(part.schedule(), chunk).stage, chunk});
    }
    segments.push_back(std::move(segment));
  }
  return segments;
}

Program joined(const std::vector<Program>& pipelines) {
  ESPALIER_CHECK(!pipelines.empty());
  return Joiner(pipelines).run();
}

}  // namespace espalier
