// SPDX-License-Identifier: Apache-2.0
// Tests linears on tiles: column and row linears of a block, split by tokens, inputs or outputs over two ranks, and in
// space and time over four. All inputs are 1 and the weights of output o are o, so that output o is in·o. With
// gradients of 1, those of inputs are Σ o, and those of weights count the tokens of all samples.
#include <ATen/TensorOperators.h>
#include <ATen/ops/ones.h>

#include "runtime/partitioned_plans.h"
#include "runtime/testing.h"
#include "runtime/tile_operators.h"

namespace espalier::runtime::testing::tile_linear_test {
namespace {

using at::Tensor;

constexpr std::int64_t kBatch = 4;

/// Holds a block of the small llama whose linears have this sequence.
struct TiledBlock {
  explicit TiledBlock(const ByKind& kinds, std::int32_t ranks) : model(model_of(kLlama)), kind(model.layer(1)) {
    Strategy s = strategy(ranks, 1);
    s.partition = partition_of(kLlama, kBatch, kinds);
    Sequence sequence;
    sequence.main = kTokens;
    block = spread_block(sequence, *find_engine("generic"), kind, kBatch, s).value();
  }
  [[nodiscard]] ActivationTile tile(int node, int tensor, const partition::Layout& layout, int place) const {
    return tiles_of(block, node, tensor, layout)[static_cast<std::size_t>(place)];
  }
  Model model;
  const LayerKind& kind;
  SpreadBlock block;
};

/// Returns the elements of an operator in the layer's numbering.
Interval elements_in(const LayerKind& kind, const Operator& op) {
  std::int64_t first = 0;
  for (const Operator* other = kind.operators.data(); other != &op; ++other) first += other->parameters;
  return {first, first + op.parameters};
}

/// Returns the state of a rank's tile of a weight. A column linear has the inputs of each output next to each other.
std::unique_ptr<State> state_of(const Operator& op, const Interval& own, const Intervals& held) {
  StateShape shape;
  shape.held = shape.counted = shape.unit.elements = held;
  std::vector<float> values;
  for (const Interval& piece : held)
    for (std::int64_t e = piece.first - own.first; e < piece.last - own.first; ++e)
      values.push_back(static_cast<float>(op.split == TpSplit::row ? e % op.out : e / op.in));
  return std::make_unique<State>(shape, values);
}

Tensor ones_of(const ActivationTile& tile) {
  return at::ones({size_of(tile.front().tokens), tile.front().samples.size(), features_of(tile)});
}

/// Checks one linear on one rank. `share` is the part of all tokens that its gradients of weights have seen.
void expect_products(const TiledBlock& of, TilePlace place, double share) {
  const PartitionedOperator& node = place.operation();
  const Operator& op = *node.op;
  const partition::PartitionSequence& sequence = place.sequence();
  const Interval own = elements_in(of.kind, op);
  const auto state = state_of(op, own, intersection(held_elements(of.block, of.kind, place.place), {own}));
  const std::int64_t size = elements_of(state->shape().held);
  place.parameters = {state.get(), {0, size}, 0};
  const auto linear = make_tile_linear(place);
  const int output = output_tensor(node.shape);
  const ActivationTile in = of.tile(place.node, 0, partition::forward_needed(node.shape, sequence, 0), place.place);
  const ActivationTile out = of.tile(place.node, output, partition::forward_held(node.shape, sequence), place.place);
  Frame frame;
  std::vector<Tensor> saved;
  const Tensor y = linear->forward(frame, saved, {ones_of(in)});
  ASSERT_EQ(y.sizes(), ones_of(out).sizes());
  std::int64_t feature = 0;
  for (const ActivationBox& box : out)
    for (std::int64_t f = box.features.first; f < box.features.last; ++f, ++feature) {
      const Tensor column = y.select(2, feature);
      EXPECT_EQ(column.min().item<float>(), static_cast<float>(op.in * f)) << "output " << f;
      EXPECT_EQ(column.max().item<float>(), static_cast<float>(op.in * f)) << "output " << f;
    }
  const ActivationTile wanted = of.tile(place.node, output, partition::backward_needed(node.shape, sequence), place.place);
  const Tensor dx = linear->backward(frame, saved, ones_of(wanted)).front();
  const ActivationTile given = of.tile(place.node, 0, partition::backward_held(node.shape, sequence, 0), place.place);
  ASSERT_EQ(dx.sizes(), ones_of(given).sizes());
  EXPECT_EQ(dx.min().item<float>(), static_cast<float>(op.out * (op.out - 1) / 2));
  EXPECT_EQ(dx.max().item<float>(), static_cast<float>(op.out * (op.out - 1) / 2));
  for (const auto& task : frame.weight_gradients) task();
  const Tensor gradient = state->gradient({0, size});
  EXPECT_EQ(gradient.min().item<float>(), static_cast<float>(share * kTokens * kBatch));
  EXPECT_EQ(gradient.max().item<float>(), static_cast<float>(share * kTokens * kBatch));
}

/// Checks all four linears of a block on every rank.
void expect_linears(const ByKind& kinds, std::int32_t ranks, double share) {
  SCOPED_TRACE(kinds.linear);
  const TiledBlock of(kinds, ranks);
  as_ranks(ranks, [&](Meeting& meeting) {
    const auto group = meeting.group("all", everyone(ranks));
    TilePlace place;
    place.block = &of.block;
    place.kind = &of.kind;
    place.place = meeting.rank();
    place.group = group.get();
    std::map<std::vector<int>, std::unique_ptr<Communicator>> groups;
    for (const partition::GroupIndicator indicator : summed_indicators(of.block)) {
      const std::vector<int> members = partition::group_of(meeting.rank(), indicator);
      std::string name = "sum";
      for (const int member : members) name += " " + std::to_string(member);
      if (groups.count(members) == 0) groups[members] = meeting.group(name, members);
      place.sums[indicator] = groups[members].get();
    }
    int linears = 0;
    for (place.node = 1; place.node < of.block.graph.nodes(); ++place.node) {
      if (place.operation().op->kind != OperatorKind::linear) continue;
      SCOPED_TRACE(place.operation().op->name);
      expect_products(of, place, share);
      ++linears;
    }
    EXPECT_EQ(linears, 4);
    group->barrier();
  });
}

// Each rank has half of the tokens, and all weights.
TEST(TileLinear, SplitByTokens) { expect_linears({"M", "R", "H", "N", "R"}, 2, 0.5); }
TEST(TileLinear, SplitBySamples) { expect_linears({"B", "R", "H", "N", "R"}, 2, 0.5); }
// Each rank has half of the inputs: outputs are sums.
TEST(TileLinear, SplitByInputs) { expect_linears({"N", "R", "H", "N", "R"}, 2, 1); }
// Each rank has half of the outputs: gradients of inputs are sums.
TEST(TileLinear, SplitByOutputs) { expect_linears({"K", "R", "H", "N", "R"}, 2, 1); }
// Tiles of a 2 × 2 grid go round in two steps, and nothing is a sum over ranks.
TEST(TileLinear, InSpaceAndTime) { expect_linears({"P2", "R,R", "H,H", "N,N", "R,R"}, 4, 1); }

}  // namespace
}  // namespace espalier::runtime::testing::tile_linear_test
