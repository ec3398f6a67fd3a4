// SPDX-License-Identifier: Apache-2.0
#include "partition/layout.h"

#include <algorithm>
#include <bit>
#include <tuple>

#include "base/invariant.h"

namespace espalier::partition {

namespace {

constexpr std::size_t kAxes = kMaxAxes;

std::uint64_t key(const std::array<std::int16_t, kMaxAxes>& index) {
  std::uint64_t packed = 0;
  for (const std::int16_t i : index) packed = (packed << 16) | static_cast<std::uint16_t>(i);
  return packed;
}

/// Returns the finest common slices: log2 of their number on each axis.
std::array<std::int8_t, kMaxAxes> finest(const Layout& a, const Layout& b) {
  std::array<std::int8_t, kMaxAxes> bits{};
  for (std::size_t axis = 0; axis < kAxes; ++axis) bits[axis] = std::max(a.bits[axis], b.bits[axis]);
  return bits;
}

int sum(const std::array<std::int8_t, kMaxAxes>& bits) { return bits[0] + bits[1] + bits[2] + bits[3]; }

/// Returns the units of 2^−Σ unit in which two tiles agree: 0 or the product of the shorter slices, as slices are
/// nested or disjoint.
std::int64_t overlap(const Tile& a, const Tile& b, int unit_bits) {
  int bits = 0;
  for (std::size_t axis = 0; axis < kAxes; ++axis) {
    const int down = a.bits[axis] - b.bits[axis];
    if (down >= 0 ? (a.index[axis] >> down) != b.index[axis] : (b.index[axis] >> -down) != a.index[axis]) return 0;
    bits += std::max(a.bits[axis], b.bits[axis]);
  }
  return std::int64_t{1} << (unit_bits - bits);
}

auto order(const Tile& tile) { return std::tie(tile.bits, tile.index); }

/// Joins boxes that are the two halves of a coarser slice on `axis`; returns whether there were any.
bool merge_halves(std::vector<Tile>& boxes, std::size_t axis) {
  const auto parent = [axis](Tile tile) {
    tile.index[axis] = static_cast<std::int16_t>(tile.index[axis] >> 1);
    return tile;
  };
  std::sort(boxes.begin(), boxes.end(), [&](const Tile& a, const Tile& b) {
    const Tile pa = parent(a), pb = parent(b);
    return std::tie(pa.bits, pa.index, a.index) < std::tie(pb.bits, pb.index, b.index);
  });
  std::size_t kept = 0;
  bool merged = false;
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    Tile box = boxes[i];
    if (box.bits[axis] > 0 && i + 1 < boxes.size() && parent(box) == parent(boxes[i + 1])) {
      box = parent(box);
      --box.bits[axis];
      ++i;
      merged = true;
    }
    boxes[kept++] = box;
  }
  boxes.resize(kept);
  return merged;
}

std::vector<Tile> boxes_of(std::vector<Tile> tiles) {
  std::sort(tiles.begin(), tiles.end(), [](const Tile& a, const Tile& b) { return order(a) < order(b); });
  tiles.erase(std::unique(tiles.begin(), tiles.end()), tiles.end());
  for (bool merged = true; merged && tiles.size() > 1;) {
    merged = false;
    for (std::size_t axis = 0; axis < kAxes; ++axis) merged = merge_halves(tiles, axis) || merged;
  }
  return tiles;
}

int log2_devices(const Layout& layout) { return std::bit_width(static_cast<unsigned>(layout.devices())) - 1; }

/// Returns log2 of the slices of an axis: that of its dimension, but no more than there are heads to give out.
int axis_bits(const Axis& axis, int dimension_bits) {
  if (axis.size >= std::int64_t{1} << dimension_bits) return dimension_bits;
  return static_cast<int>(std::bit_width(static_cast<std::uint64_t>(axis.size))) - 1;
}

int output_tensor(const OperatorShape& op) {
  const auto output =
      std::find_if(op.tensors.begin(), op.tensors.end(), [](const Tensor& tensor) { return tensor.role == TensorRole::output; });
  ESPALIER_CHECK(output != op.tensors.end());  // every operator has one
  return static_cast<int>(output - op.tensors.begin());
}

bool is_operand(const Product& product, TensorUse use) {
  return std::find(product.operands.begin(), product.operands.end(), use) != product.operands.end();
}

}  // namespace

Layout layout_at(const OperatorShape& op, const PartitionSequence& sequence, int tensor, Phase phase, int step) {
  const std::vector<Axis>& axes = op.tensors[static_cast<std::size_t>(tensor)].axes;
  ESPALIER_CHECK(axes.size() <= kAxes);
  Layout layout;
  layout.axes = static_cast<std::int8_t>(axes.size());
  layout.index.resize(static_cast<std::size_t>(sequence.devices()));
  for (std::size_t a = 0; a < axes.size(); ++a) {
    const int dimension_bits = slice_bits(sequence, axes[a].letter);
    layout.bits[a] = static_cast<std::int8_t>(axis_bits(axes[a], dimension_bits));
    for (int device = 0; device < sequence.devices(); ++device) {
      const int slice = slice_index(sequence, axes[a].letter, phase, device, step);
      layout.index[static_cast<std::size_t>(device)][a] = static_cast<std::int16_t>(slice >> (dimension_bits - layout.bits[a]));
    }
  }
  return layout;
}

Layout forward_needed(const OperatorShape& op, const PartitionSequence& sequence, int tensor) {
  return layout_at(op, sequence, tensor, Phase::forward, 0);
}

Layout forward_held(const OperatorShape& op, const PartitionSequence& sequence) {
  return layout_at(op, sequence, output_tensor(op), Phase::forward, steps(sequence) - 1);
}

