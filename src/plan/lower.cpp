// SPDX-License-Identifier: Apache-2.0
// Lowers a ProgramStructure: a schedule's compute steps become instruction lists with sends, receives, data-parallel
// collectives and waits.
//
// First, RankWriter writes one representative rank per stage. The program of all devices copies each list once per
// device and connects the devices with equal positions in neighbouring stages.
#include <algorithm>
#include <array>

#include "base/invariant.h"
#include "plan/program.h"
#include "plan/schedule.h"

namespace espalier {
namespace {

using Kind = InstructionKind;

/// Holds the positions of the two ends of every transfer, by chunk, micro-batch and direction.
class Transfers {
 public:
  explicit Transfers(const Schedule& s)
      : microbatches_(static_cast<std::size_t>(s.microbatches)),
        ends_(2 * static_cast<std::size_t>(s.stages) * static_cast<std::size_t>(s.virtual_stages) * microbatches_, {-1, -1}) {}

  /// Records one end and connects it to the other if that is known.
  void note(std::vector<Instruction>& instructions, std::int32_t index) {
    Instruction& here = instructions[static_cast<std::size_t>(index)];
    const std::size_t slot = static_cast<std::size_t>(here.id) * microbatches_ + static_cast<std::size_t>(here.microbatch);
    auto& ends = ends_[slot];
    ends[here.kind == Kind::send ? 0 : 1] = index;
    if (ends[0] < 0 || ends[1] < 0) return;
    instructions[static_cast<std::size_t>(ends[0])].match = ends[1];
    instructions[static_cast<std::size_t>(ends[1])].match = ends[0];
  }

 private:
  std::size_t microbatches_;
  std::vector<std::array<std::int32_t, 2>> ends_;
};

/// Writes the list of one stage.
class RankWriter {
 public:
  RankWriter(const ProgramStructure& structure, std::int32_t stage, Program& program, Transfers& transfers)
      : structure_(structure), schedule_(structure.schedule), stage_(stage), program_(program), transfers_(transfers) {}

  void write();

 private:
  std::int32_t add(Kind kind, Stream stream, std::int32_t id, std::int32_t microbatch, std::int32_t wait0,
                   std::int32_t wait1 = -1);
  std::int32_t add_compute(Kind kind, WorkId work, std::int32_t microbatch, std::int32_t wait);
  std::int32_t add_transfer(Kind kind, bool gradient, std::int32_t boundary, std::int32_t microbatch, std::int32_t peer,
                            std::int32_t wait);
  void set_bucket(std::int32_t index, std::int32_t bucket, std::int32_t buckets);
  void forward(const ChunkPass& step);
  void backward(const ChunkPass& step);
  void gather_chunk(std::int32_t local_chunk, std::int32_t wait);
  void reduce_chunk(std::int32_t local_chunk, std::int32_t wait);
  void end_of_step();

  [[nodiscard]] std::int32_t chunk_of(std::int32_t local_chunk) const { return pipeline_chunk(schedule_, stage_, local_chunk); }
  [[nodiscard]] std::int32_t chunks() const { return structure_.chunks(); }
  [[nodiscard]] std::int32_t buckets_of(std::int32_t chunk) const { return structure_.buckets[ChunkId(chunk)]; }
  /// Returns the rank on the other side of the boundary before `boundary`; −1 if there is none or it is this rank.
  [[nodiscard]] std::int32_t peer(std::int32_t boundary, std::int32_t other_chunk) const {
    if (boundary <= 0 || boundary >= chunks()) return -1;
    const std::int32_t rank = place_of_chunk(schedule_, other_chunk).stage;
    return rank == stage_ ? -1 : rank;
  }

