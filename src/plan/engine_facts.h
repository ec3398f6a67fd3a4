// SPDX-License-Identifier: Apache-2.0
// Holds the figures of data/facts.yaml about kernels and launches for one engine at one version, copied out once.
#pragma once

#include "base/facts.h"

namespace espalier {

struct EngineFacts {
  int pass_launches = 0;             ///< launches between the layers of a chunk, each pass
  int update_launches = 0;           ///< kernels of norm, clipping and update, once a step
  int collective_launches = 0;       ///< host work of a collective
  double eager_kernel_launches = 0;  ///< bare launches of a kernel under eager PyTorch
  int scan_kernels = 0;              ///< kernels of a scan in chunks, one way
  int delta_scan_kernels = 0;        ///< kernels of a gated delta rule in chunks, one way
  double second_products_again = 0;  ///< share of a block's products under every_second_mm (RecomputeModule)
  double flash1_rate = 0;            ///< rate of FlashAttention 1 relative to version 2
  /// Hold the MiB of a workspace of a GEMM library; `_fp8`: on devices with 8-bit products.
  double cublas_workspace = 0, cublas_workspace_fp8 = 0;
  double transformer_engine_workspace = 0, transformer_engine_workspace_fp8 = 0;
  bool operator==(const EngineFacts&) const = default;
};

/// Returns the figures for an engine and version; without them, for any engine and the newest version.
EngineFacts engine_facts(const base::Facts& facts, const base::FactContext& context = {});

}  // namespace espalier
