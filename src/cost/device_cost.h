// SPDX-License-Identifier: Apache-2.0
// What a device of one kind takes for work under one engine. The rates are those of the device catalogue (data/devices)
// for the precision of the training, divided by what the engine's kernels were measured to take more
// (data/engines.yaml: coefficients).
#pragma once

#include <cstdint>
#include <vector>

#include "cost/collective.h"
#include "cost/operator_cost.h"
#include "cost/overlap.h"
#include "espalier/cluster.h"
#include "espalier/plan.h"
#include "plan/engine_fwd.h"

namespace espalier::cost {

/// What its host gives a device, bytes a second: to host memory and back, per direction; of states that the host
/// updates (cost/offload.h).
struct HostRates {
  double link = 0, update = 0;
};

struct DeviceCost {
  DeviceRates rates;                 ///< operations and bytes a second; seconds a kernel launch
  DeviceEfficiency efficiency;       ///< of the device alone: what compute and collectives do to each other
  double memory_bandwidth = 0;       ///< of its HBM, in bytes a second
  double speed = 1;                  ///< relative to the devices of its kind (DeviceKind::at_speed)
  double update_rate = 0;            ///< bytes of states a second that its optimizer was measured to reach; 0: that of
                                     ///< its memory
  std::int64_t workspace_bytes = 0;  ///< that the GEMM libraries of the engine hold on it
  HostRates host;                    ///< nothing: its host is not known

  DeviceCost(const DeviceKind& device, Precision precision, const EngineModel& engine);
  /// Of collectives and compute next to each other on it.
  [[nodiscard]] Interference interference() const { return interference_of(efficiency, memory_bandwidth); }
};

}  // namespace espalier::cost
