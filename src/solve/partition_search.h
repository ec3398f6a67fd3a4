// SPDX-License-Identifier: Apache-2.0
// Finds the best contiguous partition of layers into stages by dynamic programming from the last stage to the first,
// with few calls of the oracle.
//
// A label (sum, top, tail) holds the values of stages i … p−1 on layers f … L−1. Stage i on [f, e) with value (s, t,
// o) joins the labels of stage i + 1 from e:
//   bound       top' = max(m·s + t, s + message_i + top)         earlier stages add the same to every term:
//                                                                one label suffices
//   published   (sum + s, max(top, s), max(tail, t))
//   steady      top' = max(s, top)
//   peak        top' = max(o, top)
// A label a makes b superfluous if no earlier stages can make b the better one:
//   sum_a − sum_b + (m − 1)·max(0, top_a − top_b) + max(0, tail_a − tail_b) ≤ 0.
// The reason is that max(x, y) rises by no more than x does. (bound, steady, peak: top_a ≤ top_b.)
//
// Monotonicity saves calls. The cost A of a stage (m·s + t; s; o) never falls with more layers. So every known A(i,
// f', e') is a floor of A(i, f, e) for f ≤ f', e' ≤ e; "does not fit" is A = ∞. For each (i, f) the end with the
// least possible total is queried first. This continues until no other end can give a total within the limit or a
// label that counts.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "solve/stage_balance.h"
#include "solve/stage_memo.h"

namespace espalier::solve {

enum class PartitionGoal : std::uint8_t { bound, published, steady, peak };

struct PartitionTask {
  PartitionGoal goal = PartitionGoal::bound;
  double limit = std::numeric_limits<double>::infinity();       ///< partitions above it need not be found
  double steady_cap = std::numeric_limits<double>::infinity();  ///< a stage above a cap does not fit
  std::int64_t peak_cap = std::numeric_limits<std::int64_t>::max();
};

/// Returns the first layers of the best partition for the goal; among equal ones the lexicographically smallest.
/// Empty: none is within the limit.
std::vector<std::int32_t> search_partition(const BalanceProblem& problem, StageMemo& memo, const PartitionTask& task);

}  // namespace espalier::solve
