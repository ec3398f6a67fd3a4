// SPDX-License-Identifier: Apache-2.0
// Reads the figures of data/facts.yaml that these checks use, with a reader of its own. A wrong row that the planner
// read is then found here.
#pragma once

#include <optional>
#include <string>

#include "base/era.h"

namespace espalier::check {

/// Holds figures for one engine; data/facts.yaml has their units and meanings.
struct Figures {
  double pass_launches, update_launches, collective_launches, eager_kernel_launches;
  double scan_kernels, delta_scan_kernels, second_products_again, flash1_rate;
  double cublas_workspace, cublas_workspace_fp8, transformer_engine_workspace, transformer_engine_workspace_fp8;
  double vector_product_share, matrix_unit_ratio, tree_all_reduce, in_network_all_reduce;
  double host_link_share, host_update_share;
};

/// Returns the figures for an engine and version; "" and nothing: for any engine and the newest version.
Figures figures_for(const std::string& engine, const std::optional<base::Version>& version);

}  // namespace espalier::check
