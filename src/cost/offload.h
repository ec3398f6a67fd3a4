// SPDX-License-Identifier: Apache-2.0
// The update on the host, under offload of the optimizer (Strategy::offload): gradients of a rank's shard of n trained elements go down its link to host
// memory, the host updates master weights and moments there, and parameters come back up.
//
//   down    g·n / (β·η)        g bytes of a gradient, β the link of a device while all devices of the node talk, η = 0.8
//   update  u·n / (H·e / d)    u = g + 2·(master + moments) + p (read and written once, twice without master), H the memory bandwidth of the host,
//                              e = 0.46, d devices of the node, which update at once
//   up      p·n / (β·η)
//   in the open                            down + update + up
//   overlapped (communication.overlaps_offload)   max(0, down − B) + max(update, up): gradients go down beside the backward pass of the last
//                              micro-batch (B of the stage), parameters come up tile by tile beside the update
// Sources: ZeRO-Offload (Ren et al. 2021, USENIX ATC, sections 4 and 5). e and η are priors, not fitted: e after its CPU-Adam, 10·10⁹ elements of 30
// bytes in about 2.6 s on a DGX-2, whose two Xeon 8168 have 12 channels of DDR4-2666, 256 GB/s (from memory, not read again); η after pinned copies
// of 25 GB/s over PCI Express 4.0 x16 (31.5 GB/s).
#pragma once

#include <cstdint>

#include "cost/costs.h"
#include "cost/device_cost.h"
#include "cost/state_memory.h"
#include "espalier/cluster.h"
#include "plan/engine.h"

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
/// Adds it to the end of a step, after a last backward pass of `backward_ns`; what the host computes is host work of the step.
void add_host_update(const HostUpdate& host, const EngineModel& engine, std::int64_t backward_ns, PhaseTime& step_end,
                     Nanoseconds& step_host);
/// No more than add_host_update adds, whatever the backward pass takes.
std::int64_t least_host_ns(const HostUpdate& host, const EngineModel& engine);

/// What the devices of a node put into its host's memory, each as much as the fullest stage's, and what that holds: of the node group that has least left.
struct HostNeed {
  std::int64_t bytes = 0, memory = 0;
  [[nodiscard]] bool fits() const { return bytes == 0 || bytes <= memory; }
};
HostNeed host_need(const Cluster& cluster, const Costs& costs);
/// Whether the hosts hold it.
inline bool host_fits(const Cluster& cluster, const Costs& costs) { return host_need(cluster, costs).fits(); }

}  // namespace espalier::cost
