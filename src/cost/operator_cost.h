// SPDX-License-Identifier: Apache-2.0
// Time of one kernel or operator on one device, from its shape. Each form is smooth and monotone in every dimension,
// so that bounds and pruning hold.
//
//   GEMM [M,K]·[K,N]    t = f₀ + √(c² + m²),  c = 2MNK/(P·σ·g),  m = bytes/(H·e_g)
//        P      peak FLOP/s at the precision          σ      `sustained`: training against isolated kernels
//        g      gemm_max                              H      memory bandwidth
//        e_g    gemm_memory                           f₀     kernel_floor: start, ramp and tail of a kernel
//        bytes  operands + result
//        Compute and memory time form a norm, because near the ridge neither hides the other wholly. Its error against
//        150,000 published kernel times is 4 to 6 % (median, M ≥ 1024) with three scalars. A form that saturates in
//        the work has the same error with four.
//   accumulated         t = f₀ + max(√(c² + m²), (bytes + more)/(H·e_g))
//        Thread blocks that have finished read and write the gradient that the product adds to, while others compute.
//        Weight gradients of Megatron-LM that add to 8 bytes per element keep 95 % of their rate from 6,144 tokens per
//        micro-batch down to 1,024. There these bytes take 60 % of the time of the product (Qi et al. 2024, arXiv
//        2401.10241, appendix D).
//   fp8                 The GEMM reads one byte per operand at P₈·σ·g·gemm_fp8·sustained_fp8. Memory-bound kernels
//                       cast each operand before it. Without them measured fp8 GEMMs cannot be described (median error
//                       10 % without, 3 % with).
//   batched, grouped    as GEMM, with all the work in one kernel, at gemm_batched or gemm_grouped of the rate
//   fused attention     t = f₀ + 2(d_qk + d_v + 2d½)·(R·(s̄ + s₀) + R½·s) / (P·σ·a·(1 + d½/128)) + bytes/(H·e)
//        R      queries × heads                       s̄, s   mean and most keys that a query sees
//        d½     attention_softmax: the exponential of a score costs the same at any head size
//        s₀     attention_prologue                    R½     attention_rows: the last blocks run alone on the device
//        a      attention_max, the rate at head size 128
//        The bytes of q, k, v and the result are not hidden, because every block starts with them. Backward takes 2.5
//        × both terms (FlashAttention-2, Dao 2023: five GEMMs for two) at attention_backward × that rate.
//   unfused attention   QKᵀ and AV are batched GEMMs over the full score matrix; softmax and score dropout are
//                       memory-bound kernels.
//        Bytes per score (a = 2): softmax reads and writes 4 forward and 6 backward. Under a causal mask it is 3 (half
//        is not read) and 4. Dropout takes 5 each way: read, write and mask (Korthikanti et al. 2022 §4; operator
//        times published with Aceso and Mist).
//   memory-bound        t = f₀ + bytes/(H·e), e = memory_max
//   scans in chunks     t = n·f₀ + √(c² + m²) at the batched rate, for H heads of k states and v features, G groups of
//                       q and k, chunks of l
//        chunked_scan   2·T·H·(l(k + v) + 2kv) FLOPs, n = 5: QKᵀ and AV inside a chunk, in whole tiles; KᵀV into its
//                       state and Q·state out (state-spaces/mamba ssd_combined.py: sums, states, passing, QKᵀ, output)
//        gated_delta    2·T·H·(l(3k + 2v) + 3kv + l²/6) FLOPs, n = 6: also KKᵀ, the inverse of a unit triangle (l³/3
//                       per chunk), W = T·K, U = T·V and W·state (Yang et al. 2024, arXiv 2412.06464 §3.3; fla
//                       chunk_gated_delta_rule)
//        bytes          a·T·(2Gk + 2Hv) + 8·(T/l)·H·k·v (states in fp32, written and read)
//        backward       three times both: two gradients of every product, and the forward again for its states
//   selective scan      t = f₀ + 4d½·N·T·C/(P·σ·a) + bytes/(H·e): one exponential per channel and state, priced as in
//                       attention
//        bytes          a·T·(3C + 2N): u, Δ in, y out, B and C
//        backward       twice the exponentials, bytes a·T·(5C + 4N): the states are computed again (Gu, Dao 2023,
//                       arXiv 2312.00752 §3.3.2)
//
// The forms of scans are not calibrated, because there is no measured kernel yet. The backward of a linear is an
// input gradient and a weight gradient, each a GEMM of the same FLOPs. The weight gradient also adds to the
// accumulated gradient. Times are in seconds, all for one rank's local shapes.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "espalier/cluster.h"
#include "espalier/model.h"

