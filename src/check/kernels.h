// SPDX-License-Identifier: Apache-2.0
// Returns the seconds of one kernel on one device, by the equations of docs/cost-model.md ("Operators"), written
// again.
//
//     product [m,k]·[k,n]   f₀ + √(c² + b²), c = 2·m·n·k/rate, b = bytes/(memory bandwidth · gemm_memory)
//     with h hidden bytes   f₀ + max(√(c² + b²), b + h/(memory bandwidth · gemm_memory))
//     fused attention       f₀ + 2(width + 2d½)·(rows·(keys + s₀) + R½·most)/rate + bytes/R; backward f₀ + 2.5 times
//                           both terms
//     memory-bound          f₀ + bytes/R, R = memory bandwidth · memory_max
// (Williams et al. 2009; Dao 2023, https://arxiv.org/abs/2307.08691.)
#pragma once

#include <algorithm>
#include <cmath>

#include "check/view.h"

namespace espalier::check {

/// Returns the bytes of an operand that is cast from 16 bits, with its share of a scale of 8 bits; 0: operands are not
/// cast. Holds for products of blocks.
double cast_operand_bytes(const View& view);

struct Kernels {
  double product = 1, wide = 1;     ///< FLOP/s of matrix products; of products that stay in 16 bits under fp8
  double batched = 1, grouped = 1;  ///< FLOP/s of unfused attention; of experts
  /// Holds the FLOP/s of unfused attention whose head size is no multiple of 8, without matrix units.
  double uneven = 1;
  double attention = 1, attention_back = 1;
  double softmax = 0, prologue = 0, rows = 0;
  double stream = 1, memory = 1;  ///< bytes/s of product operands; of element-wise kernels
  double elementwise = 1;         ///< bytes/s of an engine's element-wise kernels in the operator table's bytes
  double floor = 0, launch = 0;   ///< s that a kernel occupies the device; s that the host takes to launch one
  double call = 0;                ///< s of a launch without a framework
  double a = 2, operand = 2;      ///< bytes of an element; of a product's operand
  double cast = 0;                ///< bytes per element that casts of operands move
  int cast_kernels = 0;

  explicit Kernels(const View& view);

  [[nodiscard]] double move(double bytes) const { return floor + bytes / memory; }
  [[nodiscard]] double multiply(double rate, double m, double n, double k, double element, double more = 0) const {
    return work(2 * m * n * k, rate, element * (m * k + k * n) + std::max(2.0, element) * m * n, more);
  }
  /// Returns the seconds of `count` products in one kernel.
  [[nodiscard]] double multiply_many(double rate, double count, double m, double n, double k, double more = 0) const {
    return work(2 * count * m * n * k, rate, count * a * (m * k + k * n + m * n), more);
  }

 private:
  /// Returns the seconds of a product that hides `hidden` bytes of other traffic. It takes at least what memory needs
  /// for all.
  [[nodiscard]] double work(double flops, double rate, double bytes, double hidden) const {
    return floor + std::max(std::hypot(flops / rate, bytes / stream), (bytes + hidden) / stream);
  }
};

}  // namespace espalier::check