  const ProgramStructure& structure_;
  const Schedule& schedule_;
  const std::int32_t stage_;
  Program& program_;
  Transfers& transfers_;
  std::vector<std::int32_t> forwards_done_, backwards_left_;  // per local chunk
  std::vector<std::int32_t> first_gather_;                    // per local chunk: its param_gather of bucket 0
  std::int32_t last_compute_ = -1, last_data_ = -1;
  std::int32_t blocking_send_ = -1;  // without overlap_p2p: the send for which the next compute instruction waits
};

std::int32_t RankWriter::add(Kind kind, Stream stream, std::int32_t id, std::int32_t microbatch, std::int32_t wait0,
                             std::int32_t wait1) {
  Instruction instruction;
  instruction.kind = kind;
  instruction.stream = stream;
  instruction.id = id;
  instruction.microbatch = microbatch;
  instruction.wait0 = wait0;
  instruction.wait1 = wait1;
  program_.instructions.push_back(instruction);
  const auto index = static_cast<std::int32_t>(program_.instructions.size() - 1);
  if (stream == Stream::compute) last_compute_ = index;
  if (stream == Stream::data) last_data_ = index;
  return index;
}

std::int32_t RankWriter::add_compute(Kind kind, WorkId work, std::int32_t microbatch, std::int32_t wait) {
  const std::int32_t send = blocking_send_;
  blocking_send_ = -1;
  return add(kind, Stream::compute, work.value, microbatch, wait, send);
}

std::int32_t RankWriter::add_transfer(Kind kind, bool gradient, std::int32_t boundary, std::int32_t microbatch, std::int32_t peer,
                                      std::int32_t wait) {
  const std::int32_t id = structure_.transfer(ChunkId(boundary), gradient).value;
  const std::int32_t index = add(kind, kind == Kind::send ? Stream::send : Stream::recv, id, microbatch, wait);
  Instruction& instruction = program_.instructions[static_cast<std::size_t>(index)];
  instruction.peer = peer;
  transfers_.note(program_.instructions, index);
  if (kind == Kind::send && !structure_.overlap_p2p) blocking_send_ = index;
  return index;
}

void RankWriter::set_bucket(std::int32_t index, std::int32_t bucket, std::int32_t buckets) {
  Instruction& instruction = program_.instructions[static_cast<std::size_t>(index)];
  instruction.bucket = static_cast<std::uint8_t>(bucket);
  instruction.buckets = static_cast<std::uint8_t>(buckets);
}

void RankWriter::forward(const ChunkPass& step) {
  const std::int32_t chunk = chunk_of(step.local_chunk), j = step.microbatch;
  const auto local = static_cast<std::size_t>(step.local_chunk);
  const bool gathers = structure_.gather_parameters && structure_.overlap_gather && forwards_done_[local] == 0;
  ++forwards_done_[local];
  const std::int32_t buckets = gathers ? buckets_of(chunk) : 1;
  std::int32_t wait = -1;
  if (const std::int32_t from = peer(chunk, chunk - 1); from >= 0) {
    // An instruction has two waits. If the first forward of a chunk would need three, the receive takes over that
    // of the gather.
    wait = add_transfer(Kind::recv, false, chunk, j, from, gathers ? first_gather_[local] : -1);
  } else if (gathers) {
    wait = first_gather_[local];
  }
  std::int32_t last = -1;
  for (std::int32_t bucket = 0; bucket < buckets; ++bucket) {
    last = add_compute(Kind::forward, structure_.forward(ChunkId(chunk)), j, bucket == 0 ? wait : first_gather_[local] + bucket);
    set_bucket(last, bucket, buckets);
  }
  if (const std::int32_t to = peer(chunk + 1, chunk + 1); to >= 0) add_transfer(Kind::send, false, chunk + 1, j, to, last);
}

void RankWriter::backward(const ChunkPass& step) {
  const std::int32_t chunk = chunk_of(step.local_chunk), j = step.microbatch;
  std::int32_t wait = -1;
  if (step.kind != Kind::backward_weight) {
    if (const std::int32_t from = peer(chunk + 1, chunk + 1); from >= 0)
      wait = add_transfer(Kind::recv, true, chunk + 1, j, from, -1);
  }
  const bool completes = step.kind != Kind::backward_input && --backwards_left_[static_cast<std::size_t>(step.local_chunk)] == 0;
  const bool reduces = completes && structure_.reduce_gradients && structure_.overlap_reduce;
  const std::int32_t buckets = reduces ? buckets_of(chunk) : 1;
  std::int32_t last = -1;
  for (std::int32_t bucket = 0; bucket < buckets; ++bucket) {
    last = add_compute(step.kind, structure_.work(step.kind, ChunkId(chunk)), j, bucket == 0 ? wait : -1);
    set_bucket(last, bucket, buckets);
    if (reduces)
      set_bucket(add(Kind::grad_reduce, Stream::data, structure_.grad_reduce(ChunkId(chunk)).value, -1, last), bucket, buckets);
  }
  if (step.kind == Kind::backward_weight) return;
  if (const std::int32_t to = peer(chunk, chunk - 1); to >= 0) add_transfer(Kind::send, true, chunk, j, to, last);
}

void RankWriter::gather_chunk(std::int32_t local_chunk, std::int32_t wait) {
  const std::int32_t chunk = chunk_of(local_chunk), buckets = buckets_of(chunk);
  for (std::int32_t bucket = 0; bucket < buckets; ++bucket) {
    const std::int32_t index = add(Kind::param_gather, Stream::data, structure_.param_gather(ChunkId(chunk)).value, -1, wait);
    set_bucket(index, bucket, buckets);
    if (bucket == 0) first_gather_[static_cast<std::size_t>(local_chunk)] = index;
  }
}

void RankWriter::reduce_chunk(std::int32_t local_chunk, std::int32_t wait) {
  const std::int32_t chunk = chunk_of(local_chunk), buckets = buckets_of(chunk);
  for (std::int32_t bucket = 0; bucket < buckets; ++bucket)
    set_bucket(add(Kind::grad_reduce, Stream::data, structure_.grad_reduce(ChunkId(chunk)).value, -1, wait), bucket, buckets);
}

void RankWriter::end_of_step() {
  const std::int32_t v = schedule_.virtual_stages;
  const std::int32_t last_backward = last_compute_;
  if (structure_.reduce_gradients && !structure_.overlap_reduce) {
    // The last chunk comes first, as its gradients do.
    for (std::int32_t k = v - 1; k >= 0; --k) reduce_chunk(k, last_backward);
  }
  for (const ChunkId chunk : structure_.table_chunks)
    if (place_of_chunk(schedule_, chunk.value).stage == stage_)
      add(Kind::tied_reduce, Stream::data, structure_.tied_reduce().value, -1, last_backward);
  const std::int32_t optimizer = add_compute(Kind::optimizer, structure_.optimizer(StageId(stage_)), -1, last_data_);
  if (structure_.gather_parameters && !structure_.overlap_gather) {
    for (std::int32_t k = 0; k < v; ++k) gather_chunk(k, optimizer);
  }
}

void RankWriter::write() {
  const auto v = static_cast<std::size_t>(schedule_.virtual_stages);
  forwards_done_.assign(v, 0);
  backwards_left_.assign(v, schedule_.microbatches);
  first_gather_.assign(v, -1);
  RankClass rank;
  rank.stage = StageId(stage_);
  rank.begin = static_cast<std::int32_t>(program_.instructions.size());
  if (structure_.gather_parameters && structure_.overlap_gather) {
    for (std::int32_t k = 0; k < schedule_.virtual_stages; ++k) gather_chunk(k, -1);
  }
  for (const ChunkPass& step : compute_order(schedule_, stage_)) {
    step.kind == Kind::forward ? forward(step) : backward(step);
  }
  end_of_step();
  rank.end = static_cast<std::int32_t>(program_.instructions.size());
  program_.ranks.push_back(rank);
}

/// Fills in works, collectives and transfers of a structure, without layers and bytes.
void fill_tables(Program& program) {
  const ProgramStructure& s = program.structure();
  const auto stage_of = [&](ChunkId chunk) { return StageId(place_of_chunk(s.schedule, chunk.value).stage); };
  for (ChunkId c(0); c.value < s.chunks(); ++c.value) {
    program.works.add({Kind::forward, stage_of(c), c});
    program.works.add({splits_backward(s.schedule.kind) ? Kind::backward_input : Kind::backward, stage_of(c), c});
    if (splits_backward(s.schedule.kind)) program.works.add({Kind::backward_weight, stage_of(c), c});
  }
  for (std::int32_t i = 0; i < s.schedule.stages; ++i)
    program.works.add({Kind::optimizer, StageId(i), ChunkId(pipeline_chunk(s.schedule, i, 0))});
  for (ChunkId c(0); s.reduce_gradients && c.value < s.chunks(); ++c.value)
    program.collectives.add({Kind::grad_reduce, stage_of(c), c});
  for (ChunkId c(0); s.gather_parameters && c.value < s.chunks(); ++c.value)
    program.collectives.add({Kind::param_gather, stage_of(c), c});
  if (!s.table_chunks.empty())
    program.collectives.add({Kind::tied_reduce, stage_of(s.table_chunks.front()), s.table_chunks.front()});
  for (ChunkId c(1); c.value < s.chunks(); ++c.value) {
    program.transfers.add({c, false});
    program.transfers.add({c, true});
  }
  ESPALIER_CHECK(program.works.size() == static_cast<std::size_t>(s.works()));
  ESPALIER_CHECK(program.collectives.size() == static_cast<std::size_t>(s.collectives()));
  ESPALIER_CHECK(program.transfers.size() == static_cast<std::size_t>(s.transfers()));
}

/// Adds one group per rank of a folded program, which stands for the rank's whole group, and one group for the stages
/// that hold a copy of the table.
void fill_groups(Program& program) {
  for (RankClass& rank : program.ranks) rank.data = program.groups.add({GroupKind::data_shard, {rank.stage.value}});
  if (program.structure().table_chunks.empty()) return;
  ProcessGroup copies{GroupKind::table_copies, {}};
  for (const ChunkId c : program.structure().table_chunks)
    copies.members.push_back(place_of_chunk(program.structure().schedule, c.value).stage);
  std::sort(copies.members.begin(), copies.members.end());
  const ProcessGroupId id = program.groups.add(copies);
  for (const std::int32_t r : program.groups[id].members) program.ranks[static_cast<std::size_t>(r)].table_copies = id;
}

}  // namespace

Program lower(const ProgramStructure& structure) {
  const Schedule& schedule = structure.schedule;
  const auto chunks = static_cast<std::size_t>(schedule.stages) * static_cast<std::size_t>(schedule.virtual_stages);
  ESPALIER_CHECK(structure.buckets.size() == chunks);
  for (const std::uint8_t buckets : structure.buckets) ESPALIER_CHECK(buckets >= 1 && buckets <= kMaxBuckets);
  Program program;
  program.pipelines.front().structure = structure;
  // Each micro-batch and chunk has forward, backward (in two halves) and four transfers; each chunk has buckets and
  // their collectives once.
  program.instructions.reserve(chunks * (7 * static_cast<std::size_t>(schedule.microbatches) + 8));
  Transfers transfers(schedule);
  for (std::int32_t stage = 0; stage < schedule.stages; ++stage) RankWriter(structure, stage, program, transfers).write();
  fill_tables(program);
  fill_groups(program);
  return program;
}

}  // namespace espalier
