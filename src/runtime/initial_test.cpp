// SPDX-License-Identifier: Apache-2.0
// Tests initial parameters and tokens, which are functions of their position alone.
#include "runtime/initial.h"

#include <cmath>
#include <map>
#include <set>

#include "runtime/small_plans.h"
#include "runtime/testing.h"

namespace espalier::runtime::testing::initial_test {
namespace {

// SplitMix64 begins at seed 0 with this word. With stream and index equal to it, each round mixes 0 again.
TEST(Initial, WordsAreThoseOfSplitMix64) {
  constexpr std::uint64_t kFirst = 0xE220A8397B1DCDAFull;
  EXPECT_EQ(counter_word(0, kFirst, kFirst), kFirst);
}

TEST(Initial, WordsDependOnAllThreeNumbers) {
  std::set<std::uint64_t> words;
  for (std::uint64_t seed = 0; seed < 3; ++seed)
    for (std::uint64_t stream = 0; stream < 3; ++stream)
      for (std::uint64_t index = 0; index < 3; ++index) words.insert(counter_word(seed, stream, index));
  EXPECT_EQ(words.size(), 27u);
}

Operator operator_of(OperatorKind kind, TpSplit split, std::int64_t in, std::int64_t out, std::int64_t biases) {
  Operator op;
  op.kind = kind;
  op.split = split;
  op.in = in;
  op.out = out;
  op.parameters = in * out + biases;
  op.parameters_unsplit = split == TpSplit::row ? biases : 0;
  return op;
}

float value_of(const Operator& op, std::int64_t index) { return initial_value(model_of(kLlama), 1, op, index, index, 1); }

// A LayerNorm of three features has three scales, then three shifts.
TEST(Initial, ScalesAreOneAndShiftsZero) {
  Operator op;
  op.kind = OperatorKind::norm;
  op.in = op.out = 3;
  op.parameters = 6;
  for (const std::int64_t k : {0, 1, 2}) EXPECT_EQ(value_of(op, k), 1);
  for (const std::int64_t k : {3, 4, 5}) EXPECT_EQ(value_of(op, k), 0);
}

// A column linear of two inputs has a bias behind each output's two weights; a row linear has all biases first.
TEST(Initial, BiasesAreZero) {
  const Operator column = operator_of(OperatorKind::linear, TpSplit::column, 2, 3, 3);
  for (std::int64_t k = 0; k < 9; ++k) EXPECT_EQ(value_of(column, k) == 0, k % 3 == 2) << k;
  const Operator row = operator_of(OperatorKind::linear, TpSplit::row, 2, 3, 3);
  for (std::int64_t k = 0; k < 9; ++k) EXPECT_EQ(value_of(row, k) == 0, k < 3) << k;
  const Operator plain = operator_of(OperatorKind::linear, TpSplit::column, 2, 3, 0);
  for (std::int64_t k = 0; k < 6; ++k) EXPECT_NE(value_of(plain, k), 0) << k;
}

// Writers into the residual stream of four blocks have the deviation 0.02/√8.
TEST(Initial, DeviationsOfNormalValues) {
  constexpr int kValues = 20000;
  for (const TpSplit split : {TpSplit::column, TpSplit::row}) {
    const Operator op = operator_of(OperatorKind::linear, split, 1000, 20, 0);
    double sum = 0, squares = 0;
    for (int k = 0; k < kValues; ++k) {
      const double value = value_of(op, k);
      sum += value;
      squares += value * value;
    }
    const double deviation = split == TpSplit::row ? 0.02 / std::sqrt(8.0) : 0.02;
    EXPECT_NEAR(sum / kValues / deviation, 0, 0.03);
    EXPECT_NEAR(std::sqrt(squares / kValues) / deviation, 1, 0.02);
  }
}

TEST(Initial, ValuesDependOnLayerElementAndSeedAlone) {
  const Model model = model_of(kLlama);
  const Operator op = operator_of(OperatorKind::linear, TpSplit::column, 8, 8, 0);
  const float value = initial_value(model, 1, op, 5, 105, 1);
  EXPECT_EQ(initial_value(model, 1, op, 6, 105, 1), value);  // the number in the layer counts
  EXPECT_NE(initial_value(model, 2, op, 5, 105, 1), value);
  EXPECT_NE(initial_value(model, 1, op, 5, 106, 1), value);
  EXPECT_NE(initial_value(model, 1, op, 5, 105, 2), value);
}

// ---- tokens -------------------------------------------------------------------------------------------------------

TEST(Tokens, APartOfASampleIsAPartOfTheWhole) {
  const TokenSource source = TokenSource::synthetic(50, 7);
  const auto whole = source.tokens(3, 16, 0, 16), part = source.tokens(3, 16, 5, 4);
  ASSERT_EQ(whole.size(), 16u);
  EXPECT_EQ(part, (std::vector<std::int64_t>(whole.begin() + 5, whole.begin() + 9)));
  EXPECT_NE(source.tokens(4, 16, 0, 16), whole);
  EXPECT_NE(TokenSource::synthetic(50, 8).tokens(3, 16, 0, 16), whole);
}

TEST(Tokens, ATokenHasAtMostFourFollowers) {
  const TokenSource source = TokenSource::synthetic(10, 1);
  std::map<std::int64_t, std::set<std::int64_t>> followers;
  for (std::int64_t sample = 0; sample < 100; ++sample) {
    const auto tokens = source.tokens(sample, 32, 0, 32);
    for (std::size_t p = 0; p < tokens.size(); ++p) {
      ASSERT_GE(tokens[p], 0);
      ASSERT_LT(tokens[p], 10);
      if (p > 0) followers[tokens[p - 1]].insert(tokens[p]);
    }
  }
  EXPECT_GT(followers.size(), 3u);
  for (const auto& [token, next] : followers) EXPECT_LE(next.size(), 4u) << token;
}

// A file of six tokens 10 … 15. Sample 1 of length 4 begins at token 4 and goes on at the beginning.
TEST(Tokens, AFileRepeatsAtItsEnd) {
  const ScratchFolder folder;
  std::string bytes;
  for (char token = 10; token < 16; ++token) bytes += std::string{token, '\0'};
  put_text(folder.file("tokens.bin"), bytes);
  const auto source = TokenSource::of_file(folder.file("tokens.bin"), 96);
  ASSERT_TRUE(source.ok()) << source.error().message();
  EXPECT_EQ(source->tokens(0, 4, 0, 5), (std::vector<std::int64_t>{10, 11, 12, 13, 14}));
  EXPECT_EQ(source->tokens(1, 4, 0, 5), (std::vector<std::int64_t>{14, 15, 10, 11, 12}));
  EXPECT_EQ(source->tokens(1, 4, 2, 1), (std::vector<std::int64_t>{10}));
}

TEST(Tokens, FilesThatHoldNoTokensOfTheModelAreErrors) {
  const ScratchFolder folder;
  EXPECT_FALSE(TokenSource::of_file(folder.file("missing.bin"), 96).ok());
  put_text(folder.file("large.bin"), std::string{'\x60', '\0', '\x01', '\0'});  // tokens 96 and 1
  EXPECT_FALSE(TokenSource::of_file(folder.file("large.bin"), 96).ok());
  EXPECT_TRUE(TokenSource::of_file(folder.file("large.bin"), 97).ok());
  put_text(folder.file("empty.bin"), "");
  EXPECT_FALSE(TokenSource::of_file(folder.file("empty.bin"), 96).ok());
}

}  // namespace
}  // namespace espalier::runtime::testing::initial_test
