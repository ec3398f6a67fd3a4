// SPDX-License-Identifier: Apache-2.0
// Tests the two ends of a model: tables, logits and the cross-entropy, with a vocabulary of two or three rows.
#include "runtime/vocabulary.h"

#include <ATen/TensorOperators.h>

#include <cmath>

#include "runtime/testing.h"

namespace espalier::runtime::testing::vocabulary_test {
namespace {

using at::Tensor;

Operator table(TpSplit split, std::int64_t width) {
  Operator op;
  op.kind = OperatorKind::embedding;
  op.split = split;
  op.out = width;
  return op;
}

Operator logits(std::int64_t in) {
  Operator op;
  op.kind = OperatorKind::linear;
  op.split = TpSplit::vocab;
  op.in = in;
  return op;
}

OperatorPlace place_of(const TokenRuns& tokens) {
  OperatorPlace place;
  place.own_tokens = place.context_tokens = tokens;
  return place;
}

TEST(Vocabulary, TokensSelectRows) {
  OwnParameters rows({1, 2, 3, 4, 5, 6});
  const auto op = make_table(table(TpSplit::vocab, 2), rows.parameters, place_of({{0, 3}}));
  const Batch batch{numbers({3, 1}, {2, 0, 2}), {}};
  OperatorRun run;
  run.frame.batch = &batch;
  expect_list(run.forward(*op, {}), {5, 6, 1, 2, 5, 6});
  EXPECT_FALSE(run.backward(*op, tensor({3, 1, 2}, {1, 1, 2, 2, 4, 4})).defined());
  expect_list(rows.gradient(), {2, 2, 0, 0, 5, 5});  // row 2 was used twice
}

// This rank has rows 4 and 5 of a vocabulary. Token 0 belongs to another rank.
TEST(Vocabulary, RowsOfOtherRanksAreZeros) {
  OwnParameters rows({1, 2, 3, 4}, 4);
  const auto op = make_table(table(TpSplit::vocab, 2), rows.parameters, place_of({{0, 2}}));
  const Batch batch{numbers({2, 1}, {5, 0}), {}};
  OperatorRun run;
  run.frame.batch = &batch;
  expect_list(run.forward(*op, {}), {3, 4, 0, 0});
  run.backward(*op, tensor({2, 1, 2}, {7, 7, 9, 9}));
  expect_list(rows.gradient(), {0, 0, 7, 7});
}

// A context rank looks up tokens 1 and 3 alone.
TEST(Vocabulary, ARankLooksUpItsOwnTokens) {
  OwnParameters rows({10, 20, 30});
  const auto op = make_table(table(TpSplit::vocab, 1), rows.parameters, place_of({{1, 2}, {3, 4}}));
  const Batch batch{numbers({4, 1}, {0, 1, 0, 2}), {}};
  OperatorRun run;
  run.frame.batch = &batch;
  expect_list(run.forward(*op, {}), {20, 30});
}

// Positions 1 and 2 of two samples each.
TEST(Vocabulary, PositionsAreTheSameForAllSamples) {
  OwnParameters rows({10, 20, 30});
  const auto op = make_table(table(TpSplit::none, 1), rows.parameters, place_of({{1, 3}}));
  const Batch batch{numbers({3, 2}, {0, 0, 0, 0, 0, 0}), {}};
  OperatorRun run;
  run.frame.batch = &batch;
  expect_list(run.forward(*op, {}), {20, 20, 30, 30});
  run.backward(*op, tensor({2, 2, 1}, {1, 2, 3, 4}));
  expect_list(rows.gradient(), {0, 3, 7});
}

TEST(Vocabulary, LogitsByHand) {
  OwnParameters rows({1, 2, 3, 4});
  const auto op = make_logits(logits(2), rows.parameters, {});
  OperatorRun run;
  expect_list(run.forward(*op, tensor({1, 1, 2}, {1, 10})), {21, 43});
  expect_list(run.backward(*op, tensor({1, 1, 2}, {1, -1})), {-2, -2});
  expect_list(rows.gradient(), {1, 10, -1, -10});
}

// ---- the loss -----------------------------------------------------------------------------------------------------

OperatorPlace scaled(double loss_scale, std::int64_t tokens) {
  OperatorPlace place = place_of({{0, tokens}});
  place.loss_scale = loss_scale;
  return place;
}

// Logits (0, ln 3) have probabilities 1/4 and 3/4. With label 1 and scale 1/2 the loss is ln(4/3)/2.
TEST(Vocabulary, CrossEntropyByHand) {
  const auto op = make_loss({}, scaled(0.5, 1));
  const Batch batch{{}, numbers({1, 1}, {1})};
  OperatorRun run;
  run.frame.batch = &batch;
  EXPECT_FALSE(run.forward(*op, tensor({1, 1, 2}, {0, std::log(3.0F)})).defined());
  EXPECT_NEAR(run.frame.loss, std::log(4.0 / 3) / 2, 1e-6);
  expect_list(run.backward(*op, {}), {0.125, -0.125});
}

// Adding 1000 to every logit changes nothing.
TEST(Vocabulary, LargeLogitsDoNotOverflow) {
  const auto op = make_loss({}, scaled(1, 1));
  const Batch batch{{}, numbers({1, 1}, {0})};
  OperatorRun run;
  run.frame.batch = &batch;
  run.forward(*op, tensor({1, 1, 2}, {1000, 1000 + std::log(3.0F)}));
  EXPECT_NEAR(run.frame.loss, std::log(4.0), 1e-4);
}

// Two tokens of one sample, with equal logits: ln 2 each. Losses of passes add up.
TEST(Vocabulary, LossesAddUp) {
  const auto op = make_loss({}, scaled(1, 2));
  const Batch batch{{}, numbers({2, 1}, {0, 1})};
  OperatorRun run;
  run.frame.batch = &batch;
  for (int pass = 1; pass <= 2; ++pass) {
    run.forward(*op, tensor({2, 1, 2}, {5, 5, 7, 7}));
    EXPECT_NEAR(run.frame.loss, pass * 2 * std::log(2.0), 1e-5);
  }
  expect_list(run.backward(*op, {}), {-0.5, 0.5, 0.5, -0.5});
}

// Rank 0 has row 0, rank 1 row 1 of CrossEntropyByHand. Both know the whole sum; one of them counts the loss.
TEST(Vocabulary, CrossEntropyOverTwoRanks) {
  as_group(2, [](Communicator& group) {
    const bool first = group.rank() == 0;
    OperatorPlace place = scaled(0.5, 1);
    place.tensor = &group;
    place.tp = 2;
    place.t = group.rank();
    Parameters rows;
    rows.first_row = group.rank();
    const auto op = make_loss(rows, place);
    const Batch batch{{}, numbers({1, 1}, {1})};
    OperatorRun run;
    run.frame.batch = &batch;
    run.forward(*op, tensor({1, 1, 1}, {first ? 0 : std::log(3.0F)}));
    EXPECT_NEAR(run.frame.loss, first ? std::log(4.0 / 3) / 2 : 0, 1e-6);
    expect_list(run.backward(*op, {}), {first ? 0.125 : -0.125});
  });
}

TEST(Vocabulary, TablesOverTwoRanksGiveWholeRows) {
  as_group(2, [](Communicator& group) {
    OwnParameters rows(group.rank() == 0 ? std::vector<float>{1, 2} : std::vector<float>{3, 4}, 2 * group.rank());
    OperatorPlace place = place_of({{0, 4}});
    place.tensor = &group;
    place.tp = 2;
    const auto op = make_table(table(TpSplit::vocab, 1), rows.parameters, place);
    const Batch batch{numbers({4, 1}, {3, 0, 2, 1}), {}};
    OperatorRun run;
    run.frame.batch = &batch;
    expect_list(run.forward(*op, {}), {4, 1, 3, 2});
  });
}

// The callback receives each run of tokens with its first token and the first row.
TEST(Vocabulary, LogitsAreShownByRunsOfTokens) {
  OperatorPlace place = place_of({{0, 1}, {3, 4}});
  Parameters rows;
  rows.first_row = 6;
  const auto op = make_loss(rows, place);
  const Batch batch{{}, numbers({4, 1}, {6, 6, 6, 7})};
  std::vector<std::pair<std::int64_t, std::vector<double>>> seen;
  const WatchLogits watch = [&](const Tensor& z, std::int64_t first_token, std::int64_t first_row) {
    EXPECT_EQ(first_row, 6);
    seen.emplace_back(first_token, list(z));
  };
  OperatorRun run;
  run.frame.batch = &batch;
  run.frame.logits = &watch;
  run.forward(*op, tensor({2, 1, 2}, {1, 2, 3, 4}));
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[0], (std::pair<std::int64_t, std::vector<double>>{0, {1, 2}}));
  EXPECT_EQ(seen[1], (std::pair<std::int64_t, std::vector<double>>{3, {3, 4}}));
}

}  // namespace
}  // namespace espalier::runtime::testing::vocabulary_test
