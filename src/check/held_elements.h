// SPDX-License-Identifier: Apache-2.0
// Which elements of a layer a rank holds, derived again from the rule that plan/ownership.h publishes; nothing of it is
// used here.
//
// Elements of a layer are numbered operator by operator. A rank at position r of its stage has the coordinates
//     t = r mod tp (0 with Ulysses)      x = r mod etp      e = ⌊r/etp⌋ mod ep
//     i = ⌊r/stride⌋ mod shard, stride = tp (1 with Ulysses)      k = ⌊r/(ep·etp)⌋ mod s_e (plan/expert_shard.h)
// and holds of every operator the part that these name. What ZeRO shards is the i-th part of that list (k-th of the
// experts).
#pragma once

#include <cstdint>
#include <vector>

#include "espalier/model.h"
#include "espalier/plan.h"

namespace espalier::check {

/// Elements from … to − 1.
struct ElementSpan {
  std::int64_t from = 0, to = 0;
  bool operator==(const ElementSpan&) const = default;
};

/// Neither list overlaps itself. Their order does not matter.
struct HeldElements {
  std::vector<ElementSpan> whole;    ///< under tensor and expert parallelism
  std::vector<ElementSpan> sharded;  ///< of these, the rank's part under ZeRO
};

/// What all ranks of a stage share.
struct HeldUnder {
  Strategy strategy;
  std::vector<std::int64_t> state_shares;  ///< of the stage; empty: equal parts
  bool table_only = false;                 ///< a copy of the token table: of layer 0 nothing else
  std::int64_t vocabulary = 0;             ///< rows of the model's table
  std::int64_t row_unit = 1;               ///< the engine pads the vocabulary to multiples of this times tp
};

HeldElements held_elements(const HeldUnder& how, const LayerKind& kind, std::int64_t position);

}  // namespace espalier::check
