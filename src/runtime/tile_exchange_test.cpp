// SPDX-License-Identifier: Apache-2.0
// Tests moves of tiles between two layouts of a tensor group. Element (token, sample, feature) of the whole activation
// is 100·token + 10·sample + feature.
#include "runtime/tile_exchange.h"

#include <ATen/TensorOperators.h>

#include "runtime/testing.h"

namespace espalier::runtime::testing::tile_exchange_test {
namespace {

using at::Tensor;
using Tiles = TileExchange::Tiles;

constexpr int kTag = 64;

ActivationTile tile(const Extent& tokens, const Extent& samples, const Extent& features) {
  return {{samples, {tokens}, features}};
}

/// Returns what a tile holds, its pieces next to each other.
Tensor contents(const ActivationTile& of) {
  std::vector<float> values;
  for (std::int64_t t = of.front().tokens.front().first; t < of.front().tokens.front().last; ++t)
    for (std::int64_t s = of.front().samples.first; s < of.front().samples.last; ++s)
      for (const ActivationBox& box : of)
        for (std::int64_t f = box.features.first; f < box.features.last; ++f)
          values.push_back(static_cast<float>(100 * t + 10 * s + f));
  return tensor({of.front().tokens.front().size(), of.front().samples.size(), features_of(of)}, values);
}

/// Checks on two ranks that the tiles arrive, given by place for one tensor.
void expect_moved(const std::vector<ActivationTile>& held, const std::vector<ActivationTile>& wanted) {
  as_group(2, [&](Communicator& group) {
    const auto here = static_cast<std::size_t>(group.rank());
    const TileExchange exchange({held}, {wanted}, group.rank(), &group, kTag);
    const std::vector<Tensor> found = exchange.run({contents(held[here])});
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].sizes(), contents(wanted[here]).sizes());
    expect_list(found[0], list(contents(wanted[here])));
  });
}

TEST(TileExchange, EqualLayoutsMoveNothing) {
  const ActivationTile all = tile({0, 2}, {0, 1}, {0, 4});
  const TileExchange exchange({{all}}, {{all}}, 0, nullptr, kTag);
  const Tensor x = contents(all);
  EXPECT_TRUE(exchange.run({x}).front().is_same(x));
}

// Rank r has token r of all features, and wants features 2r and 2r + 1 of both tokens.
TEST(TileExchange, TokensBecomeFeatures) {
  const std::vector<ActivationTile> tokens{tile({0, 1}, {0, 2}, {0, 4}), tile({1, 2}, {0, 2}, {0, 4})};
  const std::vector<ActivationTile> features{tile({0, 2}, {0, 2}, {0, 2}), tile({0, 2}, {0, 2}, {2, 4})};
  expect_moved(tokens, features);
  expect_moved(features, tokens);
}

TEST(TileExchange, SamplesBecomeTokens) {
  const std::vector<ActivationTile> samples{tile({0, 2}, {0, 1}, {0, 3}), tile({0, 2}, {1, 2}, {0, 3})};
  const std::vector<ActivationTile> tokens{tile({0, 1}, {0, 2}, {0, 3}), tile({1, 2}, {0, 2}, {0, 3})};
  expect_moved(samples, tokens);
}

// Both ranks want everything that each has half of.
TEST(TileExchange, PartsBecomeCopies) {
  const std::vector<ActivationTile> halves{tile({0, 2}, {0, 1}, {0, 2}), tile({0, 2}, {0, 1}, {2, 4})};
  const ActivationTile all = tile({0, 2}, {0, 1}, {0, 4});
  expect_moved(halves, {all, all});
  expect_moved({all, all}, halves);
}

// A tile of queries, keys and values has two pieces of features: rank r has heads r, that is r, 2 + r.
TEST(TileExchange, PiecesOfFeaturesAreFoundInside) {
  const auto heads = [](std::int64_t r) {
    return ActivationTile{{{0, 1}, {{0, 2}}, {r, r + 1}}, {{0, 1}, {{0, 2}}, {2 + r, 3 + r}}};
  };
  const std::vector<ActivationTile> halves{tile({0, 2}, {0, 1}, {0, 2}), tile({0, 2}, {0, 1}, {2, 4})};
  expect_moved(halves, {heads(0), heads(1)});
  expect_moved({heads(0), heads(1)}, halves);
}

// Two tensors are packed into one message: features 0 and 1, or 2 and 3, of token 0.
TEST(TileExchange, SeveralTensorsShareAMessage) {
  const ActivationTile all = tile({0, 1}, {0, 1}, {0, 4}), low = tile({0, 1}, {0, 1}, {0, 2}),
                       high = tile({0, 1}, {0, 1}, {2, 4});
  as_group(2, [&](Communicator& group) {
    // Rank 0 holds everything as one tensor; both want it as two.
    const Tiles held{{low, high}}, wanted{{all, all}};
    const TileExchange exchange(held, wanted, group.rank(), &group, kTag);
    expect_list(exchange.run({contents(group.rank() == 0 ? low : high)}).front(), {0, 1, 2, 3});
    const Tiles apart{{low, low}, {high, high}};
    const TileExchange splits(wanted, apart, group.rank(), &group, kTag);
    const auto both = splits.run({contents(all)});
    ASSERT_EQ(both.size(), 2u);
    expect_list(both[0], {0, 1});
    expect_list(both[1], {2, 3});
    EXPECT_EQ(group.calls().messages, 1);  // the second exchange stays on its rank
  });
}

// Features 2 and 3 exist on no rank, as padding does: they are zeros.
TEST(TileExchange, MissingElementsAreZeros) {
  const ActivationTile half = tile({0, 1}, {0, 1}, {0, 2}), all = tile({0, 1}, {0, 1}, {0, 4});
  const TileExchange exchange({{half}}, {{all}}, 0, nullptr, kTag);
  expect_list(exchange.run({contents(half)}).front(), {0, 1, 0, 0});
}

}  // namespace
}  // namespace espalier::runtime::testing::tile_exchange_test
