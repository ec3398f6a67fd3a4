// SPDX-License-Identifier: Apache-2.0
// Computes max-min fair rates of flows over shared links, by progressive filling.
//
// Flow f has a cap u_f and uses link l with weight w_fl: while f moves one byte, l carries w_fl bytes (2 where a flow
// passes a link twice). Link l has capacity c_l. A vector of rates x is max-min fair if
// and no rate can be raised without structure one that is no greater. Equivalently, every flow either runs at its cap
// and no rate can be raised without lowering one that is no greater. Equivalently, every flow either runs at its cap
// or uses a saturated link (Σ w·x = c) on which no flow is faster. There is exactly one such vector.
//
// Progressive filling raises all rates together from 0. A flow that reaches its cap keeps that rate. When a link is
// full, its flows keep their rates; the others continue to rise. Link l becomes full at the level (c_l − Σ_frozen
// w·x) / Σ_free w. This level only rises while flows freeze, so a heap with keys that may be too low finds the next
// link. The cost is O((F + U)·log(F + L)) for F flows with U uses of L links.
//
// Source: Bertsekas and Gallager, Data Networks, 2nd edition, section 6.5.2. The caller chooses the unit, which is
// the same for c and u.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace espalier::solve {

struct FlowLink {
  std::int32_t link = 0;
  double weight = 1.0;  ///< bytes on the link per byte of the flow, positive
};

/// Describes a problem: links by number, flows in the order in which they are added.
class MaxMinProblem {
 public:
  void clear();
  /// Returns the number of the link.
  std::int32_t add_link(double capacity);
  /// Begins a flow; later calls of add_use belong to it. An infinite cap requires at least one use.
  std::int32_t add_flow(double cap);
  void add_use(std::int32_t link, double weight = 1.0);

  [[nodiscard]] std::size_t links() const { return capacity_.size(); }
  [[nodiscard]] std::size_t flows() const { return cap_.size(); }
  [[nodiscard]] double capacity(std::size_t link) const { return capacity_[link]; }
  [[nodiscard]] double cap(std::size_t flow) const { return cap_[flow]; }
  [[nodiscard]] const FlowLink* begin(std::size_t flow) const { return uses_.data() + first_[flow]; }
  [[nodiscard]] const FlowLink* end(std::size_t flow) const { return uses_.data() + first_[flow + 1]; }

 private:
  std::vector<double> capacity_, cap_;
  std::vector<std::size_t> first_{0};  ///< flow -> its first use; one more entry than flows
  std::vector<FlowLink> uses_;
};

/// Solves problems one after the other and keeps its memory between them. A flow that runs at its cap has exactly
/// that rate.
class MaxMinSolver {
 public:
  const std::vector<double>& solve(const MaxMinProblem& problem);

 private:
  void index(const MaxMinProblem& problem);
  void freeze(const MaxMinProblem& problem, std::size_t flow, double rate);
  double level_of(std::size_t link) const;
  void recount(const MaxMinProblem& problem, std::size_t number);
  std::size_t fullest_link(const MaxMinProblem& problem);

  struct LinkState {
    double left = 0.0;        ///< capacity left by frozen flows
    double weight = 0.0;      ///< weight of the free flows
    double all_weight = 0.0;  ///< weight of all flows
    std::size_t free = 0;     ///< uses by free flows
    std::size_t users = 0;    ///< uses by all flows
    std::size_t first = 0;    ///< index of its first user in users_
  };
  std::vector<double> rates_;
  std::vector<char> frozen_;
  std::vector<LinkState> links_;
  std::vector<std::int32_t> users_;                     ///< flows link by link
  std::vector<std::int32_t> by_cap_;                    ///< flows, smallest cap first
  std::vector<std::pair<double, std::int32_t>> fills_;  ///< heap: level (or less) at which a link is full, link
};

}  // namespace espalier::solve
