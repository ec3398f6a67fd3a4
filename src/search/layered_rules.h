// SPDX-License-Identifier: Apache-2.0
// What a plan whose layers have strategies of their own must keep to belong to the layer-wise space: the one judge of
// it, for the search, for its refinement and for the programs that attack its answers.
//
//   chunks      contiguous, none empty, pp·vpp of them over all layers; at most kMostLayerwiseChunks a stage (more are
//               for uniform plans)
//   strategies  each legal and admitted by the job as a uniform strategy of the same pipeline, with the devices of a
//   stage, the same samples
//               a micro-batch, and pp outermost in the order of ranks; full recomputation counts blocks of its range
//   overlap     one switch a kind for the whole plan
//   engine      layers and stages differ in what the engine lets them differ in (plan/layer_freedom.h)
//   table       embedding and head that share one have it in one layout (plan/shared_table.h)
#pragma once

#include <cstdint>
#include <string>

#include "search/layerwise.h"
#include "search/space.h"

namespace espalier::search {

/// Which of these a plan breaks, in words; empty: it belongs to the space.
std::string layered_fault(const Model& model, const Space& space, const LayeredConfiguration& c);

}  // namespace espalier::search
