// SPDX-License-Identifier: Apache-2.0
// The Program: a plan lowered to one instruction list per rank, with all that the instructions stand for. The simulator
// times it; the runtime runs it; the check reads it. What a machine takes for it lies beside it, in columns by id
// (cost/costs.h).
//
// Each rank has in-order streams. An instruction starts when its stream is free, when the two instructions it waits for
// (on the same rank) have ended, and, for `recv`, when the matching `send` of the peer has ended. It names what it does
// by `id`:
//
//   forward / backward / backward_input / backward_weight   a Work: one chunk, one micro-batch, or one `bucket` of it,
//                                                           on `compute`.
//        backward = input and weight gradients together; zero-bubble schedules split them into backward_input and
//        _weight.
//        The collectives of TP, CP, EP and ZeRO-2/3 inside a chunk are steps of the Work and part of its time.
//   optimizer            a Work: the update of all parameters of the rank, on `compute`
//   send / recv          a Transfer: the activation of `microbatch` that enters pipeline chunk `chunk`, or (gradient)
//                        the gradient of
//                        that activation going back. Both ends name the same Transfer; peer is the other rank.
//   grad_reduce          a Collective: gradients of a `bucket` of a chunk, all-reduce or reduce-scatter over the data
//                        group, on `data`
//   param_gather         a Collective: parameters of a `bucket` of a chunk, all-gather over the shard group, on `data`
//   tied_reduce          a Collective: gradient of the shared token table, between the stages that hold a copy, on
//                        `data`
//
// ProgramStructure (src/plan/lower.cpp) writes a list in the order of issue: a recv right before the compute that needs
// it, a send or a collective right after what it waits for. Every list has one order of compute steps, its schedule's
// (src/plan/schedule.h); and
//   wait0 of forward / backward        its recv; of the further buckets of a first forward, their param_gather
//   wait1 of compute                   without overlap_p2p, the last send before it: sends block the next computation
//   wait0 of send, grad_reduce         the last bucket, or the bucket, whose result they carry
//   overlap_reduce                     the backward (zero-bubble: backward_weight) of a chunk's last micro-batch is cut
//                                      into
//                                      buckets, each followed by its grad_reduce; otherwise all grad_reduces come at
//                                      the end
//   overlap_gather                     param_gathers come first, and a chunk's first forward is cut into buckets
//                                      that wait for them (the recv before bucket 0 waits for the gather of bucket 0,
//                                      as there are
//                                      two waits only); otherwise they follow the optimizer
//   tied_reduce                        on the stages of `table_chunks`, after the grad_reduces
//   optimizer                          waits for the last collective
// Neighbouring chunks on one rank (p = 1, the turn of zb-v) need no transfer.
//
// Folding: in a uniform plan the ranks of a stage do the same at the same time, so one representative per stage
// suffices (`RankClass`); with fold = false every device has a rank, and collectives meet by their process groups.
// Layout: instructions of all ranks lie in one array, rank after rank; indices into it are absolute.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/id.h"
#include "espalier/instruction.h"
#include "espalier/plan.h"
#include "plan/steps.h"
#include "plan/structure.h"

