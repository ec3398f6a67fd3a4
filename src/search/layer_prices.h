// SPDX-License-Identifier: Apache-2.0
// Layer costs by what they depend on. Most choices of the layer group differ from another one in the number of stages,
// in data ranks or in the rank order only, and of these a layer sees nothing but where its tensor, context and expert
// groups lie on the fabric:
//
//   cost = f(tp, sp, cp, cp_kind, ep, etp, overlap_tp, whether activations are offloaded, micro_batch, place of cp and
//   ep, whether neighbouring stages talk across nodes)
//
// and, of samples packed of unlike sequences, of dp and the stages (plan/sequence_lengths.h)
// (cost/layer_cost.h; the place of the tensor group follows from tp). Operator partitions remember their blocks
// themselves; their layers depend on the ZeRO stage too, so that they are priced for each strategy that is asked for.
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/word_hash.h"
#include "cost/layer_cost.h"

namespace espalier::search {

/// Remembers the costs it was asked for, up to a fixed number. One per thread, for one cost context.
class LayerPrices {
 public:
  /// cost::layer_costs of the same arguments, written to `out`.
  void price(const cost::CostContext& c, const Strategy& s, std::int32_t stages, std::int32_t micro_batch,
             std::vector<cost::LayerCost>& out);

 private:
  using Key = std::array<std::int64_t, 12 + 2 * cost::kMaxLevels>;
  static Key key_of(const cost::CostContext& c, const Strategy& s, std::int32_t stages, std::int32_t micro_batch);

  std::unordered_map<Key, std::vector<cost::LayerCost>, base::WordHash> known_;
};

}  // namespace espalier::search
