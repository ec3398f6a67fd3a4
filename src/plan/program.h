// SPDX-License-Identifier: Apache-2.0
// The Program: a plan lowered to one instruction list per rank. The simulator times it; the runtime runs it.
//
// Each rank has in-order streams. An instruction starts when its stream is free, when the two instructions it waits for (on the
// same rank) have ended, and, for `recv`, when the matching `send` of the peer has ended. Semantics:
//
//   forward / backward / backward_input / backward_weight   one chunk, one micro-batch, or one `piece` of it, on `compute`.
//        backward = input and weight gradients together; zero-bubble schedules split them into backward_input and _weight.
//        The collectives of TP, CP, EP and ZeRO-2/3 inside a chunk belong to the chunk's body and are part of its time.
//   send / recv          boundary activation (gradient = false) or its gradient (gradient = true) of `microbatch` entering
//                        pipeline chunk `chunk` (activation) or leaving it backwards (gradient of the input of chunk `chunk`).
//                        A sender's and a receiver's fields are equal; peer is the other rank.
//   grad_reduce          gradients of `piece` of `chunk`: all-reduce or reduce-scatter over the data group, on `data`
//   param_gather         parameters of `piece` of `chunk`: all-gather over the shard group, on `data`
//   tied_reduce          gradient of the shared token table, between the stages that hold a copy, on `data`
//   optimizer            the update of all parameters of the rank, on `compute`
//
// Lowering (src/plan/lower.cpp) writes a list in the order of issue: a recv right before the compute that needs it, a send or a
// collective right after what it waits for. Every list has one order of compute steps, its schedule's (src/plan/schedule.h); and
//   wait0 of forward / backward        its recv; of the further pieces of a first forward, their param_gather
//   wait1 of compute                   without overlap_p2p, the last send before it: sends block the next computation
//   wait0 of send, grad_reduce         the last piece, or the piece, whose result they carry
//   overlap_reduce                     the backward (zero-bubble: backward_weight) of a chunk's last micro-batch is cut into
//                                      pieces, each followed by its grad_reduce; otherwise all grad_reduces come at the end
//   overlap_gather                     param_gathers come first, and a chunk's first forward is cut into pieces
//                                      that wait for them (the recv before piece 0 waits for the gather of piece 0, as there are
//                                      two waits only); otherwise they follow the optimizer
//   tied_reduce                        on the stages of `table_chunks`, after the grad_reduces
//   optimizer                          waits for the last collective
// Neighbouring chunks on one rank (p = 1, the turn of zb-v) need no transfer.
//
// Folding: in a uniform plan the ranks of a stage do the same at the same time, so one representative per stage suffices
// (`RankClass`); with fold = false every device has a rank and `group` names its data group for the rendezvous.
// Layout: instructions of all ranks lie in one array, rank after rank; indices into it are absolute.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "espalier/plan.h"

namespace espalier {

enum class InstructionKind : std::uint8_t {
  forward,
  backward,
  backward_input,
  backward_weight,
  send,
  recv,
  grad_reduce,
  param_gather,
  tied_reduce,
  optimizer
};
enum class Stream : std::uint8_t { compute, data, send, recv };  // `data`: data-parallel collectives
inline constexpr int kStreams = 4;
std::string_view to_string(InstructionKind k);
std::string_view to_string(Stream s);

/// 32 bytes; a plan of 10⁵ instructions stays in the second-level cache.
struct Instruction {
  InstructionKind kind = InstructionKind::forward;
  Stream stream = Stream::compute;
  bool gradient = false;         ///< send/recv: carries a gradient
  std::uint8_t pieces = 1;       ///< the chunk is cut into this many pieces here (gradient or parameter buckets)
  std::uint8_t piece = 0;        ///< which one, in order of execution
  std::int16_t chunk = 0;        ///< pipeline chunk 0 … p·v−1
  std::int32_t microbatch = -1;  ///< −1: not of one micro-batch
  std::int32_t peer = -1;        ///< send/recv: other rank (index into Program::ranks)
  std::int32_t match = -1;       ///< recv: absolute index of the matching send; send: of the matching recv
  std::int32_t wait0 = -1;       ///< absolute indices of earlier instructions of the same rank
  std::int32_t wait1 = -1;
};

struct RankProgram {
  std::int64_t device = 0;      ///< the device this rank is, or represents
  std::int64_t represents = 1;  ///< devices folded into it
  std::int32_t stage = 0;
  std::int32_t group = 0;           ///< not folded: ranks with equal group meet in data collectives; numbered through all stages
  std::int32_t begin = 0, end = 0;  ///< its instructions: [begin, end)
};

struct Program {
  Schedule schedule;
  std::vector<RankProgram> ranks;
  std::vector<Instruction> instructions;
  bool folded = true;
};

/// What lowering needs to know beyond the schedule; derived from the plan by `lowering_of`.
struct Lowering {
  Schedule schedule;
  std::vector<std::uint8_t> pieces;  ///< per pipeline chunk: buckets of its gradients/parameters (≥ 1)
  bool reduce_gradients = false;     ///< grad_reduce at the end (data_ranks > 1, and not per micro-batch)
  bool overlap_reduce = false;
  bool gather_parameters = false;  ///< param_gather once a step (ZeRO 1, 2)
  bool overlap_gather = false;     ///< at the beginning, beside the first forward; otherwise after the optimizer
  bool overlap_p2p = false;
  /// Chunks that hold a copy of a token table that several stages use, one a stage (plan/shared_table.h); empty: nothing to exchange.
  std::vector<std::int32_t> table_chunks;
  bool operator==(const Lowering&) const = default;
};
inline constexpr int kMaxPieces = 32;  ///< buckets a chunk, at most

Lowering lowering_of(const Plan& plan, const Model& model);
/// One representative rank a stage.
Program lower(const Lowering& lowering);
/// `fold` = false: one rank per device (tests, runtime); the plan gives the devices. Rank = stage · devices a stage + position.
Program lower(const Plan& plan, const Model& model, bool fold);

/// Micro-batches (GPipe, 1F1B, zero-bubble) or chunk passes (interleaved) in flight on a stage at most: GPipe m, 1F1B
/// min(m, p−i), interleaved min(m·v, p·v + p − 2i − 1), ZB-H1 ≤ min(m, p).
std::int32_t max_in_flight(const Schedule& schedule, std::int32_t stage);

/// Structural proof without times: every send has its recv, waits point backwards, streams admit a complete order (no deadlock).
Status validate(const Program& program);

}  // namespace espalier
