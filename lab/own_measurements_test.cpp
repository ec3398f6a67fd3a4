// SPDX-License-Identifier: Apache-2.0
// Checks the priors that are documented to agree with our own measurements on one H100
// (scripts/measure/operators.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "cluster/catalogue.h"
#include "cost/operator_cost.h"
#include "data/source_dir.h"
#include "lab/operator_tables.h"

namespace espalier::lab {
namespace {

double median(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  return x.empty() ? 0 : (x[x.size() / 2] + x[(x.size() - 1) / 2]) / 2;
}

OperatorTable own(const char* name) {
  auto table = load_table(ESPALIER_SOURCE_DIR "/data/operators", name);
  EXPECT_TRUE(table.ok());
  return table.ok() ? *table : OperatorTable{};
}

/// Compares the rate of the backward pass with that of the forward pass; its work is 2.5 times as much.
TEST(OwnMeasurements, BackwardPassOfAttention) {
  const OperatorTable t = own("attention_own_h100.csv");
  std::vector<double> at_4096;
  for (std::size_t i = 0; i < t.rows.size(); ++i)
    if (t.text(i, "library") == "cudnn" && t.number(i, "seq") == 4096)
      at_4096.push_back(2.5 * t.number(i, "forward_us") / t.number(i, "backward_us"));
  EXPECT_EQ(at_4096.size(), 6U);
  EXPECT_NEAR(median(at_4096), cluster::prior_efficiency("h100-sxm-80gb").attention_backward, 0.01);
}

TEST(OwnMeasurements, FlashAttention2BesideCudnn) {
  const OperatorTable t = own("attention_own_h100.csv");
  std::vector<double> share;
  for (std::size_t i = 0; i < t.rows.size(); ++i) {
    if (t.text(i, "library") != "cudnn" || t.number(i, "head_dim") != 128) continue;
    for (std::size_t j = 0; j < t.rows.size(); ++j) {
      const bool twin = t.text(j, "library") == "flash2" && t.number(j, "seq") == t.number(i, "seq") &&
                        t.number(j, "head_dim") == 128 && t.number(j, "heads") == t.number(i, "heads") &&
                        t.number(j, "kv_heads") == t.number(i, "kv_heads");
      if (twin) share.push_back(t.number(i, "forward_us") / t.number(j, "forward_us"));
    }
  }
  EXPECT_EQ(share.size(), 18U);
  EXPECT_NEAR(median(share), cluster::prior_efficiency("h100-sxm-80gb").attention_flash2, 0.01);
}

/// Compares the rate of 3 s loops with the catalogue's rate of single products.
TEST(OwnMeasurements, RateOfProductsInLongLoops) {
  const OperatorTable t = own("gemm_own_h100.csv");
  DeviceKind single = *device_called("h100-sxm-80gb");
  single.efficiency.sustained = 1;
  const cost::DeviceRates rates = cost::rates_of(single, Precision::bf16);
  std::vector<double> kept;
  for (std::size_t i = 0; i < t.rows.size(); ++i)
    if (t.text(i, "mode") == "sustained")
      kept.push_back(cost::gemm_s(rates, rates.gemm, t.number(i, "m"), t.number(i, "n"), t.number(i, "k"), 2) /
                     (t.number(i, "time_us") * 1e-6));
  EXPECT_EQ(kept.size(), 4U);
  EXPECT_NEAR(median(kept), cluster::prior_efficiency("h100-sxm-80gb").sustained, 0.03);
}

}  // namespace
}  // namespace espalier::lab
