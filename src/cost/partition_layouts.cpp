// SPDX-License-Identifier: Apache-2.0
#include "cost/partition_layouts.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/invariant.h"

namespace espalier::cost {
namespace {

bool power_of_two(std::int64_t n) { return n > 0 && (n & (n - 1)) == 0; }
int log2_of(std::int64_t n) { return static_cast<int>(std::bit_width(static_cast<std::uint64_t>(n))) - 1; }

/// Holds equations d_i = d_j among the bits of the device id.
class Equations {
 public:
  Equations() {
    for (std::size_t i = 0; i < root_.size(); ++i) root_[i] = static_cast<std::int8_t>(i);
  }
  /// Adds the equations by which the digits of two masks of equal size agree one by one.
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
    a = find(a);
    b = find(b);
    if (a == b) return;
    root_[static_cast<std::size_t>(a)] = static_cast<std::int8_t>(b);
    ++rank_;
  }
  std::array<std::int8_t, 16> root_{};
  int rank_ = 0;
};

using Devices = std::vector<std::uint64_t>;

int count(const Devices& set) {
  int sum = 0;
  for (const std::uint64_t word : set) sum += std::popcount(word);
  return sum;
}

/// Moves the members of a set to the neighbour whose id differs in one bit: to d ⊕ 2^bit.
void exchange_bit(Devices& set, int bit) {
  if (bit >= 6) {
    const std::size_t distance = std::size_t{1} << (bit - 6);
    for (std::size_t i = 0; i < set.size(); ++i)
      if ((i & distance) == 0) std::swap(set[i], set[i + distance]);
    return;
  }
  constexpr std::array<std::uint64_t, 6> kLow = {0x5555555555555555, 0x3333333333333333, 0x0f0f0f0f0f0f0f0f,
                                                 0x00ff00ff00ff00ff, 0x0000ffff0000ffff, 0x00000000ffffffff};
  const std::uint64_t low = kLow[static_cast<std::size_t>(bit)];
  for (std::uint64_t& word : set) word = ((word & low) << (1 << bit)) | ((word >> (1 << bit)) & low);
}

/// Returns 2^−rank.
double share(int rank) { return 1.0 / static_cast<double>(1 << rank); }

/// Returns β·η of `peers` peers at once, or β'·η.
double shared_rate(const FabricLevel& level, double bandwidth, std::int64_t peers) {
  if (level.per_peer.count() > 0) bandwidth = std::min(bandwidth, static_cast<double>(peers) * level.per_peer.count());
  return bandwidth * level.efficiency;
}

}  // namespace

