// SPDX-License-Identifier: Apache-2.0
// Maps words that users bring from other tools to the ones of a job file.
//
// Case, '-', '_', '.', spaces and a leading "torch." do not count. An optimizer belongs to "adam" when its states are
// those of Adam, two moments in fp32. All predictions about an optimizer follow from its states, so AdamW and the
// fused kernels are Adam here. Optimizers with other states (8-bit moments, Adafactor's factors, Lion's one moment)
// are not, since their prediction would be wrong.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/document.h"
#include "espalier/plan.h"

namespace espalier::job {

std::optional<Precision> precision_of_word(std::string_view word);
/// Returns "adam" or "sgd".
std::optional<Optimizer> optimizer_of_word(std::string_view word);

/// Read `precision` and `optimizer` of a training; absent: bf16 and adam. Errors go to the reader's sink.
Precision read_precision(base::Reader& training);
Optimizer read_optimizer(base::Reader& training);

}  // namespace espalier::job
