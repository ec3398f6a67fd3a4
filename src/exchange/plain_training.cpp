// SPDX-License-Identifier: Apache-2.0
#include "exchange/plain_training.h"

#include "base/format.h"

namespace espalier::exchange {

Status not_plain_training(const Training& training, const std::string& format) {
  if (freezes_weights(training))
    return Error{ErrorKind::check_failed, format, "EXPORT-ADAPTERS: adapters or frozen parts", "training of all weights",
                 "its adapters are configured in the script that trains; degrees and batch are those of the plan"};
  if (training.lengths.any() && training.lengths.packing != Packing::none)
    return Error{
        ErrorKind::check_failed, format,
        base::cat("EXPORT-PACKED: samples made of several sequences (packing: ", to_string(training.lengths.packing), ")"),
        "one sequence a sample",
        "its packing is configured in the data loader of the script that trains; degrees and batch are those of the plan"};
  return {};
}

}  // namespace espalier::exchange
