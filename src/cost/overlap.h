// SPDX-License-Identifier: Apache-2.0
// Overlap of communication and compute. A communication of stand-alone length c and compute of stand-alone length w
// slow each other down by κ_c, κ_w ≥ 1 while both run (processor sharing; form of Galvatron, Miao et al. 2022,
// §overlap):
//     pair(c, w) = w·κ_w + (c − w·κ_w/κ_c)   if c·κ_c ≥ w·κ_w      (compute ends first)
//                = c·κ_c + (w − c·κ_c/κ_w)   otherwise
// For 1/κ_c + 1/κ_w ≥ 1: max(c, w) ≤ pair ≤ c + w; κ = 1 gives the maximum. Stronger factors, which only a measured
// device may have, would make overlap slower than running both in turn. They are then run serially: pair = c + w.
#pragma once

#include <algorithm>
#include <cstdint>

namespace espalier::cost {

struct MutualSlowdown {
  double communication = 1.0;  ///< κ_c
  double compute = 1.0;        ///< κ_w
  bool operator==(const MutualSlowdown&) const = default;
  /// Returns whether both together would take longer than one after the other, in which case they run in turn.
  [[nodiscard]] bool in_turn() const { return 1.0 / compute + 1.0 / communication < 1.0; }
  /// Raises each factor to the larger of the two.
  void raise(const MutualSlowdown& by) {
    communication = std::max(communication, by.communication);
    compute = std::max(compute, by.compute);
  }
};

/// Describes compute next to a collective on a device: κ_c, and κ_w = κ_0 + traffic · (bytes moved / seconds), the
/// rate that this collective draws. A collective that is faster, because its links are or wait for less, never makes
/// pair() larger. The loss of compute grows less than the seconds fall, as κ_c·(1 − 1/κ_w) is concave in the rate,
/// and κ_w never exceeds κ_c/(κ_c − 1).
struct Interference {
  double communication = 1.0;  ///< κ_c
  double alone = 1.0;          ///< κ_0: next to a collective that moves almost nothing
  double traffic = 0.0;        ///< s/byte; 0: κ_w = κ_0 whatever it moves

  /// Returns the slow-down for a collective that moves `bytes` through each rank (collective.h, moved_bytes) in
  /// `seconds`, waits included.
  [[nodiscard]] MutualSlowdown of(double bytes, double seconds) const {
    MutualSlowdown k{communication, alone};
    if (traffic <= 0 || bytes <= 0 || seconds <= 0) return k;
    k.compute += traffic * bytes / seconds;
    // Overlap is never worse than one after the other: 1/κ_c + 1/κ_w ≥ 1.
    if (k.communication > 1.0) k.compute = std::min(k.compute, k.communication / (k.communication - 1.0));
    return k;
  }
};

inline double pair_time(double c, double w, MutualSlowdown k) {
  const double together = c * k.communication >= w * k.compute ? w * k.compute + (c - w * k.compute / k.communication)
                                                               : c * k.communication + (w - c * k.communication / k.compute);
  return std::min(together, c + w);
}

/// Returns pair_time in integer nanoseconds, rounded down where one of the two ends, as the simulator (sim/clock.h)
/// does.
inline std::int64_t pair_ns(std::int64_t c, std::int64_t w, MutualSlowdown k) {
  if (k.in_turn()) return c + w;
  const double ring = static_cast<double>(c) * k.communication, compute = static_cast<double>(w) * k.compute;
  if (ring < compute) {
    const auto step = static_cast<std::int64_t>(ring);
    return step + static_cast<std::int64_t>(std::max(0.0, static_cast<double>(w) - static_cast<double>(step) / k.compute));
  }
  const auto step = static_cast<std::int64_t>(compute);
  return step + static_cast<std::int64_t>(std::max(0.0, static_cast<double>(c) - static_cast<double>(step) / k.communication));
}

}  // namespace espalier::cost