void Exchange::add(const Exchange& other, double factor) {
  for (std::size_t k = 0; k < mean.size(); ++k) {
    mean[k] += factor * other.mean[k];
    largest[k] += factor * other.largest[k];
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
    levels_.push_back(level);
    reach_.push_back(reach);
    start_[k] = level.start.count();
    latency_[k] = level.latency.count();
    ramp_[k] = level.ramp;
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

void PartitionFabric::Sum::add(const PartitionFabric& fabric, int level, double mean, double largest, double pair) {
  if (largest <= 0) return;
  const auto k = static_cast<std::size_t>(level);
  const double here =
      std::max({mean * fabric.per_byte_mean_[k], largest * fabric.per_byte_largest_[k], pair * fabric.per_byte_pair_[k]});
  if (here > volume_) {
    volume_ = here;
    ramp_ = fabric.ramp_[k];
  }
  start_ = std::max(start_, fabric.start_[k]);
  latency_ += fabric.latency_[k];
}

double PartitionFabric::Sum::seconds() const {
  const double latency = latency_ + start_;
  return ramp_ > 0 ? latency + volume_ + ramp_ * std::sqrt(latency * volume_) : latency + volume_;
}

double PartitionFabric::seconds(const Exchange& bytes) const {
  Sum sum;
  for (int k = 0; k < level_count(); ++k) {
    const auto at = static_cast<std::size_t>(k);
    sum.add(*this, k, bytes.mean[at], bytes.largest[at], bytes.pair[at]);
  }
  return sum.seconds();
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

LayoutTable::LayoutTable(const PartitionFabric& fabric) : fabric_(&fabric) {
  const std::size_t devices = std::size_t{1} << fabric.bits();
  all_.assign((devices + 63) / 64, devices < 64 ? (std::uint64_t{1} << devices) - 1 : ~std::uint64_t{0});
  for (int bit = 0; bit < fabric.bits(); ++bit) {
    Devices set(all_.size(), 0);
    for (std::size_t d = 0; d < devices; ++d) set[d / 64] |= static_cast<std::uint64_t>((d >> bit) & 1) << (d % 64);
    bit_sets_.push_back(std::move(set));
  }
}

LayoutId LayoutTable::plain(const AxisMasks& masks) {
  std::uint64_t key = 0;
  for (const std::uint16_t mask : masks) key = (key << 16) | mask;
  const auto [found, added] = plain_ids_.try_emplace(key, size());
  if (added) {
    Entry entry;
    entry.masks = masks;
    for (std::size_t axis = 0; axis < masks.size(); ++axis) {
      entry.tile_bits += std::popcount(masks[axis]);
      for (int k = 0; k <= fabric_->level_count(); ++k) {
        const int inner = k == 0 ? 0 : fabric_->reach_of(k - 1);
        entry.outer[static_cast<std::size_t>(k)][axis] =
            static_cast<std::int8_t>(std::popcount(static_cast<unsigned>(masks[axis] >> inner)));
      }
      auto lead = masks[axis];  // the mask without its last digits, one after the other
      for (int digits = std::popcount(masks[axis]); digits >= 0; --digits) {
        entry.leading[axis][static_cast<std::size_t>(digits)] = lead;
        lead = static_cast<std::uint16_t>(lead & (lead - 1));
      }
    }
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
      if (plain_axes) {
        masks[axis] = static_cast<std::uint16_t>(masks[axis] | (1u << bit));
        above = bit;
      }
    }
  }
  if (plain_axes) return plain(masks);
  std::vector<std::int16_t> key(layout.bits.begin(), layout.bits.end());
  for (const auto& index : layout.index) key.insert(key.end(), index.begin(), index.end());
  const auto [found, added] = skewed_ids_.try_emplace(std::move(key), size());
  if (added) add_skewed(layout);
  return found->second;
}

void LayoutTable::add_skewed(const partition::Layout& layout) {
  Entry entry;
  entry.skewed = static_cast<std::int32_t>(skewed_.size());
  entry.tile_bits = layout.tile_bits();
  Skewed skewed;
  for (std::size_t axis = 0; axis < entry.masks.size(); ++axis) {
    entry.outer.front()[axis] = layout.bits[axis];
    for (int digit = layout.bits[axis] - 1; digit >= 0; --digit) {
      Devices set(all_.size(), 0);
      for (std::size_t d = 0; d < layout.index.size(); ++d)
        set[d / 64] |= static_cast<std::uint64_t>((layout.index[d][axis] >> digit) & 1) << (d % 64);
      skewed.digits[axis].push_back(std::move(set));
    }
  }
  for (int bit = 0; bit < fabric_->bits(); ++bit) {
    bool same = true;
    for (std::size_t d = 0; d < layout.index.size() && same; ++d)
      same = layout.index[d] == layout.index[d ^ (std::size_t{1} << bit)];
    if (same) skewed.replicas |= 1u << bit;
  }
  entries_.push_back(entry);
  skewed_.push_back(std::move(skewed));
}

Exchange LayoutTable::moved(LayoutId held, LayoutId needed) const {
  if (held == needed) return {};
  const Entry &a = entries_[static_cast<std::size_t>(held)], &b = entries_[static_cast<std::size_t>(needed)];
  if (a.skewed >= 0) return moved_from_skewed(a, b);
  return b.skewed >= 0 ? moved_to_skewed(a, b) : moved_plain(a, b);
}

/// Holds what a device finds of the tile that it needs: `volume` (a part of the tensor) on a share 2^−rank of the
/// devices, else nothing.
struct LayoutTable::Found {
  double volume = 0;
  int rank = 0;
};

/// Searches inside domains below `level`. The holders' inner bits are free there, so their last digits are gone.
LayoutTable::Found LayoutTable::found_within(const Entry& held, const Entry& needed, int level) const {
  if (level == fabric_->level_count()) return {share(needed.tile_bits), 0};  // some device has everything
  const auto &held_digits = held.outer[static_cast<std::size_t>(level)], &needed_digits = needed.outer.front();
  int bits = 0;
  bool aligned = true;
  for (std::size_t axis = 0; axis < held_digits.size(); ++axis) {
    const int a = held_digits[axis], b = needed_digits[axis];
    const auto common = static_cast<std::size_t>(std::min(a, b));
    bits += std::max(a, b);
    aligned = aligned && held.leading[axis][common] == needed.leading[axis][common];
  }
  Found found{1.0 / static_cast<double>(std::int64_t{1} << bits), 0};
  if (aligned) return found;
  Equations equations;
  for (std::size_t axis = 0; axis < held_digits.size(); ++axis) {
    const auto common = static_cast<std::size_t>(std::min(held_digits[axis], needed_digits[axis]));
    equations.equate(held.leading[axis][common], needed.leading[axis][common]);
  }
  found.rank = equations.rank();
  return found;
}

Exchange LayoutTable::moved_plain(const Entry& held, const Entry& needed) const {
  Exchange exchange;
  Found below = found_within(held, needed, 0);
  for (int k = 0; k < fabric_->level_count(); ++k) {
    const Found here = found_within(held, needed, k + 1);
    const auto at = static_cast<std::size_t>(k);
    exchange.largest[at] = below.rank == here.rank ? here.volume - below.volume : here.volume;
    exchange.mean[at] = here.volume * share(here.rank) - below.volume * share(below.rank);
    below = here;
  }
  return exchange;
}

double LayoutTable::seconds(LayoutId held, LayoutId needed, double bytes) const {
  if (held == needed) return 0.0;
  const Entry &a = entries_[static_cast<std::size_t>(held)], &b = entries_[static_cast<std::size_t>(needed)];
  PartitionFabric::Sum sum;
  if (a.skewed >= 0 || b.skewed >= 0) {
    const Exchange moved = a.skewed >= 0 ? moved_from_skewed(a, b) : moved_to_skewed(a, b);
    for (int k = 0; k < fabric_->level_count(); ++k) {
      const auto at = static_cast<std::size_t>(k);
      sum.add(*fabric_, k, moved.mean[at] * bytes, moved.largest[at] * bytes);
    }
    return sum.seconds();
  }
  Found below = found_within(a, b, 0);
  for (int k = 0; k < fabric_->level_count(); ++k) {
    const Found here = found_within(a, b, k + 1);
    const double largest = below.rank == here.rank ? here.volume - below.volume : here.volume;
    sum.add(*fabric_, k, (here.volume * share(here.rank) - below.volume * share(below.rank)) * bytes, largest * bytes);
    below = here;
  }
  return sum.seconds();
}

const LayoutTable::Devices& LayoutTable::digit(const Entry& entry, std::size_t axis, int digit) const {
  if (entry.skewed >= 0) return skewed_[static_cast<std::size_t>(entry.skewed)].digits[axis][static_cast<std::size_t>(digit)];
  return bit_sets_[static_cast<std::size_t>(std::countr_zero(entry.leading[axis][static_cast<std::size_t>(digit) + 1]))];
}

/// Returns the devices whose needed tile agrees with the (plain) box that their domain below `level` holds.
LayoutTable::Devices LayoutTable::agreeing(const Entry& held, const Entry& needed, int level) const {
  Devices set = all_;
  for (std::size_t axis = 0; axis < held.masks.size(); ++axis) {
    const int common = std::min<int>(held.outer[static_cast<std::size_t>(level)][axis], tile_digits(needed, axis));
    for (int j = 0; j < common; ++j) {
      const Devices &a = digit(held, axis, j), &b = digit(needed, axis, j);
      for (std::size_t w = 0; w < set.size(); ++w) set[w] &= ~(a[w] ^ b[w]);
    }
  }
  return set;
}

Exchange LayoutTable::moved_to_skewed(const Entry& held, const Entry& needed) const {
  Exchange exchange;
  int below_count = 0;
  double below_volume = 0;
  for (int k = 0; k <= fabric_->level_count(); ++k) {
    int bits = 0;
    for (std::size_t axis = 0; axis < held.masks.size(); ++axis)
      bits += std::max<int>(held.outer[static_cast<std::size_t>(k)][axis], tile_digits(needed, axis));
    const int here_count = count(agreeing(held, needed, k));
    const double volume = 1.0 / static_cast<double>(std::int64_t{1} << bits);
    if (k > 0) {
      const auto at = static_cast<std::size_t>(k) - 1;
      const double devices = static_cast<double>(std::int64_t{1} << fabric_->bits());
      exchange.mean[at] = (here_count * volume - below_count * below_volume) / devices;
      if (here_count > 0) exchange.largest[at] = here_count > below_count ? volume : volume - below_volume;
    }
    below_count = here_count;
    below_volume = volume;
  }
  return exchange;
}

/// Compares the tiles of all devices of a domain, which form no single box, one exchange of ids after the other.
Exchange LayoutTable::moved_from_skewed(const Entry& held, const Entry& needed) const {
  const Skewed& from = skewed_[static_cast<std::size_t>(held.skewed)];
  std::vector<Devices> theirs;  // digits of the neighbour's tile
  std::vector<const Devices*> wanted;
  int unit = 0;
  for (std::size_t axis = 0; axis < held.masks.size(); ++axis) {
    unit += std::max(tile_digits(held, axis), tile_digits(needed, axis));
    for (int j = 0; j < std::min(tile_digits(held, axis), tile_digits(needed, axis)); ++j) {
      theirs.push_back(digit(held, axis, j));
      wanted.push_back(&digit(needed, axis, j));
    }
  }
  const std::size_t devices = std::size_t{1} << fabric_->bits();
  const double part = 1.0 / static_cast<double>(std::int64_t{1} << unit);
  std::vector<int> found(devices), below(devices);
  Exchange exchange;
  for (int k = 0; k <= fabric_->level_count(); ++k) {
    if (k == fabric_->level_count()) {
      std::fill(found.begin(), found.end(), 1 << (unit - needed.tile_bits));  // some device has everything
    } else {
      const std::uint32_t inside = (k == 0 ? 1u : 1u << fabric_->reach_of(k - 1)) - 1u;
      count_agreeing(theirs, wanted, inside & ~from.replicas, found);
    }
    if (k > 0) {
      int largest = 0, total = 0;
      for (std::size_t d = 0; d < devices; ++d) {
        largest = std::max(largest, found[d] - below[d]);
        total += found[d] - below[d];
      }
      const auto at = static_cast<std::size_t>(k) - 1;
      exchange.largest[at] = largest * part;
      exchange.mean[at] = total * part / static_cast<double>(devices);
    }
    below = found;
  }
  return exchange;
}

/// Counts how many of the neighbours that differ in some of the bits `among` hold a part of what each device wants.
void LayoutTable::count_agreeing(std::vector<Devices>& theirs, const std::vector<const Devices*>& wanted, std::uint32_t among,
                                 std::vector<int>& found) const {
  std::fill(found.begin(), found.end(), 0);
  std::uint32_t offset = 0;
  do {
    for (std::size_t w = 0; w < all_.size(); ++w) {
      std::uint64_t same = all_[w];
      for (std::size_t i = 0; i < theirs.size(); ++i) same &= ~(theirs[i][w] ^ (*wanted[i])[w]);
      for (; same != 0; same &= same - 1) ++found[64 * w + static_cast<std::size_t>(std::countr_zero(same))];
    }
    const std::uint32_t next = (offset - among) & among;  // subsets of `among` in ascending order, back to none
    for (std::uint32_t changed = next ^ offset; changed != 0; changed &= changed - 1)
      for (Devices& digits : theirs) exchange_bit(digits, std::countr_zero(changed));
    offset = next;
  } while (offset != 0);
}

}  // namespace espalier::cost
