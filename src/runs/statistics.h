// SPDX-License-Identifier: Apache-2.0
// Errors of predictions against measurements.
//
//   error      e = (predicted − measured) / measured          ape = |e|          accuracy = max(0, 1 − ape)
//              so that an error above 100 % counts as 100 % in the mean accuracy: one run that is predicted three times as long as it took
//              would otherwise cancel two that are predicted exactly
//   mape       mean of ape; bias = mean of e; p90: the ⌈0.9 n⌉-th smallest ape; median: mean of the middle two for even n
//   τ_b        Kendall's rank correlation with ties (Kendall 1945)
//   regret     1 − t_best / t_chosen: measured throughput lost by taking what the prediction ranks first
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace espalier::runs {

struct ErrorSummary {
  std::int64_t n = 0;
  double mean_accuracy = 0, median_accuracy = 0, mape = 0, median_ape = 0, p90_ape = 0, bias = 0;
};
ErrorSummary summarize(const std::vector<double>& errors);

struct FeasibilitySummary {
  std::int64_t true_fit = 0, false_fit = 0, true_oom = 0, false_oom = 0;
  [[nodiscard]] std::int64_t n() const { return true_fit + false_fit + true_oom + false_oom; }
  [[nodiscard]] double accuracy() const {
    return n() > 0 ? static_cast<double>(true_fit + true_oom) / static_cast<double>(n()) : 0;
  }
  void add(bool predicted_fits, bool measured_fits);
};

struct Pair {
  double predicted = 0, measured = 0;
};
/// In [−1, 1]; 0 when all predictions or all measurements are equal.
double kendall_tau(const std::vector<Pair>& pairs);
/// Ties of the prediction are broken by the order of `pairs`.
double top1_regret(const std::vector<Pair>& pairs);

/// The runs of one ranking group by configuration, each configuration with all its measurements.
using RepeatedRuns = std::map<std::string, std::vector<Pair>>;
/// One pair for each configuration: the medians of its predictions and of its measurements.
std::vector<Pair> once_each(const RepeatedRuns& runs);

struct RankingSummary {
  std::int64_t groups = 0;
  double kendall_tau = 0, mean_top1_regret = 0, max_top1_regret = 0;
};
RankingSummary rank(const std::vector<std::vector<Pair>>& groups);

}  // namespace espalier::runs
