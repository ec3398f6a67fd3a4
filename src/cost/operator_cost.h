// SPDX-License-Identifier: Apache-2.0
// Time of one kernel or operator on one device, from its shape. Each form is smooth and monotone in every dimension, so
// that bounds and pruning hold.
//
//   GEMM [M,K]·[K,N]    t = f₀ + √(c² + m²),  c = 2MNK/(P·σ·g),  m = bytes/(H·e_g)
//        P peak FLOP/s at the precision, σ `sustained` (training against isolated kernels), g = gemm_max, H memory
//        bandwidth,
//        e_g = gemm_memory, f₀ = kernel_floor (start, ramp and tail of a kernel). bytes = operands + result.
//        The norm of compute and memory time: near the ridge neither hides the other wholly. Against 150,000 published
//        kernel times
//        it is off by 4 to 6 % (median, M ≥ 1024) with three scalars, as a form that saturates in the work is with
//        four.
//   accumulated         t = f₀ + max(√(c² + m²), (bytes + more)/(H·e_g)): thread blocks that have finished read and
//                       write the gradient that the product
//        adds to, while others compute. Weight gradients of Megatron-LM that add to 8 bytes an element keep 95 % of
//        their rate from 6,144 tokens a
//        micro-batch down to 1,024, where these bytes take 60 % of the time of the product (Qi et al. 2024, arXiv
//        2401.10241, appendix D).
//   fp8                 the GEMM reads one byte per operand at P₈·σ·g·gemm_fp8·sustained_fp8; before it each operand is
//                       cast: kernels of their own
//        (memory-bound), without which measured fp8 GEMMs cannot be described (median error 10 % without, 3 % with)
//   batched, grouped    the same with all the work in one kernel, at gemm_batched or gemm_grouped of the rate
//   fused attention     t = f₀ + 2(d_qk + d_v + 2d½)·(R·(s̄ + s₀) + R½·s) / (P·σ·a·(1 + d½/128)) + bytes/(H·e)
//        R queries × heads, s̄ mean keys a query sees, s most keys a query sees; d½ = attention_softmax (the
//        exponential of a score
//        costs the same at any head size), s₀ = attention_prologue, R½ = attention_rows (the last blocks run alone on
//        the device),
//        a = attention_max, the rate at head size 128. bytes of q, k, v and the result are not hidden: every block
//        starts with them.
//        backward: 2.5 × both terms (FlashAttention-2, Dao 2023: five GEMMs for two) at attention_backward × that rate
//   unfused attention   QKᵀ and AV as batched GEMMs over the full score matrix, softmax and score dropout as
//                       memory-bound kernels:
//        bytes per score (a = 2): softmax forward read and write 4, of a causal mask 3 (half is not read), backward 6,
//        causal 4;
//        dropout read, write and mask 5 each way (Korthikanti et al. 2022 §4; operator times published with Aceso and
//        Mist)
//   memory-bound        t = f₀ + bytes/(H·e), e = memory_max
//   scans in chunks     t = n·f₀ + √(c² + m²) at the batched rate, for H heads of k states and v features, G groups of
//                       q and k, chunks of l:
//        chunked_scan   2·T·H·(l(k + v) + 2kv) FLOPs: QKᵀ and AV inside a chunk, whole tiles; KᵀV into its state and
//                       Q·state out; n = 5
//                       (state-spaces/mamba ssd_combined.py: sums, states, passing, QKᵀ, output)
//        gated_delta    2·T·H·(l(3k + 2v) + 3kv + l²/6): also KKᵀ, the inverse of a unit triangle (l³/3 a chunk), W =
//                       T·K, U = T·V and
//                       W·state; n = 6 (Yang et al. 2024, arXiv 2412.06464 §3.3; fla chunk_gated_delta_rule)
//        bytes a·T·(2Gk + 2Hv) + 8·(T/l)·H·k·v (states in fp32, written and read). backward: three times both: two
//        gradients of every
//        product, and the forward again for its states
//   selective scan      t = f₀ + 4d½·N·T·C/(P·σ·a) + bytes/(H·e): one exponential a channel and state, priced as
//                       attention's;
//        bytes a·T·(3C + 2N): u, Δ in, y out, B and C. backward: twice the exponentials, bytes a·T·(5C + 4N) (Gu, Dao
//        2023, arXiv
//        2312.00752 §3.3.2: the states are computed again)
// The forms of scans are not calibrated: no measured kernel stands behind them yet.
// Backward of a linear: input gradient and weight gradient, each a GEMM of the same FLOPs; the weight gradient also
// adds to the accumulated gradient. Times in seconds, all for one rank's local shapes.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "espalier/cluster.h"
#include "espalier/model.h"

