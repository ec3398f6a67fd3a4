// SPDX-License-Identifier: Apache-2.0
#include "lab/fabric_fit.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/document.h"
#include "data/source_dir.h"

namespace espalier::lab {
namespace {

std::vector<FabricLevel> one_level() {
  FabricLevel node;
  node.kind = FabricKind::nvswitch;
  node.span = 8;
  node.bandwidth = node.bandwidth_alone = GBps(300);
  return {node};
}

// The fit recovers the coefficients that generated the times; the priors shift the weakest one (small groups) by 3 %.
TEST(FabricFit, RecoversWhatMadeTheTimes) {
  auto levels = one_level();
  levels[0].efficiency = 0.8;
  levels[0].latency = microseconds(1.2);
  levels[0].start = microseconds(7);
  levels[0].ramp = 1.1;
  levels[0].small_group = 0.4;
  std::vector<CollectiveSample> samples;
  for (const auto op : {Collective::all_gather, Collective::reduce_scatter, Collective::all_reduce, Collective::all_to_all})
    for (const std::int64_t ranks : {2, 4, 8})
      for (double bytes = 1024; bytes < 1e9; bytes *= 4) {
        CollectiveSample s{op, ranks, 1, bytes, 0, samples.size() % 3 == 0};
        s.seconds = predicted_s(s, levels);
        samples.push_back(s);
      }
  const FabricFit fit = fit_level(samples, one_level(), 0, {"efficiency", "latency_us", "start_us", "ramp", "small_group"});
  for (const auto& [field, value] : fit.calibration.values) EXPECT_NEAR(value / field->get(levels[0]), 1.0, 0.05) << field->name;
  EXPECT_LT(fit.residuals.held_p90, 0.01);
}

// The generating coefficients are κ_w = 1.05 + 6·traffic and κ_c = 1.02.
TEST(FabricFit, RecoversTheSlowDown) {
  std::vector<OverlapSample> samples;
  for (const double traffic : {0.0, 0.02, 0.05, 0.1, 0.13})
    for (const double c : {2e-3, 5e-3, 9e-3, 14e-3})
      for (const double w : {3e-3, 8e-3, 12e-3})
        samples.push_back({c, w, cost::pair_time(c, w, {1.02, 1.05 + 6 * traffic}), traffic, samples.size() % 3 == 0});
  const OverlapFit fit = fit_overlap(samples);
  ASSERT_EQ(fit.values.size(), 3u);
  EXPECT_NEAR(fit.values[0].second, 1.05, 0.01);
  EXPECT_NEAR(fit.values[1].second, 1.02, 0.01);
  EXPECT_NEAR(fit.values[2].second, 6.0, 0.1);
}

// The shipped file equals the text that the fit writes from the shipped tables.
TEST(FabricFit, ShippedCoefficientsAreThoseOfTheTables) {
  const std::string data = ESPALIER_SOURCE_DIR "/data", file = data + "/calibration/fabrics.yaml";
  const auto before = cluster::read_fabric_calibration(*base::read_file(file), file);
  ASSERT_TRUE(before.ok()) << before.error().message();
  const auto text = calibrate_fabrics(data + "/operators", *before);
  ASSERT_TRUE(text.ok()) << text.error().message();
  const auto again = cluster::read_fabric_calibration(*text, "again");
  ASSERT_TRUE(again.ok()) << again.error().message();
  const auto expect_equal = [](const auto& found, const auto& shipped) {
    ASSERT_EQ(found.size(), shipped.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      ASSERT_EQ(found[i].values.size(), shipped[i].values.size()) << shipped[i].fabric;
      for (std::size_t k = 0; k < found[i].values.size(); ++k) {
        const auto& [field, value] = shipped[i].values[k];
        EXPECT_NEAR(found[i].values[k].second / value, 1.0, 2e-3) << shipped[i].fabric << ' ' << field->name;
      }
    }
  };
  expect_equal(again->fabrics, before->fabrics);
  ASSERT_FALSE(again->clusters.empty());
  expect_equal(again->clusters, before->clusters);
}

}  // namespace
}  // namespace espalier::lab
