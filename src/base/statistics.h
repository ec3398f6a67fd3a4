// SPDX-License-Identifier: Apache-2.0
// Computes order statistics, in the form that every report of this project uses.
#pragma once

#include <vector>

namespace espalier::base {

/// Returns the middle value; for an even number the mean of the middle two; 0 for an empty list.
double median(std::vector<double> values);
/// Returns the value below which the share q lies, linear between ranks; 0 for an empty list.
double quantile(std::vector<double> values, double q);

}  // namespace espalier::base
