// SPDX-License-Identifier: Apache-2.0
// How far apart errors of predictions lie, from few and dependent ones.
//
//   effective runs    n_eff = Σ_c n_c/(1 + (n_c − 1)·ρ)        n_c runs of a cluster (source, group), which share an error; ρ intraclass correlation
//                     from one-way analysis of variance, at least 0 (Kish 1965, design effect); no more than the
//                     weights say
//   variance          v = (d·s² + d₀·v₀)/(d + d₀)              s² with d degrees of freedom, shrunk to v₀ with d₀, both from the variances of other
//                     sources: log s²_i has the mean log v₀ + ψ(d_i/2) − log(d_i/2) − ψ(d₀/2) + log(d₀/2), variance
//                     ψ′(d_i/2) + ψ′(d₀/2)
//                     (Smyth 2004, doi 10.2202/1544-6115.1027, section 6.2)
//   quantile          of Student's t with d degrees of freedom, by its expansion about the normal one (Abramowitz &
//                     Stegun 26.7.5; d ≥ 1: within
//                     4 % at nine tenths, d ≥ 2: 0.3 %)
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace espalier::lab {

/// An error on the logarithmic scale. Those of one cluster may share a part of it.
struct ErrorPoint {
  double value = 0, weight = 1;
  std::string cluster;
};

/// ρ; 0 for fewer than two clusters, or one run in each.
double intraclass_correlation(const std::vector<ErrorPoint>& points);
/// n_eff; 0 of none, else at least 1.
double effective_runs(const std::vector<ErrorPoint>& points, double correlation);
/// Mean of the squares, by weight: about zero, since a prediction's error has a bias too.
double mean_square(const std::vector<ErrorPoint>& points);

struct Variance {
  double value = 0, freedom = 0;
};
/// v₀ and d₀ of at least two variances above 0; of fewer nothing is known: freedom 0.
Variance common_variance(const std::vector<Variance>& variances);
Variance shrunk(const Variance& own, const Variance& prior);

/// `probability` between 0.5 and 1, `freedom` at least 1.
double student_quantile(double probability, double freedom);

/// How far below and above 0 the share `level` of further errors lies. Each side has a variance of its own, from the
/// quantile of that side, with n_eff − 1 degrees of freedom, shrunk to that of both sides with d₀ ones.
struct Sides {
  double low = 0, high = 0;  ///< on the logarithmic scale, both ≥ 0
};
Sides error_sides(const std::vector<ErrorPoint>& points, double runs, const Variance& prior, double level);

/// Weighted quantile: the smallest value at which the weight so far reaches q of all; 0 for none.
double weighted_quantile(std::vector<std::pair<double, double>> value_weight, double q);

}  // namespace espalier::lab
