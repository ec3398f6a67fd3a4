// SPDX-License-Identifier: Apache-2.0
// Implements the arithmetic of a validation; espalier/validate.h has the equations.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "espalier/validate.h"

namespace espalier::runs {

ErrorSummary summarize(const std::vector<double>& errors);

struct Pair {
  double predicted = 0, measured = 0;
};
/// Returns a number in [−1, 1]; 0 when all predictions or all measurements are equal.
double kendall_tau(const std::vector<Pair>& pairs);
/// Returns the regret. Ties of the prediction are broken by the order of `pairs`.
double top1_regret(const std::vector<Pair>& pairs);

/// Holds the runs of one ranking group by configuration, each configuration with all its measurements.
using RepeatedRuns = std::map<std::string, std::vector<Pair>>;
/// Returns one pair for each configuration: the medians of its predictions and of its measurements.
std::vector<Pair> once_each(const RepeatedRuns& runs);

RankingSummary rank(const std::vector<std::vector<Pair>>& groups);

}  // namespace espalier::runs
