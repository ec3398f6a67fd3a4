// SPDX-License-Identifier: Apache-2.0
// Returns the seconds of an operator as stated by a profile, which replace kernels.h if the job names one. The
// matching row is derived here from the strategy, independently of the cost model.
#pragma once

#include <optional>

#include "check/view.h"

namespace espalier::check {

struct MeasuredSeconds {
  double forward = 0, input = 0, weight = 0;
};

/// Returns nothing if no profile is in force, and zero (a safe lower bound) for operators that the profile lacks.
std::optional<MeasuredSeconds> measured_seconds(const View& view, const LayerKind& kind, const Operator& op);

}  // namespace espalier::check
