// SPDX-License-Identifier: Apache-2.0
// Stages whose ranks are not all alike: on devices of several node groups or speeds, replicas with unequal samples or
// states; and stages in other rank orders than tp-cp-dp-pp next to unlike ones. The ranks of a stage that are
// alike are a *kind*, in the order in which they come. What a stage's k-th kind holds is derived as if all of its ranks
// were of it:
//
//     static memory   what ZeRO shards times w·d/W, for weight w of W in all and d replicas
//     activations     of the samples that the kind's replicas take
//     peak            against the memory of the kind's own device
//     time            a floor: the arithmetic and the memory traffic of each kind alone, as if the network took no time
#pragma once

#include <cstdint>
#include <vector>

#include "check/check.h"
#include "check/view.h"

namespace espalier::check {

struct RankKind {
  std::size_t group = 0;
  double speed = 1.0;
  std::int64_t samples = 0;  ///< of a micro-batch; 0: as all have
  double states = 1.0;       ///< of an equal part of what ZeRO shards
  bool operator==(const RankKind&) const = default;
};

/// Whether a stage is not on neighbouring devices of one node group in the order tp-cp-dp-pp, or has unequal replicas.
bool has_rank_kinds(const Pipeline& pipeline, const Cluster& cluster);
std::vector<RankKind> kinds_of(const Stage& stage, const Cluster& cluster);
/// Of the stage with the most.
std::size_t most_kinds(const Pipeline& pipeline, const Cluster& cluster);
/// Every stage as if all its ranks were of its k-th kind, or of its last one.
View view_of_kind(const View& view, std::size_t kind);
/// Shares of samples and states: as many as there are replicas, every one above 0, samples adding up.
Finding check_shares(const Pipeline& pipeline);

std::vector<Finding> check_claims_of_kinds(const View& view, const Program& program, bool replayable, const Claims& claims);

}  // namespace espalier::check
