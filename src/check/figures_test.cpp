// SPDX-License-Identifier: Apache-2.0
#include "check/figures.h"

#include <gtest/gtest.h>

#include "cluster/hardware_facts.h"
#include "plan/engine.h"

namespace espalier::check {
namespace {

// The reader of the checks finds in data/facts.yaml what the planner's reader does, for every engine and version.
TEST(Figures, AreThoseOfThePlannersReader) {
  for (const EngineModel& engine : engine_catalogue()) {
    for (const char* version : {"", "0", "0.19.2", "2024-12"}) {
      const auto at = base::Version::parse(version);
      const Figures own = figures_for(engine.base, at);
      const EngineFacts facts = engine_facts(base::shipped_facts(), {engine.base, at});
      EXPECT_EQ(own.pass_launches, facts.pass_launches);
      EXPECT_EQ(own.update_launches, facts.update_launches);
      EXPECT_EQ(own.collective_launches, facts.collective_launches);
      EXPECT_EQ(own.eager_kernel_launches, facts.eager_kernel_launches);
      EXPECT_EQ(own.scan_kernels, facts.scan_kernels);
      EXPECT_EQ(own.delta_scan_kernels, facts.delta_scan_kernels);
      EXPECT_EQ(own.second_products_again, facts.second_products_again);
      EXPECT_EQ(own.flash1_rate, facts.flash1_rate);
      EXPECT_EQ(own.cublas_workspace, facts.cublas_workspace);
      EXPECT_EQ(own.cublas_workspace_fp8, facts.cublas_workspace_fp8);
      EXPECT_EQ(own.transformer_engine_workspace, facts.transformer_engine_workspace);
      EXPECT_EQ(own.transformer_engine_workspace_fp8, facts.transformer_engine_workspace_fp8);
    }
  }
}

TEST(Figures, OfDevicesAndHosts) {
  const Figures own = figures_for("", std::nullopt);
  const cluster::HardwareFacts& facts = cluster::hardware_facts();
  EXPECT_EQ(own.vector_product_share, facts.vector_product_share);
  EXPECT_EQ(own.matrix_unit_ratio, facts.matrix_unit_ratio);
  EXPECT_EQ(own.tree_all_reduce, facts.tree_all_reduce);
  EXPECT_EQ(own.in_network_all_reduce, facts.in_network_all_reduce);
  EXPECT_EQ(own.host_link_share, facts.host_link_share);
  EXPECT_EQ(own.host_update_share, facts.host_update_share);
}

}  // namespace
}  // namespace espalier::check
