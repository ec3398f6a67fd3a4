// SPDX-License-Identifier: Apache-2.0
// Tests mixtures of experts with tokens of one feature and two experts. The router has rows 0 and ln 3, so that token
// x prefers expert 1 by 3^x : 1. Expert 0 multiplies by 10, expert 1 by 100.
#include "runtime/experts.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones_like.h>

#include <cmath>
#include <memory>

#include "runtime/testing.h"

namespace espalier::runtime::testing::experts_test {
namespace {

using at::Tensor;

const float kLog3 = std::log(3.0F);

Operator expert_operator(OperatorKind kind, std::int32_t top_k, std::int64_t in = 1, std::int64_t out = 1,
                         TpSplit split = TpSplit::column) {
  Operator op;
  op.kind = kind;
  op.split = split;
  op.in = in;
  op.out = out;
  op.experts = 2;
  op.top_k = top_k;
  return op;
}

OperatorPlace place_with(bool normalised) {
  OperatorPlace place;
  place.architecture.normalised_experts = normalised;
  return place;
}

/// Has the operators of a mixture, and runs them one after the other.
class Mixture {
 public:
  Mixture(std::int32_t top_k, const OperatorPlace& place, const std::vector<float>& own_experts)
      : router_({0, kLog3}), experts_(own_experts) {
    operators_.push_back(make_expert_operator(expert_operator(OperatorKind::router, top_k), router_.parameters, place));
    operators_.push_back(make_expert_operator(expert_operator(OperatorKind::dispatch, top_k), {}, place));
    operators_.push_back(make_expert_operator(expert_operator(OperatorKind::expert_linear, top_k), experts_.parameters, place));
    operators_.push_back(make_expert_operator(expert_operator(OperatorKind::combine, top_k), {}, place));
    saved_.resize(operators_.size());
  }

  Tensor forward(Tensor x) {
    for (std::size_t k = 0; k < operators_.size(); ++k) x = operators_[k]->forward(frame_, saved_[k], x);
    return x;
  }
  Tensor backward(Tensor dy) {
    for (std::size_t k = operators_.size(); k-- > 0;) dy = operators_[k]->backward(frame_, saved_[k], dy);
    for (const auto& task : frame_.weight_gradients) task();
    return dy;
  }
  [[nodiscard]] Tensor router_gradient() const { return router_.gradient(); }
  [[nodiscard]] Tensor expert_gradient() const { return experts_.gradient(); }
  [[nodiscard]] const Routing& routing() const { return *frame_.routing; }