namespace espalier::cost {

/// Holds the numbers of a device that the equations use, prepared once.
struct DeviceRates {
  double gemm = 1;       ///< P·σ·g, FLOP/s
  double gemm_wide = 1;  ///< GEMMs that stay in bf16 under fp8: the output projection, routers
  double batched = 1;    ///< unfused attention, which stays in bf16 under fp8
  double grouped = 1;    ///< experts
  /// Scales `batched` where rows are no multiple of 16 bytes: no matrix units, packed FMAs of twice the fp32 peak.
  double uneven = 1;
  double gemm_memory = 1;  ///< H·e_g, bytes/s
  double attention = 1;    ///< P·σ·a·(1 + d½/128), in bf16 under fp8
  double attention_backward = 1;
  double softmax = 0;                       ///< d½
  double prologue = 0;                      ///< s₀, keys
  double rows = 0;                          ///< R½
  double memory = 1;                        ///< H·e, bytes/s
  double floor = 0;                         ///< f₀, s
  double launch = 0;                        ///< s per kernel, as the engine's host launches it
  double call = 0;                          ///< s per bare launch
  int scan_kernels = 1, delta_kernels = 1;  ///< kernels of a scan in chunks; of a gated delta rule
  [[nodiscard]] int kernels_of_scan(bool delta) const { return delta ? delta_kernels : scan_kernels; }
};

DeviceRates rates_of(const DeviceKind& device, Precision precision);

inline double memory_bound_s(const DeviceRates& d, double bytes) { return d.floor + bytes / d.memory; }

/// Returns the seconds of work of `flops` at `rate` that moves `bytes`, in one kernel.
inline double work_s(const DeviceRates& d, double flops, double rate, double bytes) {
  const double compute = flops / rate, memory = bytes / d.gemm_memory;
  return d.floor + std::sqrt(compute * compute + memory * memory);
}

/// Returns these seconds where finished thread blocks read and write `behind` bytes while others compute.
inline double work_s(const DeviceRates& d, double flops, double rate, double bytes, double behind) {
  return std::max(work_s(d, flops, rate, bytes), d.floor + (bytes + behind) / d.gemm_memory);
}

/// Returns the seconds of a GEMM at `rate` (d.gemm, d.gemm_wide). `element_bytes` is that of the operands; the result
/// has at least two bytes per element. `extra_bytes` move while it computes (accumulated gradients).
inline double gemm_s(const DeviceRates& d, double rate, double m, double n, double k, double element_bytes,
                     double extra_bytes = 0) {
  const double result_bytes = element_bytes < 2 ? 2 : element_bytes;
  return work_s(d, 2.0 * m * n * k, rate, element_bytes * (m * k + k * n) + result_bytes * m * n, extra_bytes);
}

/// Returns the seconds of `batch` GEMMs of one shape in one kernel (unfused attention at d.batched, experts at
/// d.grouped).
inline double batched_gemm_s(const DeviceRates& d, double rate, double batch, double m, double n, double k, double element_bytes,
                             double extra_bytes = 0) {
  return work_s(d, 2.0 * batch * m * n * k, rate, batch * element_bytes * (m * k + k * n + m * n), extra_bytes);
}

/// Describes one call of fused attention: `rows` queries × heads, each attending to `keys` on average and `most_keys`
/// at most; `width` = d_qk + d_v; `bytes` of q, k, v and the result.
struct AttentionCall {
  double rows, keys, most_keys, width, bytes;
};
inline double attention_flops(const DeviceRates& d, const AttentionCall& s) {
  return 2.0 * (s.width + 2.0 * d.softmax) * (s.rows * (s.keys + d.prologue) + d.rows * s.most_keys);
}
inline double attention_forward_s(const DeviceRates& d, const AttentionCall& s) {
  return d.floor + attention_flops(d, s) / d.attention + s.bytes / d.memory;
}
inline double attention_backward_s(const DeviceRates& d, const AttentionCall& s) {
  return d.floor + 2.5 * (attention_flops(d, s) / d.attention_backward + s.bytes / d.memory);
}

/// Describes a scan in chunks on one rank: `tokens` × `heads` of k states and v features, chunks of `chunk`; `bytes`
/// moved once.
struct ScanShape {
  double tokens, heads, states, features, chunk, bytes;
  bool delta;
};
inline double scan_flops(const ScanShape& s) {
  const double inside =
      s.delta ? s.chunk * (3 * s.states + 2 * s.features) + s.chunk * s.chunk / 6 : s.chunk * (s.states + s.features);
  return 2.0 * s.tokens * s.heads * (inside + (s.delta ? 3 : 2) * s.states * s.features);
}
/// Returns the seconds of a chunked scan. `passes`: 1 forward, 3 backward.
inline double chunked_scan_s(const DeviceRates& d, const ScanShape& s, double passes) {
  return (d.kernels_of_scan(s.delta) - 1) * d.floor + work_s(d, passes * scan_flops(s), d.batched, passes * s.bytes);
}
/// Returns the seconds of a selective scan with `exponentials` that moves `bytes`.
inline double selective_scan_s(const DeviceRates& d, double exponentials, double bytes) {
  return d.floor + 4.0 * d.softmax * exponentials / d.attention + bytes / d.memory;
}

/// Returns the mean number of keys that a query attends to, among `keys`: all, a causal half (keys + 1)/2 rounded to
/// keys/2, or a sliding window.
double mean_keys(double keys, double window, bool causal);
/// Returns the keys that a query of `op` can reach among the `keys` of its own sequence. Where attention stays inside
/// pieces, these are the keys of its piece.
inline std::int64_t keys_in_reach(const Operator& op, std::int64_t keys) {
  return op.chunk > 0 ? std::min(op.chunk, keys) : keys;
}

}  // namespace espalier::cost
