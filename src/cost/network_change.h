// SPDX-License-Identifier: Apache-2.0
// What a change of the links leaves of a lower bound that was computed before it.
//
// Let two clusters differ in bandwidth, latency and start of their fabric levels alone, besides memory limits and names. For level k let
//   v_k = least of β_k/β'_k and of the same for pairs,   a_k = α'_k/α_k,   s_k = σ'_k/σ_k      (′: after the change)
// so that of every collective (collective.h) the bytes' part V and the small message's part L keep at least f = min_k(v_k, a_k, s_k, 1) of
// themselves. Its time is L + V + ρ·√(L·V), of degree one and growing in both, so that it keeps f as well where its ramp ρ stays. ρ is that
// of the level whose V counts, and another level may count after the change: level j in place of i only if j slowed down as much, and since
// √(L·V) ≤ (L + V)/2 the time then keeps at least f·(1 + ρ_j/2)/(1 + ρ_i/2): the least of these over all such pairs of levels, where i can have
// counted at all before, for no more members than domains hold.
// Compute keeps all of itself. Compute beside a collective (overlap.h) is slowed down by κ = κ_w + t·bus/HBM (collective.h), less so where the
// collective became slower: bus falls to 1/v of itself at least, v = max_k of what volumes grew by, and κ to κ'. Of pair(c, w) then remains,
// whatever c and w are, at least
//     min( 1/(1 + 1/κ' − 1/κ),  1/κ_c + (1 − 1/κ_c)·κ'/κ )
// (its two kinks, c·κ_c = w·κ' and c·κ_c = w·κ; between them it is a quotient of linear functions, outside it only grows). The first is least at
// t·bus/HBM = κ_w·√v, or at the fastest bus if that is slower; the second at the fastest bus.
//
// A lower bound (bound.h) is a maximum of sums of such times with factors that are not negative. It keeps the product r of the three, but for
// rounding: each of its terms is rounded to a whole nanosecond before and after, and keeps r of itself less 1 ns.
//
//   bound after ≥ r · bound before − allowance
//
// Where some of it became faster and some slower, f speaks of the former and the two others of the latter: it is r < 1, as if all that is
// faster were all there is.
//
// Not comparable, r = 0: other devices, nodes or levels; devices of unequal speed, whether or not the links are the same. Not meant for plans with operator partitions.
#pragma once

#include <cstdint>

#include "espalier/cluster.h"
#include "plan/engine.h"

namespace espalier::cost {

struct NetworkChange {
  double ratio = 0;    ///< r: what bounds keep; 0: the clusters are not comparable
  bool equal = false;  ///< the links are the same: bounds are, to the nanosecond
  /// What is left of a bound of a schedule choice of so many micro-batches and layers.
  [[nodiscard]] std::int64_t bound_after(std::int64_t bound_ns, std::int64_t microbatches, std::int64_t layers) const;
};

/// Of bounds under `engine`, whose collectives may be faster or slower than the fabric says.
NetworkChange network_change(const Cluster& before, const Cluster& after, const EngineModel& engine);

}  // namespace espalier::cost
