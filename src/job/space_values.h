// SPDX-License-Identifier: Apache-2.0
// Rejects values under search.fix and search.allow that no configuration of this cluster, model and batch can have,
// whatever the other dimensions are. Examples are tp 3 on 8 devices, pp 16 of a model with 14 layers, ep 2 without
// experts. They are bad input with a place, not an infeasible search.
//
//   tp cp dp etp shard    a divisor of the devices
//   pp                    the same, and at most the layers (embedding and head counted)
//   ep                    a divisor of the experts; 1 without experts
//   vpp                   1 … layers
//   micro_batch           a divisor of the global batch
//   zero                  0 … 3
//   recompute_layers      0 … blocks
//
// A list under `allow` may hold values for larger clusters, as long as one is possible here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/document.h"
#include "espalier/job.h"
#include "plan/dimension.h"

namespace espalier::job {

/// Returns the values that a counting dimension can have here, ascending; for an enum or flag, all ordinals.
std::vector<std::int64_t> possible_values(Dimension dimension, const Job& job);
/// Returns the limit behind possible_values: "divisors of the 8 devices".
std::string reason_of_values(Dimension dimension, const Job& job);

/// Checks the values. Errors go to the sink of `search`, the reader of the job's `search:` mapping.
void check_space_values(base::Reader& search, const Job& job);

}  // namespace espalier::job