 private:
  OwnParameters router_, experts_;
  std::vector<std::unique_ptr<LayerOperator>> operators_;
  std::vector<std::vector<Tensor>> saved_;
  Frame frame_;
};

// Tokens 1, −1, 2 choose experts 1, 0, 1 with probabilities 3/4, 3/4, 9/10.
TEST(Experts, OneExpertATokenByHand) {
  Mixture mixture(1, place_with(false), {10, 100});
  expect_list(mixture.forward(tensor({3, 1, 1}, {1, -1, 2})), {75, -7.5, 180}, 1e-4);
  EXPECT_EQ(mixture.routing().rows, (std::vector<std::int64_t>{1, 2}));
  expect_list(mixture.routing().order, {1, 0, 2});  // copies by expert
  // Gradients of the weights are the copies 100, −10, 200. dz of expert 1 is p·(dp − Σ dp∘p): 3/4·(100 − 75),
  // 1/4·(0 + 7.5) and 9/10·(200 − 180). Each adds dz·ln 3 to the gradient w·matrix of its token.
  const Tensor dx = mixture.backward(tensor({3, 1, 1}, {1, 1, 1}));
  expect_list(dx, {75 + 18.75 * kLog3, 7.5 + 1.875 * kLog3, 90 + 18 * kLog3}, 1e-3);
  const double router = 18.75 * 1 - 1.875 + 18 * 2;
  expect_list(mixture.router_gradient(), {-router, router}, 1e-3);
  expect_list(mixture.expert_gradient(), {-0.75, 0.75 + 0.9 * 2}, 1e-4);
}

// A token's only expert has weight 1, whatever its probability, so that nothing pulls on the router.
TEST(Experts, NormalisedWeightsOfOneExpertAreOne) {
  Mixture mixture(1, place_with(true), {10, 100});
  expect_list(mixture.forward(tensor({3, 1, 1}, {1, -1, 2})), {100, -10, 200}, 1e-4);
  expect_list(mixture.backward(tensor({3, 1, 1}, {1, 1, 1})), {100, 10, 100}, 1e-4);
  expect_list(mixture.router_gradient(), {0, 0}, 1e-5);
}

// Token 1 goes to both experts: 3/4·100 + 1/4·10. The gradients of the weights are 100 and 10, dp·p sums to 77.5, and
// dz of expert 1 is 3/4·22.5.
TEST(Experts, TwoExpertsAToken) {
  for (const bool normalised : {false, true}) {  // two of two probabilities sum to 1 anyway
    Mixture mixture(2, place_with(normalised), {10, 100});
    expect_list(mixture.forward(tensor({1, 1, 1}, {1})), {77.5}, 1e-4);
    expect_list(mixture.backward(tensor({1, 1, 1}, {2})), {155 + 33.75 * kLog3}, 1e-3);
    expect_list(mixture.router_gradient(), {-33.75, 33.75}, 1e-3);
    expect_list(mixture.expert_gradient(), {0.5, 1.5}, 1e-4);
  }
}

// Where two ranks send the same tokens, each counts half of the experts' gradients.
TEST(Experts, GradientsAreCountedByTheirShare) {
  OperatorPlace place = place_with(false);
  place.expert_share = 0.5;
  Mixture mixture(1, place, {10, 100});
  mixture.forward(tensor({3, 1, 1}, {1, -1, 2}));
  mixture.backward(tensor({3, 1, 1}, {1, 1, 1}));
  expect_list(mixture.expert_gradient(), {-0.375, 1.275}, 1e-4);
}

TEST(Experts, AnExpertWithoutTokensGetsNoGradient) {
  Mixture mixture(1, place_with(true), {10, 100});
  expect_list(mixture.forward(tensor({2, 1, 1}, {1, 2})), {100, 200}, 1e-4);
  mixture.backward(tensor({2, 1, 1}, {1, 1}));
  EXPECT_EQ(mixture.routing().rows, (std::vector<std::int64_t>{0, 2}));
  expect_list(mixture.expert_gradient(), {0, 3}, 1e-4);
}

// Each expert has two inputs and one output. A column linear stores outputs × inputs, a row linear inputs × outputs;
// with one output both look alike, with one input and two outputs as well.
TEST(Experts, MatricesOfColumnAndRowLinears) {
  Frame frame;
  frame.routing = std::make_shared<Routing>();
  frame.routing->rows = {1, 1};
  std::vector<Tensor> saved;
  const std::vector<float> values{1, 2, 3, 4, 5, 6, 7, 8};
  for (const TpSplit split : {TpSplit::column, TpSplit::row}) {
    OwnParameters w(values);
    const auto op = make_expert_operator(expert_operator(OperatorKind::expert_linear, 1, 2, 2, split), w.parameters, {});
    const Tensor y = op->forward(frame, saved, tensor({2, 2}, {1, 10, 1, 10}));
    const bool row = split == TpSplit::row;
    expect_list(y, row ? std::vector<double>{31, 42, 75, 86} : std::vector<double>{21, 43, 65, 87});
    const Tensor dx = op->backward(frame, saved, tensor({2, 2}, {1, 0, 0, 1}));
    expect_list(dx, row ? std::vector<double>{1, 3, 6, 8} : std::vector<double>{1, 2, 7, 8});
    frame.weight_gradients.back()();
    frame.weight_gradients.clear();
    expect_list(w.gradient(),
                row ? std::vector<double>{1, 0, 10, 0, 0, 1, 0, 10} : std::vector<double>{1, 10, 0, 0, 0, 0, 1, 10});
  }
}

// ---- groups -------------------------------------------------------------------------------------------------------

// Rank e has expert e. Rank 0 has tokens 1 and −1 of OneExpertATokenByHand, rank 1 has token 2.
TEST(Experts, TokensTravelToTheRankOfTheirExpert) {
  as_group(2, [](Communicator& group) {
    const bool first = group.rank() == 0;
    OperatorPlace place = place_with(false);
    place.ep = 2;
    place.experts = &group;
    Mixture mixture(1, place, {first ? 10.0F : 100.0F});
    const Tensor x = first ? tensor({2, 1, 1}, {1, -1}) : tensor({1, 1, 1}, {2});
    const Tensor y = mixture.forward(x);
    expect_list(y, first ? std::vector<double>{75, -7.5} : std::vector<double>{180}, 1e-4);
    EXPECT_EQ(mixture.routing().sent, (first ? std::vector<std::int64_t>{1, 1} : std::vector<std::int64_t>{0, 1}));
    EXPECT_EQ(mixture.routing().received, (first ? std::vector<std::int64_t>{1, 0} : std::vector<std::int64_t>{1, 1}));
    const Tensor dx = mixture.backward(at::ones_like(y));
    expect_list(dx, first ? std::vector<double>{75 + 18.75 * kLog3, 7.5 + 1.875 * kLog3} : std::vector<double>{90 + 18 * kLog3},
                1e-3);
    expect_list(mixture.expert_gradient(), {first ? -0.75 : 2.55}, 1e-4);
  });
}

// Two ranks split every expert: outputs of both are partial sums of the whole. Half the matrices each.
TEST(Experts, SplitExpertsSumTheirOutputs) {
  as_group(2, [](Communicator& group) {
    OperatorPlace place = place_with(true);
    place.expert_tensor = &group;
    Mixture mixture(1, place, {5, 50});
    expect_list(mixture.forward(tensor({3, 1, 1}, {1, -1, 2})), {100, -10, 200}, 1e-4);
    expect_list(mixture.backward(tensor({3, 1, 1}, {1, 1, 1})), {100, 10, 100}, 1e-4);
  });
}

// Two ranks split every expert and have different tokens, rank 0 two and rank 1 one. Rows are gathered before the
// experts and scattered after.
TEST(Experts, SplitExpertsGatherTheTokensOfBothRanks) {
  as_group(2, [](Communicator& group) {
    const bool first = group.rank() == 0;
    OperatorPlace place = place_with(true);
    place.expert_tensor = &group;
    place.sequence_parallel = true;
    Mixture mixture(1, place, {5, 50});
    const Tensor y = mixture.forward(first ? tensor({2, 1, 1}, {1, -1}) : tensor({1, 1, 1}, {2}));
    expect_list(y, first ? std::vector<double>{100, -10} : std::vector<double>{200}, 1e-4);
    EXPECT_EQ(mixture.routing().rows, (std::vector<std::int64_t>{1, 2}));  // rows of both ranks
    EXPECT_EQ(mixture.routing().room, 2);
    expect_list(mixture.backward(at::ones_like(y)), first ? std::vector<double>{100, 10} : std::vector<double>{100}, 1e-4);
    expect_list(mixture.expert_gradient(), {-1, 3}, 1e-4);
  });
}

}  // namespace
}  // namespace espalier::runtime::testing::experts_test
