// SPDX-License-Identifier: Apache-2.0
// Tests how activations move between layouts: the pieces of an arrival, layers of two strategies in a stage, and
// stages of different sizes. Element (token, sample) of every activation is 1000·sample + token.
#include "runtime/activation_moves.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>

#include "runtime/heterogeneous_plans.h"
#include "runtime/test_rank.h"

namespace espalier::runtime::testing::activation_moves_test {
namespace {

using at::Tensor;
using Side = ActivationMoves::Side;

constexpr ScheduleKind k1f1b = ScheduleKind::one_f_one_b;
constexpr std::int64_t kHidden = 32;

/// Returns the activation of these tokens and samples.
Tensor activation(const TokenRuns& tokens, const Extent& samples) {
  const Tensor token = positions_of(tokens).to(at::kFloat).view({-1, 1, 1});
  const Tensor sample = at::arange(samples.first, samples.last).to(at::kFloat).view({1, -1, 1}) * 1000;
  return (token + sample).expand({token.size(0), sample.size(1), kHidden}).contiguous();
}

void expect_activation(const Tensor& found, const TokenRuns& tokens, const Extent& samples) {
  const Tensor expected = activation(tokens, samples);
  ASSERT_EQ(found.sizes(), expected.sizes());
  EXPECT_TRUE(found.equal(expected));
}

// ---- arrivals -----------------------------------------------------------------------------------------------------

// A box of three tokens fills two parts of the room: the first token, and the last two.
TEST(Arrival, PiecesFillTheirPartsOfTheRoom) {
  Arrival arrival{at::zeros({5, 1, 1}), {}};
  const Tensor box = tensor({3, 1, 1}, {7, 8, 9});
  arrival.expect({{arrival.room.narrow(0, 1, 1), {0, 1}}, {arrival.room.narrow(0, 3, 2), {1, 3}}}, box);
  expect_list(arrival.room, {0, 0, 0, 0, 0});  // data may still be on its way
  expect_list(arrival.assembled(), {0, 7, 0, 8, 9});
  EXPECT_TRUE(arrival.pieces.empty());
  box.zero_();
  expect_list(arrival.assembled(), {0, 7, 0, 8, 9});  // copied once
}

TEST(Arrival, BoxesOfSeveralSendersAreJoined) {
  Arrival arrival{at::zeros({2, 2, 1}), {}};
  arrival.expect({{arrival.room.narrow(1, 0, 1), {0, 2}}}, tensor({2, 1, 1}, {1, 2}));
  arrival.expect({{arrival.room.narrow(1, 1, 1), {0, 2}}}, tensor({2, 1, 1}, {10, 20}));
  expect_list(arrival.assembled(), {1, 10, 2, 20});
}

// ---- inside a stage -----------------------------------------------------------------------------------------------

/// Returns the range of the program that holds a layer.
std::int32_t range_with(const Program& program, std::int32_t layer) {
  for (std::size_t r = 0; r < program.ranges.size(); ++r)
    if (program.ranges[r].first <= layer && layer <= program.ranges[r].last) return static_cast<std::int32_t>(r);
  return -1;
}

/// Runs `body` on both ranks of a plan whose layers 2 and 3 have another strategy than the others.
void with_moves(const Strategy& outer, const Strategy& inner,
                const std::function<void(ActivationMoves&, Side, Side, int)>& body) {
  Plan plan = plan_of(kLlama, outer, schedule(k1f1b, 1, 1, 2));
  respread(plan, 2, 3, inner);
  as_ranks(2, [&](Meeting& meeting) {
    const PlannedRank rank(plan, meeting);
    ActivationMoves moves(rank.view, rank.program, rank.list(), rank.world);
    body(moves, {range_with(rank.program, 1), 1}, {range_with(rank.program, 2), 2}, meeting.rank());
  });
}

// Under tensor parallelism both ranks have both samples; under data parallelism one each.
TEST(ActivationMoves, TensorToDataParallelAndBack) {
  with_moves(strategy(2, 1), strategy(1, 2), [](ActivationMoves& moves, Side tensor_side, Side data_side, int rank) {
    EXPECT_EQ(moves.samples(tensor_side.range), (Extent{0, 2}));
    EXPECT_EQ(moves.samples(data_side.range), (Extent{rank, rank + 1}));
    const Tensor whole = activation({{0, kTokens}}, {0, 2});
    const Tensor part = moves.moved(whole, tensor_side, data_side, 0, false);
    expect_activation(part, {{0, kTokens}}, {rank, rank + 1});
    expect_activation(moves.moved(part, data_side, tensor_side, 0, true), {{0, kTokens}}, {0, 2});
  });
}

// Sequence parallelism gives rank r the tokens 8·r … 8·r + 7 of both samples.
TEST(ActivationMoves, TokensToSamplesAndBack) {
  with_moves(strategy(2, 1, 0, SequenceParallel::megatron), strategy(1, 2),
             [](ActivationMoves& moves, Side tokens_side, Side samples_side, int rank) {
               const TokenRuns half{{rank * kTokens / 2, (rank + 1) * kTokens / 2}};
               const Tensor part = moves.moved(activation(half, {0, 2}), tokens_side, samples_side, 1, false);
               expect_activation(part, {{0, kTokens}}, {rank, rank + 1});
               expect_activation(moves.moved(part, samples_side, tokens_side, 1, true), half, {0, 2});
             });
}

// A ring cuts 16 tokens into slices of four: rank 0 has the first and the last, rank 1 the two between. Each replica
// has two samples, so that the ring has four.
TEST(ActivationMoves, SlicesOfARing) {
  with_moves(strategy(1, 2), context(strategy(1, 1), 2), [](ActivationMoves& moves, Side samples_side, Side ring_side, int rank) {
    const TokenRuns own = rank == 0 ? TokenRuns{{0, 4}, {12, 16}} : TokenRuns{{4, 12}};
    const Extent samples{2 * rank, 2 * rank + 2};
    EXPECT_EQ(moves.samples(samples_side.range), samples);
    EXPECT_EQ(moves.samples(ring_side.range), (Extent{0, 4}));
    const Tensor replica = activation({{0, kTokens}}, samples);
    const Tensor part = moves.moved(replica, samples_side, ring_side, 2, false);
    expect_activation(part, own, {0, 4});
    expect_activation(moves.moved(part, ring_side, samples_side, 2, true), {{0, kTokens}}, samples);
  });
}

TEST(ActivationMoves, EqualLayoutsKeepTheTensor) {
  with_moves(strategy(1, 2), strategy(1, 2, 1), [](ActivationMoves& moves, Side from, Side to, int rank) {
    const Tensor x = activation({{0, kTokens}}, {2 * rank, 2 * rank + 2});
    EXPECT_TRUE(moves.moved(x, from, to, 0, false).is_same(x));
  });
}

// ---- between stages -----------------------------------------------------------------------------------------------

/// Returns the instruction of a rank that sends or receives the first micro-batch, an activation or a gradient.
std::vector<Instruction> messages_of(const PlannedRank& rank, InstructionKind kind, bool gradient) {
  std::vector<Instruction> out;
  for (std::int32_t index = rank.list().begin; index < rank.list().end; ++index) {
    const Instruction& i = rank.program.instructions[static_cast<std::size_t>(index)];
    if (i.kind == kind && i.microbatch == 0 && rank.program.transfers[i.transfer()].gradient == gradient) out.push_back(i);
  }
  return out;
}

// A stage of one device sends one sample to each of two replicas, and gets back the gradient of both.
TEST(ActivationMoves, StagesExchangeBoxesOfSamples) {
  Plan plan = plan_of_one(kLlama);
  restage(plan, {{2, strategy(1, 1)}, {5, strategy(1, 2)}}, schedule(k1f1b, 2, 1, 2));
  as_ranks(3, [&](Meeting& meeting) {
    const PlannedRank rank(plan, meeting);
    ActivationMoves moves(rank.view, rank.program, rank.list(), rank.world);
    const bool first = meeting.rank() == 0;
    const Extent own = first ? Extent{0, 2} : Extent{meeting.rank() - 1, meeting.rank()};
    const Tensor value = activation({{0, kTokens}}, own);
    const auto sends = messages_of(rank, InstructionKind::send, !first),
               receives = messages_of(rank, InstructionKind::recv, first);
    EXPECT_EQ(sends.size(), first ? 2u : 1u);
    EXPECT_EQ(receives.size(), first ? 2u : 1u);
    Arrival arrival;
    std::vector<Message> under_way;
    const auto receive_all = [&] {
      for (const Instruction& i : receives) under_way.push_back(moves.receive(i, arrival));
    };
    receive_all();
    for (const Instruction& i : sends) under_way.push_back(moves.send(i, value));
    for (Message& message : under_way) message.wait();
    expect_activation(arrival.assembled(), {{0, kTokens}}, own);
  });
}

TEST(ActivationMoves, SidesOfATransfer) {
  Meeting meeting({});
  const Plan plan = plan_of(kLlama, strategy(1, 1), schedule(k1f1b, 2, 1, 2));
  const Model model = load_model(plan.model_source, "config.json").value();
  const Program program = lower(plan, model, false);
  RankView view;
  view.plan = &plan;
  view.model = &model;
  view.devices = {0, 1};
  const ActivationMoves moves(view, program, rank_class(program, 0), nullptr);
  for (TransferId id(0); id.value < static_cast<std::int32_t>(program.transfers.size()); ++id.value) {
    const Transfer& transfer = program.transfers[id];
    if (transfer.chunk.value != 1) continue;
    EXPECT_EQ(moves.before(transfer).layer + 1, moves.behind(transfer).layer);
    EXPECT_EQ(program.ranges[static_cast<std::size_t>(moves.before(transfer).range)].last, moves.before(transfer).layer);
  }
}

}  // namespace
}  // namespace espalier::runtime::testing::activation_moves_test