namespace espalier::cost {

/// The numbers of a device that the equations use, prepared once.
struct DeviceRates {
  double gemm = 1;       ///< P·σ·g, FLOP/s
  double gemm_wide = 1;  ///< of GEMMs that stay in bf16 under fp8: the output projection, routers
  double batched = 1;    ///< of unfused attention, which stays in bf16 under fp8
  double grouped = 1;    ///< of experts
  double uneven =
      1;  ///< share of `batched` where rows are no multiple of 16 bytes: no matrix units, packed FMAs of twice the fp32
          ///< peak
  double gemm_memory = 1;  ///< H·e_g, bytes/s
  double attention = 1;    ///< P·σ·a·(1 + d½/128), in bf16 under fp8
  double attention_backward = 1;
  double softmax = 0;   ///< d½
  double prologue = 0;  ///< s₀, keys
  double rows = 0;      ///< R½
  double memory = 1;    ///< H·e, bytes/s
  double floor = 0;     ///< f₀, s
  double launch = 0;    ///< s per kernel, as the engine's host launches it
  double call = 0;      ///< s per bare launch
};

DeviceRates rates_of(const DeviceKind& device, Precision precision);

inline double memory_bound_s(const DeviceRates& d, double bytes) { return d.floor + bytes / d.memory; }

/// Work of `flops` at `rate` that moves `bytes`, in one kernel.
inline double work_s(const DeviceRates& d, double flops, double rate, double bytes) {
  const double compute = flops / rate, memory = bytes / d.gemm_memory;
  return d.floor + std::sqrt(compute * compute + memory * memory);
}

/// The same where thread blocks that have finished read and write `behind` bytes while others compute.
inline double work_s(const DeviceRates& d, double flops, double rate, double bytes, double behind) {
  return std::max(work_s(d, flops, rate, bytes), d.floor + (bytes + behind) / d.gemm_memory);
}

/// At `rate` (d.gemm, d.gemm_wide). `element_bytes` of the operands; the result has two bytes an element at least.
/// `extra_bytes` go while it computes (accumulated gradients).
inline double gemm_s(const DeviceRates& d, double rate, double m, double n, double k, double element_bytes,
                     double extra_bytes = 0) {
  const double result_bytes = element_bytes < 2 ? 2 : element_bytes;
  return work_s(d, 2.0 * m * n * k, rate, element_bytes * (m * k + k * n) + result_bytes * m * n, extra_bytes);
}

/// `batch` GEMMs of one shape in one kernel (unfused attention at d.batched, experts at d.grouped).
inline double batched_gemm_s(const DeviceRates& d, double rate, double batch, double m, double n, double k, double element_bytes,
                             double extra_bytes = 0) {
  return work_s(d, 2.0 * batch * m * n * k, rate, batch * element_bytes * (m * k + k * n + m * n), extra_bytes);
}

/// One call of fused attention: `rows` queries × heads, each attending to `keys` on average and `most_keys` at most;
/// `width` = d_qk + d_v; `bytes` of q, k, v and the result.
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

/// A scan in chunks on one rank: `tokens` × `heads` of k states and v features, chunks of `chunk`; `bytes` moved once.
struct ScanShape {
  double tokens, heads, states, features, chunk, bytes;
  bool delta;
};
inline double scan_flops(const ScanShape& s) {
  const double inside =
      s.delta ? s.chunk * (3 * s.states + 2 * s.features) + s.chunk * s.chunk / 6 : s.chunk * (s.states + s.features);
  return 2.0 * s.tokens * s.heads * (inside + (s.delta ? 3 : 2) * s.states * s.features);
}
inline constexpr int kScanKernels = 5, kDeltaKernels = 6;
/// `passes`: 1 forward, 3 backward.
inline double chunked_scan_s(const DeviceRates& d, const ScanShape& s, double passes) {
  return ((s.delta ? kDeltaKernels : kScanKernels) - 1) * d.floor +
         work_s(d, passes * scan_flops(s), d.batched, passes * s.bytes);
}
/// `exponentials` of `bytes` moved.
inline double selective_scan_s(const DeviceRates& d, double exponentials, double bytes) {
  return d.floor + 4.0 * d.softmax * exponentials / d.attention + bytes / d.memory;
}

/// Mean number of keys that one of `queries` queries attends to, among `keys`: all, a causal half (keys + 1)/2 rounded
/// to keys/2, or a sliding window.
double mean_keys(double keys, double window, bool causal);
/// Keys that a query of `op` can reach of the `keys` of its own sequence: those of its piece, where attention stays
/// inside pieces.
inline std::int64_t keys_in_reach(const Operator& op, std::int64_t keys) {
  return op.chunk > 0 ? std::min(op.chunk, keys) : keys;
}

}  // namespace espalier::cost
