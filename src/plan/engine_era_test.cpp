// SPDX-License-Identifier: Apache-2.0
// Eras of engines: statements, facts and coefficients that hold since a version. A new era is a row of data; these
// tests add one to the files that ship.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/facts_yaml.h"
#include "plan/coefficients.h"
#include "plan/engine.h"
#include "plan/engine_reader.h"

namespace espalier::plan_test::engine_era_test {
namespace {

using base::Version;
using ::testing::HasSubstr;

std::string engines(const std::string& kernels) {
  return "schema: espalier.engines/1\nengines:\n"
         "  - name: base\n    note: n\n"
         "    runs: [{source: s, schedules: [1f1b], zero: [0]}]\n"
         "    kernels:\n" +
         kernels +
         "    options:\n      - {name: graphs, note: n, kernels: [{source: s, host_launches: 0, since: 0.9}]}\n"
         "  - {name: other, note: n, like: base}\n";
}

const std::string kThree =
    "      - {source: s, host_launches: 24, since: 0.9}\n"
    "      - {source: s, host_launches: 9, loss_backward_bytes: 14}\n"
    "      - {source: s, host_launches: 12, since: 0.5, until: 0.8.2}\n";

EngineFile file(const std::string& kernels) { return read_engines(engines(kernels), "engines.yaml").value(); }

double launches(const EngineFile& file, const char* version, std::vector<ChosenOption> options = {}) {
  return with_options(file, file.engines[0], options, Version::parse(version)).kernels.host_launches;
}

TEST(EngineEra, TheNewestStatementAtOrBelowTheVersionHolds) {
  const EngineFile read = file(kThree);
  EXPECT_EQ(read.engines[0].kernels.host_launches, 24);
  EXPECT_EQ(read.engines[0].eras, (std::vector{*Version::parse("0.5"), *Version::parse("0.9")}));
  EXPECT_TRUE(read.engines[1].eras.empty());  // it inherits the newest statements
  EXPECT_EQ(launches(read, "0.4"), 9);
  EXPECT_EQ(launches(read, "0.8"), 12);
  EXPECT_EQ(launches(read, "0.8.5"), 12);
  EXPECT_EQ(launches(read, "2"), 24);
  const EngineModel old = with_options(read, read.engines[0], {}, Version::parse("0.4"));
  EXPECT_EQ(old.kernels.loss_backward_bytes, 14);  // stated for any version
  EXPECT_EQ(old.name, "base@0.4");
  EXPECT_EQ(old.base, "base");
}

TEST(EngineEra, OptionsHaveErasToo) {
  const EngineFile read = file(kThree);
  EXPECT_EQ(launches(read, "0.8", {0}), 12);
  EXPECT_EQ(launches(read, "0.9", {0}), 0);
  const EngineModel old = with_options(read, read.engines[0], {0}, Version::parse("0.4"));
  EXPECT_EQ(old.name, "base@0.4+graphs");
}

// Versions of an engine are none of the engine that it is like.
TEST(EngineEra, InheritedStatementsAreTheNewest) {
  const EngineFile read = file(kThree);
  EXPECT_EQ(with_options(read, read.engines[1], {}, Version::parse("0.4")).kernels.host_launches, 24);
  EXPECT_EQ(with_options(read, read.engines[1], {0}, Version::parse("0.4")).kernels.host_launches, 0);
}

TEST(EngineEra, AFieldIsStatedOnceAnEra) {
  const auto message = [](const std::string& kernels) {
    const auto read = read_engines(engines(kernels), "engines.yaml");
    return read.ok() ? "read" : read.error().message();
  };
  EXPECT_EQ(message(kThree), "read");
  EXPECT_THAT(message(kThree + "      - {source: s, host_launches: 7, since: 0.5}\n"), HasSubstr("a second time"));
  EXPECT_THAT(message(kThree + "      - {source: s, host_launches: 7, since: 0.8.1, until: 0.8.2}\n"),
              HasSubstr("a second time"));
  EXPECT_THAT(message(kThree + "      - {source: s, host_lunches: 7, since: 3}\n"), HasSubstr("host_launches"));
  EXPECT_THAT(message("      - {source: s, host_launches: 7, since: soon}\n"), HasSubstr("a version"));
}

// The newest era may be sound where an earlier one is not. The message names the statement and the version.
TEST(EngineEra, EachEraIsChecked) {
  const auto message = [](const std::string& runs) {
    const auto read = read_engines("schema: espalier.engines/1\nengines:\n  - {name: base, note: n, runs: [" + runs +
                                       "], per_layer: {source: s, differ_in: [zero]}}\n",
                                   "engines.yaml");
    return read.ok() ? "read" : read.error().message();
  };
  const std::string flat = "{source: s, schedules: [1f1b], pipeline: false}, ";
  EXPECT_EQ(message(flat + "{source: s, zero: [0, 3]}"), "read");
  EXPECT_EQ(message(flat + "{source: s, zero: [0]}, {source: s, zero: [0, 3], since: 0.5}"), "read");
  EXPECT_THAT(message(flat + "{source: s, zero: [0, 3], since: 0.5}"),
              AllOf(HasSubstr("no ZeRO stages before the version at which runs[1] begins"), HasSubstr("engines.yaml")));
  // Layers may differ in a pipeline of 0.5 alone, whose stages may not.
  EXPECT_THAT(message(flat + "{source: s, zero: [0, 3]}, {source: s, pipeline: true, since: 0.5, until: 0.6}, "
                             "{source: s, pipeline: false, since: 0.7}"),
              HasSubstr("at version 0.5, where runs[2] begins"));
}

TEST(EngineEra, ANameStatesAVersion) {
  const EngineModel* plain = find_engine("megatron-core");
  const EngineModel* at = find_engine("megatron-core@0.17+cuda-graphs");
  ASSERT_NE(at, nullptr);
  EXPECT_EQ(at->name, "megatron-core@0.17+cuda-graphs");
  EXPECT_EQ(at->base, "megatron-core");
  EXPECT_EQ(base_engine(at->name), "megatron-core");
  EXPECT_EQ(at->version, Version::parse("0.17"));
  EXPECT_EQ(at->kernels.host_launches, 0);
  EXPECT_EQ(at->coefficients, plain->coefficients);
  EXPECT_EQ(find_engine("megatron-core@0.17+cuda-graphs"), at);
  for (const char* wrong : {"megatron-core@", "megatron-core@new", "megatron-core@0.17+", "megatron-core+cuda-graphs@0.17"})
    EXPECT_EQ(find_engine(wrong), nullptr) << wrong;
}

// Adds a row to the shipped facts: the figure changes for the engine from that version on, and nothing else does.
TEST(EngineEra, ANewFactIsARow) {
  std::string text(embedded::facts_yaml);
  const std::string before = "    meaning: host work between the layers of a chunk, in each pass of a micro-batch\n    rows:\n";
  const std::size_t at = text.find(before);
  ASSERT_NE(at, std::string::npos);
  text.insert(at + before.size(), "      - {value: 1, engine: megatron-core, since: 0.30, source: \"a later release\"}\n");
  const base::Facts facts = base::read_facts(text, "facts.yaml").value();
  const EngineFacts old = engine_facts(base::shipped_facts(), {"megatron-core", std::nullopt});
  EXPECT_EQ(engine_facts(facts, {"megatron-core", std::nullopt}).pass_launches, 1);
  EXPECT_EQ(engine_facts(facts, {"megatron-core", Version::parse("0.31")}).pass_launches, 1);
  EXPECT_EQ(engine_facts(facts, {"megatron-core", Version::parse("0.20")}), old);
  EXPECT_EQ(engine_facts(facts, {"torchtitan", std::nullopt}), old);
  EngineFacts changed = old;
  changed.pass_launches = 1;
  EXPECT_EQ(engine_facts(facts, {"megatron-core", std::nullopt}), changed);
}

std::string fits(const std::string& rows) { return "schema: espalier.framework-calibration/1\nframeworks:\n" + rows; }

TEST(EngineEra, FittedCoefficientsHaveEras) {
  const std::string rows =
      "  - {engine: a, coefficients: {compute: 1.1}}\n"
      "  - {engine: a, since: 25.02, coefficients: {compute: 1.2}}\n";
  const FrameworkCalibration read = read_framework_calibration(fits(rows), "frameworks.yaml").value();
  EXPECT_EQ(read.of("a", std::nullopt)->compute, 1.2);
  EXPECT_EQ(read.of("a", Version::parse("25.11"))->compute, 1.2);
  EXPECT_EQ(read.of("a", Version::parse("24.07"))->compute, 1.1);
  EXPECT_FALSE(read.of("b", std::nullopt));
  const auto twice = read_framework_calibration(fits(rows + rows), "frameworks.yaml");
  ASSERT_FALSE(twice.ok());
  EXPECT_THAT(twice.error().message(), HasSubstr("a second time"));
}

}  // namespace
}  // namespace espalier::plan_test::engine_era_test
