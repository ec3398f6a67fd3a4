// SPDX-License-Identifier: Apache-2.0
// Compresses traces. The text itself is written by to_trace (espalier/timeline.h).
#pragma once

#include <string>

#include "espalier/timeline.h"

namespace espalier::sim {

/// Traces are repetitive: higher levels take several times as long for a few per cent.
inline constexpr int kTraceLevel = 3;
/// Compresses to gzip with a fixed header (mtime 0), so that equal input gives equal bytes. `level`: zlib's, 1 … 9.
std::string gzip(const std::string& text, int level = kTraceLevel);

}  // namespace espalier::sim
