// SPDX-License-Identifier: Apache-2.0
// Host memory in the place of the device's (Strategy::offload): what the update on the host takes, and what copies take
// beside the passes.
//
// The update: gradients of a rank's shard of n trained elements go down its link, the host updates master weights and
// moments, parameters come back.
//   down    g·n / (β·η)        g bytes of a gradient, β the link of a device while all devices of the node talk, η = 0.8
//   update  u·n / (H·e / d)    u = g + 2·(master + moments) + p (read and written once, twice without master), H the
//                              memory bandwidth of the host,
//                              e = 0.46, d devices of the node, which update at once
//   up      p·n / (β·η)
//   in the open                            down + update + up
//   overlapped (communication.overlaps_offload)   max(0, down − B) + max(update, up): gradients go down beside the
//                                                 backward pass of the last
//                              micro-batch (B of the stage), parameters come up tile by tile beside the update
//   of parameters too          (u + g)·n: all is there, and the host computes the norm of its gradients
//
// The passes (host_copies), of one layer and micro-batch, c what it computes with its collectives, up and down at once,
// beside it:
//   forward    max(c, P, A)    P = p·n_layer + frozen bytes of its shard over β·η (offload of parameters), A = bytes put down (LayerCost::hosted) over β·η
//   backward   max(c, P + A, G)    G = g·n_layer over β·η
// An engine that offloads checkpoints alone (ActivationOffload::checkpoints) waits for them: c + A, and c + A beside P
// and G. At the edges of a chunk there is what nothing hides: the first layer's P and G and the last one's A, each way,
// up to the layer's own c, so that n equal blocks take the (n − 1)·max(c, h) + c + h of a line of two machines.
// Sources: ZeRO-Offload (Ren et al. 2021, USENIX ATC, sections 4 and 5); copies beside passes: ZeRO-Infinity
// (Rajbhandari et al. 2021, SC), section 5; a copy engine takes nothing from kernels (CUDA C++ programming guide,
// asynchronous concurrent execution). e and η are priors, not fitted: e after CPU-Adam of ZeRO-Offload, 10·10⁹ elements
// of 30 bytes in about 2.6 s on a DGX-2, whose two Xeon 8168 have 12 channels of DDR4-2666, 256 GB/s (from memory, not
// read again); η after pinned copies of 25 GB/s over PCI Express 4.0 x16 (31.5 GB/s).
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

/// Seconds of a rank's shard.
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

/// What the host of a node gives each of its devices; nothing of a host that is not known.
HostRates host_rates(const NodeGroup& group);
/// Nothing without offload.
HostUpdate host_update(const HostRates& host, const StatePolicy& states, const ParameterElements& e, const Strategy& s);
/// Adds it to the end of a step, after a last backward pass of `backward_ns`; what the host computes is host work of
/// the step.
void add_host_update(const HostUpdate& host, const EngineModel& engine, std::int64_t backward_ns, PhaseTime& step_end,
                     Nanoseconds& step_host);
/// No more than add_host_update adds, whatever the backward pass takes.
std::int64_t least_host_ns(const HostUpdate& host, const EngineModel& engine);

/// Whether passes copy to or from the host.
constexpr bool copies_in_passes(Offload o) { return offloads_activations(o) || offloads_parameters(o); }

/// What copies of one layer kind add to the passes of a micro-batch; a direction has a link of its own.
struct HostCopies {
  PhaseTime forward, backward;
  /// At the edges of a chunk: of its first layer parameters before the forward and gradients after the backward pass,
  /// of its last one activations after the forward, and all that the backward pass begins with.
  std::int64_t first_up_ns = 0, first_down_ns = 0, last_down_ns = 0, last_up_ns = 0;
};
/// Of a layer of cost `l`, with ZeRO communication `zero` in its passes, recomputed so. Layer and copies together take
/// no longer where `l` and `zero` take less. Nothing without such offload.
HostCopies host_copies(const HostRates& host, const EngineModel& engine, const StatePolicy& states, const LayerCost& l,
                       const ZeroTime& zero, const Strategy& s, RecomputeKind how);

/// What the devices of a node put into its host's memory, each as much as the fullest stage's, and what that holds: of
/// the node group that has least left.
struct HostNeed {
  std::int64_t bytes = 0, memory = 0;
  [[nodiscard]] bool fits() const { return bytes == 0 || bytes <= memory; }
};
HostNeed host_need(const Cluster& cluster, const Costs& costs);
/// Whether the hosts hold it.
inline bool host_fits(const Cluster& cluster, const Costs& costs) { return host_need(cluster, costs).fits(); }

}  // namespace espalier::cost
