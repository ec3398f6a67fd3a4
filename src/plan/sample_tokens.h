// SPDX-License-Identifier: Apache-2.0
// Tokens that training advances by with each sample: those of the text, in which images have places of their own (their
// patches are another sequence); of an encoder-decoder pair both sequences. 0 for image classifiers.
#pragma once

#include <cstdint>

#include "espalier/model.h"

namespace espalier {

inline std::int64_t sample_tokens(const Sequence& s) { return s.main > 0 ? s.main : s.encoder + s.decoder; }

}  // namespace espalier
