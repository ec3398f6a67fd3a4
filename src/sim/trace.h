// SPDX-License-Identifier: Apache-2.0
// What is beside the text of a trace (espalier/timeline.h declares to_trace, which writes it).
#pragma once

#include <string>

#include "espalier/timeline.h"

namespace espalier::sim {

/// gzip with a fixed header (mtime 0), so that equal input gives equal bytes.
std::string gzip(const std::string& text);

}  // namespace espalier::sim
