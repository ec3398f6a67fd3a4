// SPDX-License-Identifier: Apache-2.0
#include "runtime/tile_exchange.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <functional>
#include <numeric>
#include <utility>

#include "base/invariant.h"

namespace espalier::runtime {

using at::Tensor;

namespace {

std::int64_t elements_of(const ActivationBox& box) {
  return box.samples.size() * size_of(box.tokens) * box.features.size() * box.keys.size();
}

}  // namespace

Tensor TileExchange::Cut::of(const std::vector<Tensor>& tensors) const {
  Tensor part = tensors[static_cast<std::size_t>(tensor)];
  for (std::size_t d = 0; d < dimensions.size(); ++d)
    part = part.narrow(static_cast<std::int64_t>(d), dimensions[d].first, dimensions[d].size());
  return part;
}

/// Returns [tokens, samples, features], or [tokens, samples, heads, keys] for scores.
std::vector<std::int64_t> TileExchange::shape_of(const ActivationTile& tile) {
  const ActivationBox& box = tile.front();
  std::vector<std::int64_t> shape{size_of(box.tokens), box.samples.size(), features_of(tile)};
  if (box.keys.size() > 1) shape.push_back(box.keys.size());
  return shape;
}

TileExchange::Cut TileExchange::cut(const Tiles& tiles, int place, const TilePiece& piece, const ActivationBox& box) {
  const ActivationTile& tile = tiles[static_cast<std::size_t>(piece.tensor)][static_cast<std::size_t>(place)];
  const ActivationBox& whole = tile[static_cast<std::size_t>(piece.piece)];
  std::int64_t before = 0;
  for (std::int32_t k = 0; k < piece.piece; ++k) before += tile[static_cast<std::size_t>(k)].features.size();
  const auto inside = [](const Extent& part, const Extent& all) { return Extent{part.first - all.first, part.last - all.first}; };
  Cut out{piece.tensor, {inside(box.tokens.front(), whole.tokens.front()), inside(box.samples, whole.samples)}};
  const Extent features = inside(box.features, whole.features);
  out.dimensions.push_back({before + features.first, before + features.last});
  if (whole.keys.size() > 1) out.dimensions.push_back(inside(box.keys, whole.keys));
  return out;
}

TileExchange::TileExchange(const Tiles& held, const Tiles& wanted, int place, Communicator* group, int mark)
    : nothing_moves_(held == wanted), mark_(mark), group_(group) {
  if (nothing_moves_) return;
  for (const auto& tiles : wanted) {
    shapes_.push_back(shape_of(tiles[static_cast<std::size_t>(place)]));
    missing_.push_back(std::accumulate(shapes_.back().begin(), shapes_.back().end(), std::int64_t{1}, std::multiplies<>()));
  }
  for (const PieceMove& move : piece_moves(held, wanted)) {
    if (move.from != place && move.to != place) continue;
    if (move.to == place) missing_[static_cast<std::size_t>(move.into.tensor)] -= elements_of(move.box);
    const Cut out = cut(held, move.from, move.out, move.box), into = cut(wanted, move.to, move.into, move.box);
    if (move.from == move.to)
      inside_.push_back({out, into});
    else if (move.from == place)
      sent_[move.to].push_back(out);
    else
      received_[move.from].push_back(into);
  }
}

std::vector<Tensor> TileExchange::run(const std::vector<Tensor>& held) const {
  if (nothing_moves_) return held;
  std::vector<Tensor> wanted;
  for (std::size_t k = 0; k < shapes_.size(); ++k)
    wanted.push_back(missing_[k] > 0 ? at::zeros(shapes_[k], held.front().options())
                                     : at::empty(shapes_[k], held.front().options()));
  std::vector<std::pair<Message, Tensor>> leaving;
  std::vector<std::pair<Message, Tensor>> arriving;
  for (const auto& [from, cuts] : received_) {
    std::int64_t elements = 0;
    for (const Cut& cut : cuts) elements += cut.of(wanted).numel();
    const Tensor room = at::empty({elements}, held.front().options());
    arriving.emplace_back(group_->receive(room, from, mark_), room);
  }
  for (const auto& [to, cuts] : sent_) {
    std::vector<Tensor> parts;
    for (const Cut& cut : cuts) parts.push_back(cut.of(held).reshape({-1}));
    const Tensor list = parts.size() == 1 ? parts.front().contiguous() : at::cat(parts);
    leaving.emplace_back(group_->send(list, to, mark_), list);
  }
  for (const Inside& move : inside_) {
    const Tensor into = move.into.of(wanted);
    into.copy_(move.out.of(held).reshape(into.sizes()));
  }
  auto arrived = arriving.begin();
  for (const auto& [from, cuts] : received_) {
    arrived->first.wait();
    std::int64_t at = 0;
    for (const Cut& cut : cuts) {
      const Tensor part = cut.of(wanted);
      part.copy_(arrived->second.narrow(0, at, part.numel()).view(part.sizes()));
      at += part.numel();
    }
    ++arrived;
  }
  for (auto& [message, list] : leaving) message.wait();
  return wanted;
}

}  // namespace espalier::runtime
