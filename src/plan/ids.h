// SPDX-License-Identifier: Apache-2.0
// The numbers that name what a program has: its stages and pipeline chunks, and the works, collectives and transfers of
// its instructions. A column by one of them is indexed by no other. Public headers count stages and chunks as plain
// numbers (place_of_chunk, pipeline_chunk); what they give becomes an id where it is looked up.
#pragma once

#include "base/id.h"

namespace espalier {

using StageId = base::Id<struct StageTag>;  ///< of a pipeline, from the first layers on
using ChunkId = base::Id<struct ChunkTag>;  ///< pipeline chunk, in the order of layers
using WorkId = base::Id<struct WorkTag>;
using CollectiveId = base::Id<struct CollectiveTag>;
using TransferId = base::Id<struct TransferTag>;
using ProcessGroupId = base::Id<struct ProcessGroupTag>;

}  // namespace espalier
