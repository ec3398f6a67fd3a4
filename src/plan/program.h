// SPDX-License-Identifier: Apache-2.0
// Defines the Program: a plan lowered to one instruction list per rank, with everything that the instructions refer
// to. The simulator times it, the runtime runs it, and the check reads it. Its costs on a machine are kept
// separately, in columns by id (cost/costs.h).
//
// Each rank has in-order streams. An instruction starts when its stream is free and the two instructions that it
// waits for (on the same rank) have ended. A `recv` also waits for the end of the matching `send` of the peer. The
// `id` of an instruction refers to its operation:
//
//   forward, backward    a Work on `compute`: one chunk, one micro-batch, or one `bucket` of it.
//   backward_input       backward = input and weight gradients together.
//   backward_weight      Zero-bubble schedules split them into backward_input and backward_weight.
//                        The collectives of TP, CP, EP and ZeRO-2/3 inside a chunk are steps of the Work
//                        and part of its time.
//   optimizer            a Work on `compute`: the update of all parameters of the rank.
//   send / recv          a Transfer: the activation of `microbatch` that enters pipeline chunk `chunk`,
//                        or (gradient) the gradient of that activation going back.
//                        Both ends name the same Transfer; peer is the other rank.
//   grad_reduce          a Collective on `data`: gradients of a `bucket` of a chunk,
//                        all-reduce or reduce-scatter over the data group.
//   param_gather         a Collective on `data`: parameters of a `bucket` of a chunk,
//                        all-gather over the shard group.
//   tied_reduce          a Collective on `data`: the gradient of the shared token table,
//                        between the stages that hold a copy.
//
// ProgramStructure (src/plan/lower.cpp) writes a list in the order of issue. A recv comes right before the compute
// that needs it, a send or a collective right after the instruction that it waits for. Every list has one order of
// compute steps, that of its schedule (src/plan/schedule.h). The waits are:
//
//   wait0 of forward / backward        its recv; for the further buckets of a first forward, their param_gather
//   wait1 of compute                   without overlap_p2p, the last send before it: sends block the next computation
//   wait0 of send, grad_reduce         the last bucket, or the bucket, whose result they carry.
//   overlap_reduce                     the backward (zero-bubble: backward_weight) of a chunk's last micro-batch
//                                      is cut into buckets, each followed by its grad_reduce.
//                                      Otherwise all grad_reduces come at the end.
//   overlap_gather                     param_gathers come first, and a chunk's first forward is cut into buckets
//                                      that wait for them. The recv before bucket 0 waits for the gather of bucket 0,
//                                      as there are only two waits. Otherwise the gathers follow the optimizer.
//   tied_reduce                        on the stages of `table_chunks`, after the grad_reduces
//   optimizer                          waits for the last collective.
//
// Neighbouring chunks on one rank (p = 1, the turn of zb-v) need no transfer.
//
// In a uniform plan the ranks of a stage do the same at the same time, so a folded program has one representative per
// stage (`RankClass`). With fold = false every device has a rank, and collectives connect their process groups.
// Instructions of all ranks are stored in one array, rank after rank; indices into it are absolute.
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

/// Holds an instruction in 28 bytes; a plan of 10⁵ instructions stays in the second-level cache.
struct Instruction {
  InstructionKind kind = InstructionKind::forward;
  Stream stream = Stream::compute;
  std::uint8_t buckets = 1;      ///< the chunk is cut into this many buckets of gradients or parameters here
  std::uint8_t bucket = 0;       ///< which one, in order of execution
  std::int32_t id = -1;          ///< id of the Work, Collective or Transfer, depending on the stream
  std::int32_t microbatch = -1;  ///< −1: not of one micro-batch
  std::int32_t peer = -1;        ///< send/recv: other rank (index into Program::ranks)
  std::int32_t match = -1;       ///< recv: absolute index of the matching send; send: of the matching recv
  std::int32_t wait0 = -1;       ///< absolute indices of earlier instructions of the same rank
  std::int32_t wait1 = -1;
  [[nodiscard]] WorkId work() const { return WorkId(id); }
  [[nodiscard]] CollectiveId collective() const { return CollectiveId(id); }
  [[nodiscard]] TransferId transfer() const { return TransferId(id); }
};

