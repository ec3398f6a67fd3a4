// SPDX-License-Identifier: Apache-2.0
// Joins several pipelines that train one model into one program. Each pipeline is lowered (and priced) by itself.
// The join places their lists next to each other, and reduces the gradients of every layer between the pipelines
// that hold it.
//
// Pipelines may cut the model differently. A *segment* is a longest run of layers that no pipeline cuts into two
// chunks: in every pipeline exactly one chunk holds it. The segments are visited from the last to the first. Each
// appends one grad_reduce to the lists of the rank classes that hold it, after their own reductions and before their
// update. Every list has the segments in the same order, so the reductions cannot deadlock. A reduction starts when
// all of them have ended their backward passes. Inside a pipeline the replicas of a stage have already reduced
// (hierarchical reduction). So the exchanged value is the mean over the pipeline's samples, and the means are
// weighted by samples.
//
// Numbers of works, collectives, transfers, ranges, strategies and groups of pipeline k are those of its own program
// plus an offset. The reductions between pipelines come last among the collectives, in the order in which they run.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/program.h"

namespace espalier {

/// Identifies the place of a segment in one pipeline: the chunk that holds it.
struct SegmentHolder {
  std::int32_t pipeline = 0, stage = 0, chunk = 0;
};
struct JoinedSegment {
  LayerSpan layers;
  std::vector<SegmentHolder> holders;  ///< by pipeline
};
/// Returns the segments from the last layers to the first. Requires programs of plans (lower of a plan) with
/// the same layers.
std::vector<JoinedSegment> segments_of(const std::vector<Program>& pipelines);

/// Joins programs, one for each pipeline, all folded or none; a single program is returned unchanged.
Program joined(const std::vector<Program>& pipelines);

}  // namespace espalier
