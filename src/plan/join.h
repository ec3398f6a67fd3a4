// SPDX-License-Identifier: Apache-2.0
// Several pipelines that train one model, as one program. Each pipeline is lowered (and priced) by itself; here their
// lists stand beside each other, and the gradients of every layer meet between the pipelines that hold it.
//
// Pipelines may cut the model differently. A *segment* is a longest run of layers that no pipeline cuts into two
// chunks: in every pipeline exactly one chunk holds it. Of each segment, from the last to the first, one grad_reduce is
// appended to the lists of the rank classes that hold it, after their own reductions and before their update: every
// list has the segments in the same order, so that nobody waits in a circle. It starts when all of them have ended
// their backward passes. Inside a pipeline the replicas of a stage have reduced before (hierarchical reduction), so
// that what meets between pipelines is the mean over its samples; the pipelines' means are weighted by samples.
//
// Numbers of works, collectives, transfers, ranges, strategies and groups of pipeline k are those of its own program
// plus where it begins; the reductions between pipelines come last among the collectives, in the order in which they
// run.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/program.h"

namespace espalier {

/// Where a segment lies: one chunk of each pipeline.
struct SegmentHolder {
  std::int32_t pipeline = 0, stage = 0, chunk = 0;
};
struct JoinedSegment {
  LayerSpan layers;
  std::vector<SegmentHolder> holders;  ///< by pipeline
};
/// From the last layers to the first. Needs programs of plans (lower of a plan), of the same layers.
std::vector<JoinedSegment> segments_of(const std::vector<Program>& pipelines);

/// Programs, one a pipeline, all folded or none, as one; of a single one itself.
Program joined(const std::vector<Program>& pipelines);

}  // namespace espalier
