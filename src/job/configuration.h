// SPDX-License-Identifier: Apache-2.0
// Completing a configuration that leaves fields open, for `estimate` flags and for measured runs. An open field is 0:
//   dp              devices / (tp · cp · pp)
//   shard           the whole data group when zero > 0, else 1
//   microbatches    global_batch / (micro_batch · dp)
//   recompute.layers, kind full   every block of the fullest chunk
// What does not divide is rounded down and left to violations() to name.
#pragma once

#include "espalier/job.h"

namespace espalier::job {

void complete_configuration(const Job& job, Strategy& strategy, Schedule& schedule);

/// "rule: text" of every broken rule, joined by "; ".
std::string joined_violations(const std::vector<RuleViolation>& broken);

}  // namespace espalier::job
