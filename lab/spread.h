// SPDX-License-Identifier: Apache-2.0
// Estimates the spread of prediction errors from few and dependent ones.
//
//   effective runs    n_eff = Σ_c n_c/(1 + (n_c − 1)·ρ) with n_c runs of a cluster (source, group), which share an
//                     error. The intraclass correlation ρ comes from one-way analysis of variance and is at least 0
//                     (Kish 1965, design effect). At most, n_eff is the sum of the weights.
//   variance          v = (d·s² + d₀·v₀)/(d + d₀): s² with d degrees of freedom is shrunk to v₀ with d₀. Both come from
//                     the variances of other sources: log s²_i has the mean log v₀ + ψ(d_i/2) − log(d_i/2) − ψ(d₀/2) +
//                     log(d₀/2) and the variance ψ′(d_i/2) + ψ′(d₀/2)
//                     (Smyth 2004, doi 10.2202/1544-6115.1027, section 6.2).
//   quantile          Student's t with d degrees of freedom, by its expansion about the normal one (Abramowitz & Stegun
//                     26.7.5; d ≥ 1: within 4 % at nine tenths, d ≥ 2: 0.3 %).
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace espalier::lab {

/// Holds an error on the logarithmic scale. Errors of one cluster may share a part of it.
struct ErrorPoint {
  double value = 0, weight = 1;
  std::string cluster;
};

/// Returns ρ; 0 for fewer than two clusters, or with one run in each.
double intraclass_correlation(const std::vector<ErrorPoint>& points);
/// Returns n_eff; 0 without points, at least 1 otherwise.
double effective_runs(const std::vector<ErrorPoint>& points, double correlation);
/// Returns the weighted mean of the squares about zero, which includes the bias of a prediction.
double mean_square(const std::vector<ErrorPoint>& points);

struct Variance {
  double value = 0, freedom = 0;
};
/// Returns v₀ and d₀ of at least two variances above 0; with fewer the freedom is 0 (unknown).
Variance common_variance(const std::vector<Variance>& variances);
Variance shrunk(const Variance& own, const Variance& prior);

/// Returns the quantile at `probability` between 0.5 and 1, with `freedom` at least 1.
double student_quantile(double probability, double freedom);

/// Returns how far below and above 0 the share `level` of further errors extends. Each side has its own variance,
/// from the quantile of that side with n_eff − 1 degrees of freedom. It is shrunk to the variance of both sides
/// with d₀ degrees.
struct Sides {
  double low = 0, high = 0;  ///< on the logarithmic scale, both ≥ 0
};
Sides error_sides(const std::vector<ErrorPoint>& points, double runs, const Variance& prior, double level);

/// Returns the weighted quantile: the smallest value at which the cumulative weight reaches q of all; 0 if empty.
double weighted_quantile(std::vector<std::pair<double, double>> value_weight, double q);

}  // namespace espalier::lab
