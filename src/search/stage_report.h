// SPDX-License-Identifier: Apache-2.0
// Partitions of the layers over the stages of a 1F1B pipeline, each with the strategies that are best for it,
// simulated: what the answer's balance gains over the even, the time-balanced, the memory-balanced and the published
// bi-objective one.
#pragma once

#include "search/group_judge.h"

namespace espalier::search {

/// What was simulated on the way goes to `looked`.
BalanceReport stage_report(const GroupTools& tools, const LayeredCandidate& answer, const Patience& patience,
                           GroupResult& looked);

}  // namespace espalier::search
