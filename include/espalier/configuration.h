// SPDX-License-Identifier: Apache-2.0
// A configuration is a strategy and a schedule. Few of its fields are a choice; the others follow from the job.
#pragma once

#include "espalier/job.h"
#include "espalier/plan.h"

namespace espalier {

/// Fills in the fields that are left open, that is, 0:
///   dp              devices / (tp · cp · pp)
///   shard           the whole data group when zero > 0, else 1
///   microbatches    global_batch / (micro_batch · dp)
///   recompute.layers, kind full   every block of the fullest chunk
/// What does not divide is rounded down and left to violations() and estimate() to name.
void complete_configuration(const Job& job, Strategy& strategy, Schedule& schedule);

}  // namespace espalier
