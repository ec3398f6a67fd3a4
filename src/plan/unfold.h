// SPDX-License-Identifier: Apache-2.0
// Unfolds a folded pipeline into a list for every device: each rank of a stage runs the work of its representative.
//
// Stages with equal numbers of ranks and equal shares of samples are connected position by position. Rank p of a
// stage sends its part to rank p of the next, which redistributes it inside its stage if strategies differ. Between
// other stages (Transfer::boxes) every rank sends boxes directly to the ranks that need them. So one send of the
// folded list becomes none, one or several, and so does one recv. Instructions that wait for the send or the recv
// wait for the last of them: the earlier ones precede it in the same stream.
#pragma once

#include "plan/program.h"

namespace espalier {

/// Unfolds one pipeline; `folded` was lowered from `pipeline`, and `training` gives the tokens of a sample.
Program unfolded(const Program& folded, const Pipeline& pipeline, const Training& training);

}  // namespace espalier
