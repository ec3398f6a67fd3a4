// SPDX-License-Identifier: Apache-2.0
// Tests core attention with heads of one feature. Scores are then products of two numbers, and the key ln 3 makes a
// token weigh three times as much as the key 0.
#include "runtime/attention.h"

#include <ATen/TensorOperators.h>

#include <cmath>

#include "runtime/testing.h"

namespace espalier::runtime::testing::attention_test {
namespace {

using at::Tensor;

const float kLog3 = std::log(3.0F);

Operator core(std::int32_t heads, std::int32_t kv_heads, bool causal, std::int32_t dim = 1) {
  Operator op;
  op.kind = OperatorKind::attention;
  op.heads = heads;
  op.kv_heads = kv_heads;
  op.qk_dim = op.v_dim = dim;
  op.causal = causal;
  return op;
}

OperatorPlace alone(std::int64_t tokens, bool recomputes = false) {
  OperatorPlace place;
  place.tokens = tokens;
  place.key_tokens = {{{0, tokens}}};
  place.recompute_attention = recomputes;
  return place;
}

/// Returns two tokens with query 1, keys 0 and ln 3, values 10 and 20.
Tensor two_tokens() { return tensor({2, 1, 3}, {1, 0, 10, 1, kLog3, 20}); }

// The second token weighs the values 1 : 3. The first sees itself alone.
TEST(Attention, CausalByHand) {
  for (const bool recomputes : {false, true}) {
    const auto op = make_attention(core(1, 1, true), alone(2, recomputes));
    OperatorRun run;
    expect_list(run.forward(*op, two_tokens()), {10, 17.5});
    EXPECT_EQ(run.saved.back().size(-1), recomputes ? 1 : 2);  // a logarithm a row, or all scores
    // p = (1/4, 3/4), dP = (10, 20), dS = p∘(dP − 17.5) = (−1.875, 1.875); dq = dS·k, dk = dS·q, dv = p.
    expect_list(run.backward(*op, tensor({2, 1, 1}, {0, 1})), {0, -1.875, 0.25, 1.875 * kLog3, 1.875, 0.75});
  }
}

TEST(Attention, WithoutAMaskEveryTokenSeesAll) {
  const auto op = make_attention(core(1, 1, false), alone(2));
  OperatorRun run;
  expect_list(run.forward(*op, two_tokens()), {17.5, 17.5});
  expect_list(run.backward(*op, tensor({2, 1, 1}, {1, 1})), {1.875 * kLog3, -3.75, 0.5, 1.875 * kLog3, 3.75, 1.5});
}

// A window of one key leaves each token itself.
TEST(Attention, WindowsHideEarlierKeys) {
  Operator op = core(1, 1, true);
  op.window = 1;
  const auto attention = make_attention(op, alone(2));
  OperatorRun run;
  expect_list(run.forward(*attention, two_tokens()), {10, 20});
  expect_list(run.backward(*attention, tensor({2, 1, 1}, {1, 2})), {0, 0, 1, 0, 0, 2});
}

// With four features, scores are divided by 2: query (2, 0, 0, 0) acts like 1.
TEST(Attention, ScoresAreDividedByTheRootOfTheWidth) {
  const auto op = make_attention(core(1, 1, true, 4), alone(2));
  OperatorRun run;
  const Tensor y = run.forward(*op, tensor({2, 1, 12}, {2, 0, 0, 0, 0,     0, 0, 0, 10, 10, 10, 10,  //
                                                        2, 0, 0, 0, kLog3, 9, 9, 9, 20, 20, 20, 20}));
  expect_list(y, {10, 10, 10, 10, 17.5, 17.5, 17.5, 17.5});
}

// Two query heads, 0 and 1, share one key/value head, whose gradients are sums. Head 0 weighs values equally:
// dS = (−2.5, 2.5); its query is 0, so that its part of dk is 0.
TEST(Attention, QueryHeadsShareAPair) {
  const auto op = make_attention(core(2, 1, true), alone(2));
  OperatorRun run;
  expect_list(run.forward(*op, tensor({2, 1, 4}, {0, 1, 0, 10, 0, 1, kLog3, 20})), {10, 10, 15, 17.5});
  const Tensor dx = run.backward(*op, tensor({2, 1, 2}, {0, 0, 1, 1}));
  expect_list(dx, {0, 0, -1.875, 0.75, 2.5 * kLog3, 1.875 * kLog3, 1.875, 1.25});
}

TEST(Attention, SamplesDoNotSeeEachOther) {
  const auto op = make_attention(core(1, 1, true), alone(2));
  OperatorRun run;
  expect_list(run.forward(*op, tensor({2, 2, 3}, {1, 0, 10, 1, 0, 1, 1, kLog3, 20, 1, 0, 3})), {10, 1, 17.5, 2});
}

TEST(Attention, HalfPrecisionStaysHalf) {
  const auto op = make_attention(core(1, 1, true), alone(2));
  OperatorRun run;
  const Tensor y = run.forward(*op, two_tokens().to(at::kBFloat16));
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  expect_list(y, {10, 17.5}, 0.1);
  EXPECT_EQ(run.backward(*op, y).scalar_type(), at::kBFloat16);
}

// ---- context parallelism ------------------------------------------------------------------------------------------

/// Tokens with equal scores and values 1 … n: outputs are means of all values so far, 1, 1.5, 2 …
double mean_of(std::size_t token) { return 1 + static_cast<double>(token) / 2; }
/// Returns dv_j for dy = 1, which is Σ_{i≥j} 1/(i+1). For n = 4 these are 25/12, 13/12, 7/12 and 1/4.
double value_gradient(std::size_t token, std::size_t tokens) {
  double sum = 0;
  for (std::size_t i = token; i < tokens; ++i) sum += 1 / static_cast<double>(i + 1);
  return sum;
}
/// Returns dk_j, which is Σ_{i≥j} (v_j − y_i)/(i+1). For n = 4 these are −23/24, 1/8, 11/24 and 3/8.
double key_gradient(std::size_t token, std::size_t tokens) {
  double sum = 0;
  for (std::size_t i = token; i < tokens; ++i) sum += (static_cast<double>(token + 1) - mean_of(i)) / static_cast<double>(i + 1);
  return sum;
}

std::vector<float> packed(const std::vector<std::size_t>& tokens) {
  std::vector<float> x;
  for (const std::size_t t : tokens) x.insert(x.end(), {1, 0, static_cast<float>(t + 1)});
  return x;
}

void expect_means(const std::vector<std::size_t>& tokens, const OperatorPlace& place) {
  const auto all = static_cast<std::size_t>(place.tokens);
  const auto op = make_attention(core(1, 1, true), place);
  const auto count = static_cast<std::int64_t>(tokens.size());
  OperatorRun run;
  std::vector<double> y, dx;
  for (const std::size_t t : tokens) {
    y.push_back(mean_of(t));
    dx.insert(dx.end(), {0, key_gradient(t, all), value_gradient(t, all)});
  }
  expect_list(run.forward(*op, tensor({count, 1, 3}, packed(tokens))), y);
  expect_list(run.backward(*op, tensor({count, 1, 1}, std::vector<float>(tokens.size(), 1))), dx);
}

TEST(Attention, MeansOfFourTokens) {
  EXPECT_NEAR(value_gradient(0, 4), 25.0 / 12, 1e-12);
  EXPECT_NEAR(key_gradient(0, 4), -23.0 / 24, 1e-12);
  expect_means({0, 1, 2, 3}, alone(4));
}

// Rank 0 has the first and the last token, rank 1 the two between.
TEST(Attention, KeysGoRoundARing) {
  as_group(2, [](Communicator& group) {
    for (const bool recomputes : {false, true}) {
      OperatorPlace place = alone(4, recomputes);
      place.context = &group;
      place.ring = true;
      place.key_tokens = {{{0, 1}, {3, 4}}, {{1, 3}}};
      expect_means(group.rank() == 0 ? std::vector<std::size_t>{0, 3} : std::vector<std::size_t>{1, 2}, place);
    }
  });
}

// Rank 0 has the first two tokens: it sees no key of rank 1, which sees all of rank 0.
TEST(Attention, ARingSkipsHiddenBlocks) {
  as_group(2, [](Communicator& group) {
    OperatorPlace place = alone(4);
    place.context = &group;
    place.ring = true;
    place.key_tokens = {{{0, 2}}, {{2, 4}}};
    expect_means(group.rank() == 0 ? std::vector<std::size_t>{0, 1} : std::vector<std::size_t>{2, 3}, place);
  });
}

// Three ranks: gradients of keys go round twice before they are home.
TEST(Attention, ARingOfThree) {
  as_group(3, [](Communicator& group) {
    OperatorPlace place = alone(3);
    place.context = &group;
    place.ring = true;
    place.key_tokens = {{{0, 1}}, {{1, 2}}, {{2, 3}}};
    expect_means({static_cast<std::size_t>(group.rank())}, place);
  });
}

/// Two heads; the second has ten times the values. Each rank has two tokens and attends with one head.
void expect_two_heads(Communicator& group, const OperatorPlace& place) {
  const auto op = make_attention(core(2, 2, true), place);
  const std::size_t first = group.rank() == 0 ? 0 : 2;
  std::vector<float> x;
  std::vector<double> y, dx;
  for (std::size_t t = first; t < first + 2; ++t) {
    const auto value = static_cast<float>(t + 1);
    x.insert(x.end(), {1, 1, 0, value, 0, 10 * value});  // two queries, then each pair
    y.insert(y.end(), {mean_of(t), 10 * mean_of(t)});
    const double key = key_gradient(t, 4), of_value = value_gradient(t, 4);
    dx.insert(dx.end(), {0, 0, key, of_value, 10 * key, of_value});
  }
  OperatorRun run;
  expect_list(run.forward(*op, tensor({2, 1, 6}, x)), y);
  expect_list(run.backward(*op, tensor({2, 1, 2}, {1, 1, 1, 1})), dx);
}

TEST(Attention, HeadsAreExchangedForTokens) {
  as_group(2, [](Communicator& group) {
    OperatorPlace context = alone(4), ulysses = alone(4);
    context.context = &group;
    ulysses.sequence = &group;
    expect_two_heads(group, context);
    expect_two_heads(group, ulysses);
  });
}

}  // namespace
}  // namespace espalier::runtime::testing::attention_test
