// SPDX-License-Identifier: Apache-2.0
// Defines the coefficients that are fitted per framework.
#pragma once

namespace espalier {

/// Holds the coefficients fitted per framework (data/calibration/frameworks.yaml, `./dev fit`); the defaults are the
/// pooled priors. Each multiplies or adds one physical term, so 1 and 0 describe a framework that was never measured.
struct FrameworkCoefficients {
  double compute = 1.0;  ///< time of GEMM and attention kernels in training, relative to the device model
  /// Scales the bytes that memory-bound operators move, relative to fused kernels (eager > 1, compiled < 1).
  double elementwise = 1.0;
  /// Scales the host time per kernel, relative to kernel_launch of the device times host_launches of the engine.
  double launch = 1.0;
  double tensor_communication = 1.0;  ///< time of TP, CP and EP collectives relative to the fabric model
  double data_communication = 1.0;    ///< time of gradient reduction and parameter gathers relative to the fabric model
  double exposed_share = 0.0;         ///< share of data-parallel communication that could be hidden but is exposed
  double step_s = 0.0;                ///< seconds of host work per step: data loading, logging, synchronisation
  double micro_batch_s = 0.0;         ///< seconds of host work per micro-batch and stage, whose chunks share it
  /// Adds the host seconds that a TP collective waits per rank of its group, if stages that block on their messages
  /// (message_host_calls) communicate across nodes.
  double collective_wait_s = 0.0;
  /// Adds the seconds per rank by which a TP collective across nodes exceeds the fabric model.
  double network_wait_s = 0.0;
  bool operator==(const FrameworkCoefficients&) const = default;
};

}  // namespace espalier
