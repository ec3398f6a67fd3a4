// SPDX-License-Identifier: Apache-2.0
// Checks that the weights a model marks as trained match the training of the plan. Every weight under adapters or in
// a frozen part is frozen. Adapter pairs have the stated rank and occur only at the stated targets. The backward pass
// starts at the first trained layer. All of this is read from the names of the operators.
#pragma once

#include "check/check.h"
#include "check/view.h"

namespace espalier::check {

Finding check_trained_parts(const View& view);

}  // namespace espalier::check
