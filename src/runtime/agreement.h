// SPDX-License-Identifier: Apache-2.0
// What went wrong on one rank is known to all, so that all end, or go on, together and with one message.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "espalier/result.h"
#include "runtime/communicator.h"

namespace espalier::runtime {

/// The error of the lowest rank that has one, on every rank; null: this rank alone. Every rank of `world` calls this.
Status agreed(const Status& own, Communicator* world);

/// Texts of all ranks, on every rank; each is cut at 2,000 bytes.
std::vector<std::string> texts_of_all(const std::string& own, Communicator* world);

}  // namespace espalier::runtime
