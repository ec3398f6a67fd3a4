// SPDX-License-Identifier: Apache-2.0
#include "check/figures.h"

#include <gtest/gtest.h>

#include <array>

#include "cluster/hardware_facts.h"
#include "plan/engine.h"

namespace espalier::check {
namespace {

/// Returns what the planner's reader copied out, in the order of kFigures.
std::array<double, kFigures.size()> of_planner(const EngineFacts& e, const cluster::HardwareFacts& h) {
  return {1.0 * e.pass_launches,
          1.0 * e.update_launches,
          1.0 * e.collective_launches,
          e.eager_kernel_launches,
          1.0 * e.scan_kernels,
          1.0 * e.delta_scan_kernels,
          e.second_products_again,
          e.flash1_rate,
          e.cublas_workspace,
          e.cublas_workspace_fp8,
          e.transformer_engine_workspace,
          e.transformer_engine_workspace_fp8,
          h.vector_product_share,
          h.matrix_unit_ratio,
          h.tree_all_reduce,
          h.in_network_all_reduce,
          h.host_link_share,
          h.host_update_share,
          h.mxfp8_block,
          h.mxfp8_passes,
          h.nvfp4_block,
          h.nvfp4_passes};
}

// The reader of the checks finds in data/facts.yaml what the planner's reader does, for every engine and version.
TEST(Figures, AreThoseOfThePlannersReader) {
  for (const EngineModel& engine : engine_catalogue()) {
    for (const char* version : {"", "0", "0.19.2", "2024-12"}) {
      const auto at = base::Version::parse(version);
      const Figures own = figures_for(engine.base, at);
      const auto planners = of_planner(engine_facts(base::shipped_facts(), {engine.base, at}), cluster::hardware_facts());
      for (std::size_t i = 0; i < kFigures.size(); ++i) EXPECT_EQ(own.*kFigures[i].member, planners[i]) << kFigures[i].name;
    }
  }
}

}  // namespace
}  // namespace espalier::check
