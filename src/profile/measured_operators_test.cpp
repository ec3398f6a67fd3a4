// SPDX-License-Identifier: Apache-2.0
#include "profile/measured_operators.h"

#include <gtest/gtest.h>

namespace espalier::profile {
namespace {

const MeasuredShape kLinear{OperatorKind::linear, 128, 384};

MeasuredOperators two_counts() {
  MeasuredOperators m;
  m.add({{kLinear, 100}, {1.0, 2.0, 3.0}});
  m.add({{kLinear, 300}, {2.0, 6.0, 3.0}});
  return m;
}

TEST(MeasuredOperators, TimesLieOnTheLineBetweenTwoCounts) {
  const MeasuredOperators m = two_counts();
  EXPECT_EQ(m.at(kLinear, 100), (OperatorTime{1.0, 2.0, 3.0}));
  EXPECT_EQ(m.at(kLinear, 200), (OperatorTime{1.5, 4.0, 3.0}));
  EXPECT_EQ(m.at(kLinear, 300), (OperatorTime{2.0, 6.0, 3.0}));
  EXPECT_EQ(m.at(kLinear, 500), (OperatorTime{3.0, 10.0, 3.0}));  // beyond: the same line
  EXPECT_EQ(m.at(kLinear, 0), (OperatorTime{0.5, 0.0, 3.0}));     // never negative
}

TEST(MeasuredOperators, ThreeCountsAreTwoLines) {
  MeasuredOperators m = two_counts();
  m.add({{kLinear, 400}, {4.0, 6.0, 3.0}});
  EXPECT_DOUBLE_EQ(m.at(kLinear, 350).forward, 3.0);
  EXPECT_DOUBLE_EQ(m.at(kLinear, 200).forward, 1.5);
  EXPECT_DOUBLE_EQ(m.at(kLinear, 500).forward, 6.0);
}

TEST(MeasuredOperators, NoCountOfTokensIsCheaperThanTheLeastPerToken) {
  // Forward has a start and a line. Input costs more per token with more tokens, weight less.
  MeasuredOperators m;
  m.add({{kLinear, 100}, {2.0, 1.0, 3.0}});
  m.add({{kLinear, 200}, {3.0, 4.0, 4.0}});
  EXPECT_DOUBLE_EQ(m.least_per_token(kLinear), 0.01 + 0.01 + 0.01);
  EXPECT_DOUBLE_EQ(m.at(kLinear, 50).input, 0.5);  // the line would be negative
  for (double tokens = 1; tokens < 2000; tokens *= 1.3) {
    const OperatorTime time = m.at(kLinear, tokens);
    EXPECT_GE((time.forward + time.input + time.weight) / tokens, m.least_per_token(kLinear) - 1e-15) << tokens;
  }
}

TEST(MeasuredOperators, OneCountIsNoLine) {
  MeasuredOperators m;
  m.add({{kLinear, 100}, {1.0, 2.0, 3.0}});
  EXPECT_FALSE(m.covers(kLinear));
  EXPECT_TRUE(m.covers({OperatorKind::dropout, 128, 128}));  // not applied: takes no time
  EXPECT_EQ(m.at({OperatorKind::dropout, 128, 128}, 100), OperatorTime{});
  m.add({{kLinear, 100}, {4.0, 5.0, 6.0}});  // replaces the first row
  EXPECT_EQ(m.rows().size(), 1u);
  EXPECT_EQ(m.rows().front().time.forward, 4.0);
}

TEST(MeasuredOperators, RowsAreReadAsTheyWereWritten) {
  const MeasuredShape attention{OperatorKind::attention, 0, 0, 4, 2, 32, 256, 64, 2};
  for (const MeasuredTime& row :
       {MeasuredTime{{kLinear, 100}, {1.0, 2.0, 3.0}}, MeasuredTime{{attention, 512}, {0.5, 0.25, 0.0}}}) {
    base::JsonWriter json;
    write_row(json, row);
    const auto document = base::read_json(json.text(), "row");
    ASSERT_TRUE(document);
    base::ErrorSink sink;
    base::Reader reader = base::Reader::root(*document, sink);
    const MeasuredTime again = read_row(reader);
    ASSERT_TRUE(sink.ok()) << sink.first().error().message();
    EXPECT_EQ(again.work.shape, row.work.shape);
    EXPECT_EQ(again.work.tokens, row.work.tokens);
    EXPECT_EQ(again.time, row.time);
  }
}

TEST(MeasuredOperators, BadRowsAreRefusedByPlace) {
  for (const char* text :
       {R"({"in": 1, "out": 1, "tokens": 1, "forward_s": 0, "input_s": 0, "weight_s": 0})",
        R"({"kind": "liner", "in": 1, "out": 1, "tokens": 1, "forward_s": 0, "input_s": 0, "weight_s": 0})",
        R"({"kind": "linear", "in": 1, "out": 1, "tokens": 0, "forward_s": 0, "input_s": 0, "weight_s": 0})",
        R"({"kind": "linear", "in": 1, "out": 1, "tokens": 1, "forward_s": -1, "input_s": 0, "weight_s": 0})",
        R"({"kind": "attention", "in": 1, "out": 1, "tokens": 1, "forward_s": 1, "input_s": 0, "weight_s": 0})"}) {
    const auto document = base::read_json(text, "row");
    ASSERT_TRUE(document);
    base::ErrorSink sink;
    base::Reader reader = base::Reader::root(*document, sink);
    read_row(reader);
    EXPECT_FALSE(sink.ok()) << text;
  }
}

/// Returns Llama with 8 heads of 16 over 2 pairs, hidden 128, inner 512.
LayerKind block() {
  LayerKind kind;
  kind.name = "decoder";
  kind.hidden = 128;
  Operator norm{OperatorKind::norm, "attn.norm", 128, 128, TpSplit::none, 128, 128};
  Operator qkv{OperatorKind::linear, "attn.qkv", 128, 192, TpSplit::column, 128 * 192};
  Operator core{OperatorKind::attention, "attn.core", 192, 128, TpSplit::heads};
  core.heads = 8;
  core.kv_heads = 2;
  core.qk_dim = core.v_dim = 16;
  Operator down{OperatorKind::linear, "mlp.down", 512, 128, TpSplit::row, 512 * 128};
  kind.operators = {norm, qkv, core, down};
  return kind;
}

OperatorWork work(std::size_t op, std::int32_t tp, SequenceParallel sp) {
  Strategy s;
  s.tp = tp;
  s.sp = sp;
  const LayerKind kind = block();
  return work_on_rank(kind, kind.operators[op], s, 1000, 256, 2);
}

TEST(OperatorShape, TensorParallelismDividesFeaturesAndHeads) {
  const auto shape = [](std::size_t op, std::int32_t tp) { return work(op, tp, SequenceParallel::none).shape; };
  EXPECT_EQ(shape(1, 1), (MeasuredShape{OperatorKind::linear, 128, 192}));
  EXPECT_EQ(shape(1, 2), (MeasuredShape{OperatorKind::linear, 128, 96}));
  // With four ranks and two pairs of key and value heads, there are 32 query outputs, and the 32 of one whole pair.
  EXPECT_EQ(shape(1, 4), (MeasuredShape{OperatorKind::linear, 128, 64}));
  EXPECT_EQ(shape(2, 4), (MeasuredShape{OperatorKind::attention, 0, 0, 2, 1, 16, 256}));
  EXPECT_EQ(shape(3, 4), (MeasuredShape{OperatorKind::linear, 128, 128}));
  EXPECT_EQ(shape(0, 4), (MeasuredShape{OperatorKind::norm, 128, 128}));
}

TEST(OperatorShape, SequenceParallelismDividesTokens) {
  EXPECT_EQ(work(0, 4, SequenceParallel::none).tokens, 512);
  EXPECT_EQ(work(0, 4, SequenceParallel::megatron).tokens, 128);
  EXPECT_EQ(work(1, 4, SequenceParallel::megatron).tokens, 512);
  // Ulysses has whole weights on a quarter of the tokens; attention sees all tokens of a quarter of the heads.
  EXPECT_EQ(work(1, 4, SequenceParallel::ulysses).tokens, 128);
  EXPECT_EQ(work(1, 4, SequenceParallel::ulysses).shape, (MeasuredShape{OperatorKind::linear, 128, 192}));
  EXPECT_EQ(work(2, 4, SequenceParallel::ulysses).tokens, 512);
}

}  // namespace
}  // namespace espalier::profile
