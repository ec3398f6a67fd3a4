// SPDX-License-Identifier: Apache-2.0
// Tests norms, linears and activations on one rank, and their exchanges in a tensor group of two.
#include "runtime/rank_operators.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <memory>

#include "runtime/testing.h"

namespace espalier::runtime::testing::rank_operators_test {
namespace {

using at::Tensor;

Operator norm(std::int64_t width, bool shifted) {
  Operator op;
  op.kind = OperatorKind::norm;
  op.in = op.out = width;
  op.parameters = op.parameters_unsplit = shifted ? 2 * width : width;
  return op;
}

Operator linear(TpSplit split, std::int64_t in, std::int64_t out, bool biased) {
  Operator op;
  op.kind = OperatorKind::linear;
  op.split = split;
  op.in = in;
  op.out = out;
  op.parameters = in * out + (biased ? out : 0);
  op.parameters_unsplit = biased && split == TpSplit::row ? out : 0;
  return op;
}

OperatorPlace place_with(bool rms_norm, double epsilon) {
  OperatorPlace place;
  place.architecture.rms_norm = rms_norm;
  place.architecture.norm_epsilon = epsilon;
  return place;
}

// ---- norms --------------------------------------------------------------------------------------------------------

// x = (3, 4): mean of squares 12.5, normal n = x/√12.5. With w = (1, 2) and dy = (1, 1) the inner gradient is (1, 2),
// mean(inner∘n) = 11/2/√12.5, and dx = (inner − n·that)/√12.5 = (−0.32, 0.24)/√12.5.
TEST(RankOperators, RmsNormByHand) {
  const double root = std::sqrt(12.5);
  OwnParameters w({1, 2});
  const auto op = make_operator({}, norm(2, false), w.parameters, place_with(true, 0));
  OperatorRun run;
  expect_list(run.forward(*op, tensor({1, 1, 2}, {3, 4})), {3 / root, 8 / root});
  expect_list(run.backward(*op, tensor({1, 1, 2}, {1, 1})), {-0.32 / root, 0.24 / root});
  expect_list(w.gradient(), {3 / root, 4 / root});
}

// x = (1, 3): mean 2, deviation 1, so that n = (−1, 1).
TEST(RankOperators, LayerNormShiftsAndScales) {
  OwnParameters w({2, 3, 0.5, -0.5});
  const auto op = make_operator({}, norm(2, true), w.parameters, place_with(false, 0));
  OperatorRun run;
  expect_list(run.forward(*op, tensor({1, 1, 2}, {1, 3})), {-1.5, 2.5});
}

// n = (−1, −1, 1, 1), dy = (1, 0, 0, 0): mean 1/4, mean(dy∘n) = −1/4, dx = dy − 1/4 + n/4.
TEST(RankOperators, LayerNormGradientByHand) {
  OwnParameters w({1, 1, 1, 1, 0, 0, 0, 0});
  const auto op = make_operator({}, norm(4, true), w.parameters, place_with(false, 0));
  OperatorRun run;
  run.forward(*op, tensor({1, 1, 4}, {0, 0, 2, 2}));
  expect_list(run.backward(*op, tensor({1, 1, 4}, {1, 0, 0, 0})), {0.5, -0.5, 0, 0});
  expect_list(w.gradient(), {-1, 0, 0, 0, 1, 0, 0, 0});
}

TEST(RankOperators, EpsilonIsAddedToTheMeanOfSquares) {
  OwnParameters w({1, 1});
  const auto op = make_operator({}, norm(2, false), w.parameters, place_with(true, 3));
  OperatorRun run;
  expect_list(run.forward(*op, tensor({1, 1, 2}, {1, -1})), {0.5, -0.5});  // 1/√(1 + 3)
}

// Gradients of a scale add up over two tokens of two samples.
TEST(RankOperators, NormGradientsAddUpOverTokens) {
  OwnParameters w({1});
  const auto op = make_operator({}, norm(1, false), w.parameters, place_with(true, 0));
  OperatorRun run;
  expect_list(run.forward(*op, tensor({2, 2, 1}, {5, -5, 7, 9})), {1, -1, 1, 1});
  run.backward(*op, tensor({2, 2, 1}, {1, 2, 3, 4}));
  expect_list(w.gradient(), {1 - 2 + 3 + 4});
}

TEST(RankOperators, NormsOfHalfPrecisionComputeInFull) {
  OwnParameters w({1, 1});
  const auto op = make_operator({}, norm(2, false), w.parameters, place_with(true, 0));
  OperatorRun run;
  const Tensor y = run.forward(*op, tensor({1, 1, 2}, {3, 4}).to(at::kBFloat16));
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  expect_list(y, {3 / std::sqrt(12.5), 4 / std::sqrt(12.5)}, 4e-3);
  EXPECT_EQ(run.backward(*op, y).scalar_type(), at::kBFloat16);
}

// ---- linears ------------------------------------------------------------------------------------------------------

// Outputs are (1, 2)·x + 10 and (3, 4)·x + 20.
TEST(RankOperators, ColumnLinearByHand) {
  OwnParameters w({1, 2, 10, 3, 4, 20});
  const auto op = make_operator({}, linear(TpSplit::column, 2, 2, true), w.parameters, {});
  OperatorRun run;
  expect_list(run.forward(*op, tensor({1, 1, 2}, {1, 1})), {13, 27});
  expect_list(run.backward(*op, tensor({1, 1, 2}, {1, 2})), {7, 10});
  expect_list(w.gradient(), {1, 1, 1, 2, 2, 2});
}

// The bias (10, 20) precedes inputs × outputs.
TEST(RankOperators, RowLinearByHand) {
  OwnParameters w({10, 20, 1, 2, 3, 4});
  const auto op = make_operator({}, linear(TpSplit::row, 2, 2, true), w.parameters, {});
  OperatorRun run;
  expect_list(run.forward(*op, tensor({1, 1, 2}, {1, 2})), {17, 30});
  expect_list(run.backward(*op, tensor({1, 1, 2}, {1, 1})), {3, 7});
  expect_list(w.gradient(), {1, 1, 1, 1, 2, 2});
}

TEST(RankOperators, LinearsMayHaveNoBias) {
  for (const TpSplit split : {TpSplit::column, TpSplit::row}) {
    OwnParameters w({1, 2, 3, 4});
    const auto op = make_operator({}, linear(split, 2, 2, false), w.parameters, {});
    OperatorRun run;
    const bool column = split == TpSplit::column;
    expect_list(run.forward(*op, tensor({1, 1, 2}, {1, 10})), column ? std::vector<double>{21, 43} : std::vector<double>{31, 42});
    run.backward(*op, tensor({1, 1, 2}, {1, 0}));
    expect_list(w.gradient(), column ? std::vector<double>{1, 10, 0, 0} : std::vector<double>{1, 0, 10, 0});
  }
}

TEST(RankOperators, ProductsAreAddedByTheirShare) {
  Tensor sum = tensor({1, 2}, {100, 200});
  add_product(sum, tensor({2, 1}, {1, 2}), tensor({2, 2}, {1, 2, 3, 4}), 0.5);
  expect_list(sum, {103.5, 205});  // (1·1 + 2·3)/2 and (1·2 + 2·4)/2
}

// ---- activations --------------------------------------------------------------------------------------------------

std::unique_ptr<LayerOperator> activation(Activation kind, std::int64_t in, std::int64_t out) {
  Operator op;
  op.kind = OperatorKind::activation;
  op.in = in;
  op.out = out;
  OperatorPlace place;
  place.architecture.activation = kind;
  return make_operator({}, op, {}, place);
}

// With σ(1) = 0.7310586, silu'(1) = σ·(1 + (1 − σ)). With the normal distribution, gelu(1) = Φ(1) and
// gelu'(1) = Φ(1) + φ(1).
TEST(RankOperators, ActivationsAtZeroAndOne) {
  struct Case {
    Activation kind;
    double at_one, slope_at_zero, slope_at_one;
  };
  for (const Case& c : {Case{Activation::silu, 0.7310586, 0.5, 0.9276706}, Case{Activation::gelu, 0.8413447, 0.5, 1.0833155},
                        Case{Activation::gelu_tanh, 0.8411920, 0.5, 1.0829641}, Case{Activation::relu, 1, 0, 1}}) {
    SCOPED_TRACE(static_cast<int>(c.kind));
    const auto op = activation(c.kind, 2, 2);
    OperatorRun run;
    expect_list(run.forward(*op, tensor({1, 1, 2}, {0, 1})), {0, c.at_one});
    expect_list(run.backward(*op, tensor({1, 1, 2}, {1, 2})), {c.slope_at_zero, 2 * c.slope_at_one});
  }
}

// Pairs of gate and up are (0, 2) and (1, 3).
TEST(RankOperators, GatedActivationByHand) {
  const auto op = activation(Activation::silu, 4, 2);
  OperatorRun run;
  expect_list(run.forward(*op, tensor({1, 1, 4}, {0, 2, 1, 3})), {0, 3 * 0.7310586});
  expect_list(run.backward(*op, tensor({1, 1, 2}, {1, 1})), {2 * 0.5, 0, 3 * 0.9276706, 0.7310586});
}

TEST(RankOperators, ResidualsAndDropoutHaveNoOperator) {
  for (const OperatorKind kind : {OperatorKind::residual, OperatorKind::dropout}) {
    Operator op;
    op.kind = kind;
    EXPECT_EQ(make_operator({}, op, {}, {}), nullptr);
  }
}

TEST(RankOperators, PositionsOfRuns) {
  expect_list(positions_of({{0, 2}, {6, 8}}), {0, 1, 6, 7});
  expect_list(positions_of({{3, 5}}), {3, 4});
}

// ---- tensor groups ------------------------------------------------------------------------------------------------

OperatorPlace in_group(Communicator& group, bool sequence_parallel) {
  OperatorPlace place;
  place.tensor = &group;
  place.tp = group.size();
  place.t = group.rank();
  place.sequence_parallel = sequence_parallel;
  return place;
}

// Rank r has output r of ColumnLinearByHand: the gradient of the input is a sum, (1, 2)·1 + (3, 4)·2.
TEST(RankOperators, ColumnLinearOverTwoRanks) {
  as_group(2, [](Communicator& group) {
    const bool first = group.rank() == 0;
    OwnParameters w(first ? std::vector<float>{1, 2, 10} : std::vector<float>{3, 4, 20});
    const auto op = make_operator({}, linear(TpSplit::column, 2, 2, true), w.parameters, in_group(group, false));
    OperatorRun run;
    expect_list(run.forward(*op, tensor({1, 1, 2}, {1, 1})), {first ? 13.0 : 27.0});
    expect_list(run.backward(*op, tensor({1, 1, 1}, {first ? 1.0F : 2.0F})), {7, 10});
    expect_list(w.gradient(), first ? std::vector<double>{1, 1, 1} : std::vector<double>{2, 2, 2});
  });
}

// Each rank has one of two tokens, x = (1, 0) and (0, 1), and one output. It gathers both, and gets back the sum of
// its own token's gradient.
TEST(RankOperators, SequenceParallelColumnGathersTokens) {
  as_group(2, [](Communicator& group) {
    const bool first = group.rank() == 0;
    OwnParameters w(first ? std::vector<float>{1, 2} : std::vector<float>{3, 4});
    const auto op = make_operator({}, linear(TpSplit::column, 2, 2, false), w.parameters, in_group(group, true));
    OperatorRun run;
    const Tensor x = tensor({1, 1, 2}, first ? std::vector<float>{1, 0} : std::vector<float>{0, 1});
    expect_list(run.forward(*op, x), first ? std::vector<double>{1, 2} : std::vector<double>{3, 4});
    // dy = 1 for the first token, 10 for the second: dx = (1 + 3, 2 + 4) and ten times that.
    const Tensor dx = run.backward(*op, tensor({2, 1, 1}, {1, 10}));
    expect_list(dx, first ? std::vector<double>{4, 6} : std::vector<double>{40, 60});
    expect_list(w.gradient(), {1, 10});
  });
}

// Rank r has input r of RowLinearByHand. The bias is added once, after the sum.
TEST(RankOperators, RowLinearOverTwoRanks) {
  as_group(2, [](Communicator& group) {
    const bool first = group.rank() == 0;
    OwnParameters w(first ? std::vector<float>{10, 20, 1, 2} : std::vector<float>{10, 20, 3, 4});
    const auto op = make_operator({}, linear(TpSplit::row, 2, 2, true), w.parameters, in_group(group, false));
    OperatorRun run;
    expect_list(run.forward(*op, tensor({1, 1, 1}, {first ? 1.0F : 2.0F})), {17, 30});
    expect_list(run.backward(*op, tensor({1, 1, 2}, {1, 1})), {first ? 3.0 : 7.0});
  });
}

// Both ranks have half of each sum; each keeps its own token, and the gradient of its weight sees both tokens.
TEST(RankOperators, SequenceParallelRowScattersTokens) {
  as_group(2, [](Communicator& group) {
    const bool first = group.rank() == 0;
    OwnParameters w({100, first ? 1.0F : 10.0F});
    const auto op = make_operator({}, linear(TpSplit::row, 2, 1, true), w.parameters, in_group(group, true));
    OperatorRun run;
    // Tokens 1 and 2: 1·1 + 1·10 and 2·1 + 2·10.
    expect_list(run.forward(*op, tensor({2, 1, 1}, {1, 2})), {first ? 111.0 : 122.0});
    expect_list(run.backward(*op, tensor({1, 1, 1}, {first ? 5.0F : 7.0F})),
                first ? std::vector<double>{5, 7} : std::vector<double>{50, 70});
    expect_list(w.gradient(), {first ? 5.0 : 7.0, 1 * 5 + 2 * 7});
  });
}

// Two ranks have one feature each of RmsNormByHand.
TEST(RankOperators, NormOverSplitFeatures) {
  as_group(2, [](Communicator& group) {
    const bool first = group.rank() == 0;
    const double root = std::sqrt(12.5);
    OwnParameters w({first ? 1.0F : 2.0F});
    OperatorPlace place = place_with(true, 0);
    place.features = &group;
    const auto op = make_operator({}, norm(2, false), w.parameters, place);
    OperatorRun run;
    expect_list(run.forward(*op, tensor({1, 1, 1}, {first ? 3.0F : 4.0F})), {(first ? 3 : 8) / root});
    expect_list(run.backward(*op, tensor({1, 1, 1}, {1})), {(first ? -0.32 : 0.24) / root});
  });
}

}  // namespace
}  // namespace espalier::runtime::testing::rank_operators_test
