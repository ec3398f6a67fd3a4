// SPDX-License-Identifier: Apache-2.0
// Defines the ids of a program's stages, pipeline chunks, works, collectives and transfers. Each kind of id indexes
// only its own columns. Public headers count stages and chunks as plain numbers (place_of_chunk, pipeline_chunk),
// which become ids at the lookup.
#pragma once

#include "base/id.h"

namespace espalier {

using StageId = base::Id<struct StageTag>;  ///< stage of a pipeline, from the first layers on
using ChunkId = base::Id<struct ChunkTag>;  ///< pipeline chunk, in the order of layers
using WorkId = base::Id<struct WorkTag>;
using CollectiveId = base::Id<struct CollectiveTag>;
using TransferId = base::Id<struct TransferTag>;
using ProcessGroupId = base::Id<struct ProcessGroupTag>;

}  // namespace espalier
