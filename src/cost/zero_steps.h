// SPDX-License-Identifier: Apache-2.0
// ZeRO inside a chunk: what one layer gathers and scatters with every micro-batch, and the time that takes.
//
//   stage 3       all-gather of the layer's parameters, forward and backward. Where an engine keeps some of them from
//                 the forward to the backward pass, the latter gathers the rest: this share of each layer.
//   stage 2, 3    reduce-scatter of its gradients in the backward pass. Experts with more replicas than the shard
//                 group covers also all-reduce the shard over these replicas.
//   overlap       Gathers (param_gather) and reductions (grad_reduce) overlap the compute of the layer; in a backward
//                 pass all of them do so together. The hidden part is what pair() of overlap.h hides, less the
//                 engine's exposed_share. Without overlap they are exposed.
//   edges         the first gather of a chunk and its last reduction are never hidden
//   copies        in and out of the buffers of the collectives, at the memory's bandwidth
// S of a gather = elements · bytes of a gathered element, and all bytes of frozen weights. S of a
// reduction = elements · bytes of a reduced one (state_memory.h). A layer without a backward pass
// (LayerCost::passes_gradient) gathers and reduces in none.
// Source: Rajbhandari et al. 2020 (ZeRO); PyTorch FSDP, Megatron-LM's distributed optimizer.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "cost/costs.h"
#include "cost/data_groups.h"
#include "cost/layer_cost.h"
#include "cost/layer_sums.h"
#include "cost/step_cost.h"

namespace espalier::cost {

/// Decides whether the edges of a chunk's ZeRO communication count: its first gather and its last reduction. A bound
/// over all overlap choices leaves them out. With both overlaps on and free edges no layer takes longer than with any
/// of them off, since pair(c, w) − w ≤ c and grows by at most the growth of c.
enum class ChunkEdges : std::uint8_t { exposed, free };

/// Holds the ZeRO communication of one layer kind within a chunk, per micro-batch.
struct ZeroTime {
  PhaseTime forward, backward;
  PhaseTime backward_again;  ///< where the block is recomputed: more compute to hide under
  std::int64_t gather_ns = 0, reduce_ns = 0;
};

/// Holds what a layer moves per micro-batch. Seconds of `gathers` and of `reductions` add up in their order.
struct ZeroTraffic {
  std::array<PricedTraffic, 2> gathers;     ///< forward: dense weights, experts; times 0: none
  std::array<PricedTraffic, 2> regathers;   ///< backward, as an average over the layers
  std::array<PricedTraffic, 2> reductions;  ///< dense weights, experts
  [[nodiscard]] double gather_s() const { return gathers[0].seconds + gathers[1].seconds; }
  [[nodiscard]] double regather_s() const { return regathers[0].seconds + regathers[1].seconds; }
  [[nodiscard]] double reduce_s() const { return reductions[0].seconds + reductions[1].seconds; }
};

/// Returns the traffic of a layer of `dense` and `expert` elements on this rank; empty below ZeRO 2.
ZeroTraffic zero_traffic(const Fabric& fabric, const DataGroups& g, const Strategy& s, const StatePolicy& states,
                         const ParameterElements& elements);

/// Sums collectives that run one after the other.
struct SerialCollectives {
  double seconds = 0, moved = 0;  ///< bytes that pass a rank
  SerialCollectives& operator+=(const SerialCollectives& o) {
    seconds += o.seconds;
    moved += o.moved;
    return *this;
  }
};

/// Holds the collectives of a layer that its compute hides.
struct HiddenTraffic {
  SerialCollectives gathers, regathers, reductions;
};
/// Returns the collectives of a layer of `elements`, as far as `s` overlaps them.
HiddenTraffic hidden_traffic(const Fabric& fabric, const DataGroups& g, const Strategy& s, const StatePolicy& states,
                             const ParameterElements& elements);

/// Returns the time of that traffic next to the compute of a layer of cost `l`. `before` hides under the same compute
/// first. The result is what l's collectives add to the time of the two together, so that compute hides nothing
/// twice.
ZeroTime zero_time(const CostContext& c, const DataGroups& g, const Strategy& s, const StatePolicy& states, const LayerCost& l,
                   ChunkEdges edges, const HiddenTraffic& before = {});

/// Holds the traffic as steps of the layer as a whole (op −1). Overlapped traffic runs during the layer's whole phase
/// (first and last stay −1). Other traffic runs alone, gathers before the layer and reductions after it.
struct ZeroSteps {
  struct Timed {
    Step step;
    double seconds = 0;  ///< without overlap
  };
  std::vector<Timed> forward, backward;
};
ZeroSteps zero_steps(const Strategy& s, const ZeroTraffic& traffic);

}  // namespace espalier::cost
