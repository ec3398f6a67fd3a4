// SPDX-License-Identifier: Apache-2.0
// Caches layer costs by the values that they depend on. Most choices of the layer group differ from another one only
// in the number of stages, in data ranks or in the rank order. These change the cost of a layer only through the
// place of its tensor, context and expert groups on the fabric. It is a function of
//
//   tp, sp, cp, cp_kind, ep, etp, overlap_tp, offloaded activations, micro_batch, recomputed modules,
//   place of cp and ep, neighbouring stages across nodes.
//
// For samples packed of unequal sequences, the cost also depends on dp and the stages (plan/sequence_lengths.h; see
// cost/layer_cost.h). The place of the tensor group follows from tp. Operator partitions cache their blocks
// themselves. Their layers also depend on the ZeRO stage, so they are priced for each strategy requested.
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/word_hash.h"
#include "cost/layer_cost.h"

namespace espalier::search {

/// Caches the requested costs, up to a fixed number. There is one object per thread, for one cost context.
class LayerPrices {
 public:
  /// Writes cost::layer_costs of the same arguments to `out`.
  void price(const cost::CostContext& c, const Strategy& s, std::int32_t stages, std::int32_t micro_batch,
             std::vector<cost::LayerCost>& out);

 private:
  static constexpr std::size_t kDegrees = 13;  ///< values before the places
  using Key = std::array<std::int64_t, kDegrees + 2 * cost::kMaxLevels>;
  static Key key_of(const cost::CostContext& c, const Strategy& s, std::int32_t stages, std::int32_t micro_batch);

  std::unordered_map<Key, std::vector<cost::LayerCost>, base::WordHash> known_;
};

}  // namespace espalier::search
