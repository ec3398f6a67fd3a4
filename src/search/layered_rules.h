// SPDX-License-Identifier: Apache-2.0
// Decides whether a plan whose layers have their own strategies belongs to the layer-wise space. The search, its
// refinement and the programs that attack its answers all use this check.
//
// - chunks: they are contiguous and none is empty; pp·vpp of them cover all layers. A stage has at most
//   kMostLayerwiseChunks; only uniform plans may have more.
// - strategies: each is legal, and admitted by the job, as a uniform strategy of the same pipeline. All have the
//   devices of a stage, the same samples per micro-batch, and pp outermost in the rank order. Full recomputation
//   counts blocks of its range.
// - overlap: the whole plan has one switch of each kind.
// - engine: layers and stages differ only where the engine allows it (plan/layer_freedom.h).
// - table: an embedding and a head that share one have it in one layout (plan/shared_table.h).
#pragma once

#include <cstdint>
#include <string>

#include "search/layerwise.h"
#include "search/space.h"

namespace espalier::search {

/// Returns a text that names the violated condition; empty if the plan belongs to the space.
std::string layered_fault(const Model& model, const Space& space, const LayeredConfiguration& c);

}  // namespace espalier::search
