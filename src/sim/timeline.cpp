// SPDX-License-Identifier: Apache-2.0
#include "sim/timeline.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/invariant.h"
#include "sim/memory_replay.h"

namespace espalier {

std::int64_t Timeline::devices() const {
  return std::accumulate(ranks.begin(), ranks.end(), std::int64_t{0},
                         [](std::int64_t sum, const TimelineRank& rank) { return sum + rank.represents; });
}

}  // namespace espalier

namespace espalier::sim {
namespace {

using Kind = InstructionKind;

class Recorder {
 public:
  Recorder(const Plan& plan, const Program& program, const cost::Costs& costs, const Simulation& simulation)
      : plan_(plan), program_(program), costs_(costs), simulation_(simulation) {
    for (const Instruction& i : program.instructions) table_copies_ += i.kind == Kind::tied_reduce ? 1 : 0;
  }
  [[nodiscard]] TimelineRank rank(const RankClass& rank) const;

 private:
  [[nodiscard]] TimelineSpan span(const RankClass& rank, std::int32_t index) const;
  void describe_compute(const RankClass& rank, const Instruction& x, TimelineSpan& span) const;
  void describe_transfer(const Instruction& x, TimelineSpan& span) const;
  void describe_collective(const RankClass& rank, const Instruction& x, TimelineSpan& span) const;
  [[nodiscard]] const Pipeline& pipeline_of(const RankClass& rank) const {
    return plan_.pipelines[static_cast<std::size_t>(rank.pipeline)];
  }
  [[nodiscard]] std::int64_t bytes_of(const Collective& collective) const;
  [[nodiscard]] ChunkId chunk_of(const RankClass& rank, const Instruction& x) const;

  const Plan& plan_;
  const Program& program_;
  const cost::Costs& costs_;
  const Simulation& simulation_;
  std::int64_t table_copies_ = 0;
};

/// Returns the rank's own chunk that an instruction concerns. The exchange of a shared table concerns the chunk with
/// the copy.
ChunkId Recorder::chunk_of(const RankClass& rank, const Instruction& x) const {
  if (x.kind != Kind::tied_reduce) return program_.chunk_of(x);
  const ProgramStructure& structure = program_.structure(rank);
  for (const ChunkId copy : structure.table_chunks)
    if (place_of_chunk(structure.schedule, copy.value).stage == rank.stage.value) return copy;
  return program_.chunk_of(x);
}

void Recorder::describe_compute(const RankClass& rank, const Instruction& x, TimelineSpan& span) const {
  if (x.kind == Kind::optimizer) return;
  const ChunkPlace place = place_of_chunk(program_.structure(rank).schedule, program_.chunk_of(x).value);
  const Chunk& layers = pipeline_of(rank).stages[rank.stage.index()].chunks[static_cast<std::size_t>(place.local_chunk)];
  span.first_layer = layers.first();
  span.last_layer = layers.last();
}

void Recorder::describe_transfer(const Instruction& x, TimelineSpan& span) const {
  span.gradient = program_.carries_gradient(x);
  span.group_size = 2;
  span.bytes = program_.transfers[x.transfer()].bytes;
  span.peer = program_.ranks[static_cast<std::size_t>(x.peer)].device();
  span.match = x.match;
}

/// Returns the bytes of all messages of the collective, which follow each other. Ranges of a chunk that reduce
/// separately have a share each.
std::int64_t Recorder::bytes_of(const Collective& collective) const {
  double bytes = 0;
  for (std::int32_t i = collective.parts_begin; i < collective.parts_end; ++i) {
    const CollectivePart& part = program_.parts[static_cast<std::size_t>(i)];
    bytes += part.bytes * part.share;
  }
  return std::llround(bytes);
}

void Recorder::describe_collective(const RankClass& rank, const Instruction& x, TimelineSpan& span) const {
  const Strategy& strategy = pipeline_of(rank).strategy();
  span.bytes = bytes_of(program_.collectives[x.collective()]);
  if (program_.collectives[x.collective()].pipelines.valid()) {
    span.collective = CollectiveKind::all_reduce;
    span.group_size = static_cast<std::int64_t>(plan_.pipelines.size());
  } else if (x.kind == Kind::tied_reduce) {
    span.collective = CollectiveKind::all_reduce;
    span.group_size = table_copies_;
  } else if (x.kind == Kind::param_gather) {
    span.collective = CollectiveKind::all_gather;
    span.group_size = strategy.shard;
  } else {
    span.collective = strategy.shards_optimizer() ? CollectiveKind::reduce_scatter : CollectiveKind::all_reduce;
    span.group_size = strategy.data_ranks();
  }
}

TimelineSpan Recorder::span(const RankClass& rank, std::int32_t index) const {
  const Instruction& x = program_.instructions[static_cast<std::size_t>(index)];
  const Span& when = simulation_.spans[static_cast<std::size_t>(index)];
  TimelineSpan span;
  span.instruction = index;
  span.kind = x.kind;
  span.stream = x.stream;
  span.chunk = chunk_of(rank, x).value;
  span.microbatch = x.microbatch;
  span.bucket = x.bucket;
  span.buckets = x.buckets;
  span.start_ns = when.start_ns;
  span.end_ns = when.end_ns;
  if (x.stream == Stream::compute) describe_compute(rank, x, span);
  if (x.stream == Stream::data) describe_collective(rank, x, span);
  if (x.stream == Stream::send || x.stream == Stream::recv) describe_transfer(x, span);
  return span;
}

TimelineRank Recorder::rank(const RankClass& rank) const {
  TimelineRank out;
  out.device = rank.device();
  out.represents = rank.represents();
  out.pipeline = rank.pipeline;
  out.stage = rank.stage.value;
  out.static_bytes = costs_.stages[program_.stage_row(rank)].memory.total();
  out.spans.reserve(static_cast<std::size_t>(rank.end - rank.begin));
  std::int64_t held = 0;
  for (std::int32_t i = rank.begin; i < rank.end; ++i) {
    out.spans.push_back(span(rank, i));
    const TimelineSpan& at = out.spans.back();
    if (at.stream != Stream::compute) continue;
    const cost::MemoryStep step = memory_step(program_.instructions[static_cast<std::size_t>(i)], costs_);
    if (i == rank.begin || step.before != Bytes() || step.during != Bytes())
      out.memory.push_back({i, at.start_ns, held + (step.before + step.during).count()});
    held += (step.before + step.after).count();
    if (step.during != Bytes() || step.after != Bytes()) out.memory.push_back({i, at.end_ns, held});
  }
  return out;
}

}  // namespace

Timeline timeline_of(const Plan& plan, const Program& program, const cost::Costs& costs, const Simulation& simulation) {
  ESPALIER_CHECK(simulation.spans.size() == program.instructions.size());
  const Recorder recorder(plan, program, costs, simulation);
  Timeline timeline;
  timeline.label = plan.label();
  timeline.iteration_ns = simulation.iteration_ns;
  for (const PipelineProgram& pipeline : program.pipelines)
    timeline.microbatches = std::max(timeline.microbatches, pipeline.structure.schedule.microbatches);
  for (const RankClass& rank : program.ranks) timeline.ranks.push_back(recorder.rank(rank));
  return timeline;
}

}  // namespace espalier::sim