namespace espalier {

/// 28 bytes; a plan of 10⁵ instructions stays in the second-level cache.
struct Instruction {
  InstructionKind kind = InstructionKind::forward;
  Stream stream = Stream::compute;
  std::uint8_t buckets = 1;      ///< the chunk is cut into this many buckets of gradients or parameters here
  std::uint8_t bucket = 0;       ///< which one, in order of execution
  std::int32_t id = -1;          ///< of the Work, Collective or Transfer, as its stream says
  std::int32_t microbatch = -1;  ///< −1: not of one micro-batch
  std::int32_t peer = -1;        ///< send/recv: other rank (index into Program::ranks)
  std::int32_t match = -1;       ///< recv: absolute index of the matching send; send: of the matching recv
  std::int32_t wait0 = -1;       ///< absolute indices of earlier instructions of the same rank
  std::int32_t wait1 = -1;
  [[nodiscard]] WorkId work() const { return WorkId(id); }
  [[nodiscard]] CollectiveId collective() const { return CollectiveId(id); }
  [[nodiscard]] TransferId transfer() const { return TransferId(id); }
};

/// Consecutive layers.
struct LayerSpan {
  std::int32_t first = 0, last = -1;  ///< empty: last < first
  bool operator==(const LayerSpan&) const = default;
};

/// Consecutive layers of a chunk under one strategy.
struct WorkRange {
  std::int32_t first = 0, last = 0;    ///< layers of the model, both included
  std::int32_t strategy = 0;           ///< index into Program::strategies
  std::int64_t samples = 0;            ///< of a micro-batch on one rank
  std::int32_t recomputed_blocks = 0;  ///< the first blocks of the range, whose forward is repeated in the backward
  bool operator==(const WorkRange&) const = default;
};

/// What a compute instruction does: a phase of all layers of a chunk, or the update of a stage. A bucket of it covers
/// the layers of bucket_layers().
struct Work {
  InstructionKind phase = InstructionKind::forward;
  StageId stage{0};
  ChunkId chunk{0};                               ///< of an optimizer the first chunk of its stage
  std::int32_t ranges_begin = 0, ranges_end = 0;  ///< into Program::ranges; empty for an optimizer and before a plan is
                                                  ///< known
  bool operator==(const Work&) const = default;
};

/// A message of a collective, for one bucket, per rank.
struct CollectivePart {
  CollectiveKind kind = CollectiveKind::all_reduce;
  GroupKind group = GroupKind::data_shard;
  std::int32_t strategy = 0;  ///< index into Program::strategies: the layout in which the group lies
  double bytes = 0;           ///< of the whole (gathered) tensor on one rank, S of cost/collective.h
  double message_bytes = 0;   ///< the engine sends messages of this size one after the other; 0: one message
  double share = 1;           ///< of chunks whose ranges reduce apart: all buckets take the mean of what the ranges'
                              ///< own buckets
                              ///< take
  std::int32_t element_bytes = 0;
  bool operator==(const CollectivePart&) const = default;
};

/// Communication at the end or the beginning of a step. All buckets of a chunk move the same number of bytes.
struct Collective {
  InstructionKind kind = InstructionKind::grad_reduce;
  StageId stage{0};
  ChunkId chunk{0};                             ///< of a tied_reduce, as its stage, that of the first copy
  std::int32_t parts_begin = 0, parts_end = 0;  ///< into Program::parts, one after the other; empty before costs are
                                                ///< known
  /// Of a grad_reduce between pipelines: the rank classes that hold layers `layers`; names nothing otherwise. Chunk and
  /// stage are then those of the first of them.
  ProcessGroupId pipelines = {};
  LayerSpan layers = {};
  bool operator==(const Collective&) const = default;
};

/// An activation or its gradient between two pipeline chunks.
struct Transfer {
  ChunkId chunk{0};  ///< the chunk that the activation enters; its gradient leaves it
  bool gradient = false;
  /// Of a program of all devices: both ends lay a micro-batch out over other numbers of ranks, or deal its samples
  /// otherwise. Each rank then has a send for each rank that wants a box of its part (plan/activation_layout.h), none,
  /// one or several, and a recv for each of its new box.
  bool boxes = false;
  std::int64_t bytes = 0;                 ///< that one rank sends; 0 between chunks of one stage
  std::int32_t sender = 0, receiver = 0;  ///< indices into Program::ranges: the layouts at both ends
  bool operator==(const Transfer&) const = default;
};

/// Ranks that meet in collectives of a kind. In a folded program a group stands for all that lie like it.
struct ProcessGroup {
  GroupKind kind = GroupKind::data_shard;
  std::vector<std::int32_t> members;  ///< indices into Program::ranks
  bool operator==(const ProcessGroup&) const = default;
};

/// Devices of one kind that do the same at the same time: written once.
struct RankClass {
  std::vector<DeviceRange> devices;  ///< all of them, in rank order; empty before a plan is known
  std::int32_t device_kind = 0;      ///< index of the node group in the cluster
  std::int32_t pipeline = 0;
  StageId stage{0};
  std::vector<std::int64_t>
      samples_per_replica;          ///< of a micro-batch, Stage::samples_per_replica; empty: WorkRange::samples each
  ProcessGroupId data;              ///< where its grad_reduces and param_gathers meet
  ProcessGroupId table_copies;      ///< where its tied_reduce meets; names nothing where there is none
  std::int32_t begin = 0, end = 0;  ///< its instructions: [begin, end)
  [[nodiscard]] std::int64_t device() const { return devices.empty() ? stage.value : devices.front().first; }
  [[nodiscard]] std::int64_t represents() const;
};

/// One pipeline of a program: its structure, and where its numbers begin in the tables of the program and in the
/// columns beside it.
struct PipelineProgram {
  ProgramStructure structure;
  std::int32_t first_rank = 0;  ///< of a folded program also its first stage in Costs::stages
  std::int32_t first_work = 0, first_collective = 0, first_transfer = 0;
  std::int64_t first_sample = 0;        ///< of a global batch, the first one of this pipeline
  std::int64_t microbatch_samples = 0;  ///< in all replicas together; 0 before a plan is known
};

struct Program {
  std::vector<PipelineProgram> pipelines = std::vector<PipelineProgram>(1);
  std::vector<RankClass> ranks;
  std::vector<Instruction> instructions;
  bool folded = true;
  base::IndexedVector<WorkId, Work> works;
  base::IndexedVector<CollectiveId, Collective> collectives;
  base::IndexedVector<TransferId, Transfer> transfers;
  base::IndexedVector<ProcessGroupId, ProcessGroup> groups;
  std::vector<WorkRange> ranges;  ///< chunk after chunk
  std::vector<Strategy> strategies;
  std::vector<CollectivePart> parts;

