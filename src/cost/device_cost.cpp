// SPDX-License-Identifier: Apache-2.0
#include "cost/device_cost.h"

#include "plan/engine.h"
#include "profile/measured_operators.h"

namespace espalier::cost {
namespace {

/// Returns the rate of the engine's attention kernels relative to the device's own.
double attention_rate(AttentionKernel kernel, const EngineFacts& facts, const DeviceEfficiency& device) {
  switch (kernel) {
    case AttentionKernel::vendor: return 1.0;
    case AttentionKernel::flash2: return device.attention_flash2;
    case AttentionKernel::flash1: return facts.flash1_rate * device.attention_flash2;
    case AttentionKernel::sdpa: return std::max(1.0, device.attention_flash2);
  }
  return 1.0;
}

std::int64_t workspace_bytes_of(const WorkspacePolicy& w, const EngineFacts& facts, const DeviceKind& device) {
  constexpr double kMiB = 1 << 20;
  const bool fp8 = device.peak_of(Precision::fp8).count() > 0;
  const double cublas = fp8 || w.deterministic ? facts.cublas_workspace_fp8 : facts.cublas_workspace;
  const double own = fp8 ? facts.transformer_engine_workspace_fp8 : facts.transformer_engine_workspace;
  return static_cast<std::int64_t>((w.cublas * cublas + w.transformer_engine * own) * kMiB);
}

}  // namespace

DeviceCost::DeviceCost(const DeviceKind& device, Precision precision, const EngineModel& engine)
    : rates(rates_of(device, precision)),
      efficiency(device.efficiency),
      memory_bandwidth(device.memory_bandwidth.count()),
      speed(device.speed),
      update_rate(engine.measured != nullptr ? engine.measured->update_bytes_per_s * device.speed : 0),
      workspace_bytes(workspace_bytes_of(engine.memory.workspace, engine.facts, device)) {
  for (double* rate :
       {&rates.gemm, &rates.gemm_wide, &rates.batched, &rates.grouped, &rates.attention, &rates.attention_backward})
    *rate /= engine.coefficients.compute;
  rates.scan_kernels = engine.facts.scan_kernels;
  rates.delta_kernels = engine.facts.delta_scan_kernels;
  rates.launch *= engine.kernels.host_launches * engine.coefficients.launch;
  const double kernel = attention_rate(engine.kernels.attention_kernel, engine.facts, efficiency);
  rates.attention *= kernel;
  rates.attention_backward *= kernel;
}

}  // namespace espalier::cost
