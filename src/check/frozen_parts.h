// SPDX-License-Identifier: Apache-2.0
// Whether what a model marks as trained is what the training of the plan says: every weight frozen under adapters or in
// a frozen part, pairs of the stated rank at the stated targets and nowhere else, and a backward pass from the first
// trained layer on. Read off the names of the operators.
#pragma once

#include "check/check.h"
#include "check/view.h"

namespace espalier::check {

Finding check_trained_parts(const View& view);

}  // namespace espalier::check
