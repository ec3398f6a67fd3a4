// SPDX-License-Identifier: Apache-2.0
// Verifies an answer of what-if, replan or --survive from the inputs that it names. These findings, "ACTION: …",
// concern every action:
//
//   plan            the new plan is sound, trains what the running one trains, runs on nodes that are there, and the
//                   independent check of plans (check/) holds for it
//   iteration       a step lasts as long as simulated again on the cluster as it is
//   moved-bytes, bytes-per-link, move-seconds     check/move_check.h; actions that move nothing state that
//   pause           = transfer + storage + rollback + restart + warm-up
//   derived-again   the action once more without a search: plan, nodes, bytes, seconds and words are equal
//   possible        an impossible action has no figures, and fails again when derived again
//   break-even      gain = iteration if it stays − iteration; the horizon = pause · T₀ / gain, or the pause where the
//                   plan cannot stay.
//
// These findings concern the whole answer:
//
//   digest          digest.h
//   running         the running plan is sound, and its hash and its step are right
//   observed        the actions answer the changes that replan observed
//   ladder          every action occurs once
//   recommendation  no action trains more within the horizon
//   coverage        classes of losses add up to all sets of that number of nodes.
#pragma once

#include <string>
#include <vector>

#include "espalier/findings.h"
#include "report/change_claims.h"

namespace espalier::report {

Result<std::vector<Finding>> check_change(const ClaimedAnswer& claimed);

}  // namespace espalier::report
