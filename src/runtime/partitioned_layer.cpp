// SPDX-License-Identifier: Apache-2.0
#include "runtime/partitioned_layer.h"

#include <ATen/TensorOperators.h>

#include <algorithm>
#include <utility>

#include "base/invariant.h"

namespace espalier::runtime {
namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;

constexpr int kExchangeTag = 64;  // above the tags of rings, which are numbered by tensor

}  // namespace

PartitionedLayer::PartitionedLayer(const LayerKind& kind, SpreadBlock block, const std::vector<Parameters>& parameters,
                                   std::vector<State*> states, TilePlace place, bool recomputed)
    : Layer(std::move(states), place.clock, recomputed), block_(std::move(block)) {
  const auto parameters_of = [&](const Operator* op) { return parameters[static_cast<std::size_t>(op - kind.operators.data())]; };
  place.block = &block_;
  place.kind = &kind;
  for (int n = 1; n < block_.graph.nodes(); ++n) {
    place.node = n;
    place.parameters = parameters_of(block_.node(n).op);
    place.beside.clear();
    for (const Operator* op : block_.node(n).beside) place.beside[op] = parameters_of(op);
    nodes_.push_back(make_tile_operator(place));
    std::vector<Way>& ways = ways_.emplace_back();
    for (const BlockEdge& edge : block_.graph.edges)
      if (edge.to == n) ways.push_back(way_of(edge, place));
  }
}

PartitionedLayer::Way PartitionedLayer::way_of(const BlockEdge& edge, const TilePlace& place) const {
  // The block's input has the layout of its output.
  const int left = edge.from == 0 ? block_.graph.nodes() - 1 : edge.from;
  const auto &from = block_.node(left).shape, &to = block_.node(edge.to).shape;
  const auto &from_sequence = block_.sequence(left), &to_sequence = block_.sequence(edge.to);
  const int output = output_tensor(from);
  const auto held = tiles_of(block_, left, output, partition::forward_held(from, from_sequence));
  const auto wanted = tiles_of(block_, left, output, partition::backward_needed(from, from_sequence));
  TileExchange::Tiles read, gradients;
  for (const int tensor : edge.tensors) {
    read.push_back(tiles_of(block_, edge.to, tensor, partition::forward_needed(to, to_sequence, tensor)));
    gradients.push_back(tiles_of(block_, edge.to, tensor, partition::backward_held(to, to_sequence, tensor)));
  }
  return {edge.from, edge.tensors, TileExchange({held}, read, place.place, place.group, kExchangeTag),
          TileExchange(gradients, {wanted}, place.place, place.group, kExchangeTag)};
}

/// Returns whether a node after `now` reads the output of `node`.
bool PartitionedLayer::read_later(std::int32_t node, std::int32_t now) const {
  return std::any_of(block_.graph.edges.begin(), block_.graph.edges.end(),
                     [&](const BlockEdge& edge) { return edge.from == node && edge.to > now; });
}

/// Where a branch begins, the addition that closes it adds the gradient of the stream.
Tensor PartitionedLayer::joined(std::int32_t node, const Tensor& a, const Tensor& b) const {
  for (const BlockEdge& edge : block_.graph.edges)
    if (edge.from == node && edge.is_long()) return nodes_[static_cast<std::size_t>(edge.to) - 1]->joined(a, b);
  ESPALIER_CHECK(false);
  return {};
}

Tensor PartitionedLayer::run(Frame& frame, const Tensor& x) {
  frame.saved.assign(nodes_.size(), {});
  Tensors values(nodes_.size() + 1);
  values[0] = x;
  for (std::size_t n = 1; n <= nodes_.size(); ++n) {
    Tensors inputs(3);  // the maximum number of inputs of a node
    for (const Way& way : ways_[n - 1]) {
      Tensors arrived;
      communicate([&] { arrived = way.forward.run({values[static_cast<std::size_t>(way.from)]}); });
      for (std::size_t k = 0; k < arrived.size(); ++k) inputs.at(static_cast<std::size_t>(way.tensors[k])) = arrived[k];
      if (!read_later(way.from, static_cast<std::int32_t>(n))) values[static_cast<std::size_t>(way.from)] = Tensor();
    }
    values[n] = nodes_[n - 1]->forward(frame, frame.saved[n - 1], inputs);
  }
  return values.back();
}

Tensor PartitionedLayer::run_back(Frame& frame, Tensor dy, bool whole) {
  Tensors gradients(nodes_.size() + 1);
  gradients.back() = std::move(dy);
  for (std::size_t n = nodes_.size(); n >= 1; --n) {
    const Tensors own = nodes_[n - 1]->backward(frame, frame.saved[n - 1], gradients[n]);
    gradients[n] = Tensor();
    frame.saved[n - 1].clear();
    if (whole) run_tasks(frame);
    for (const Way& way : ways_[n - 1]) {
      Tensors leaving;
      for (const int tensor : way.tensors) leaving.push_back(own[static_cast<std::size_t>(tensor)]);
      Tensor arrived;
      communicate([&] { arrived = way.backward.run(leaving).front(); });
      Tensor& sum = gradients[static_cast<std::size_t>(way.from)];
      sum = sum.defined() ? joined(way.from, sum, arrived) : arrived;
    }
  }
  return gradients.front();
}

}  // namespace espalier::runtime
