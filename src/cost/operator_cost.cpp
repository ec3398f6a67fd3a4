// SPDX-License-Identifier: Apache-2.0
#include "cost/operator_cost.h"

namespace espalier::cost {

DeviceRates rates_of(const DeviceKind& device, Precision precision) {
  const auto& e = device.efficiency;
  const double peak = device.peak_of(precision).count() * e.sustained;
  DeviceRates r;
  r.gemm = r.gemm_attention = peak * e.gemm_max;
  r.attention = peak * e.attention_max;
  // 8-bit attention is not what engines train with: fp8 GEMMs, bf16 attention.
  if (precision == Precision::fp8) r.gemm_attention = device.peak_of(Precision::bf16).count() * e.sustained * e.gemm_max;
  if (precision == Precision::fp8) r.attention = device.peak_of(Precision::bf16).count() * e.sustained * e.attention_max;
  r.attention_backward = r.attention * e.attention_backward;
  r.half = e.gemm_half_gflop * 1e9;
  r.memory = device.memory_bandwidth.count() * e.memory_max;
  r.floor = e.kernel_floor.count();
  r.launch = e.kernel_launch.count();
  return r;
}

double mean_keys(double keys, double window, bool causal) {
  if (window > 0 && window < keys) return causal ? window - window * window / (2.0 * keys) : window;
  return causal ? keys / 2.0 : keys;
}

}  // namespace espalier::cost
