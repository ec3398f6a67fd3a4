// SPDX-License-Identifier: Apache-2.0
// Reads the figures of data/facts.yaml that these checks use, with a reader of its own. A wrong row that the planner
// read is then found here.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "base/era.h"

namespace espalier::check {

/// Holds figures for one engine; data/facts.yaml has their units and meanings.
struct Figures {
  double pass_launches, update_launches, collective_launches, eager_kernel_launches;
  double scan_kernels, delta_scan_kernels, second_products_again, flash1_rate;
  double cublas_workspace, cublas_workspace_fp8, transformer_engine_workspace, transformer_engine_workspace_fp8;
  double vector_product_share, matrix_unit_ratio, tree_all_reduce, in_network_all_reduce;
  double host_link_share, host_update_share;
  double mxfp8_block, mxfp8_passes, nvfp4_block, nvfp4_passes;
};

/// Names a figure in data/facts.yaml. `version` is one of the program that the fact names; empty: those of the engine.
struct FigureRow {
  std::string_view name;
  double Figures::*member;
  std::string_view version = {};
};
/// Lists every member of Figures.
inline constexpr std::array kFigures = {
    FigureRow{"pass_launches", &Figures::pass_launches},
    FigureRow{"update_launches", &Figures::update_launches},
    FigureRow{"collective_launches", &Figures::collective_launches},
    FigureRow{"eager_kernel_launches", &Figures::eager_kernel_launches},
    FigureRow{"scan_kernels", &Figures::scan_kernels},
    FigureRow{"delta_scan_kernels", &Figures::delta_scan_kernels},
    FigureRow{"second_products_again", &Figures::second_products_again},
    FigureRow{"flash_attention_rate", &Figures::flash1_rate, "1"},
    FigureRow{"cublas_workspace", &Figures::cublas_workspace},
    FigureRow{"cublas_workspace_fp8", &Figures::cublas_workspace_fp8},
    FigureRow{"transformer_engine_workspace", &Figures::transformer_engine_workspace},
    FigureRow{"transformer_engine_workspace_fp8", &Figures::transformer_engine_workspace_fp8},
    FigureRow{"vector_product_share", &Figures::vector_product_share},
    FigureRow{"matrix_unit_ratio", &Figures::matrix_unit_ratio},
    FigureRow{"tree_all_reduce", &Figures::tree_all_reduce},
    FigureRow{"in_network_all_reduce", &Figures::in_network_all_reduce},
    FigureRow{"host_link_share", &Figures::host_link_share},
    FigureRow{"host_update_share", &Figures::host_update_share},
    FigureRow{"mxfp8_block", &Figures::mxfp8_block},
    FigureRow{"mxfp8_passes", &Figures::mxfp8_passes},
    FigureRow{"nvfp4_block", &Figures::nvfp4_block},
    FigureRow{"nvfp4_passes", &Figures::nvfp4_passes},
};
static_assert(sizeof(Figures) == kFigures.size() * sizeof(double));

/// Returns the figures for an engine and version; "" and nothing: for any engine and the newest version.
Figures figures_for(const std::string& engine, const std::optional<base::Version>& version);

}  // namespace espalier::check
