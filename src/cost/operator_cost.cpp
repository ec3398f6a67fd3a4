// SPDX-License-Identifier: Apache-2.0
#include "cost/operator_cost.h"

#include <algorithm>

#include "cluster/hardware_facts.h"
#include "cluster/operand_format.h"

namespace espalier::cost {

namespace {

/// Returns the share of the peak that GEMMs reach. `gemm_max` is that of matrix units. A device whose 16-bit products
/// are `matrix_unit_ratio` times as fast has no fp32 matrix units. Its FMA units compute fp32 products, and large ones
/// keep them busier: `vector_product_share` of their peak (data/facts.yaml).
double gemm_share(const DeviceKind& device, Precision precision) {
  const cluster::HardwareFacts& facts = cluster::hardware_facts();
  const double full = device.peak_of(Precision::fp32).count();
  const double half = std::max(device.peak_of(Precision::fp16).count(), device.peak_of(Precision::bf16).count());
  const bool vectors = precision == Precision::fp32 && half >= facts.matrix_unit_ratio * full;
  return vectors ? std::max(facts.vector_product_share, device.efficiency.gemm_max) : device.efficiency.gemm_max;
}

}  // namespace

DeviceRates rates_of(const DeviceKind& device, Precision precision) {
  const auto& e = device.efficiency;
  // Engines do not train with 8-bit attention, so fp8 means fp8 GEMMs and bf16 attention.
  const bool fp8 = cluster::operand_format(precision).cast;
  const double peak = device.peak_of(precision).count() * e.sustained;
  const double attention_peak = fp8 ? device.peak_of(Precision::bf16).count() * e.sustained : peak;
  DeviceRates r;
  const double share = gemm_share(device, precision);
  r.gemm = peak * share * (fp8 ? e.gemm_fp8 * e.sustained_fp8 : 1.0);
  r.gemm_wide = attention_peak * share;
  r.batched = attention_peak * share * e.gemm_batched;
  r.grouped = r.gemm * e.gemm_grouped;
  const double full = device.peak_of(Precision::fp32).count(),
               half = fp8 ? device.peak_of(Precision::bf16).count() : device.peak_of(precision).count();
  const bool halves = precision == Precision::fp16 || precision == Precision::bf16 || fp8;
  r.uneven = halves && full > 0 && half > 0 ? std::min(1.0, 2 * full / half) : 1.0;
  r.gemm_memory = device.memory_bandwidth.count() * e.gemm_memory;
  r.attention = attention_peak * e.attention_max * (1.0 + e.attention_softmax / 128.0);
  r.attention_backward = r.attention * e.attention_backward;
  r.softmax = e.attention_softmax;
  r.prologue = e.attention_prologue;
  r.rows = e.attention_rows;
  r.memory = device.memory_bandwidth.count() * e.memory_max;
  r.floor = e.kernel_floor.count();
  r.launch = r.call = e.kernel_launch.count();
  return r;
}

double mean_keys(double keys, double window, bool causal) {
  if (window > 0 && window < keys) return causal ? window - window * window / (2.0 * keys) : window;
  return causal ? keys / 2.0 : keys;
}

}  // namespace espalier::cost
