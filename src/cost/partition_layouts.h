// SPDX-License-Identifier: Apache-2.0
// Time to move tiles between layouts (PrimePar, eq. 8 and 9), by level of the fabric.
//
// 2^n devices fill whole domains of the fabric: level k joins 2^{j_k} of them (aligned blocks: reach ≤ j_k,
// partition/layout.h). The bytes that a device needs and does not hold come from the nearest domain that has them.
// With f_k(D) the bytes that device D fetches inside its domain of level k but from outside the one below,
//     V = max_k max( mean_D f_k / (β_k·η_k),  max_D f_k / (β'_k·η_k),  pair_k / (β''_k·η_k) ) · (1 + γ_k·log2 r_k)
//     T = L + V + ρ·√(L·V),   L = max σ_k + Σ α_k over the levels used.
//
// Here β is per device when all send (NICs shared: the mean counts), and β' that of one device alone. The rate β'' is
// per peer of direct links (a ring: one message `pair_k` goes to one peer). All levels work at once. Bytes of several
// tensors travel together.
//
// Layouts are numbered. A plain one gives every axis a set of bits of the device id (a mask, most significant first),
// and f_k follows from the masks. Two slices of an axis agree where their common leading bits do, each of which is a
// bit of D in both layouts. Therefore a share 2^−rank of the devices agrees, where rank counts the independent
// equations d_i = d_j. Skewed layouts (inputs of P) have digits that are no bits of D. For each digit the set of
// devices that show a 1 is kept. Sets are intersected, for the tiles of the neighbours in a domain with their ids'
// bits exchanged. Both methods equal partition::redistribution (tested).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "cost/placement.h"
#include "espalier/cluster.h"
#include "partition/layout.h"

namespace espalier::cost {

/// Holds by level the bytes (or parts of a tensor) that a device fetches, on average and at most, and the largest
/// single message.
struct Exchange {
  std::array<double, kMaxLevels> mean{}, largest{}, pair{};
  void add(const Exchange& other, double factor);
};

/// Describes the fabric as 2^bits devices see it.
class PartitionFabric {
 public:
  /// Returns false when a level inside the devices does not join a power of two of them.
  static bool supports(const std::vector<FabricLevel>& levels, int bits);
  PartitionFabric(const std::vector<FabricLevel>& levels, int bits);

  [[nodiscard]] const std::vector<FabricLevel>& levels() const { return levels_; }
  [[nodiscard]] int bits() const { return bits_; }
  [[nodiscard]] int level_count() const { return static_cast<int>(levels_.size()); }
  /// Returns j_k.
  [[nodiscard]] int reach_of(int level) const { return reach_[static_cast<std::size_t>(level)]; }
  /// Returns the level over which devices of this reach (≥ 1) communicate.
  [[nodiscard]] int level_of(int reach) const;
  [[nodiscard]] double seconds(const Exchange& bytes) const;
  /// Adds up the seconds level by level.
  class Sum {
   public:
    void add(const PartitionFabric& fabric, int level, double mean, double largest, double pair = 0);
    [[nodiscard]] double seconds() const;

   private:
    double volume_ = 0, start_ = 0, latency_ = 0, ramp_ = 0;
  };
  /// Returns the group of an indicator: devices that agree in all other bits.
  [[nodiscard]] Group group(std::uint32_t indicator) const;

 private:
  std::vector<FabricLevel> levels_;
  int bits_;
  std::vector<int> reach_;
  std::array<double, kMaxLevels> per_byte_mean_{}, per_byte_largest_{}, per_byte_pair_{}, start_{}, latency_{}, ramp_{};
};

using LayoutId = std::int32_t;
using AxisMasks = std::array<std::uint16_t, partition::kMaxAxes>;

/// Holds the distinct layouts of tensors on 2^bits devices.
class LayoutTable {
 public:
  explicit LayoutTable(const PartitionFabric& fabric);
  LayoutId plain(const AxisMasks& masks);
  /// Returns the id of a layout; recognises plain layouts.
  LayoutId intern(const partition::Layout& layout);
  [[nodiscard]] int size() const { return static_cast<int>(entries_.size()); }
  [[nodiscard]] bool is_plain(LayoutId id) const { return entries_[static_cast<std::size_t>(id)].skewed < 0; }
  [[nodiscard]] const AxisMasks& masks(LayoutId id) const { return entries_[static_cast<std::size_t>(id)].masks; }
  /// Returns log2 of the number of tiles: a tile is 1/2^this of the tensor.
  [[nodiscard]] int tile_bits(LayoutId id) const { return entries_[static_cast<std::size_t>(id)].tile_bits; }
  /// Returns what is fetched, as parts of the tensor.
  [[nodiscard]] Exchange moved(LayoutId held, LayoutId needed) const;
  /// Returns the time to move one tensor of `bytes`: fabric.seconds(moved · bytes), without that detour where both
  /// are plain.
  [[nodiscard]] double seconds(LayoutId held, LayoutId needed, double bytes) const;

 private:
  struct Entry {
    AxisMasks masks{};
    int tile_bits = 0;
    std::int32_t skewed = -1;  ///< index into skewed_
    /// Holds the digits of each axis among the bits that domains of level k − 1 share (k = 0: all).
    std::array<std::array<std::int8_t, partition::kMaxAxes>, kMaxLevels + 1> outer{};
    std::array<std::array<std::uint16_t, partition::kMaxBits + 1>, partition::kMaxAxes> leading{};  ///< [axis][digits]
  };
  struct Found;
  [[nodiscard]] Found found_within(const Entry& held, const Entry& needed, int level) const;
  [[nodiscard]] Exchange moved_plain(const Entry& held, const Entry& needed) const;
  [[nodiscard]] Exchange moved_to_skewed(const Entry& held, const Entry& needed) const;
  [[nodiscard]] Exchange moved_from_skewed(const Entry& held, const Entry& needed) const;
  void add_skewed(const partition::Layout& layout);
  /// Holds a set of devices, one bit each.
  using Devices = std::vector<std::uint64_t>;
  [[nodiscard]] const Devices& digit(const Entry& entry, std::size_t axis, int digit) const;
  [[nodiscard]] Devices agreeing(const Entry& held, const Entry& needed, int level) const;
  void count_agreeing(std::vector<Devices>& theirs, const std::vector<const Devices*>& wanted, std::uint32_t among,
                      std::vector<int>& found) const;
  [[nodiscard]] static int tile_digits(const Entry& entry, std::size_t axis) { return entry.outer.front()[axis]; }

  struct Skewed {
    std::array<std::vector<Devices>, partition::kMaxAxes> digits;  ///< most significant first
    std::uint32_t replicas = 0;                                    ///< bits of the device id that change nothing
  };

  const PartitionFabric* fabric_;
  Devices all_;
  std::vector<Devices> bit_sets_;  ///< devices with a 1 in each bit of their id
  std::vector<Entry> entries_;
  std::vector<Skewed> skewed_;
  std::map<std::uint64_t, LayoutId> plain_ids_;
  std::map<std::vector<std::int16_t>, LayoutId> skewed_ids_;
};

}  // namespace espalier::cost
