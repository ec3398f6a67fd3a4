// SPDX-License-Identifier: Apache-2.0
#include "cost/partition_layouts.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/check.h"

namespace espalier::cost {
namespace {

bool power_of_two(std::int64_t n) { return n > 0 && (n & (n - 1)) == 0; }
int log2_of(std::int64_t n) { return static_cast<int>(std::bit_width(static_cast<std::uint64_t>(n))) - 1; }

/// The `count` most significant bits of a mask.
std::uint16_t leading(std::uint16_t mask, int count) {
  for (int extra = std::popcount(mask) - count; extra > 0; --extra) mask = static_cast<std::uint16_t>(mask & (mask - 1));
  return mask;
}

/// Equations d_i = d_j among the bits of the device id.
class Equations {
 public:
  Equations() {
    for (std::size_t i = 0; i < root_.size(); ++i) root_[i] = static_cast<std::int8_t>(i);
  }
  /// The digits of two masks of equal size agree one by one.
  void equate(std::uint16_t a, std::uint16_t b) {
    for (; a != 0; a = static_cast<std::uint16_t>(a & (a - 1)), b = static_cast<std::uint16_t>(b & (b - 1)))
      join(std::countr_zero(a), std::countr_zero(b));
  }
  [[nodiscard]] int rank() const { return rank_; }

