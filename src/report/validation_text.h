// SPDX-License-Identifier: Apache-2.0
// Writes the parts that a validation and an inspected run share as JSON.
#pragma once

#include <vector>

#include "base/document.h"
#include "espalier/validate.h"

namespace espalier::report {

/// Writes the key "defaults" of a validation and of a mapped run: values that the record did not hold.
void write_defaults(base::JsonWriter& w, const std::vector<UsedDefault>& defaults);

}  // namespace espalier::report
