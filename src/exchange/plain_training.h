// SPDX-License-Identifier: Apache-2.0
// What of a training no file of another tool is told, and what a plan that has it must therefore not be written as:
//
//   EXPORT-ADAPTERS   all weights are trained: adapters and frozen parts are set up in the script that trains
//   EXPORT-PACKED     a sample is one sequence: packing is what the data loader does
//
// A run of such a file would train something else than what was priced.
#pragma once

#include <string>

#include "espalier/plan.h"
#include "espalier/result.h"

namespace espalier::exchange {

/// check_failed with the id, in the name of the format.
Status not_plain_training(const Training& training, const std::string& format);

}  // namespace espalier::exchange