/// Holds a range of consecutive layers.
struct LayerSpan {
  std::int32_t first = 0, last = -1;  ///< empty: last < first
  bool operator==(const LayerSpan&) const = default;
};

/// Holds consecutive layers of a chunk under one strategy.
struct WorkRange {
  std::int32_t first = 0, last = 0;    ///< layers of the model, both included
  std::int32_t strategy = 0;           ///< index into Program::strategies
  std::int64_t samples = 0;            ///< samples of a micro-batch on one rank
  std::int32_t recomputed_blocks = 0;  ///< the first blocks of the range, whose forward is repeated in the backward
  bool operator==(const WorkRange&) const = default;
};

/// Describes the work of a compute instruction: a phase of all layers of a chunk, or the update of a stage. A bucket
/// of it covers the layers of bucket_layers().
struct Work {
  InstructionKind phase = InstructionKind::forward;
  StageId stage{0};
  ChunkId chunk{0};                               ///< for an optimizer the first chunk of its stage
  std::int32_t ranges_begin = 0, ranges_end = 0;  ///< into Program::ranges; empty for an optimizer or without a plan
  bool operator==(const Work&) const = default;
};

/// Describes a message of a collective, for one bucket, per rank.
struct CollectivePart {
  CollectiveKind kind = CollectiveKind::all_reduce;
  GroupKind group = GroupKind::data_shard;
  std::int32_t strategy = 0;  ///< index into Program::strategies: the layout in which the group lies
  double bytes = 0;           ///< size of the whole (gathered) tensor on one rank, S of cost/collective.h
  double message_bytes = 0;   ///< the engine sends messages of this size one after the other; 0: one message
  /// The share among chunks whose ranges reduce separately: all buckets take the mean of the ranges' own buckets.
  double share = 1;
  std::int32_t element_bytes = 0;
  bool operator==(const CollectivePart&) const = default;
};

/// Describes communication at the end or the beginning of a step. All buckets of a chunk move the same number of bytes.
struct Collective {
  InstructionKind kind = InstructionKind::grad_reduce;
  StageId stage{0};
  ChunkId chunk{0};                             ///< for a tied_reduce that of the first copy, like its stage
  std::int32_t parts_begin = 0, parts_end = 0;  ///< into Program::parts, in sequence; empty before costs are known
  /// A grad_reduce between pipelines has the rank classes that hold `layers`; chunk and stage are then those of the
  /// first of them. Other collectives have an invalid id.
  ProcessGroupId pipelines = {};
  LayerSpan layers = {};
  bool operator==(const Collective&) const = default;
};

/// Describes an activation or its gradient between two pipeline chunks.
struct Transfer {
  ChunkId chunk{0};  ///< the chunk that the activation enters; its gradient leaves it
  bool gradient = false;
  /// In a program of all devices, the two ends may spread a micro-batch over different numbers of ranks, or assign
  /// its samples differently. Each rank then has a send for every rank that needs a box of its part
  /// (plan/activation_layout.h): none, one or several. It has a recv for each box of its new part.
  bool boxes = false;
  std::int64_t bytes = 0;                 ///< bytes that one rank sends; 0 between chunks of one stage
  std::int32_t sender = 0, receiver = 0;  ///< indices into Program::ranges: the layouts at both ends
  bool operator==(const Transfer&) const = default;
};

/// Lists the ranks of a collective of some kind. In a folded program a group represents all groups with
/// the same placement.
struct ProcessGroup {
  GroupKind kind = GroupKind::data_shard;
  std::vector<std::int32_t> members;  ///< indices into Program::ranks
  bool operator==(const ProcessGroup&) const = default;
};

