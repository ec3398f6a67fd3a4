// SPDX-License-Identifier: Apache-2.0
// Counts the bytes that ZeRO holds on a rank in addition to the states, and the gathers that these save.
//
// An engine that states no policy (plan/engine_policies.h) has two gathered layers under stage 3, and under stages 2
// and 3 the whole gradient of the largest layer. DeepSpeed has E elements on the rank, E/s of them in its shard, K =
// max(live, reuse/2), and L in the largest layer:
//
//   gathered    stage 3: min(E, max(K, L)). The last K elements of the model stay gathered from the forward to the
//               backward pass, which gathers 1 − K/E of all again
//   reduced     buckets[zero] buffers of `bucket` elements, and copies of what one of them collects, or of L
//   held        copies of the gradients of E/s elements for the update, at most of `update_elements` under stage 3.
//               Or the norm of the largest tensor in a wider type, if that takes more.
//
// Such blocks rarely fit into those of freed activations: torch's caching allocator joins no segments. So all count.
// Source: DeepSpeed 0.19.8, deepspeed/runtime/zero; data/engines.yaml names the files.
#pragma once

#include <cstdint>
#include <vector>

#include "cost/cost_context.h"
#include "cost/layer_cost.h"
#include "cost/state_memory.h"
#include "plan/engine_policies.h"

namespace espalier::cost {

/// Holds the layers of a plan that are largest in one respect.
struct LargestLayers {
  std::int64_t gathered = 0;   ///< bytes of its parameters
  std::int64_t scattered = 0;  ///< bytes of its gradient
  std::int64_t tensor = 0;     ///< elements of the largest table: an embedding or a head
  /// Takes a layer of the model into account. `table`: it is no block, so that one tensor is most of it.
  void take(const ParameterElements& e, const StatePolicy& states, bool table);
};

struct ZeroBuffers {
  std::int64_t gathered = 0, reduced = 0, held = 0;
  [[nodiscard]] std::int64_t total() const { return gathered + reduced + held; }
  /// Adds those of layers of another strategy on the same stage. Both use one buffer of gathers and reductions.
  ZeroBuffers& operator+=(const ZeroBuffers& o);
};

/// Returns the buffers of a stage that holds `all`.
ZeroBuffers zero_buffers(const ZeroPolicy& zero, const StatePolicy& states, const Strategy& s, const ParameterElements& all,
                         const LargestLayers& largest);
/// Returns bytes that a stage with a layer of these elements cannot do without.
std::int64_t least_zero_buffers(const ZeroPolicy& zero, const StatePolicy& states, const Strategy& s,
                                const ParameterElements& layer);

/// Returns the share of the parameters that the backward pass of stage 3 gathers again. `layers` holds one cost per
/// kind.
double gathers_again(const CostContext& c, const Strategy& s, std::int32_t stages, const std::vector<LayerCost>& layers);

}  // namespace espalier::cost