 private:
  int find(int i) {
    while (root_[static_cast<std::size_t>(i)] != i) i = root_[static_cast<std::size_t>(i)];
    return i;
  }
  void join(int a, int b) {
    a = find(a), b = find(b);
    if (a == b) return;
    root_[static_cast<std::size_t>(a)] = static_cast<std::int8_t>(b), ++rank_;
  }
  std::array<std::int8_t, 16> root_{};
  int rank_ = 0;
};

/// What a device finds of the tile that it needs: `volume` (a part of the tensor) on a share 2^−rank of the devices, else nothing.
struct Found {
  double volume = 0;
  int rank = 0;
};

/// Inside aligned blocks of 2^r devices: the holders' low r bits are free, so that their digits are gone.
Found found_within(const AxisMasks& held, const AxisMasks& needed, int r) {
  int bits = 0;
  bool aligned = true;
  std::array<std::uint16_t, partition::kMaxAxes> a{}, b{};
  for (std::size_t axis = 0; axis < a.size(); ++axis) {
    const auto outer = static_cast<std::uint16_t>((held[axis] >> r) << r);
    const int held_bits = std::popcount(outer), needed_bits = std::popcount(needed[axis]);
    const int common = std::min(held_bits, needed_bits);
    bits += std::max(held_bits, needed_bits);
    a[axis] = leading(outer, common), b[axis] = leading(needed[axis], common);
    aligned = aligned && a[axis] == b[axis];
  }
  Found found{std::ldexp(1.0, -bits), 0};
  if (aligned) return found;
  Equations equations;
  for (std::size_t axis = 0; axis < a.size(); ++axis) equations.equate(a[axis], b[axis]);
  found.rank = equations.rank();
  return found;
}

/// Units of 2^−unit_bits in which two tiles agree: slices are nested or disjoint.
std::int64_t overlap(const partition::Tile& a, const partition::Tile& b, int unit_bits) {
  int bits = 0;
  for (std::size_t axis = 0; axis < a.bits.size(); ++axis) {
    const int down = a.bits[axis] - b.bits[axis];
    if (down >= 0 ? (a.index[axis] >> down) != b.index[axis] : (b.index[axis] >> -down) != a.index[axis]) return 0;
    bits += std::max(a.bits[axis], b.bits[axis]);
  }
  return std::int64_t{1} << (unit_bits - bits);
}

/// β·η of `peers` peers at once; β'·η.
double shared_rate(const FabricLevel& level, double bandwidth, std::int64_t peers) {
  if (level.per_peer.count() > 0) bandwidth = std::min(bandwidth, static_cast<double>(peers) * level.per_peer.count());
  return bandwidth * level.efficiency;
}

}  // namespace

void Exchange::add(const Exchange& other, double factor) {
  for (std::size_t k = 0; k < mean.size(); ++k) {
    mean[k] += factor * other.mean[k], largest[k] += factor * other.largest[k];
    pair[k] = std::max(pair[k], factor * other.pair[k]);
  }
}

bool PartitionFabric::supports(const std::vector<FabricLevel>& levels, int bits) {
  if (static_cast<int>(levels.size()) > kMaxLevels || bits < 0 || bits > partition::kMaxBits) return false;
  const std::int64_t devices = std::int64_t{1} << bits;
  const bool nested = std::all_of(levels.begin(), levels.end(),
                                  [&](const FabricLevel& level) { return level.span >= devices || power_of_two(level.span); });
  return nested && (bits == 0 || (!levels.empty() && levels.back().span >= devices));
}

PartitionFabric::PartitionFabric(const std::vector<FabricLevel>& levels, int bits) : bits_(bits) {
  ESPALIER_CHECK(supports(levels, bits));
  int below = 0;
  for (const FabricLevel& level : levels) {
    if (below == bits) break;
    const int reach = std::min(bits, log2_of(level.span));
    const std::size_t k = levels_.size();
    const std::int64_t peers = (std::int64_t{1} << (reach - below)) - 1;
    const double congestion = 1.0 + level.congestion * (reach - below);
    const double alone = std::max(level.bandwidth.count(), level.bandwidth_alone.count());
    levels_.push_back(level), reach_.push_back(reach);
    if (reach > below) {
      per_byte_mean_[k] = congestion / shared_rate(level, level.bandwidth.count(), peers);
      per_byte_largest_[k] = congestion / shared_rate(level, alone, peers);
      if (level.per_peer.count() > 0) per_byte_pair_[k] = congestion / (level.per_peer.count() * level.efficiency);
    }
    below = reach;
  }
}

int PartitionFabric::level_of(int reach) const {
  int level = 0;
  while (reach_[static_cast<std::size_t>(level)] < reach) ++level;
  return level;
}

double PartitionFabric::seconds(const Exchange& bytes) const {
  double volume = 0, start = 0, latency = 0, ramp = 0;
  for (std::size_t k = 0; k < levels_.size(); ++k) {
    if (bytes.largest[k] <= 0) continue;
    const double here =
        std::max({bytes.mean[k] * per_byte_mean_[k], bytes.largest[k] * per_byte_largest_[k], bytes.pair[k] * per_byte_pair_[k]});
    if (here > volume) volume = here, ramp = levels_[k].ramp;
    start = std::max(start, levels_[k].start.count()), latency += levels_[k].latency.count();
  }
  latency += start;
  return ramp > 0 ? latency + volume + ramp * std::sqrt(latency * volume) : latency + volume;
}

Group PartitionFabric::group(std::uint32_t indicator) const {
  Group group;
  group.size = std::int64_t{1} << std::popcount(indicator);
  group.levels = level_count();
  for (int k = 0; k < group.levels; ++k) {
    const std::uint32_t inside = indicator & ((1u << reach_of(k)) - 1u);
    group.members[static_cast<std::size_t>(k)] = std::int64_t{1} << std::popcount(inside);
  }
  return group;
}

LayoutId LayoutTable::plain(const AxisMasks& masks) {
  std::uint64_t key = 0;
  for (const std::uint16_t mask : masks) key = (key << 16) | mask;
  const auto [found, added] = plain_ids_.try_emplace(key, size());
  if (added) {
    Entry entry;
    entry.masks = masks;
    for (const std::uint16_t mask : masks) entry.tile_bits += std::popcount(mask);
    entries_.push_back(entry);
  }
  return found->second;
}

LayoutId LayoutTable::intern(const partition::Layout& layout) {
  AxisMasks masks{};
  bool plain_axes = true;
  for (std::size_t axis = 0; axis < masks.size() && plain_axes; ++axis) {
    int above = fabric_->bits();  // digits come in falling order of the bits
    for (int digit = layout.bits[axis] - 1; digit >= 0 && plain_axes; --digit) {
      int bit = above - 1;
      const auto shown_by = [&](int candidate) {
        for (int device = 0; device < layout.devices(); ++device)
          if (((layout.index[static_cast<std::size_t>(device)][axis] >> digit) & 1) != ((device >> candidate) & 1)) return false;
        return true;
      };
      while (bit >= 0 && !shown_by(bit)) --bit;
      plain_axes = bit >= 0;
      if (plain_axes) masks[axis] = static_cast<std::uint16_t>(masks[axis] | (1u << bit)), above = bit;
    }
  }
  if (plain_axes) return plain(masks);
  std::vector<std::int16_t> key(layout.bits.begin(), layout.bits.end());
  for (const auto& index : layout.index) key.insert(key.end(), index.begin(), index.end());
  const auto [found, added] = skewed_ids_.try_emplace(std::move(key), size());
  if (added) {
    Entry entry;
    entry.skewed = static_cast<std::int32_t>(coverages_.size()), entry.tile_bits = layout.tile_bits();
    entries_.push_back(entry);
    coverages_.emplace_back(layout);
  }
  return found->second;
}

Exchange LayoutTable::moved(LayoutId held, LayoutId needed) const {
  if (held == needed) return {};
  const Entry &a = entries_[static_cast<std::size_t>(held)], &b = entries_[static_cast<std::size_t>(needed)];
  return a.skewed < 0 && b.skewed < 0 ? moved_plain(a.masks, b.masks) : moved_counted(held, needed);
}

Exchange LayoutTable::moved_plain(const AxisMasks& held, const AxisMasks& needed) const {
  Exchange exchange;
  Found below = found_within(held, needed, 0);
  for (int k = 0; k < fabric_->level_count(); ++k) {
    const Found here = found_within(held, needed, fabric_->reach_of(k));
    const auto at = static_cast<std::size_t>(k);
    exchange.largest[at] = below.rank == here.rank ? here.volume - below.volume : here.volume;
    exchange.mean[at] = std::ldexp(here.volume, -here.rank) - std::ldexp(below.volume, -below.rank);
    below = here;
  }
  return exchange;
}

partition::Layout LayoutTable::layout_of(const Entry& entry) const {
  if (entry.skewed >= 0) return coverages_[static_cast<std::size_t>(entry.skewed)].layout();
  partition::Layout layout;
  layout.axes = partition::kMaxAxes;
  layout.index.resize(std::size_t{1} << fabric_->bits());
  for (std::size_t axis = 0; axis < entry.masks.size(); ++axis) {
    layout.bits[axis] = static_cast<std::int8_t>(std::popcount(entry.masks[axis]));
    for (int device = 0; device < layout.devices(); ++device) {
      int index = 0;
      for (int bit = fabric_->bits() - 1; bit >= 0; --bit)
        if (((entry.masks[axis] >> bit) & 1) != 0) index = 2 * index + ((device >> bit) & 1);
      layout.index[static_cast<std::size_t>(device)][axis] = static_cast<std::int16_t>(index);
    }
  }
  return layout;
}

const partition::Layout& LayoutTable::numbers(LayoutId id) const {
  const Entry& entry = entries_[static_cast<std::size_t>(id)];
  if (entry.skewed >= 0) return coverages_[static_cast<std::size_t>(entry.skewed)].layout();
  if (numbers_.size() < entries_.size()) numbers_.resize(entries_.size());
  auto& kept = numbers_[static_cast<std::size_t>(id)];
  if (kept.index.empty()) kept = layout_of(entry);
  return kept;
}

/// What the aligned block of 2^r devices around `device` holds of a tile.
std::int64_t LayoutTable::held_within(LayoutId held, const partition::Tile& tile, int device, int r, int unit_bits) const {
  const Entry& entry = entries_[static_cast<std::size_t>(held)];
  if (entry.skewed >= 0) {
    const partition::Coverage& have = coverages_[static_cast<std::size_t>(entry.skewed)];
    std::int64_t units = 0;
    for (const partition::Tile* box = have.begin(r, device); box != have.end(r, device); ++box)
      units += overlap(*box, tile, unit_bits);
    return units;
  }
  // The low r bits are the last digits of each axis: without them the tiles of the block are one box.
  partition::Tile box = numbers(held).tile(device);
  for (std::size_t axis = 0; axis < box.bits.size(); ++axis) {
    const int dropped = std::popcount(static_cast<std::uint16_t>(entry.masks[axis] & ((1u << r) - 1u)));
    box.bits[axis] = static_cast<std::int8_t>(box.bits[axis] - dropped);
    box.index[axis] = static_cast<std::int16_t>(box.index[axis] >> dropped);
  }
  return overlap(box, tile, unit_bits);
}

Exchange LayoutTable::moved_counted(LayoutId held, LayoutId needed) const {
  const partition::Layout& want = numbers(needed);
  const int unit_bits = tile_bits(held) + tile_bits(needed);  // at least as fine as both
  const double unit = std::ldexp(1.0, -unit_bits);
  Exchange exchange;
  std::array<std::int64_t, kMaxLevels> largest{}, total{};
  for (int device = 0; device < want.devices(); ++device) {
    const partition::Tile tile = want.tile(device);
    std::int64_t below = held_within(held, tile, device, 0, unit_bits);
    for (int k = 0; k < fabric_->level_count(); ++k) {
      const std::int64_t here = held_within(held, tile, device, fabric_->reach_of(k), unit_bits);
      const auto at = static_cast<std::size_t>(k);
      largest[at] = std::max(largest[at], here - below), total[at] += here - below;
      below = here;
    }
  }
  for (std::size_t k = 0; k < largest.size(); ++k) {
    exchange.largest[k] = static_cast<double>(largest[k]) * unit;
    exchange.mean[k] = static_cast<double>(total[k]) * unit / static_cast<double>(want.devices());
  }
  return exchange;
}

}  // namespace espalier::cost
