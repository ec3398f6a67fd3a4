// SPDX-License-Identifier: Apache-2.0
// Simulates partitions of the layers over the stages of a 1F1B pipeline, each with its best strategies. It shows what
// the answer's balance gains over the even, the time-balanced, the memory-balanced and the published bi-objective
// partition.
#pragma once

#include "search/group_judge.h"

namespace espalier::search {

/// Builds the report; plans simulated on the way are added to `looked`.
BalanceReport stage_report(const GroupTools& tools, const LayeredCandidate& answer, const Patience& patience,
                           GroupResult& looked);

}  // namespace espalier::search
