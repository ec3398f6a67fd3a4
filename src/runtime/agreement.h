// SPDX-License-Identifier: Apache-2.0
// Shares errors between ranks, so that all of them stop, or continue, together and with one message.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "espalier/result.h"
#include "runtime/communicator.h"

namespace espalier::runtime {

/// Returns, on every rank, the error of the lowest rank that has one. A null `world` means this rank alone. Every
/// rank of `world` calls this.
Status agreed(const Status& own, Communicator* world);

/// Returns, on every rank, the texts of all ranks. Each text is cut at 2,000 bytes.
std::vector<std::string> texts_of_all(const std::string& own, Communicator* world);

}  // namespace espalier::runtime
