// SPDX-License-Identifier: Apache-2.0
// Tests the order of operators in a layer, the residual stream around branches, and recomputation.
#include "runtime/layer.h"

#include <ATen/TensorOperators.h>

#include "base/invariant.h"
#include "runtime/testing.h"

namespace espalier::runtime::testing::layer_test {
namespace {

using at::Tensor;

Operator one_by_one(const char* name) {
  Operator op;
  op.kind = OperatorKind::linear;
  op.name = name;
  op.split = TpSplit::column;
  op.in = op.out = op.parameters = 1;
  return op;
}

Operator residual() {
  Operator op;
  op.kind = OperatorKind::residual;
  op.in = op.out = 1;
  return op;
}

/// Has two branches, y = x + 2x and z = y + 5·3·y. A dropout, which is not applied, lies in the second.
struct TwoBranches {
  explicit TwoBranches(bool recomputed, ZeroStage zero = ZeroStage::none)
      : state(std::make_unique<State>(whole_shape(3, zero), std::vector<float>{2, 3, 5})) {
    Operator dropout;
    dropout.kind = OperatorKind::dropout;
    kind.operators = {one_by_one("a"), residual(), one_by_one("b"), dropout, one_by_one("c"), residual()};
    std::vector<Parameters> parameters(kind.operators.size());
    parameters[0] = {state.get(), {0, 1}, 0};
    parameters[2] = {state.get(), {1, 1}, 0};
    parameters[4] = {state.get(), {2, 1}, 0};
    layer = std::make_unique<Layer>(kind, parameters, std::vector<State*>{state.get()}, OperatorPlace(), recomputed);
  }
  LayerKind kind;
  std::unique_ptr<State> state;
  std::unique_ptr<Layer> layer;
};

// x = 1 gives y = 3 and z = 48. With dz = 1: dy = 1 + 15, dx = 16 + 32. The gradients of the weights are
// dc = 9, db = 5·3 = 15 and da = 16·1.
TEST(Layer, StreamsGoRoundBranches) {
  for (const bool recomputed : {false, true}) {
    TwoBranches of(recomputed);
    Frame frame;
    expect_list(of.layer->forward(frame, tensor({1, 1, 1}, {1})), {48});
    EXPECT_EQ(frame.samples, 1);
    EXPECT_EQ(frame.saved.empty(), recomputed);
    EXPECT_EQ(frame.input.defined(), recomputed);
    expect_list(of.layer->backward(frame, tensor({1, 1, 1}, {1}), true), {48});
    EXPECT_TRUE(frame.saved.empty());
    EXPECT_FALSE(frame.input.defined());
    EXPECT_TRUE(frame.weight_gradients.empty());
    of.state->finish_gradients();
    expect_list(of.state->own_gradient(), {16, 15, 9});
  }
}

// A schedule that splits the backward runs the gradients of weights later.
TEST(Layer, GradientsOfWeightsMayWait) {
  TwoBranches of(false);
  Frame frame;
  of.layer->forward(frame, tensor({1, 1, 1}, {1}));
  expect_list(of.layer->backward(frame, tensor({1, 1, 1}, {1}), false), {48});
  EXPECT_EQ(frame.weight_gradients.size(), 3u);
  expect_list(of.state->gradient({0, 3}), {0, 0, 0});
  of.layer->weight_gradients(frame);
  EXPECT_TRUE(frame.weight_gradients.empty());
  expect_list(of.state->gradient({0, 3}), {16, 15, 9});
}

TEST(Layer, MicroBatchesInFlightKeepTheirOwnTensors) {
  TwoBranches of(false);
  Frame first, second;
  of.layer->forward(first, tensor({1, 1, 1}, {1}));
  of.layer->forward(second, tensor({1, 1, 1}, {10}));
  of.layer->backward(first, tensor({1, 1, 1}, {1}), true);
  of.layer->backward(second, tensor({1, 1, 1}, {1}), true);
  of.state->finish_gradients();
  expect_list(of.state->own_gradient(), {176, 165, 99});
}

// Values are dropped between the passes of a layer, and gradients reduced at the end of each.
TEST(Layer, AcquiresAndReleasesShardedValues) {
  TwoBranches of(true, ZeroStage::parameters);
  Frame frame;
  expect_list(of.layer->forward(frame, tensor({1, 1, 1}, {1})), {48});
  EXPECT_THROW(static_cast<void>(of.state->values({0, 3})), base::InternalError);
  of.layer->backward(frame, tensor({1, 1, 1}, {1}), true);
  EXPECT_THROW(static_cast<void>(of.state->values({0, 3})), base::InternalError);
  expect_list(of.state->own_gradient(), {16, 15, 9});
}

// An embedding layer adds positions to tokens: the second lookup is a branch that ends at the residual.
TEST(Layer, PositionsAreAddedToTokens) {
  LayerKind kind;
  Operator tokens, positions;
  tokens.kind = positions.kind = OperatorKind::embedding;
  tokens.split = TpSplit::vocab;
  tokens.out = positions.out = 1;
  kind.operators = {tokens, positions, residual()};
  OwnParameters rows({10, 20}), places({1, 2});
  OperatorPlace place;
  place.own_tokens = place.context_tokens = {{0, 2}};
  Layer layer(kind, {rows.parameters, places.parameters, {}}, {rows.state.get(), places.state.get()}, place, false);
  const Batch batch{numbers({2, 1}, {1, 0}), {}};
  Frame frame;
  frame.batch = &batch;
  expect_list(layer.forward(frame, {}), {21, 12});
  layer.backward(frame, tensor({2, 1, 1}, {3, 4}), true);
  expect_list(rows.gradient(), {4, 3});
  expect_list(places.gradient(), {3, 4});
}

// Each operator that computes is timed once a pass; the residual's addition counts as one.
TEST(Layer, OperatorsAreTimed) {
  OperatorClock clock((Pace()));
  LayerKind kind;
  kind.operators = {one_by_one("a"), residual()};
  OwnParameters weight({2});
  OperatorPlace place;
  place.clock = &clock;
  place.works = {{{OperatorKind::linear, 1, 1}, 1}, {{OperatorKind::residual, 1, 1}, 1}};
  Layer layer(kind, {weight.parameters, {}}, {weight.state.get()}, place, false);
  Frame frame;
  expect_list(layer.forward(frame, tensor({1, 4, 1}, {1, 2, 3, 4})), {3, 6, 9, 12});
  layer.backward(frame, tensor({1, 4, 1}, {1, 1, 1, 1}), true);
  const auto rows = clock.rows();
  ASSERT_EQ(rows.size(), 2u);
  for (const profile::MeasuredTime& row : rows) {
    EXPECT_EQ(row.work.tokens, 4);  // one token of each sample
    EXPECT_GT(row.time.forward, 0);
    EXPECT_GT(row.time.input, 0);
    EXPECT_EQ(row.time.weight > 0, row.work.shape.kind == OperatorKind::linear);
  }
}

}  // namespace
}  // namespace espalier::runtime::testing::layer_test