/// Describes devices of one kind that do the same at the same time; it is stored once.
struct RankClass {
  std::vector<DeviceRange> devices;  ///< all of them, in rank order; empty before a plan is known
  std::int32_t device_kind = 0;      ///< index of the node group in the cluster
  std::int32_t pipeline = 0;
  StageId stage{0};
  /// Holds the samples of a micro-batch, as in Stage::samples_per_replica; empty: WorkRange::samples each.
  std::vector<std::int64_t> samples_per_replica;
  ProcessGroupId data;              ///< group of its grad_reduces and param_gathers
  ProcessGroupId table_copies;      ///< group of its tied_reduce; invalid if there is none
  std::int32_t begin = 0, end = 0;  ///< its instructions: [begin, end)
  [[nodiscard]] std::int64_t device() const { return devices.empty() ? stage.value : devices.front().first; }
  [[nodiscard]] std::int64_t represents() const;
};

/// Describes one pipeline of a program: its structure, and its offsets in the tables of the program and in
/// the cost columns.
struct PipelineProgram {
  ProgramStructure structure;
  std::int32_t first_rank = 0;  ///< in a folded program also its first stage in Costs::stages
  std::int32_t first_work = 0, first_collective = 0, first_transfer = 0;
  std::int64_t first_sample = 0;        ///< first sample of this pipeline in a global batch
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

  /// Returns the structure of the first pipeline, which is the only one unless pipelines were joined (plan/join.h).
  [[nodiscard]] const ProgramStructure& structure() const { return pipelines.front().structure; }
  [[nodiscard]] const ProgramStructure& structure(const RankClass& rank) const {
    return pipelines[static_cast<std::size_t>(rank.pipeline)].structure;
  }
  [[nodiscard]] const Schedule& schedule() const { return structure().schedule; }
  /// Counts the stages of all pipelines, pipeline after pipeline: the rows of Costs::stages.
  [[nodiscard]] std::int32_t stages() const;
  /// Returns the row of a rank's stage among them.
  [[nodiscard]] StageId stage_row(const RankClass& rank) const;
  /// Returns the pipeline chunk of an instruction; for a transfer the one that the activation enters.
  [[nodiscard]] ChunkId chunk_of(const Instruction& i) const;
  /// Returns whether a transfer carries a gradient; false for all others.
  [[nodiscard]] bool carries_gradient(const Instruction& i) const;
  /// Returns whether a collective waits for the other ranks of its group. In a folded program a group of one
  /// represents groups whose members act alike. So only reductions between pipelines wait.
  [[nodiscard]] bool meets(const Instruction& i) const { return !folded || collectives[i.collective()].pipelines.valid(); }
  /// Returns the group in which a collective of `rank` communicates.
  [[nodiscard]] ProcessGroupId group_of(const RankClass& rank, const Instruction& i) const {
    if (const ProcessGroupId joint = collectives[i.collective()].pipelines; joint.valid()) return joint;
    return i.kind == InstructionKind::tied_reduce ? rank.table_copies : rank.data;
  }
};

/// Returns the layers of bucket k of n of a chunk [first, last]: forward from the first layer on, backward from the
/// last one back.
LayerSpan bucket_layers(std::int32_t first, std::int32_t last, bool forward, std::int32_t bucket, std::int32_t buckets);

/// Lowers a structure to one representative rank per stage. The tables of works, collectives and transfers have no
/// layers and bytes.
Program lower(const ProgramStructure& structure);
/// Lowers a plan; several pipelines are joined (plan/join.h). With `fold` = false every device has a rank (tests,
/// runtime; plan/unfold.h). The plan gives devices, ranges and groups. Ranks are ordered by pipeline, stage and
/// device. Bytes are filled in once costs are known (cost/price.h).
Program lower(const Plan& plan, const Model& model, bool fold);
/// Lowers the pipelines of a plan one by one, folded.
std::vector<Program> lower_pipelines(const Plan& plan, const Model& model);

/// Counts the maximum of micro-batches in flight on a stage, or of chunk passes if it has several chunks: the last
/// column of the table in plan/schedule.h.
std::int32_t max_in_flight(const Schedule& schedule, std::int32_t stage);
/// Counts the maximum of micro-batches between their forward and their backward, or input gradient, with one chunk
/// per stage. The others in flight wait for their weight gradient. The fullest moment of a stage holds both at once.
std::int32_t max_whole(const Schedule& schedule, std::int32_t stage);

/// Proves the structure without times: every send has its recv, waits point backwards, and streams admit a complete
/// order (no deadlock).
Status validate(const Program& program);

}  // namespace espalier
