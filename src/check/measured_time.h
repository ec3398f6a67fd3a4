// SPDX-License-Identifier: Apache-2.0
// Seconds of an operator as a profile states them: what is read in place of kernels.h where the job names one. Which
// row is meant is derived here from the strategy, apart from the cost model's way to it.
#pragma once

#include <optional>

#include "check/view.h"

namespace espalier::check {

struct MeasuredSeconds {
  double forward = 0, input = 0, weight = 0;
};

/// Nothing: no profile is in force. Zero for operators that it lacks: a floor in any case.
std::optional<MeasuredSeconds> measured_seconds(const View& view, const LayerKind& kind, const Operator& op);

}  // namespace espalier::check