Layout backward_needed(const OperatorShape& op, const PartitionSequence& sequence) {
  const int output = output_tensor(op);
  const TensorUse use{static_cast<std::int8_t>(output), true};
  for (const Product& product : op.products) {
    if (is_operand(product, use)) return layout_at(op, sequence, output, product.phase, 0);
  }
  return layout_at(op, sequence, output, Phase::backward, 0);
}

Layout backward_held(const OperatorShape& op, const PartitionSequence& sequence, int tensor) {
  const TensorUse use{static_cast<std::int8_t>(tensor), true};
  for (const Product& product : op.products) {
    if (product.output == use) return layout_at(op, sequence, tensor, product.phase, steps(sequence) - 1);
  }
  return layout_at(op, sequence, tensor, Phase::backward, steps(sequence) - 1);
}

int reach(int a, int b) { return std::bit_width(static_cast<unsigned>(a ^ b)); }

std::int64_t Redistribution::fetched_total() const {
  std::int64_t units = 0;
  for (const std::int64_t one : fetched) units += one;
  return units;
}

Coverage::Coverage(Layout layout) : layout_(std::move(layout)) {
  const int bits = log2_devices(layout_);
  ESPALIER_CHECK(bits <= kMaxBits && layout_.devices() == 1 << bits);
  for (int r = 0; r <= bits; ++r) {
    offset_[static_cast<std::size_t>(r)] = first_.size();
    for (int block = 0; block < 1 << (bits - r); ++block) {
      std::vector<Tile> tiles;
      for (int device = block << r; device < (block + 1) << r; ++device) tiles.push_back(layout_.tile(device));
      tiles = boxes_of(std::move(tiles));
      first_.push_back(boxes_.size());
      boxes_.insert(boxes_.end(), tiles.begin(), tiles.end());
    }
    first_.push_back(boxes_.size());
  }
}

Redistribution redistribution(const Coverage& held, const Layout& needed) {
  const Layout& from = held.layout();
  ESPALIER_CHECK(from.devices() == needed.devices() && from.axes == needed.axes);
  const int bits = log2_devices(from);
  Redistribution result;
  result.unit_bits = sum(finest(from, needed));
  result.fetched.resize(static_cast<std::size_t>(needed.devices()));
  const std::int64_t volume = std::int64_t{1} << (result.unit_bits - needed.tile_bits());
  for (int device = 0; device < needed.devices(); ++device) {
    const Tile want = needed.tile(device);
    std::int64_t found = overlap(from.tile(device), want, result.unit_bits);
    result.fetched[static_cast<std::size_t>(device)] = volume - found;
    for (int r = 1; r <= bits && found < volume; ++r) {
      std::int64_t within = 0;
      for (const Tile* box = held.begin(r, device); box != held.end(r, device); ++box)
        within += overlap(*box, want, result.unit_bits);
      const auto at = static_cast<std::size_t>(r);
      result.largest[at] = std::max(result.largest[at], within - found);
      result.total[at] += within - found;
      found = within;
    }
    ESPALIER_CHECK(found == volume);  // some device holds every tile
  }
  return result;
}

Redistribution redistribution(const Layout& held, const Layout& needed) { return redistribution(Coverage(held), needed); }

double redistribution_total(const Layout& held, const Layout& needed) {
  ESPALIER_CHECK(held.devices() == needed.devices() && held.axes == needed.axes);
  const int unit_bits = sum(finest(held, needed));
  std::int64_t units = static_cast<std::int64_t>(needed.devices()) << (unit_bits - needed.tile_bits());
  for (int device = 0; device < needed.devices(); ++device) units -= overlap(held.tile(device), needed.tile(device), unit_bits);
  return static_cast<double>(units) / static_cast<double>(std::int64_t{1} << unit_bits);
}

std::vector<TileMove> redistribution_moves(const Layout& held, const Layout& needed) {
  ESPALIER_CHECK(held.devices() == needed.devices() && held.axes == needed.axes);
  std::vector<std::pair<std::uint64_t, int>> holders;
  for (int device = 0; device < held.devices(); ++device) holders.emplace_back(key(held.tile(device).index), device);
  std::sort(holders.begin(), holders.end());
  const auto nearest = [&](const Tile& tile, int device) {
    auto holder = std::lower_bound(holders.begin(), holders.end(), std::pair{key(tile.index), 0});
    int best = -1;
    const auto rank = [device](int from) {
      return std::tuple(reach(from, device), std::popcount(static_cast<unsigned>(from ^ device)), from);
    };
    for (; holder != holders.end() && holder->first == key(tile.index); ++holder) {
      if (best < 0 || rank(holder->second) < rank(best)) best = holder->second;
    }
    ESPALIER_CHECK(best >= 0);
    return best;
  };
  const auto bits = finest(held, needed);
  std::vector<TileMove> moves;
  for (int device = 0; device < needed.devices(); ++device) {
    const Tile want = needed.tile(device);
    for (int unit = 0; unit < 1 << (sum(bits) - needed.tile_bits()); ++unit) {
      Tile piece{{}, bits}, source{{}, held.bits};
      int rest = unit;
      for (std::size_t a = 0; a < kAxes; ++a) {
        const int inner = bits[a] - want.bits[a];
        piece.index[a] = static_cast<std::int16_t>((want.index[a] << inner) + (rest & ((1 << inner) - 1)));
        source.index[a] = static_cast<std::int16_t>(piece.index[a] >> (bits[a] - held.bits[a]));
        rest >>= inner;
      }
      if (source == held.tile(device)) continue;
      moves.push_back({nearest(source, device), device, piece});
    }
  }
  return moves;
}

}  // namespace espalier::partition
