// SPDX-License-Identifier: Apache-2.0
// Where the tiles of a tensor lie, and what moves when the next operator needs them elsewhere (PrimePar, equations 8
// and 9).
//
// A layout gives the tile that every device holds: on each axis one of 2^b equal slices. Slices of two layouts of one
// tensor are nested or disjoint, since all counts are powers of two. Redistribution from `held` (S¹) to `needed`
// (S²):
//     fetched(D) = V − Π_X |S¹_X(D) ∩ S²_X(D)|,     V = Π_X |S²_X(D)|          (9)
// A tile that a device lacks comes from the nearest device that holds it. The `reach` r of two devices is the
// smallest r for which both lie in one aligned block of 2^r devices. It is n + 1 − (position of the farthest bit that
// differs), and 0 for the same device. A tile leaves a node of 2^j devices when r > j.
//
// Forward: from O as the producer leaves it (its last forward step) to what the consumer's first forward step reads.
// Backward: from dI as the consumer leaves it to the dO that the producer's first backward step reads. Chained
// linears with P are not aligned. O ends at (M, K) = (r, c), and I begins at (r, r + c), a skew inside each row of
// the torus, as in Cannon's algorithm.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "partition/operator_splits.h"

namespace espalier::partition {

inline constexpr int kMaxAxes = 4;

/// Describes a tile: slice `index[a]` of 2^bits[a] on each axis. Axes beyond the tensor's have 0 bits.
struct Tile {
  std::array<std::int16_t, kMaxAxes> index{};
  std::array<std::int8_t, kMaxAxes> bits{};
  bool operator==(const Tile&) const = default;
};

/// Holds the tile of every device. Equal layouts compare equal, so that costs of redistribution can be kept by
/// layout.
struct Layout {
  std::int8_t axes = 0;
  std::array<std::int8_t, kMaxAxes> bits{};               ///< log2 slices of each axis
  std::vector<std::array<std::int16_t, kMaxAxes>> index;  ///< [device][axis]
  [[nodiscard]] int devices() const { return static_cast<int>(index.size()); }
  [[nodiscard]] Tile tile(int device) const { return {index[static_cast<std::size_t>(device)], bits}; }
  /// Returns Σ bits: one tile is 1 / 2^tile_bits of the tensor.
  [[nodiscard]] int tile_bits() const { return bits[0] + bits[1] + bits[2] + bits[3]; }
  bool operator==(const Layout&) const = default;
};

/// Returns where the tiles of a tensor (or its gradient: `phase` decides) lie at one step of a phase.
Layout layout_at(const OperatorShape& op, const PartitionSequence& sequence, int tensor, Phase phase, int step);

/// Return layouts at the edges of an operator. `tensor`: index of an input. The last step of its product's phase
/// leaves the gradient of an input.
Layout forward_needed(const OperatorShape& op, const PartitionSequence& sequence, int tensor);
Layout forward_held(const OperatorShape& op, const PartitionSequence& sequence);
Layout backward_needed(const OperatorShape& op, const PartitionSequence& sequence);
Layout backward_held(const OperatorShape& op, const PartitionSequence& sequence, int tensor);

/// Returns the smallest r such that a and b lie in one aligned block of 2^r devices; 0 when equal.
int reach(int a, int b);

/// Holds what a redistribution moves, in parts of the tensor: `unit_bits` u means 1 unit = 1 / 2^u of its elements.
struct Redistribution {
  int unit_bits = 0;
  std::vector<std::int64_t> fetched;  ///< [device]: units needed and not held (9)
  /// Hold, by reach 0 … n, the units fetched from the nearest holder at that reach: by the device that fetches most
  /// there, and by all devices. Entry 0 is 0.
  std::array<std::int64_t, kMaxBits + 1> largest{}, total{};
  [[nodiscard]] std::int64_t fetched_total() const;
  bool operator==(const Redistribution&) const = default;
};

/// Holds the tiles of a layout gathered by aligned blocks of devices, in as few boxes as possible, for look-ups by
/// redistribution(). Build it once for each layout that is used often.
class Coverage {
 public:
  explicit Coverage(Layout layout);
  [[nodiscard]] const Layout& layout() const { return layout_; }
  /// Return the disjoint boxes that the devices of the block of `device` with 2^r devices hold together.
  [[nodiscard]] const Tile* begin(int r, int device) const { return boxes_.data() + first(r, device); }
  [[nodiscard]] const Tile* end(int r, int device) const { return boxes_.data() + first(r, device, 1); }

 private:
  [[nodiscard]] std::size_t first(int r, int device, int next = 0) const {
    return first_[offset_[static_cast<std::size_t>(r)] + static_cast<std::size_t>((device >> r) + next)];
  }
  Layout layout_;
  std::vector<Tile> boxes_;
  std::vector<std::size_t> first_;                  ///< first box of each block of each reach, and one past
  std::array<std::size_t, kMaxBits + 1> offset_{};  ///< offset of each reach in first_
};

/// Return the redistribution between layouts of one tensor on the same number of devices. It takes O(devices · bits).
Redistribution redistribution(const Coverage& held, const Layout& needed);
Redistribution redistribution(const Layout& held, const Layout& needed);
/// Returns only Σ_D fetched(D), as a share of the tensor (equation 9), which is cheaper.
double redistribution_total(const Layout& held, const Layout& needed);

/// Describes one message of a redistribution: `tile` (in units of both layouts' finest slices) from the nearest
/// holder. Among several, it is the one that differs in fewest bits, then the one with the lowest id.
struct TileMove {
  int from = 0, to = 0;
  Tile tile;
  bool operator==(const TileMove&) const = default;
};
/// Returns the messages, by receiver, for code that executes a plan; tiles that are already in place are left out.
std::vector<TileMove> redistribution_moves(const Layout& held, const Layout& needed);

}  // namespace espalier::partition
