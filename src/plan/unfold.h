// SPDX-License-Identifier: Apache-2.0
// A folded pipeline with a list for every device: what one representative of a stage does, each of its ranks does.
//
// Stages of equally many ranks that deal samples alike are joined position by position: rank p of a stage sends what it
// has to rank p of the next, which spreads it inside its stage where strategies differ. Between other stages
// (Transfer::boxes) every rank sends boxes straight to the ranks that want them, so that one send of the folded list
// becomes none, one or several, and one recv one or several. Who waits for the send or the recv waits for the last of
// them: those before it stand in the same stream.
#pragma once

#include "plan/program.h"

namespace espalier {

/// `folded`: one pipeline, lowered of `pipeline`; `training` gives the tokens of a sample.
Program unfolded(const Program& folded, const Pipeline& pipeline, const Training& training);

}  // namespace espalier
