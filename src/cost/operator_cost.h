// SPDX-License-Identifier: Apache-2.0
// Time of one kernel or operator on one device, from its shape.
//
//   GEMM [M,K]·[K,N]    t = max( (2MNK + f½)/(P·g),  bytes/(H·e) ),  ≥ kernel floor
//        P peak FLOP/s at the precision times `sustained` (training against isolated kernels), g = gemm_max, f½ = gemm_half_gflop: the efficiency is g·f/(f + f½), a saturating form in
//        the work of one kernel; H memory bandwidth, e = memory_max. bytes = a(MK + KN + MN).
//   fused attention     forward: 2·H·(d_qk + d_v)·s_q·s̄_kv per sample, s̄_kv = mean keys a query sees; rate P·attention_max with the
//        same f½; backward: 2.5 × the FLOPs (FlashAttention-2, Dao 2023: five GEMMs for two) at attention_backward × that rate
//   unfused attention   QKᵀ and AV as batched GEMMs over the full score matrix, softmax and score dropout as memory-bound kernels:
//        9 bytes per score forward (softmax read+write 4, dropout read+write+mask 5), 11 backward (Korthikanti et al. 2022 §4)
//   memory-bound        t = bytes/(H·e), ≥ kernel floor
// Backward of a linear: input gradient and weight gradient, each a GEMM of the same FLOPs; the weight gradient also reads and writes
// the accumulated gradient. Times in seconds, all for one rank's local shapes.
#pragma once

#include <algorithm>
#include <cstdint>

#include "espalier/cluster.h"

namespace espalier::cost {

/// The numbers of a device that the equations use, prepared once.
struct DeviceRates {
  double gemm = 1;            ///< P·g, FLOP/s
  double gemm_attention = 1;  ///< the same for unfused attention, which stays in bf16 under fp8
  double attention = 1;       ///< P·attention_max
  double attention_backward = 1;
  double half = 0;    ///< f½, FLOP
  double memory = 1;  ///< H·e, bytes/s
  double floor = 0;   ///< s
  double launch = 0;  ///< s per kernel
};

DeviceRates rates_of(const DeviceKind& device, Precision precision);

inline double memory_bound_s(const DeviceRates& d, double bytes) { return std::max(bytes / d.memory, d.floor); }

/// `extra_bytes` on top of the operands (accumulated gradients). `kernels`: batched calls share one launch but not one tail.
inline double gemm_s(const DeviceRates& d, double m, double n, double k, double element_bytes, double extra_bytes = 0) {
  const double flops = 2.0 * m * n * k;
  const double bytes = element_bytes * (m * k + k * n + m * n) + extra_bytes;
  return std::max({(flops + d.half) / d.gemm, bytes / d.memory, d.floor});
}

/// `batch` GEMMs of one shape in one kernel (unfused attention, experts).
inline double batched_gemm_s(const DeviceRates& d, double batch, double m, double n, double k, double element_bytes,
                             double extra_bytes = 0) {
  const double flops = 2.0 * batch * m * n * k;
  const double bytes = batch * element_bytes * (m * k + k * n + m * n) + extra_bytes;
  return std::max({(flops + d.half) / d.gemm, bytes / d.memory, d.floor});
}

inline double attention_forward_s(const DeviceRates& d, double flops, double bytes) {
  return std::max({(flops + d.half) / d.attention, bytes / d.memory, d.floor});
}
inline double attention_backward_s(const DeviceRates& d, double forward_flops, double bytes) {
  return std::max({(2.5 * forward_flops + d.half) / d.attention_backward, 2.5 * bytes / d.memory, d.floor});
}

/// Mean number of keys that one of `queries` queries attends to, among `keys`: all, a causal half (keys + 1)/2 rounded to
/// keys/2, or a sliding window.
double mean_keys(double keys, double window, bool causal);

}  // namespace espalier::cost
