// SPDX-License-Identifier: Apache-2.0
// Derives which elements of a layer a rank holds from the rule published in plan/ownership.h. No code of that file is
// used here.
//
// Elements of a layer are numbered operator by operator. A rank at position r of its stage has the coordinates
//     t = r mod tp (0 with Ulysses)      x = r mod etp      e = ⌊r/etp⌋ mod ep
//     i = ⌊r/stride⌋ mod shard, stride = tp (1 with Ulysses)      k = ⌊r/(ep·etp)⌋ mod s_e (plan/expert_shard.h)
// and holds the part of every operator that these select. ZeRO shards this list: the rank holds its i-th part (k-th
// for experts).
#pragma once

#include <cstdint>
#include <vector>

#include "espalier/model.h"
#include "espalier/plan.h"

namespace espalier::check {

/// Holds the elements from … to − 1.
struct ElementSpan {
  std::int64_t from = 0, to = 0;
  bool operator==(const ElementSpan&) const = default;
};

/// Lists the elements that a rank holds. Neither list overlaps itself, and their order does not matter.
struct HeldElements {
  std::vector<ElementSpan> whole;    ///< under tensor and expert parallelism
  std::vector<ElementSpan> sharded;  ///< the rank's part of these under ZeRO
};

/// Holds what all ranks of a stage share.
struct HeldUnder {
  Strategy strategy;
  std::vector<std::int64_t> state_shares;  ///< weights of the stage's replicas; empty: equal parts
  bool table_only = false;                 ///< a copy of the token table, without the rest of layer 0
  std::int64_t vocabulary = 0;             ///< rows of the model's table
  std::int64_t row_unit = 1;               ///< the engine pads the vocabulary to multiples of this times tp
};

HeldElements held_elements(const HeldUnder& how, const LayerKind& kind, std::int64_t position);

}  // namespace espalier::check
