// SPDX-License-Identifier: Apache-2.0
#include "plan/block_tiles.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <tuple>
#include <utility>

#include "base/invariant.h"
#include "plan/engine.h"

namespace espalier {

using partition::GroupIndicator;
using partition::Layout;
using partition::PartitionSequence;
using partition::Phase;
using partition::Tensor;
using partition::TensorRole;

namespace {

using Extents = std::vector<Extent>;

/// Sorts extents in ascending order and joins neighbours.
Extents joined(Extents extents) {
  std::sort(extents.begin(), extents.end(), [](const Extent& a, const Extent& b) { return a.first < b.first; });
  Extents out;
  for (const Extent& e : extents) {
    if (e.size() <= 0) continue;
    if (!out.empty() && out.back().last == e.first)
      out.back().last = e.last;
    else
      out.push_back(e);
  }
  return out;
}

/// Returns the slice of an axis that a place has.
Extent slice_of(std::int64_t size, std::int16_t index, std::int8_t bits) {
  const std::int64_t length = size >> bits;
  return {index * length, (index + 1) * length};
}

/// Returns the attention that a node's output feeds; null if there is none.
const Operator* attention_behind(const SpreadBlock& block, int node) {
  for (const BlockEdge& edge : block.graph.edges)
    if (edge.from == node && block.node(edge.to).op->kind == OperatorKind::attention) return block.node(edge.to).op;
  return nullptr;
}

/// Returns the packed positions of features [first, last) of groups of heads (the queries of a key/value head, its
/// key, its value).
Extents packed(const Operator& core, const Extent& features) {
  const std::int64_t dim = core.qk_dim, queries = core.heads / core.kv_heads * dim, group = queries + 2 * dim;
  Extents out;
  for (std::int64_t g = 0; g < core.kv_heads; ++g) {
    const std::int64_t from = std::max(features.first - g * group, std::int64_t{0});
    const std::int64_t to = std::min(features.last - g * group, group);
    if (from >= to) continue;
    const std::int64_t pairs = core.heads * dim + g * 2 * dim;
    out.push_back({g * queries + from, g * queries + std::min(to, queries)});
    out.push_back({pairs + std::max(from, queries) - queries, pairs + std::max(to, queries) - queries});
  }
  return joined(std::move(out));
}

/// Returns the positions of slices of a tensor's third axis among the features.
Extents features(const SpreadBlock& block, int node, int tensor, const Extent& slice) {
  const PartitionedOperator& at = block.node(node);
  const Tensor& of = at.shape.tensors[static_cast<std::size_t>(tensor)];
  const Operator& op = *at.op;
  if (op.kind == OperatorKind::attention && (of.name == "K" || of.name == "V")) {
    const std::int64_t first = std::int64_t{op.heads} * op.qk_dim + (of.name == "V" ? op.qk_dim : 0);
    Extents out;
    for (std::int64_t head = slice.first; head < slice.last; ++head)
      out.push_back({first + head * 2 * op.qk_dim, first + head * 2 * op.qk_dim + op.qk_dim});
    return out;
  }
  const Operator* core = of.role == TensorRole::output ? attention_behind(block, node) : nullptr;
  if (core != nullptr && op.kind == OperatorKind::linear) return packed(*core, slice);
  return {{slice.first * of.width, slice.last * of.width}};
}

void append(Intervals& set, std::int64_t first, std::int64_t last) {
  if (first >= last) return;
  if (!set.empty() && set.back().last == first)
    set.back().last = last;
  else
    set.push_back({first, last});
}

/// Describes the part of a linear that a place holds: inputs, outputs, and the position of its biases.
struct LinearTile {
  Extent inputs;
  Extents outputs;
};

LinearTile linear_tile(const SpreadBlock& block, int node, int place) {
  const auto& shape = block.node(node).shape;
  const Layout w = partition::layout_at(shape, block.sequence(node), 1, Phase::forward, 0);
  const auto& index = w.index[static_cast<std::size_t>(place)];
  const auto& axes = shape.tensors[1].axes;
  return {slice_of(axes[0].size, index[0], w.bits[0]), features(block, node, 2, slice_of(axes[1].size, index[1], w.bits[1]))};
}

/// Appends the weights, the biases, or both.
void append_linear(Intervals& set, std::int64_t first, const Operator& op, const LinearTile& tile, bool weights, bool biases) {
  if (op.split == TpSplit::row) {
    const std::int64_t bias = op.parameters_unsplit, below = first + bias;
    for (const Extent& o : tile.outputs)
      if (biases && bias > 0) append(set, first + o.first, first + o.last);
    for (std::int64_t n = tile.inputs.first; weights && n < tile.inputs.last; ++n)
      for (const Extent& o : tile.outputs) append(set, below + n * op.out + o.first, below + n * op.out + o.last);
    return;
  }
  const std::int64_t width = op.parameters / op.out;
  for (const Extent& o : tile.outputs)
    for (std::int64_t row = o.first; row < o.last; ++row) {
      if (weights) append(set, first + row * width + tile.inputs.first, first + row * width + tile.inputs.last);
      if (biases) append(set, first + row * width + op.in, first + (row + 1) * width);
    }
}

/// Appends the parameters of a node's own operator that a place holds.
void append_node(Intervals& set, std::int64_t first, const SpreadBlock& block, int node, int place) {
  const PartitionedOperator& at = block.node(node);
  const Operator& op = *at.op;
  if (op.kind == OperatorKind::linear) return append_linear(set, first, op, linear_tile(block, node, place), true, true);
  ESPALIER_CHECK(op.kind == OperatorKind::norm && op.parameters % op.in == 0);
  const std::int64_t slices = partition::slices(block.sequence(node), 'N'), length = op.in / slices;
  const std::int64_t index = partition::slice_index(block.sequence(node), 'N', Phase::forward, place, 0);
  for (std::int64_t at_vector = first; at_vector < first + op.parameters; at_vector += op.in)
    append(set, at_vector + index * length, at_vector + (index + 1) * length);
}

/// Returns the node of an operator that is a node itself; 0 if it runs on the tiles of another node.
int node_of(const SpreadBlock& block, const Operator& op) {
  for (int n = 1; n < block.graph.nodes(); ++n)
    if (block.node(n).op == &op) return n;
  return 0;
}

/// Returns the node on whose tiles an operator without a node runs.
int node_beside(const SpreadBlock& block, const Operator& op) {
  for (int n = 1; n < block.graph.nodes(); ++n) {
    const auto& beside = block.node(n).beside;
    if (std::find(beside.begin(), beside.end(), &op) != beside.end()) return n;
  }
  ESPALIER_CHECK(false);
  return 0;
}

/// Returns the bits of the place whose change alters the slices of the letters `seen` and keeps the slices of `kept`,
/// on every place.
GroupIndicator sees_otherwise(const PartitionSequence& sequence, std::string_view seen, std::string_view kept) {
  const auto same = [&](std::string_view letters, int a, int b) {
    return std::all_of(letters.begin(), letters.end(), [&](char letter) {
      return partition::slice_index(sequence, letter, Phase::backward, a, 0) ==
             partition::slice_index(sequence, letter, Phase::backward, b, 0);
    });
  };
  GroupIndicator indicator = 0;
  for (int bit = 0; bit < sequence.bits(); ++bit) {
    bool sums = true;
    for (int place = 0; place < sequence.devices() && sums; ++place)
      sums = same(kept, place, place ^ (1 << bit)) && !same(seen, place, place ^ (1 << bit));
    if (sums) indicator |= GroupIndicator{1} << bit;
  }
  return indicator;
}

/// Returns the bits that distinguish the places of a norm of heads: those with different heads or tokens of the
/// queries, or of the keys.
GroupIndicator sum_of_head_norm(const SpreadBlock& block, int node, bool of_queries) {
  const Layout layout = partition::forward_needed(block.node(node).shape, block.sequence(node), of_queries ? 0 : 1);
  GroupIndicator indicator = 0;
  for (int bit = 0; bit < block.sequence(node).bits(); ++bit)
    if (!(layout.tile(0) == layout.tile(1 << bit))) indicator |= GroupIndicator{1} << bit;
  return indicator;
}

void add_sum(std::vector<GradientSum>& sums, Intervals elements, GroupIndicator indicator) {
  if (indicator != 0 && !elements.empty()) sums.push_back({std::move(elements), indicator});
}

void add_sums_of_node(std::vector<GradientSum>& sums, std::int64_t first, const SpreadBlock& block, int node, int place) {
  const PartitionedOperator& at = block.node(node);
  GroupIndicator indicator = 0;
  for (const partition::Reduction& sum : partition::communication(at.shape, block.sequence(node)).reductions)
    if (at.shape.tensors[static_cast<std::size_t>(sum.tensor.tensor)].role == TensorRole::parameter) indicator = sum.indicator;
  Intervals elements;
  if (at.op->kind != OperatorKind::linear) {
    append_node(elements, first, block, node, place);
    return add_sum(sums, std::move(elements), indicator);
  }
  const LinearTile tile = linear_tile(block, node, place);
  append_linear(elements, first, *at.op, tile, true, false);
  add_sum(sums, std::move(elements), indicator);
  elements.clear();
  append_linear(elements, first, *at.op, tile, false, true);
  add_sum(sums, std::move(elements), sees_otherwise(block.sequence(node), "BM", "K"));
}

/// Holds a box, the places that have it, and its positions in their tiles.
struct TileCell {
  ActivationBox box;
  std::vector<std::pair<int, TilePiece>> holders;
};

std::vector<TileCell> cells_of(const std::vector<std::vector<ActivationTile>>& held) {
  std::vector<TileCell> cells;
  for (std::size_t tensor = 0; tensor < held.size(); ++tensor)
    for (std::size_t place = 0; place < held[tensor].size(); ++place)
      for (std::size_t piece = 0; piece < held[tensor][place].size(); ++piece) {
        const ActivationBox& box = held[tensor][place][piece];
        const std::pair holder{static_cast<int>(place),
                               TilePiece{static_cast<std::int32_t>(tensor), static_cast<std::int32_t>(piece)}};
        const auto same = std::find_if(cells.begin(), cells.end(), [&](const TileCell& cell) { return cell.box == box; });
        if (same == cells.end())
          cells.push_back({box, {holder}});
        else
          same->holders.push_back(holder);
      }
  return cells;
}

const std::pair<int, TilePiece>& nearest(const TileCell& cell, int place) {
  const auto rank = [place](const std::pair<int, TilePiece>& holder) {
    return std::tuple(partition::reach(holder.first, place), std::popcount(static_cast<unsigned>(holder.first ^ place)),
                      holder.first);
  };
  return *std::min_element(cell.holders.begin(), cell.holders.end(),
                           [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
}

}  // namespace

Result<SpreadBlock> spread_block(const Sequence& sequence, const EngineModel& engine, const LayerKind& kind, std::int64_t samples,
                                 const Strategy& strategy) {
  auto graph = block_graph(sequence, engine, kind, samples);
  if (!graph) return graph.error();
  const int bits = std::bit_width(static_cast<std::uint32_t>(strategy.tp)) - 1;
  auto sequences = sequences_of(*graph, kind, bits, strategy.partition);
  if (!sequences) return sequences.error();
  return SpreadBlock{std::move(*graph), std::move(*sequences)};
}

std::int64_t features_of(const ActivationTile& tile) {
  return std::accumulate(tile.begin(), tile.end(), std::int64_t{0},
                         [](std::int64_t n, const ActivationBox& box) { return n + box.features.size(); });
}

std::vector<ActivationTile> tiles_of(const SpreadBlock& block, int node, int tensor, const Layout& layout) {
  const auto& axes = block.node(node).shape.tensors[static_cast<std::size_t>(tensor)].axes;
  std::vector<ActivationTile> tiles;
  for (const auto& index : layout.index) {
    const auto slice = [&](std::size_t axis) { return slice_of(axes[axis].size, index[axis], layout.bits[axis]); };
    ActivationBox box{slice(0), {slice(1)}};
    if (axes.size() > 3) box.keys = slice(3);
    ActivationTile& tile = tiles.emplace_back();
    for (const Extent& extent : features(block, node, tensor, slice(2))) {
      box.features = extent;
      tile.push_back(box);
    }
  }
  return tiles;
}

Intervals held_elements(const SpreadBlock& block, const LayerKind& kind, int place) {
  Intervals held;
  std::int64_t first = 0;
  for (const Operator& op : kind.operators) {
    const int node = node_of(block, op);
    if (op.parameters > 0 && node > 0) append_node(held, first, block, node, place);
    if (op.parameters > 0 && node == 0) append(held, first, first + op.parameters);
    first += op.parameters;
  }
  return held;
}

std::vector<GradientSum> gradient_sums(const SpreadBlock& block, const LayerKind& kind, int place) {
  std::vector<GradientSum> sums;
  std::int64_t first = 0;
  for (const Operator& op : kind.operators) {
    const int node = node_of(block, op);
    if (op.parameters > 0 && node > 0) add_sums_of_node(sums, first, block, node, place);
    if (op.parameters > 0 && node == 0) {
      const bool of_queries = op.name.find("q_norm") != std::string::npos;
      add_sum(sums, {{first, first + op.parameters}}, sum_of_head_norm(block, node_beside(block, op), of_queries));
    }
    first += op.parameters;
  }
  return sums;
}

std::vector<GroupIndicator> summed_indicators(const SpreadBlock& block) {
  std::vector<GroupIndicator> out;
  for (int n = 1; n < block.graph.nodes(); ++n) {
    const auto& shape = block.node(n).shape;
    for (const partition::Reduction& sum : partition::communication(shape, block.sequence(n)).reductions) {
      const bool parameter = shape.tensors[static_cast<std::size_t>(sum.tensor.tensor)].role == TensorRole::parameter;
      if (!parameter && std::find(out.begin(), out.end(), sum.indicator) == out.end()) out.push_back(sum.indicator);
    }
  }
  return out;
}

std::vector<PieceMove> piece_moves(const std::vector<std::vector<ActivationTile>>& held,
                                   const std::vector<std::vector<ActivationTile>>& wanted) {
  const std::vector<TileCell> cells = cells_of(held);
  std::vector<PieceMove> moves;
  const std::size_t places = wanted.front().size();
  for (std::size_t place = 0; place < places; ++place)
    for (std::size_t tensor = 0; tensor < wanted.size(); ++tensor)
      for (std::size_t piece = 0; piece < wanted[tensor][place].size(); ++piece) {
        const ActivationBox& want = wanted[tensor][place][piece];
        for (const TileCell& cell : cells) {
          const ActivationBox part{overlap(cell.box.samples, want.samples), overlap(cell.box.tokens, want.tokens),
                                   overlap(cell.box.features, want.features), overlap(cell.box.keys, want.keys)};
          if (part.samples.size() <= 0 || part.tokens.empty() || part.features.size() <= 0 || part.keys.size() <= 0) continue;
          const auto& [from, out] = nearest(cell, static_cast<int>(place));
          moves.push_back(
              {from, static_cast<int>(place), out, {static_cast<std::int32_t>(tensor), static_cast<std::int32_t>(piece)}, part});
        }
      }
  return moves;
}

}  // namespace espalier
