// SPDX-License-Identifier: Apache-2.0
// What a change of the links leaves of a lower bound that was computed before it.
//
// Let two clusters differ in bandwidth, latency and start of their fabric levels alone, besides memory limits and
// names. For level k let
//   v_k = least of β_k/β'_k and of the same for pairs,   a_k = α'_k/α_k,   s_k = σ'_k/σ_k      (′: after the change)
// so that of every collective (collective.h) the bytes' part V and the small message's part L keep at least f =
// min_k(v_k, a_k, s_k, 1) of themselves. Its time is L + V + max_k ρ_k·√(L·V_k), of degree one and growing in all of
// them, so that it keeps f as well. So does a collective next to compute, which keeps all of itself: pair(c, w) of
// overlap.h is of degree one, grows with c and with κ_w, and κ_w of a collective of given bytes is larger for f·c than
// for c. Measured factors are as they are.
//
// A lower bound (bound.h) is a maximum of sums of such times with factors that are not negative. It keeps r = f, but
// for
// rounding: each of its terms is rounded to a whole nanosecond before and after, and keeps r of itself less 1 ns.
//
//   bound after ≥ r · bound before − allowance
//
// Where some of it became faster and some slower, f speaks of the former: it is r < 1, as if all that is faster were
// all there is.
//
// Not comparable, r = 0: other devices, nodes or levels; devices of unequal speed, whether or not the links are the
// same. Not meant for plans with operator partitions.
#pragma once

#include <cstdint>

#include "espalier/cluster.h"

namespace espalier::cost {

struct NetworkChange {
  double ratio = 0;    ///< r: what bounds keep; 0: the clusters are not comparable
  bool equal = false;  ///< the links are the same: bounds are, to the nanosecond
  /// What is left of a bound of a schedule choice of so many micro-batches and layers.
  [[nodiscard]] std::int64_t bound_after(std::int64_t bound_ns, std::int64_t microbatches, std::int64_t layers) const;
};

/// Of bounds under one engine, which scales all times of a kind alike.
NetworkChange network_change(const Cluster& before, const Cluster& after);

}  // namespace espalier::cost
