// SPDX-License-Identifier: Apache-2.0
// Order statistics, as every report of this project states them.
#pragma once

#include <vector>

namespace espalier::base {

/// The middle value; of an even number the mean of the middle two; 0 for an empty list.
double median(std::vector<double> values);
/// The value below which the share q lies, linear between ranks; 0 for an empty list.
double quantile(std::vector<double> values, double q);

}  // namespace espalier::base
