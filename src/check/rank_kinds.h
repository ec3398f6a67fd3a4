// SPDX-License-Identifier: Apache-2.0
// Handles stages whose ranks are not all alike: on devices of several node groups or speeds, or as replicas with
// unequal samples or states. Stages in other rank orders than tp-cp-dp-pp next to unlike ones are included. The ranks
// of a stage that are alike form a *kind*; kinds are numbered by first occurrence. Values of a stage's k-th kind are
// derived as if all of its ranks were of that kind:
//
//     static memory   ZeRO's sharded part times w·d/W, for weight w of total W and d replicas
//     activations     of the samples that the kind's replicas take
//     peak            against the memory of the kind's own device
//     time            a lower bound: the arithmetic and the memory traffic of each kind alone, with a free network
#pragma once

#include <cstdint>
#include <vector>

#include "check/check.h"
#include "check/view.h"

namespace espalier::check {

struct RankKind {
  std::size_t group = 0;
  double speed = 1.0;
  std::int64_t samples = 0;  ///< samples of a micro-batch; 0: the same for all
  double states = 1.0;       ///< relative to an equal part of what ZeRO shards
  bool operator==(const RankKind&) const = default;
};

/// Returns whether a stage has unequal replicas, or is not on neighbouring devices of one node group in the order
/// tp-cp-dp-pp.
bool has_rank_kinds(const Pipeline& pipeline, const Cluster& cluster);
std::vector<RankKind> kinds_of(const Stage& stage, const Cluster& cluster);
/// Returns the largest number of kinds of any stage.
std::size_t most_kinds(const Pipeline& pipeline, const Cluster& cluster);
/// Returns the view as if all ranks of every stage were of its k-th kind, or of its last one.
View view_of_kind(const View& view, std::size_t kind);
/// Checks that the shares of samples and states are one per replica and positive, and that the samples add up.
Finding check_shares(const Pipeline& pipeline);

std::vector<Finding> check_claims_of_kinds(const View& view, const Program& program, bool replayable, const Claims& claims);

}  // namespace espalier::check
