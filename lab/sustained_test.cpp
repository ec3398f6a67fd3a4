// SPDX-License-Identifier: Apache-2.0
// Checks that priors of devices that are documented to follow from a table do so.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "cluster/catalogue.h"
#include "cost/operator_cost.h"
#include "data/source_dir.h"
#include "lab/operator_tables.h"

namespace espalier::lab {
namespace {

/// Returns the time of single products, as in the catalogue, over that of products in a loop. This is the share of
/// the rate that the power limit leaves.
double kept_in_a_loop(const OperatorTable& loop, const DeviceKind& device) {
  const cost::DeviceRates rates = cost::rates_of(device, Precision::bf16);
  std::vector<double> kept;
  for (std::size_t i = 0; i < loop.rows.size(); ++i) {
    if (loop.number(i, "accumulate") != 0) continue;
    const double m = loop.number(i, "m"), k = loop.number(i, "k"), n = loop.number(i, "n");
    const double seconds = 2 * m * n * k / (loop.number(i, "share") * device.peak_of(Precision::bf16).count());
    kept.push_back(cost::gemm_s(rates, rates.gemm, m, n, k, 2) / seconds);
  }
  std::sort(kept.begin(), kept.end());
  return kept.empty() ? 0 : (kept[kept.size() / 2] + kept[(kept.size() - 1) / 2]) / 2;
}

TEST(Sustained, PriorOfB200IsTheMedianOfItsTable) {
  const auto loop = load_table(ESPALIER_SOURCE_DIR "/data/operators", "gemm_sustained_b200.csv");
  ASSERT_TRUE(loop.ok()) << loop.error().message();
  DeviceKind single = *device_called("b200-sxm");
  single.efficiency.sustained = 1;
  EXPECT_NEAR(kept_in_a_loop(*loop, single), cluster::prior_efficiency("b200-sxm").sustained, 0.01);
}

}  // namespace
}  // namespace espalier::lab
