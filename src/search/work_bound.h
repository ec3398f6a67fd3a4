// SPDX-License-Identifier: Apache-2.0
// Bounds the time by all work: the arithmetic of a step on devices that are never idle, whatever the plan.
//
// A layer ℓ takes at least c_gℓ device-seconds per sample on kind g. This is its forward and backward pass on one
// device, each with the whole batch in one kernel. Kernels only lose when work is cut up (cost/operator_cost.h). If
// x_gℓ samples of layer ℓ are computed on kind g, Σ_g x_gℓ = B and Σ_ℓ c_gℓ·x_gℓ ≤ n_g·T, where n_g is the sum of the
// speeds of its devices. For any y_g ≥ 0, summing the latter with these weights gives
//   T ≥ B·Σ_ℓ min_g (y_g·c_gℓ) / Σ_g y_g·n_g.
// The search uses y_g = 1 / Σ_ℓ c_gℓ. The bound leaves out communication, bubbles and updates.
#pragma once

#include <cstdint>
#include <vector>

#include "search/search.h"

namespace espalier::search {

/// Computes the bound of all work. Seconds are computed once, as a bound is needed for many parts of the cluster.
class WorkBound {
 public:
  enum class Passes : std::uint8_t { both, forward };
  /// The problem must outlive this value. `forward` selects the bound of the forward passes alone; it is 0 under a
  /// profile, which has only their sum with the backward passes.
  explicit WorkBound(const Problem& problem, Passes passes = Passes::both);

  /// Returns the bound of `samples` samples on a number of devices of each group (by place in the cluster), each as
  /// fast as its kind; 0: unknown.
  [[nodiscard]] std::int64_t ns(const std::vector<double>& devices, std::int64_t samples) const;
  /// Returns the bound of the whole batch on the whole cluster, with its speeds.
  [[nodiscard]] std::int64_t ns() const;
  /// Returns the sum of the speeds of the devices of a group, or of its first `nodes` nodes.
  [[nodiscard]] double capacity(std::size_t group) const;
  [[nodiscard]] double capacity(std::size_t group, std::int64_t nodes) const;

 private:
  const Problem* problem_;
  std::vector<std::vector<double>> seconds_;  ///< [group][layer kind]
};

std::int64_t work_bound_ns(const Problem& problem);

/// Returns the least cost of the work of a step, at the prices of the groups' devices:
///   Σ_ℓ min_g (B·c_gℓ · price_g).
/// It holds for every plan on any of the devices, since every sample of every layer is computed on one of the kinds.
/// It is 0 where a group has no price.
double least_cost_of_work(const Problem& problem);

}  // namespace espalier::search
