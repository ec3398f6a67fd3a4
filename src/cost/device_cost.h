// SPDX-License-Identifier: Apache-2.0
// Rates of a device of one kind under one engine. They are those of the device catalogue (data/devices) for the
// precision of the training, divided by the measured slow-down of the engine's kernels (data/engines.yaml:
// coefficients).
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

/// Holds what its host gives a device, in bytes per second: `link` to host memory and back, per direction; `update`
/// for states that the host updates (cost/offload.h).
struct HostRates {
  double link = 0, update = 0;
};

struct DeviceCost {
  DeviceRates rates;            ///< operations and bytes per second; seconds per kernel launch
  DeviceEfficiency efficiency;  ///< how compute and collectives on the device slow each other down
  double memory_bandwidth = 0;  ///< HBM, bytes per second
  double speed = 1;             ///< relative to the devices of its kind (DeviceKind::at_speed)
  /// Holds the measured rate of its optimizer in bytes of states per second; 0: that of its memory.
  double update_rate = 0;
  std::int64_t workspace_bytes = 0;  ///< held on it by the engine's GEMM libraries
  HostRates host;                    ///< zero where its host is not known

  DeviceCost(const DeviceKind& device, Precision precision, const EngineModel& engine);
  /// Returns how collectives and compute next to each other on the device slow each other down.
  [[nodiscard]] Interference interference() const { return interference_of(efficiency, memory_bandwidth); }
};

}  // namespace espalier::cost
