// SPDX-License-Identifier: Apache-2.0
// Counts the tokens by which training advances with each sample. They are those of the text, in which images have
// places of their own (their patches are another sequence). An encoder-decoder pair counts both sequences, and an
// image classifier 0.
#pragma once

#include <cstdint>

#include "espalier/model.h"

namespace espalier {

inline std::int64_t sample_tokens(const Sequence& s) { return s.main > 0 ? s.main : s.encoder + s.decoder; }

}  // namespace espalier
