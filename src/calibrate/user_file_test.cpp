// SPDX-License-Identifier: Apache-2.0
// Tests the calibration file by hand: every section, omitted parts, and names that need quoting.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "calibrate/user_calibration.h"
#include "job/calibration_file.h"

namespace espalier::calibrate {
namespace {

using testing::HasSubstr;
using testing::Not;

ParameterFit parameter(const char* name, double shipped, double value, bool identified) {
  return {name, "", shipped, value, 0.1, 0.05, false, identified};
}

UserCalibration with_fit() {
  UserCalibration c;
  c.device = "h100-sxm-80gb";
  c.engine = "nanotron";
  c.fit.emplace();
  c.fit->parameters = {parameter("compute", 1.2, 1.25, true), parameter("elementwise", 1.1, 1.1, false)};
  c.fit->runs = {{"run \"one\"", "TP1", 8, 2.0, 1.5, 0, 1.9}};
  c.fit->configurations = 1;
  c.fit->cross_validation = "none: 1 configuration, 3 is the minimum";
  c.fit->low = 0.9;
  c.fit->high = 1.125;
  c.fit->devices_low = 8;
  c.fit->devices_high = 16;
  c.runs.inputs = {{"a: b.log", "00ff", "nanotron log"}};
  return c;
}

TEST(CalibrationFile, CoefficientsWithWhatShips) {
  const std::string text = to_yaml(with_fit());
  EXPECT_THAT(text, HasSubstr("\ndevice: \"h100-sxm-80gb\"\nengine: nanotron\ncoefficients:\n"));
  EXPECT_THAT(text, HasSubstr("  compute: 1.25"));
  EXPECT_THAT(text, HasSubstr("# shipped 1.2\n"));
  EXPECT_THAT(text, HasSubstr("# shipped 1.1; not determined by the runs\n"));
  EXPECT_THAT(text, HasSubstr("interval: {level: 0.8, low: 0.9, high: 1.125}"));
  EXPECT_THAT(text, Not(HasSubstr("fabric:")));
}

TEST(CalibrationFile, NamesAreQuotedAndWhatWasNotHeldOutIsNull) {
  const std::string text = to_yaml(with_fit());
  EXPECT_THAT(text, HasSubstr(R"({id: "run \"one\"", configuration: "TP1", devices: 8, measured_s: 2,)"));
  EXPECT_THAT(text, HasSubstr("held_out_s: null, fitted_s: 1.9}"));
  EXPECT_THAT(text, HasSubstr(R"({file: "a: b.log", hash: "00ff", kind: "nanotron log"})"));
  EXPECT_THAT(text, Not(HasSubstr("median_error_after")));  // nothing was held out
}

TEST(CalibrationFile, ReadsBackWithItsEvidence) {
  const auto read = read_calibration(to_yaml(with_fit()), "mine.yaml");
  ASSERT_TRUE(read.ok()) << read.error().message();
  EXPECT_EQ((*read)->device, "h100-sxm-80gb");
  EXPECT_DOUBLE_EQ((*read)->coefficients.compute, 1.25);
  EXPECT_EQ((*read)->runs, 1);
  EXPECT_EQ((*read)->devices_low, 8);
  EXPECT_EQ((*read)->devices_high, 16);
  EXPECT_DOUBLE_EQ((*read)->low, 0.9);
}

TEST(CalibrationFile, AFabricAloneHasNoEngine) {
  UserCalibration c;
  c.device = "h100-sxm-80gb";
  c.fabric.emplace();
  const auto fields = cluster::fabric_fields();
  c.fabric->levels = {{"NVSwitch", true, {{&fields[0], 0.8, 0.75, 0.01, true}, {&fields[1], 2, 2, 1, false}}},
                      {"rails", false, {{&fields[0], 0.8, 0.5, 0.01, true}}}};
  c.fabric->tables = {{"t.txt:1", runlog::CollectiveTest::all_gather, 16, 2, 9, 0.25, 0.01}};
  const std::string text = to_yaml(c);
  EXPECT_THAT(text, Not(HasSubstr("engine:")));
  EXPECT_THAT(text,
              // The second field is not determined.
              HasSubstr("  - {level: \"NVSwitch\", where: node, efficiency: 0.75}\n"));
  EXPECT_THAT(text, HasSubstr("  - {level: \"rails\", where: network, efficiency: 0.5}\n"));
  EXPECT_THAT(text,
              HasSubstr("{test: all-gather, ranks: 16, nodes: 2, rows: 9, median_error_before: 0.25, median_error_after: 0.01}"));
  const auto read = read_calibration(text, "mine.yaml");
  ASSERT_TRUE(read.ok()) << read.error().message();
  EXPECT_TRUE((*read)->engine.empty());
  ASSERT_EQ((*read)->fabric.size(), 2u);
  EXPECT_EQ((*read)->fabric[0].values.size(), 1u);
}

TEST(CalibrationFile, AThousandRunsAreListed) {
  UserCalibration c = with_fit();
  c.fit->runs.assign(1200, c.fit->runs.front());
  const std::string text = to_yaml(c);
  std::size_t listed = 0;
  for (std::size_t at = text.find("- {id:"); at != std::string::npos; at = text.find("- {id:", at + 1)) ++listed;
  EXPECT_EQ(listed, 1000u);
  EXPECT_THAT(text, HasSubstr("  runs: 1200\n"));
}

// ln(1.2214) = 0.2 is two widths of 0.1. Additive ones use their difference: (5 − 2)/1.5.
TEST(ParameterFit, WidthsOnTheFittedScale) {
  ParameterFit p = parameter("compute", 1, std::exp(0.2), true);
  EXPECT_NEAR(p.widths(), 2, 1e-12);
  p.value = std::exp(-0.2);
  EXPECT_NEAR(p.widths(), 2, 1e-12);
  p.additive = true;
  p.prior = 2;
  p.value = 5;
  p.prior_sigma = 1.5;
  EXPECT_DOUBLE_EQ(p.widths(), 2);
  p.prior_sigma = 0;
  EXPECT_EQ(p.widths(), 0);
  EXPECT_EQ(parameter("compute", 0, 1, true).widths(), 0);  // log(1/0) is no distance
}

}  // namespace
}  // namespace espalier::calibrate
