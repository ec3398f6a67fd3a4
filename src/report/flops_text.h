// SPDX-License-Identifier: Apache-2.0
// Writes rates of arithmetic in a unit that shows digits: a processor core has 0.05 TFLOP/s, a GPU 989.
#pragma once

#include <string>

#include "base/format.h"

namespace espalier::report {

/// Returns "989 TFLOP/s", "8.1 TFLOP/s" or "48 GFLOP/s".
inline std::string peak_text(double tflops) {
  if (tflops >= 10) return base::fixed(tflops, 0) + " TFLOP/s";
  return tflops >= 1 ? base::fixed(tflops, 1) + " TFLOP/s" : base::fixed(tflops * 1e3, tflops >= 0.01 ? 0 : 2) + " GFLOP/s";
}

/// Returns "91.1 model TFLOP/s/GPU".
inline std::string model_rate_text(double tflops) {
  return tflops >= 0.1 ? base::fixed(tflops, 1) + " model TFLOP/s/GPU" : base::fixed(tflops * 1e3, 2) + " model GFLOP/s/GPU";
}

}  // namespace espalier::report
