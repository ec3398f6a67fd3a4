// SPDX-License-Identifier: Apache-2.0
#include "plan/engine_reader.h"
#include "plan/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace espalier {
namespace {

using ::testing::HasSubstr;

std::string file(const std::string& entries) { return "schema: espalier.engines/1\nengines:\n" + entries; }

std::string message(const std::string& entries) {
  const auto read = read_engines(file(entries), "engines.yaml");
  return read.ok() ? "read" : read.error().message();
}

const std::string kBase =
    "  - name: base\n"
    "    note: a note\n"
    "    runs:\n"
    "      - {source: paper, schedules: [1f1b, zb-v], zero: [0, 1], ulysses: false}\n"
    "    memory:\n"
    "      - {source: paper, states: {reduce: 2}}\n"
    "    per_layer: {source: docs, differ_in: [recompute, zero], together: {zero: [[0, 1]]}}\n"
    "    per_stage: {source: docs, differ_in: [layers]}\n";

// Fields that are not stated have their defaults. An engine inherits all statements of the engine that it is `like`,
// except the dimensions in which layers may differ.
TEST(EngineReader, SmallestExample) {
  const auto read = read_engines(file(kBase + "  - name: other\n    like: base\n    note: n\n"
                                              "    kernels:\n      - {source: s, host_launches: 9}\n"
                                              "    per_layer: {source: s, differ_in: [recompute]}\n"),
                                 "engines.yaml");
  ASSERT_TRUE(read.ok()) << read.error().message();
  const EngineModel &base = read->engines[0], &other = read->engines[1];
  EXPECT_EQ(base.runs.schedules, (std::vector{ScheduleKind::one_f_one_b, ScheduleKind::zb_v}));
  EXPECT_EQ(base.runs.zero, (std::vector<ZeroStage>{ZeroStage::none, ZeroStage::optimizer}));
  EXPECT_FALSE(base.runs.ulysses);
  EXPECT_EQ(base.memory.states.reduce, 2);
  EXPECT_EQ(base.memory.states.gradient, StatePolicy{}.gradient);
  EXPECT_EQ(to_string(base.layers), "layers may differ in: zero, recompute; stages in: layers");
  EXPECT_EQ(base.layers.zero_together, (std::vector<std::vector<std::int64_t>>{{0, 1}}));
  EXPECT_EQ(other.memory.states.reduce, 2);
  EXPECT_EQ(other.kernels.host_launches, 9);
  EXPECT_EQ(to_string(other.layers), "layers may differ in: recompute; stages in: layers");
  EXPECT_TRUE(other.layers.zero_together.empty());
}

const std::string kOptions =
    "    options:\n"
    "      - name: graphs\n        note: n\n        kernels: [{source: s, host_launches: 0}]\n"
    "      - name: short\n        note: n\n        memory: [{source: s, states: {gradient: 2}}]\n";

TEST(EngineReader, AnOwnOptionReplacesTheInheritedOneOfItsName) {
  const auto read = read_engines(file(kBase + kOptions +
                                      "  - name: other\n    like: base\n    note: n\n    options:\n"
                                      "      - name: graphs\n        note: own\n        runs: [{source: s, zero: [1]}]\n"),
                                 "engines.yaml");
  ASSERT_TRUE(read.ok()) << read.error().message();
  ASSERT_EQ(read->engines.size(), 2u);
  const EngineModel of_base = with_options(*read, read->engines[0], {0}), own = with_options(*read, read->engines[1], {0});
  EXPECT_EQ(of_base.name, "base+graphs");
  EXPECT_EQ(of_base.kernels.host_launches, 0);
  EXPECT_EQ(own.name, "other+graphs");
  EXPECT_EQ(own.options.front().note, "own");
  EXPECT_EQ(own.kernels.host_launches, EngineKernels{}.host_launches);
  EXPECT_EQ(own.runs.zero, std::vector{ZeroStage::optimizer});
}

TEST(EngineReader, TokensWhoseLogitsExistAtOnce) {
  EXPECT_EQ(LossPolicy{}.tokens_at_once(1000), 1000);
  LossPolicy loss;
  loss.chunks = 8;
  EXPECT_EQ(loss.tokens_at_once(1000), 125);
  EXPECT_EQ(loss.tokens_at_once(1001), 126);
  loss.chunk = 100;
  EXPECT_EQ(loss.tokens_at_once(1000), 100);
  EXPECT_EQ(loss.tokens_at_once(80), 10);
}

// Options combine, and an engine that is like another one inherits them under its own name.
TEST(EngineReader, OptionsMakeEnginesOfTheirOwn) {
  const auto read = read_engines(file(kBase + kOptions + "  - name: other\n    like: base\n    note: n\n    fitted_as: base\n"),
                                 "engines.yaml");
  ASSERT_TRUE(read.ok()) << read.error().message();
  ASSERT_EQ(read->engines.size(), 2u);
  const EngineModel& plain = read->engines[0];
  const EngineModel both = with_options(*read, plain, {0, 1}), other = with_options(*read, read->engines[1], {0});
  EXPECT_EQ(both.name, "base+graphs+short");
  EXPECT_EQ(with_options(*read, plain, {1}).name, "base+short");
  EXPECT_EQ(other.name, "other+graphs");
  EXPECT_EQ(plain.kernels.host_launches, EngineKernels{}.host_launches);
  EXPECT_EQ(both.kernels.host_launches, 0);
  EXPECT_EQ(both.memory.states.gradient, 2);
  EXPECT_EQ(both.memory.states.reduce, 2);  // from the engine itself
  EXPECT_EQ(both.base, "base");
  EXPECT_EQ(fitted_engine(both), "base");
  EXPECT_EQ(other.base, "other");
  EXPECT_EQ(fitted_engine(other), "base");
}

// An option may set a number of the engine, whose value follows its name.
TEST(EngineReader, AnOptionTakesAValue) {
  const std::string other = kBase + "  - name: other\n    like: base\n    note: n\n";
  const std::string zero = "    memory: [{source: s, zero: {bucket: 10, buckets: [0, 1, 2, 3], live: 7}}]\n";
  const auto read =
      read_engines(file(other + zero + "    options: [{name: size, note: n, sets: zero.bucket}]\n"), "engines.yaml");
  ASSERT_TRUE(read.ok()) << read.error().message();
  ChosenOption size(0);
  size.value = 25;
  const EngineModel with = with_options(*read, read->engines[1], {size});
  EXPECT_EQ(with.name, "other+size=25");
  EXPECT_EQ(with.memory.zero.bucket, 25);
  EXPECT_EQ(with.memory.zero.buckets, (ByStage{0, 1, 2, 3}));
  EXPECT_EQ(read->engines[1].memory.zero.bucket, 10);
  EXPECT_TRUE(with.memory.zero.keeps_gathered());
  EXPECT_FALSE(ZeroPolicy{}.keeps_gathered());
  EXPECT_THAT(message(other + "    options: [{name: size, note: n, sets: zero.weight}]\n"), HasSubstr("zero.bucket"));
  EXPECT_THAT(message(other + "    memory: [{source: s, zero: {buckets: [1, 2]}}]\n"), HasSubstr("four numbers"));
  EXPECT_THAT(message(other + "    memory: [{source: s, zero: {buckets: [1, 2, 3, -4]}}]\n"), HasSubstr("whole numbers"));
}

TEST(EngineReader, RefusesOptionsThatItCannotName) {
  EXPECT_EQ(message(kBase + kOptions), "read");
  EXPECT_THAT(message(kBase + "    options: [{name: a+b, note: n}]\n"), HasSubstr("without +"));
  EXPECT_THAT(message(kBase + "    options: [{name: a, note: n}, {name: a, note: n}]\n"), HasSubstr("second time"));
  EXPECT_THAT(message(kBase + "    options: [{name: a}]\n"), HasSubstr("note"));
  EXPECT_THAT(message(kBase + "    options: [{name: a, note: n, kernels: [{host_launches: 0}]}]\n"), HasSubstr("source"));
  EXPECT_THAT(message("  - name: a+b\n    note: n\n    runs: [{source: s, schedules: [1f1b], zero: [0]}]\n"),
              HasSubstr("without +"));
}

TEST(EngineReader, OptionsAreFoundInAnyOrder) {
  const EngineModel* engine = find_engine("megatron-core+cuda-graphs+flex-dispatcher");
  ASSERT_NE(engine, nullptr);
  EXPECT_EQ(engine->name, "megatron-core+flex-dispatcher+cuda-graphs");
  EXPECT_TRUE(engine->communication.deduplicates_dispatch);
  EXPECT_EQ(engine->kernels.host_launches, 0);
  EXPECT_EQ(engine->coefficients, find_engine("megatron-core")->coefficients);
  EXPECT_EQ(base_engine(engine->name), "megatron-core");
  for (const char* wrong :
       {"megatron-core+", "megatron-core+nothing", "megatron-core+cuda-graphs+cuda-graphs", "+cuda-graphs", "none+cuda-graphs"})
    EXPECT_EQ(find_engine(wrong), nullptr) << wrong;
}

TEST(EngineReader, RefusesWhatItCannotMean) {
  const auto runs = [](const std::string& statement) {
    return message("  - name: a\n    note: n\n    runs:\n      - " + statement + "\n");
  };
  EXPECT_EQ(runs("{source: s, schedules: [1f1b], zero: [0]}"), "read");
  EXPECT_THAT(runs("{schedules: [1f1b], zero: [0]}"), HasSubstr("source"));  // every figure needs a source
  EXPECT_THAT(runs("{source: s, schedules: [1f2b], zero: [0]}"), HasSubstr("engines.yaml:6:"));
  EXPECT_THAT(runs("{source: s, schedules: [1f1b], zero: [4]}"), HasSubstr("0, 1, 2, 3"));
  EXPECT_THAT(runs("{source: s, schedules: [1f1b], zero: [0], ulises: false}"), HasSubstr("did you mean \"ulysses\""));
  EXPECT_THAT(runs("{source: s, schedules: [1f1b], zero: [0]}\n      - {source: t, zero: [1]}"), HasSubstr("second time"));
  EXPECT_THAT(runs("{source: s, zero: [0]}"), HasSubstr("no schedules"));
  EXPECT_THAT(message(kBase + "  - name: base\n    like: base\n    note: n\n"), HasSubstr("second time"));
  EXPECT_THAT(message(kBase + "  - name: b\n    like: later\n    note: n\n"), HasSubstr("an earlier engine"));
  EXPECT_THAT(message(kBase + "  - name: b\n    like: base\n    note: n\n    per_layer: {source: s, differ_in: [pp]}\n"),
              HasSubstr("dimensions in which layers can differ"));
  EXPECT_THAT(message(kBase + "  - name: b\n    like: base\n    note: n\n    per_stage: {source: s, differ_in: []}\n"),
              HasSubstr("whose stages may not"));  // the boundaries of a pipeline move with its layers
}

}  // namespace
}  // namespace espalier
