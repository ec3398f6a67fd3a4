// SPDX-License-Identifier: Apache-2.0
// Lowering: a schedule's compute steps become instruction lists with sends, receives, data-parallel collectives and waits.
//
// One representative rank a stage is written first (RankWriter); the program of all devices copies each list once per device and
// joins the devices with equal position in neighbouring stages.
#include <algorithm>
#include <array>

#include "base/check.h"
#include "plan/lowering_facts.h"
#include "plan/program.h"
#include "plan/schedule.h"

namespace espalier {
namespace {

using Kind = InstructionKind;

/// Where the two ends of every transfer lie, by chunk, micro-batch and direction.
class Transfers {
 public:
  explicit Transfers(const Schedule& s)
      : microbatches_(static_cast<std::size_t>(s.microbatches)),
        ends_(2 * static_cast<std::size_t>(s.stages) * static_cast<std::size_t>(s.virtual_stages) * microbatches_, {-1, -1}) {}

  /// Notes one end and, if the other is known, joins them.
  void note(std::vector<Instruction>& instructions, std::int32_t index) {
    Instruction& here = instructions[static_cast<std::size_t>(index)];
    const std::size_t slot =
        (static_cast<std::size_t>(here.chunk) * microbatches_ + static_cast<std::size_t>(here.microbatch)) * 2 +
        (here.gradient ? 1 : 0);
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
  RankWriter(const Lowering& lowering, std::int32_t stage, Program& program, Transfers& transfers)
      : low_(lowering), schedule_(lowering.schedule), stage_(stage), program_(program), transfers_(transfers) {}

  void write();

 private:
  std::int32_t add(Kind kind, Stream stream, std::int32_t chunk, std::int32_t microbatch, std::int32_t wait0,
                   std::int32_t wait1 = -1);
  std::int32_t add_compute(Kind kind, std::int32_t chunk, std::int32_t microbatch, std::int32_t wait);
  std::int32_t add_transfer(Kind kind, bool gradient, std::int32_t boundary, std::int32_t microbatch, std::int32_t peer,
                            std::int32_t wait);
  void set_piece(std::int32_t index, std::int32_t piece, std::int32_t pieces);
  void forward(const plan::Step& step);
  void backward(const plan::Step& step);
  void gather_chunk(std::int32_t local_chunk, std::int32_t wait);
  void reduce_chunk(std::int32_t local_chunk, std::int32_t wait);
  void end_of_step();

  [[nodiscard]] std::int32_t chunk_of(std::int32_t local_chunk) const { return pipeline_chunk(schedule_, stage_, local_chunk); }
  [[nodiscard]] std::int32_t chunks() const { return schedule_.stages * schedule_.virtual_stages; }
  [[nodiscard]] std::int32_t pieces_of(std::int32_t chunk) const { return low_.pieces[static_cast<std::size_t>(chunk)]; }
  /// The rank on the other side of the boundary before `boundary`, seen from here; −1 if there is none or it is this rank.
  [[nodiscard]] std::int32_t peer(std::int32_t boundary, std::int32_t other_chunk) const {
    if (boundary <= 0 || boundary >= chunks()) return -1;
    const std::int32_t rank = place_of_chunk(schedule_, other_chunk).stage;
    return rank == stage_ ? -1 : rank;
  }

  const Lowering& low_;
  const Schedule& schedule_;
  const std::int32_t stage_;
  Program& program_;
  Transfers& transfers_;
  std::vector<std::int32_t> forwards_done_, backwards_left_;  // per local chunk
  std::vector<std::int32_t> first_gather_;                    // per local chunk: its param_gather of piece 0
  std::int32_t last_compute_ = -1, last_data_ = -1;
  std::int32_t blocking_send_ = -1;  // without overlap_p2p: the send the next compute instruction waits for
};

std::int32_t RankWriter::add(Kind kind, Stream stream, std::int32_t chunk, std::int32_t microbatch, std::int32_t wait0,
                             std::int32_t wait1) {
  Instruction instruction;
  instruction.kind = kind;
  instruction.stream = stream;
  instruction.chunk = static_cast<std::int16_t>(chunk);
  instruction.microbatch = microbatch;
  instruction.wait0 = wait0;
  instruction.wait1 = wait1;
  program_.instructions.push_back(instruction);
  const auto index = static_cast<std::int32_t>(program_.instructions.size() - 1);
  if (stream == Stream::compute) last_compute_ = index;
  if (stream == Stream::data) last_data_ = index;
  return index;
}

std::int32_t RankWriter::add_compute(Kind kind, std::int32_t chunk, std::int32_t microbatch, std::int32_t wait) {
  const std::int32_t send = blocking_send_;
  blocking_send_ = -1;
  return add(kind, Stream::compute, chunk, microbatch, wait, send);
}

std::int32_t RankWriter::add_transfer(Kind kind, bool gradient, std::int32_t boundary, std::int32_t microbatch, std::int32_t peer,
                                      std::int32_t wait) {
  const std::int32_t index = add(kind, kind == Kind::send ? Stream::send : Stream::recv, boundary, microbatch, wait);
  Instruction& instruction = program_.instructions[static_cast<std::size_t>(index)];
  instruction.gradient = gradient;
  instruction.peer = peer;
  transfers_.note(program_.instructions, index);
  if (kind == Kind::send && !low_.overlap_p2p) blocking_send_ = index;
  return index;
}

void RankWriter::set_piece(std::int32_t index, std::int32_t piece, std::int32_t pieces) {
  Instruction& instruction = program_.instructions[static_cast<std::size_t>(index)];
  instruction.piece = static_cast<std::uint8_t>(piece);
  instruction.pieces = static_cast<std::uint8_t>(pieces);
}

void RankWriter::forward(const plan::Step& step) {
  const std::int32_t chunk = chunk_of(step.local_chunk), j = step.microbatch;
  const auto local = static_cast<std::size_t>(step.local_chunk);
  const bool gathers = low_.gather_parameters && low_.overlap_gather && forwards_done_[local] == 0;
  ++forwards_done_[local];
  const std::int32_t pieces = gathers ? pieces_of(chunk) : 1;
  std::int32_t wait = -1;
  if (const std::int32_t from = peer(chunk, chunk - 1); from >= 0) {
    // An instruction has two waits; where the first forward of a chunk would need three, the receive takes over the gather's.
    wait = add_transfer(Kind::recv, false, chunk, j, from, gathers ? first_gather_[local] : -1);
  } else if (gathers) {
    wait = first_gather_[local];
  }
  std::int32_t last = -1;
  for (std::int32_t piece = 0; piece < pieces; ++piece) {
    last = add_compute(Kind::forward, chunk, j, piece == 0 ? wait : first_gather_[local] + piece);
    set_piece(last, piece, pieces);
  }
  if (const std::int32_t to = peer(chunk + 1, chunk + 1); to >= 0) add_transfer(Kind::send, false, chunk + 1, j, to, last);
}

void RankWriter::backward(const plan::Step& step) {
  const std::int32_t chunk = chunk_of(step.local_chunk), j = step.microbatch;
  std::int32_t wait = -1;
  if (step.kind != Kind::backward_weight) {
    if (const std::int32_t from = peer(chunk + 1, chunk + 1); from >= 0)
      wait = add_transfer(Kind::recv, true, chunk + 1, j, from, -1);
  }
  const bool completes = step.kind != Kind::backward_input && --backwards_left_[static_cast<std::size_t>(step.local_chunk)] == 0;
  const bool reduces = completes && low_.reduce_gradients && low_.overlap_reduce;
  const std::int32_t pieces = reduces ? pieces_of(chunk) : 1;
  std::int32_t last = -1;
  for (std::int32_t piece = 0; piece < pieces; ++piece) {
    last = add_compute(step.kind, chunk, j, piece == 0 ? wait : -1);
    set_piece(last, piece, pieces);
    if (reduces) set_piece(add(Kind::grad_reduce, Stream::data, chunk, -1, last), piece, pieces);
  }
  if (step.kind == Kind::backward_weight) return;
  if (const std::int32_t to = peer(chunk, chunk - 1); to >= 0) add_transfer(Kind::send, true, chunk, j, to, last);
}

void RankWriter::gather_chunk(std::int32_t local_chunk, std::int32_t wait) {
  const std::int32_t chunk = chunk_of(local_chunk), pieces = pieces_of(chunk);
  for (std::int32_t piece = 0; piece < pieces; ++piece) {
    const std::int32_t index = add(Kind::param_gather, Stream::data, chunk, -1, wait);
    set_piece(index, piece, pieces);
    if (piece == 0) first_gather_[static_cast<std::size_t>(local_chunk)] = index;
  }
}

void RankWriter::reduce_chunk(std::int32_t local_chunk, std::int32_t wait) {
  const std::int32_t chunk = chunk_of(local_chunk), pieces = pieces_of(chunk);
  for (std::int32_t piece = 0; piece < pieces; ++piece)
    set_piece(add(Kind::grad_reduce, Stream::data, chunk, -1, wait), piece, pieces);
}

void RankWriter::end_of_step() {
  const std::int32_t v = schedule_.virtual_stages;
  const std::int32_t last_backward = last_compute_;
  if (low_.reduce_gradients && !low_.overlap_reduce) {
    for (std::int32_t k = v - 1; k >= 0; --k) reduce_chunk(k, last_backward);  // last chunk first, as its gradients are first
  }
  for (const std::int32_t chunk : low_.table_chunks)
    if (place_of_chunk(schedule_, chunk).stage == stage_) add(Kind::tied_reduce, Stream::data, chunk, -1, last_backward);
  const std::int32_t optimizer = add_compute(Kind::optimizer, chunk_of(0), -1, last_data_);
  if (low_.gather_parameters && !low_.overlap_gather) {
    for (std::int32_t k = 0; k < v; ++k) gather_chunk(k, optimizer);
  }
}

void RankWriter::write() {
  const auto v = static_cast<std::size_t>(schedule_.virtual_stages);
  forwards_done_.assign(v, 0);
  backwards_left_.assign(v, schedule_.microbatches);
  first_gather_.assign(v, -1);
  RankProgram rank;
  rank.device = rank.stage = rank.group = stage_;
  rank.begin = static_cast<std::int32_t>(program_.instructions.size());
  if (low_.gather_parameters && low_.overlap_gather) {
    for (std::int32_t k = 0; k < schedule_.virtual_stages; ++k) gather_chunk(k, -1);
  }
  for (const plan::Step& step : plan::compute_order(schedule_, stage_)) {
    step.kind == Kind::forward ? forward(step) : backward(step);
  }
  end_of_step();
  rank.end = static_cast<std::int32_t>(program_.instructions.size());
  program_.ranks.push_back(rank);
}

/// Devices of a stage in rank order.
std::vector<std::int64_t> devices_of(const Stage& stage) {
  std::vector<std::int64_t> devices;
  for (const DeviceRange& range : stage.devices) {
    for (std::int64_t k = 0; k < range.count; ++k) devices.push_back(range.first + k * range.stride);
  }
  return devices;
}

/// Weight shard that device `local` of a stage holds: devices with equal shards meet in data collectives.
/// Where layers of one plan differ in it, all devices of a stage meet.
std::int64_t weight_shard(const Plan& plan, std::int64_t local) {
  if (!plan.uniform()) return 0;
  return local % plan.strategy().weight_tp();  // tp is the innermost dimension of every rank order; Ulysses replicates over it
}

/// Shifts the list of a folded rank to where its copy for one device begins.
void copy_list(const Program& folded, const RankProgram& source, std::int64_t local, std::int64_t devices,
               const std::vector<std::int32_t>& begins, Program& program) {
  const auto begin_of = [&](std::int32_t stage) { return begins[static_cast<std::size_t>(stage * devices + local)]; };
  const std::int32_t shift = begin_of(source.stage) - source.begin;
  for (std::int32_t i = source.begin; i < source.end; ++i) {
    Instruction instruction = folded.instructions[static_cast<std::size_t>(i)];
    if (instruction.wait0 >= 0) instruction.wait0 += shift;
    if (instruction.wait1 >= 0) instruction.wait1 += shift;
    if (instruction.peer >= 0) {
      const RankProgram& peer = folded.ranks[static_cast<std::size_t>(instruction.peer)];
      instruction.match += begin_of(peer.stage) - peer.begin;
      instruction.peer = static_cast<std::int32_t>(peer.stage * devices + local);
    }
    program.instructions.push_back(instruction);
  }
}

Program unfold(const Program& folded, const Plan& plan) {
  const auto devices = static_cast<std::int64_t>(devices_of(plan.stages.front()).size());
  const Strategy& strategy = plan.strategy();
  Program program;
  program.schedule = folded.schedule;
  program.folded = false;
  std::vector<std::int32_t> begins;
  std::int32_t next = 0;
  for (const RankProgram& source : folded.ranks) {
    for (std::int64_t local = 0; local < devices; ++local) {
      begins.push_back(next);
      next += source.end - source.begin;
    }
  }
  program.instructions.reserve(static_cast<std::size_t>(next));
  for (const RankProgram& source : folded.ranks) {
    const std::vector<std::int64_t> ids = devices_of(plan.stages[static_cast<std::size_t>(source.stage)]);
    ESPALIER_CHECK(static_cast<std::int64_t>(ids.size()) == devices);  // a rank's neighbour has the same position in its stage
    for (std::int64_t local = 0; local < devices; ++local) {
      RankProgram rank = source;
      rank.device = ids[static_cast<std::size_t>(local)];
      rank.group = static_cast<std::int32_t>(source.stage * strategy.weight_tp() + weight_shard(plan, local));
      rank.begin = static_cast<std::int32_t>(program.instructions.size());
      copy_list(folded, source, local, devices, begins, program);
      rank.end = static_cast<std::int32_t>(program.instructions.size());
      program.ranks.push_back(rank);
    }
  }
  return program;
}

}  // namespace

Lowering lowering_of(const Plan& plan, const Model& model) {
  const Schedule& schedule = plan.schedule;
  std::vector<std::int32_t> layers;
  for (std::int32_t c = 0; c < schedule.stages * schedule.virtual_stages; ++c) {
    const ChunkPlace place = place_of_chunk(schedule, c);
    const Chunk& chunk = plan.stages[static_cast<std::size_t>(place.stage)].chunks[static_cast<std::size_t>(place.local_chunk)];
    layers.push_back(chunk.last() - chunk.first() + 1);
  }
  std::vector<const Strategy*> strategies;
  for (const Stage& stage : plan.stages)
    for (const Chunk& chunk : stage.chunks)
      for (const LayerRange& range : chunk.ranges) strategies.push_back(&range.strategy);
  Lowering lowering;
  lowering_facts(model, strategies, schedule, layers, lowering);
  return lowering;
}

Program lower(const Lowering& lowering) {
  const Schedule& schedule = lowering.schedule;
  const auto chunks = static_cast<std::size_t>(schedule.stages) * static_cast<std::size_t>(schedule.virtual_stages);
  ESPALIER_CHECK(lowering.pieces.size() == chunks);
  for (const std::uint8_t pieces : lowering.pieces) ESPALIER_CHECK(pieces >= 1 && pieces <= kMaxPieces);
  Program program;
  program.schedule = schedule;
  // Forward, backward (in two halves) and four transfers a micro-batch and chunk; pieces and their collectives once a chunk.
  program.instructions.reserve(chunks * (7 * static_cast<std::size_t>(schedule.microbatches) + 8));
  Transfers transfers(schedule);
  for (std::int32_t stage = 0; stage < schedule.stages; ++stage) RankWriter(lowering, stage, program, transfers).write();
  return program;
}

Program lower(const Plan& plan, const Model& model, bool fold) {
  Program program = lower(lowering_of(plan, model));
  if (!fold) return unfold(program, plan);
  for (RankProgram& rank : program.ranks) {
    const std::vector<std::int64_t> devices = devices_of(plan.stages[static_cast<std::size_t>(rank.stage)]);
    rank.device = devices.front();
    rank.represents = static_cast<std::int64_t>(devices.size());
  }
  return program;
}

}  // namespace espalier
