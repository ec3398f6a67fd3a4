// SPDX-License-Identifier: Apache-2.0
// What is beside the text of a trace (espalier/timeline.h declares to_trace, which writes it).
#pragma once

#include <string>

#include "espalier/timeline.h"

namespace espalier::sim {

/// A trace repeats itself: higher levels take several times as long for a few per cent.
inline constexpr int kTraceLevel = 3;
/// gzip with a fixed header (mtime 0), so that equal input gives equal bytes. `level`: zlib's, 1 … 9.
std::string gzip(const std::string& text, int level = kTraceLevel);

}  // namespace espalier::sim
