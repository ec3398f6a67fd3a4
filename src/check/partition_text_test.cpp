// SPDX-License-Identifier: Apache-2.0
#include "check/partition_text.h"

#include <gtest/gtest.h>

#include "check/test_problem.h"

namespace espalier::check {
namespace {

using namespace test;

constexpr const char* kMegatron =
    "attn.norm R; attn.qkv K; attn.core H; attn.out N; attn.residual R; mlp.norm R; mlp.up K; mlp.activation N; mlp.down N; "
    "mlp.residual R";

Strategy over(std::int32_t tp, std::string partition) {
  Strategy s;
  s.tp = tp;
  s.partition = BlockPartition(partition);
  return s;
}

Case case_of(const Strategy& s, std::int32_t stages = 1) {
  return make_case(model_of(gpt(3)), s, schedule_of(ScheduleKind::one_f_one_b, stages, 1, 2));
}

View view_for(const Case& c) { return make_view(c.plan, c.model, c.cluster); }

TEST(CheckOperatorPartition, SmallestExample) {
  const Case c = case_of(over(2, kMegatron));
  EXPECT_TRUE(c.check().ok()) << broken(c.check());
  const LayerKind& kind = c.model.layer(1);
  // Half of qkv 64·192, out 64·64, up and down 64·256 is held, and the biases of column linears are cut. Two
  // LayerNorms of 128 and the bias of a row linear are whole.
  const std::int64_t weights = (64 * 192 + 64 * 64 + 2 * 64 * 256) / 2, biases = 192 / 2 + 256 / 2 + 64 + 64, norms = 2 * 128;
  EXPECT_EQ(partitioned_parameters(view_for(c), kind), weights + biases + norms);
}

TEST(CheckOperatorPartition, EveryFaultIsFound) {
  const auto found = [](std::string text, std::int32_t tp) {
    const Case good = case_of(over(tp, tp == 2 ? kMegatron : ""));
    View view = view_for(good);
    view.strategy = over(tp, std::move(text));
    return !check_operator_partition(view).ok;
  };
  std::string text = kMegatron;
  EXPECT_FALSE(found(text, 2));
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string other = text;
    return other.replace(other.find(from), from.size(), to);
  };
  EXPECT_TRUE(found(text, 4));                      // wrong number of bits
  EXPECT_TRUE(found(with("qkv K", "qkv H"), 2));    // wrong letters
  EXPECT_TRUE(found(with("core H", "core L"), 2));  // fused attention keeps its keys together
  EXPECT_TRUE(found(with("norm R", "norm K"), 2));
  EXPECT_TRUE(found(with("qkv K", "qkv P2"), 2));  // P takes more bits
  EXPECT_TRUE(found(with("qkv K", "qkv P3"), 2));
  EXPECT_TRUE(found(with("qkv K", "qkv B"), 2));         // only one sample
  EXPECT_TRUE(found(with("attn.out N; ", ""), 2));       // missing operator
  EXPECT_TRUE(found(with("mlp.up", "mlp.gate_up"), 2));  // wrong name
  EXPECT_TRUE(found(text + "; more R", 2));
}

}  // namespace
}  // namespace espalier::check