  /// Of the first pipeline, which is the only one unless pipelines were joined (plan/join.h).
  [[nodiscard]] const ProgramStructure& structure() const { return pipelines.front().structure; }
  [[nodiscard]] const ProgramStructure& structure(const RankClass& rank) const {
    return pipelines[static_cast<std::size_t>(rank.pipeline)].structure;
  }
  [[nodiscard]] const Schedule& schedule() const { return structure().schedule; }
  /// Stages of all pipelines, pipeline after pipeline: the rows of Costs::stages.
  [[nodiscard]] std::int32_t stages() const;
  /// The row of a rank's stage among them.
  [[nodiscard]] StageId stage_row(const RankClass& rank) const;
  /// The pipeline chunk of an instruction; of a transfer the one that the activation enters.
  [[nodiscard]] ChunkId chunk_of(const Instruction& i) const;
  /// Whether a transfer carries a gradient; false for all others.
  [[nodiscard]] bool carries_gradient(const Instruction& i) const;
  /// Whether a collective waits for the other ranks of its group: in a folded program a group of one stands for groups
  /// whose members act alike, so that reductions between pipelines alone do.
  [[nodiscard]] bool meets(const Instruction& i) const { return !folded || collectives[i.collective()].pipelines.valid(); }
  /// The group in which a collective of `rank` meets others.
  [[nodiscard]] ProcessGroupId group_of(const RankClass& rank, const Instruction& i) const {
    if (const ProcessGroupId joint = collectives[i.collective()].pipelines; joint.valid()) return joint;
    return i.kind == InstructionKind::tied_reduce ? rank.table_copies : rank.data;
  }
};

/// The layers of bucket k of n of a chunk [first, last]: forward from the first layer on, backward from the last one
/// back.
LayerSpan bucket_layers(std::int32_t first, std::int32_t last, bool forward, std::int32_t bucket, std::int32_t buckets);

/// One representative rank a stage; the tables of works, collectives and transfers without layers and bytes.
Program lower(const ProgramStructure& structure);
/// Several pipelines are joined (plan/join.h).
/// `fold` = false: one rank per device (tests, runtime; plan/unfold.h); the plan gives devices, ranges and groups.
/// Ranks stand pipeline after pipeline, stage after stage, in the order of their devices. Bytes are filled in where
/// costs are known (cost/price.h).
Program lower(const Plan& plan, const Model& model, bool fold);
/// The pipelines of a plan one by one, folded.
std::vector<Program> lower_pipelines(const Plan& plan, const Model& model);

/// Counts the micro-batches in flight on a stage at most, or its chunk passes where it has several chunks: the last
/// column of the table in plan/schedule.h.
std::int32_t max_in_flight(const Schedule& schedule, std::int32_t stage);
/// One chunk a stage: micro-batches between their forward and their backward, or input gradient, at most. The others in
/// flight wait for their weight gradient. The fullest moment of a stage holds both at once.
std::int32_t max_whole(const Schedule& schedule, std::int32_t stage);

/// Structural proof without times: every send has its recv, waits point backwards, streams admit a complete order (no
/// deadlock).
Status validate(const Program& program);

}  // namespace espalier
