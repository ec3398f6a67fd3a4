// SPDX-License-Identifier: Apache-2.0
// An answer of what-if, replan or --survive verified from the inputs that it names. Of every action, "ACTION: …":
//
//   plan            the new plan is sound, trains what the running one trains, runs on nodes that are there, and the
//                   independent check of plans
//                   (check/) holds for it
//   iteration       a step lasts as long as simulated again on the cluster as it is
//   moved-bytes, bytes-per-link, move-seconds     check/move_check.h; actions that move nothing say so
//   pause           = transfer + storage + rollback + restart + warm-up
//   derived-again   the action once more without a search: plan, nodes, bytes, seconds and words are equal
//   possible        of an action that is not possible: no figures, and it is not possible when tried again
//   break-even      gain = if it stays − iteration; the horizon = pause · T₀ / gain, or the pause where the plan cannot
//                   stay
//
// and of the whole: digest (digest.h), running (sound, the hash, its step), observed (what replan saw is what is
// answered), ladder (every action once), recommendation (no action trains more within the horizon), coverage (classes
// of losses add up to all sets of so many nodes).
#pragma once

#include <string>
#include <vector>

#include "espalier/findings.h"
#include "report/change_claims.h"

namespace espalier::report {

Result<std::vector<Finding>> check_change(const ClaimedAnswer& claimed);

}  // namespace espalier::report
