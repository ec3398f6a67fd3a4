// SPDX-License-Identifier: Apache-2.0
// Host memory in place of the device's (Strategy::offload): the time of the update on the host, and of copies during
// the passes.
//
// The update: gradients of a rank's shard of n trained elements go down its link, the host updates master weights and
// moments, and parameters come back.
//   down    g·n / (β·η)        g bytes of a gradient, β the link of a device while all of its node send, η =
//                              host_link_share
//   update  u·n / (H·e / d)    u = g + 2·(master + moments) + p (read and written once, twice without master), H the
//                              memory bandwidth of the host, e = host_update_share, d devices of the node, which
//                              update at once
//   up      p·n / (β·η)
//   without overlap            down + update + up
//   overlapped                 max(0, down − B) + max(update, up), with communication.overlaps_offload. Gradients go
//                              down during the backward pass of the last micro-batch (B of the stage). Parameters come
//                              up tile by tile during the update.
//   parameters as well         (u + g)·n: all bytes are on the host, which computes the norm of its gradients.
//
// The passes (host_copies) of one layer and micro-batch: c is the time of its compute and collectives, during which
// copies go up and down at once.
//   forward    max(c, P, A)        P = p·n_layer + frozen bytes of its shard over β·η (offload of parameters),
//                                  A = offloaded bytes (LayerCost::hosted) over β·η
//   backward   max(c, P + A, G)    G = g·n_layer over β·η
// An engine that offloads checkpoints alone (ActivationOffload::checkpoints) waits for them: it takes c + A, and P
// and G overlap c + A. At the edges of a chunk nothing hides the first layer's P and G and the last one's A, each
// way, up to the layer's own c. So n equal blocks take the (n − 1)·max(c, h) + c + h of a line of two machines.
// Sources: ZeRO-Offload (Ren et al. 2021, USENIX ATC, sections 4 and 5). Copies during passes: ZeRO-Infinity
// (Rajbhandari et al. 2021, SC), section 5. A copy engine takes nothing from kernels (CUDA C++ programming guide,
// asynchronous concurrent execution). Both e and η are priors of data/facts.yaml, not fitted.
#pragma once

#include <cstdint>

#include "cost/costs.h"
#include "cost/device_cost.h"
#include "cost/layer_cost.h"
#include "cost/state_memory.h"
#include "cost/zero_steps.h"
#include "espalier/cluster.h"
#include "espalier/plan.h"
#include "plan/engine_fwd.h"
#include "plan/engine_policies.h"

namespace espalier::cost {

/// Holds the seconds of a rank's shard.
struct HostUpdate {
  double down = 0, update = 0, up = 0;
  HostUpdate& operator+=(const HostUpdate& o) {
    down += o.down;
    update += o.update;
    up += o.up;
    return *this;
  }
  [[nodiscard]] HostUpdate times(double n) const { return {down * n, update * n, up * n}; }
};

/// Returns the rates that the host of a node gives each of its devices; zero for an unknown host.
HostRates host_rates(const NodeGroup& group);
/// Returns the seconds for the shard of `e`; zero without offload.
HostUpdate host_update(const HostRates& host, const StatePolicy& states, const ParameterElements& e, const Strategy& s);
/// Adds the update to the end of a step, after a last backward pass of `backward_ns`. The host's compute counts as
/// host work of the step.
void add_host_update(const HostUpdate& host, const EngineModel& engine, std::int64_t backward_ns, PhaseTime& step_end,
                     Nanoseconds& step_host);
/// Returns a lower bound on what add_host_update adds, whatever the backward pass takes.
std::int64_t least_host_ns(const HostUpdate& host, const EngineModel& engine);

/// Returns whether passes copy to or from the host.
constexpr bool copies_in_passes(Offload o) { return offloads_activations(o) || offloads_parameters(o); }

/// Holds the time that copies of one layer kind add to the passes of a micro-batch; each direction has a link of its
/// own.
struct HostCopies {
  PhaseTime forward, backward;
  /// Hold the copies at the edges of a chunk. The first layer copies parameters before the forward and gradients
  /// after the backward pass. The last layer copies activations after the forward, and all that the backward pass
  /// begins with.
  std::int64_t first_up_ns = 0, first_down_ns = 0, last_down_ns = 0, last_up_ns = 0;
};
/// Returns the copies of a layer of cost `l`, with ZeRO communication `zero` in its passes, recomputed as `how` says.
/// Layer and copies together take no longer where `l` and `zero` take less. The result is zero without such offload.
HostCopies host_copies(const HostRates& host, const EngineModel& engine, const StatePolicy& states, const LayerCost& l,
                       const ZeroTime& zero, const Strategy& s, RecomputeKind how);

/// Compares what the devices of a node put into its host's memory with what that memory holds. Each device counts as
/// much as the fullest stage's. The node group with the least left decides.
struct HostNeed {
  std::int64_t bytes = 0, memory = 0;
  [[nodiscard]] bool fits() const { return bytes == 0 || bytes <= memory; }
};
HostNeed host_need(const Cluster& cluster, const Costs& costs);
/// Returns whether the hosts hold it.
inline bool host_fits(const Cluster& cluster, const Costs& costs) { return host_need(cluster, costs).fits(); }

}  // namespace espalier::cost
