// SPDX-License-Identifier: Apache-2.0
// Tests rotary positions and norms of heads, and the views of packed queries, keys and values.
#include "runtime/head_operators.h"

#include <ATen/TensorOperators.h>

#include <cmath>

#include "base/invariant.h"
#include "runtime/heads.h"
#include "runtime/testing.h"

namespace espalier::runtime::testing::head_operators_test {
namespace {

using at::Tensor;

/// Has one query head and one pair of `dim` features, and a norm of queries or of keys.
LayerKind kind_with(const std::string& norm, std::int32_t dim) {
  LayerKind kind;
  Operator core, of_heads;
  core.kind = OperatorKind::attention;
  core.heads = core.kv_heads = 1;
  core.qk_dim = core.v_dim = dim;
  of_heads.kind = OperatorKind::norm;
  of_heads.split = TpSplit::heads;
  of_heads.name = norm;
  of_heads.in = of_heads.parameters = dim;
  kind.operators = {of_heads, core};
  return kind;
}

OperatorPlace place_of(const TokenRuns& tokens) {
  OperatorPlace place;
  place.own_tokens = place.context_tokens = tokens;
  place.architecture.norm_epsilon = 0;
  return place;
}

// ---- views --------------------------------------------------------------------------------------------------------

// Two query heads and one pair of width 2: q0 q1 k v.
TEST(Heads, ViewsShareTheMemoryOfTheActivation) {
  const Heads heads{2, 1, 2};
  EXPECT_EQ(heads.features(), 8);
  const Tensor x = tensor({1, 1, 8}, {1, 2, 3, 4, 5, 6, 7, 8});
  expect_list(queries(x, heads), {1, 2, 3, 4});
  expect_list(keys(x, heads), {5, 6});
  expect_list(values(x, heads), {7, 8});
  expect_list(pairs(x, heads), {5, 6, 7, 8});
  keys(x, heads).zero_();
  expect_list(x, {1, 2, 3, 4, 0, 0, 7, 8});
}

TEST(Heads, EveryRankHasAPair) {
  Operator core;
  core.heads = 8;
  core.kv_heads = 2;
  core.qk_dim = 16;
  const Heads two = heads_of_rank(core, 2), four = heads_of_rank(core, 4);
  EXPECT_EQ(two.query, 4);
  EXPECT_EQ(two.pairs, 1);
  EXPECT_EQ(four.query, 2);
  EXPECT_EQ(four.pairs, 1);  // shared with another rank
  EXPECT_EQ(four.dim, 16);
}

TEST(Heads, ALayerWithoutAttentionIsABug) {
  EXPECT_THROW(core_of(LayerKind()), base::InternalError);
  EXPECT_EQ(core_of(kind_with("k_norm", 4)).qk_dim, 4);
}

// ---- rotary positions ---------------------------------------------------------------------------------------------

// The first pair of features turns by one radian per position.
TEST(Rotary, TurnsByThePosition) {
  const Turn turn({}, numbers({2}, {0, 2}), 2);
  expect_list(turn.turned(tensor({2, 1, 1, 2}, {1, 0, 1, 0})), {1, 0, std::cos(2), std::sin(2)});
  expect_list(turn.turned(tensor({2, 1, 1, 2}, {0, 1, 0, 1})), {0, 1, -std::sin(2), std::cos(2)});
}

// Features i and i + d/2 form a pair. With base 10⁴ and width 4 the second turns by 0.01.
TEST(Rotary, PairsLieHalfAHeadApart) {
  const Turn turn({}, numbers({1}, {3}), 4);
  expect_list(turn.turned(tensor({1, 1, 1, 4}, {1, 1, 0, 0})), {std::cos(3), std::cos(0.03), std::sin(3), std::sin(0.03)});
}

TEST(Rotary, BackIsTheInverse) {
  const Turn turn({}, numbers({1}, {5}), 4);
  const Tensor x = tensor({1, 1, 1, 4}, {1, 2, 3, 4});
  expect_list(turn.turned_back(turn.turned(x)), {1, 2, 3, 4});
}

// Queries and keys turn, values stay. Token 1 is the only one of this rank.
TEST(Rotary, ValuesStay) {
  const auto op = make_rotary(kind_with("q_norm", 2), place_of({{1, 2}}));
  OperatorRun run;
  const double c = std::cos(1), s = std::sin(1);
  expect_list(run.forward(*op, tensor({1, 1, 6}, {1, 0, 0, 1, 7, 8})), {c, s, -s, c, 7, 8});
  expect_list(run.backward(*op, tensor({1, 1, 6}, {1, 0, 0, 1, 7, 8})), {c, -s, s, c, 7, 8});
}

// ---- norms of heads -----------------------------------------------------------------------------------------------

// (3, 4) has the mean of squares 12.5; see RmsNormByHand of rank_operators_test.cpp.
TEST(HeadNorm, GradientsByHand) {
  const double root = std::sqrt(12.5);
  const Tensor x = tensor({1, 1, 1, 2}, {3, 4}), scale = tensor({2}, {1, 2});
  expect_list(head_normed(x, scale, 0), {3 / root, 8 / root});
  const HeadNormGradient of = head_norm_gradient(x, tensor({1, 1, 1, 2}, {1, 1}), scale, 0);
  expect_list(of.input, {-0.32 / root, 0.24 / root});
  expect_list(of.scale, {3 / root, 4 / root});
}

TEST(HeadNorm, OneScaleServesAllHeads) {
  const Tensor x = tensor({1, 1, 2, 1}, {5, -7}), scale = tensor({1}, {3});
  expect_list(head_normed(x, scale, 0), {3, -3});
  expect_list(head_norm_gradient(x, tensor({1, 1, 2, 1}, {10, 1}), scale, 0).scale, {9});
}

TEST(HeadNorm, NormsQueriesOrKeysByName) {
  const double root = std::sqrt(12.5);
  for (const bool of_queries : {true, false}) {
    const LayerKind kind = kind_with(of_queries ? "attn.q_norm" : "attn.k_norm", 2);
    OwnParameters scale({1, 2});
    const auto op = make_head_norm(kind, kind.operators[0], scale.parameters, place_of({{0, 1}}));
    OperatorRun run;
    const Tensor y = run.forward(*op, tensor({1, 1, 6}, {3, 4, 3, 4, 3, 4}));
    expect_list(y, of_queries ? std::vector<double>{3 / root, 8 / root, 3, 4, 3, 4}
                              : std::vector<double>{3, 4, 3 / root, 8 / root, 3, 4});
    const Tensor dx = run.backward(*op, tensor({1, 1, 6}, {1, 1, 1, 1, 1, 1}));
    expect_list(dx, of_queries ? std::vector<double>{-0.32 / root, 0.24 / root, 1, 1, 1, 1}
                               : std::vector<double>{1, 1, -0.32 / root, 0.24 / root, 1, 1});
    expect_list(scale.gradient(), {3 / root, 4 / root});
  }
}

}  // namespace
}  // namespace espalier::runtime::testing::head_operators_test
