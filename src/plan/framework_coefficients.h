// SPDX-License-Identifier: Apache-2.0
// The coefficients that are fitted of a framework.
#pragma once

namespace espalier {

/// Coefficients fitted per framework (data/calibration/frameworks.yaml, `./dev fit`); the defaults are the pooled
/// priors. Each multiplies or adds one physical term, so that a framework that was never measured is still described by
/// 1 and 0.
struct FrameworkCoefficients {
  double compute = 1.0;               ///< time of GEMM and attention kernels in training, relative to the device model
  double elementwise = 1.0;           ///< bytes that memory-bound operators move, relative to fused kernels (eager > 1,
                                      ///< compiled
                                      ///< < 1)
  double launch = 1.0;                ///< host time per kernel, relative to kernel_launch of the device times
                                      ///< host_launches of
                                      ///< the engine
  double tensor_communication = 1.0;  ///< time of TP, CP and EP collectives relative to the fabric model
  double data_communication = 1.0;    ///< the same for gradient reduction and parameter gathers
  double exposed_share = 0.0;         ///< share of data-parallel communication that could be hidden and is not
  double step_s = 0.0;                ///< seconds of host work per step: data loading, logging, synchronisation
  double micro_batch_s = 0.0;         ///< seconds of host work per micro-batch and stage, whose chunks share it
  double collective_wait_s = 0.0;     ///< host seconds a TP collective waits per rank of its group, where stages that
                                      ///< block on their
                                      ///< messages (message_host_calls) talk across nodes
  double network_wait_s = 0.0;        ///< seconds per rank by which a TP collective across nodes exceeds the fabric
                                      ///< model
  bool operator==(const FrameworkCoefficients&) const = default;
};

}  // namespace espalier
