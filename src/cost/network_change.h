// SPDX-License-Identifier: Apache-2.0
// The part of a lower bound that remains valid after a change of the links.
//
// Let two clusters differ only in bandwidth, latency and start of their fabric levels, in memory limits and in names.
// For level k let
//   v_k = least of β_k/β'_k and of the same for pairs,   a_k = α'_k/α_k,   s_k = σ'_k/σ_k      (′: after the change)
// and f = min_k(v_k, a_k, s_k, 1). In every collective (collective.h), the bytes' part V and the small message's part
// L then keep at least f of themselves. Its time L + V + max_k ρ_k·√(L·V_k) is of degree one and grows in all of
// them, so that it keeps f as well. So does a collective next to compute, because the compute keeps all of itself.
// Its pair(c, w) (overlap.h) is of degree one and grows with c and with κ_w. For given bytes κ_w is larger at f·c
// than at c. Measured factors do not change.
//
// A lower bound (bound.h) is a maximum of sums of such times with non-negative factors. It keeps r = f, except for
// rounding. Each of its terms is rounded to a whole nanosecond before and after, and keeps r of itself less 1 ns.
//
//   bound after ≥ r · bound before − allowance.
//
// Where some links became faster and some slower, f describes the former: it is r < 1, as if nothing had become
// slower.
//
// Clusters with other devices, nodes or levels are not comparable, r = 0. Neither are devices of unequal speed,
// whether or not the links are the same. Plans with operator partitions are not covered.
#pragma once

#include <cstdint>

#include "espalier/cluster.h"

namespace espalier::cost {

struct NetworkChange {
  double ratio = 0;    ///< r: the share that bounds keep; 0: the clusters are not comparable
  bool equal = false;  ///< the links are the same, and so are bounds, to the nanosecond
  /// Returns what is left of a bound of a schedule choice with this many micro-batches and layers.
  [[nodiscard]] std::int64_t bound_after(std::int64_t bound_ns, std::int64_t microbatches, std::int64_t layers) const;
};

/// Returns the change of bounds under one engine, which scales all times of a kind alike.
NetworkChange network_change(const Cluster& before, const Cluster& after);

}  // namespace espalier::cost
