// SPDX-License-Identifier: Apache-2.0
// Holds the state that all parts of one branch and bound share: the problem with its space and costs, the options,
// the current incumbent and its certificate. Parts that run on several threads read it as const; it changes only
// between their groups (search.h).
#pragma once

#include <cstdint>
#include <vector>

#include "search/cost_book.h"
#include "search/search.h"

namespace espalier::search {

/// Holds a node of the tree with the bound of everything below it: nanoseconds, or a rank of the preference.
struct Leaf {
  Configuration configuration;
  std::int64_t bound_ns = 0;
  std::int64_t slot = -1;  ///< index where the floor of a schedule choice is kept
};

inline bool before(std::int64_t bound_a, const Configuration& a, std::int64_t bound_b, const Configuration& b) {
  return bound_a != bound_b ? bound_a < bound_b : canonical_less(a, b);
}

inline bool by_bound(const Leaf& a, const Leaf& b) { return before(a.bound_ns, a.configuration, b.bound_ns, b.configuration); }

struct SearchFrame {
  SearchFrame(const Problem& problem, const Options& how);

  const Problem& problem;
  const Options& options;
  Space space;
  CostBook book;
  Outcome out;
  std::int64_t best_rank = INT64_MAX;  ///< rank of out.best; without one, the limit that an answer must not exceed

  /// Returns the minimised quantity: the time, or the rank of the preference. "Bounds" of nodes and leaves are then
  /// ranks.
  [[nodiscard]] std::int64_t rank(const Configuration& c, std::int64_t ns) const {
    return options.preference ? options.preference->rank(c, ns) : ns;
  }
  [[nodiscard]] bool exceeds(std::int64_t bound) const { return bound > best_rank; }
  [[nodiscard]] bool beaten(Pruning rule, std::int64_t bound) const { return out.pruning.enabled(rule) && exceeds(bound); }
  [[nodiscard]] bool interrupted() const { return options.interrupted && options.interrupted(); }
  /// Returns whether a second search that allows Options::keep_within times the answer may need a bound.
  [[nodiscard]] bool worth_keeping(std::int64_t ns) const {
    if (options.keep_within <= 0) return false;
    return static_cast<double>(ns) <= static_cast<double>(best_rank) * (1.0 + options.keep_within);
  }
  /// Returns whether no search needs anything above the bound: neither this search nor a second one.
  [[nodiscard]] bool out_of_reach(std::int64_t bound) const { return exceeds(bound) && !worth_keeping(bound); }
  /// Makes a candidate the incumbent if it is better, or equally good and first by canonical text.
  void improve(const Candidate& c);
};

}  // namespace espalier::search
