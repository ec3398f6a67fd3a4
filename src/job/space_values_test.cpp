// SPDX-License-Identifier: Apache-2.0
// Tests values that a job can have, and its restrictions one by one.
#include "job/space_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "job/engine_defaults.h"
#include "job/framework_defaults.h"
#include "job/pins.h"
#include "job/search_part.h"
#include "plan/engine.h"
#include "plan/recompute_modules.h"

namespace espalier::job::space_values_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kDense = "{model_type: gpt2, n_layer: 4, n_embd: 64, n_head: 4, n_positions: 128, vocab_size: 256}";
constexpr const char* kExperts =
    "{model_type: mixtral, hidden_size: 64, intermediate_size: 128, num_hidden_layers: 2, num_attention_heads: 4, "
    "num_key_value_heads: 2, vocab_size: 256, num_local_experts: 6, num_experts_per_tok: 2}";

Result<Job> job_with(const char* model, const std::string& search = "{}", const std::string& engine = "generic") {
  return load_job(std::string("model: ") + model +
                      "\ncluster: {nodes: 3, devices_per_node: 4, device: h100-sxm-80gb}\ntraining: {sequence_length: 128, "
                      "global_batch: 20}\nengine: " +
                      engine + "\nsearch: " + search + "\n",
                  "job.yaml", ".", {});
}

TEST(SpaceValues, FollowFromDevicesLayersExpertsAndBatch) {
  const Job dense = *job_with(kDense), experts = *job_with(kExperts);
  for (const Dimension d : {Dimension::tp, Dimension::cp, Dimension::dp, Dimension::etp, Dimension::shard})
    EXPECT_THAT(possible_values(d, dense), ElementsAre(1, 2, 3, 4, 6, 12));
  EXPECT_THAT(possible_values(Dimension::pp, dense), ElementsAre(1, 2, 3, 4, 6));  // 4 blocks, embedding and head
  EXPECT_THAT(possible_values(Dimension::ep, dense), ElementsAre(1));
  EXPECT_THAT(possible_values(Dimension::ep, experts), ElementsAre(1, 2, 3, 6));
  EXPECT_THAT(possible_values(Dimension::micro_batch, dense), ElementsAre(1, 2, 4, 5, 10, 20));
  EXPECT_THAT(possible_values(Dimension::vpp, dense), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(possible_values(Dimension::zero, dense), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(possible_values(Dimension::recompute_layers, dense), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_EQ(reason_of_values(Dimension::tp, dense), "divisors of the 12 devices");
  EXPECT_EQ(reason_of_values(Dimension::ep, dense), "the model has no experts");
  EXPECT_EQ(reason_of_values(Dimension::micro_batch, dense), "divisors of the global batch 20");
  EXPECT_THAT(reason_of_values(Dimension::pp, dense), HasSubstr("up to the 6 layers"));
}

TEST(SpaceValues, AValueThatNothingCanHaveIsRefusedWithItsNeighbours) {
  const auto refused = job_with(kDense, "{fix: {tp: 5}}");
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message(), HasSubstr("1, 2, 3, 4, 6 or 12: divisors of the 12 devices"));
  EXPECT_THAT(refused.error().message(), HasSubstr("choose 4 or 6"));
  EXPECT_THAT(job_with(kDense, "{fix: {ep: 2}}").error().message(), HasSubstr("remove search.fix.ep"));
  EXPECT_THAT(job_with(kDense, "{allow: {micro_batch: [3, 7]}}").error().message(), HasSubstr("none of which is possible"));
  EXPECT_TRUE(job_with(kDense, "{allow: {tp: [1, 8, 16]}}")) << "larger clusters may have the others";
}

// Sets of modules are a value of a space under engines that select modules, and no value of a single configuration.
TEST(SpaceValues, SetsOfModulesNeedAnEngineThatSelectsThem) {
  for (const char* search : {"{allow: {recompute: [none, modules]}}", "{fix: {recompute: modules}}"}) {
    const auto job = job_with(kDense, search, "megatron-core");
    ASSERT_TRUE(job) << job.error().message();
    EXPECT_TRUE(job->search.admits(Dimension::recompute, kModuleSets));
    EXPECT_FALSE(job->search.recompute_modules.any());
    const auto refused = job_with(kDense, search, "torchtitan");
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message(), HasSubstr("modules under engine torchtitan"));
    EXPECT_THAT(refused.error().message(), HasSubstr("megatron-core"));
  }
  EXPECT_FALSE(job_with(kDense, "{}", "megatron-core")->search.admits(Dimension::recompute, kModuleSets));
  EXPECT_FALSE(value_of_name("recompute", "modules"));
}

// Naming every module says what selective means. The engine still selects modules.
TEST(SpaceValues, SetsOfModulesBesideAllModulesByName) {
  const std::string all = listed(find_engine("megatron-core")->runs.recompute_modules);
  const auto job = job_with(kDense, "{recompute_modules: [" + all + "], allow: {recompute: [none, modules]}}", "megatron-core");
  ASSERT_TRUE(job) << job.error().message();
  EXPECT_EQ(module_sets(*job->engine_model, job->model), module_sets(*find_engine("megatron-core"), job->model));
}

TEST(Pins, AreTheRestrictionsOfTheFileOneByOne) {
  const Job job = *job_with(kDense, "{fix: {tp: 2}, allow: {pp: [1, 2]}, forbid: {zero: [3]}, limits: {cp: 4}}", "fsdp2");
  const EngineModel& engine = *find_engine("fsdp2");
  const std::vector<Pin> pins = pins_of(job, engine);
  std::vector<std::string> texts;
  for (const Pin& pin : pins) texts.push_back(text_of(pin, job, engine));
  EXPECT_THAT(texts, testing::UnorderedElementsAre("search.fix.tp: 2", "search.allow.pp: [1, 2]", "search.forbid.zero: 3",
                                                   "search.limits.cp: 4", "engine: fsdp2"));
  EXPECT_THAT(pins_of(*job_with(kDense), *find_engine("generic")), IsEmpty());
  EXPECT_EQ(space_of(pins, job), job.search);
  const SearchSpace one = space_of({{Pin::Kind::allow, Dimension::tp}}, job);
  EXPECT_EQ(one.allowed.size(), 1U);
  EXPECT_TRUE(one.forbidden.empty() && one.limits.empty());
}

TEST(EngineDefaults, AreThoseOfTheFrameworkAndInWords) {
  EXPECT_EQ(to_string(EngineDefaults{}), "none");
  EngineDefaults d;
  d.zero = ZeroStage::optimizer;
  d.sp = SequenceParallel::megatron;
  d.recompute = RecomputeKind::full;
  d.overlap.grad_reduce = d.overlap.p2p = true;
  EXPECT_EQ(to_string(d), "zero 1, sp megatron with tp, recompute full, overlap grad,p2p");
  EXPECT_EQ(engine_defaults("generic").zero, ZeroStage::none);
  EXPECT_EQ(engine_defaults("fsdp2").zero, ZeroStage::parameters) << "fully_shard reshards after the forward pass";
  EXPECT_EQ(engine_defaults("no-such-engine").zero, ZeroStage::none);
}

TEST(EngineDefaults, OverlapsNeedSomethingToOverlap) {
  const Job job = *job_with(kDense, "{}", "generic");
  Overlap all;
  all.grad_reduce = all.param_gather = all.p2p = true;
  Strategy one;
  one.dp = 12;
  const Overlap usable = usable_overlap(all, *find_engine("generic"), job, one, {ScheduleKind::one_f_one_b, 1, 1, 1, 1});
  EXPECT_FALSE(usable.p2p) << "one stage sends nothing";
  EXPECT_FALSE(usable.param_gather) << "without ZeRO nothing is gathered";
}

TEST(RunDefaults, WordsAreFoundWithoutLetterCase) {
  EXPECT_TRUE(mentions("NVIDIA H100 80GB", {"h100"}));
  EXPECT_FALSE(mentions("NVIDIA H100 80GB", {"h200", "a100"}));
  EXPECT_FALSE(mentions("", {"h100"}));
  EXPECT_FALSE(mentions("H100", {}));
}

TEST(RunDefaults, TheShippedOnesNameKnownEngines) {
  ASSERT_FALSE(run_defaults().frameworks.empty());
  for (const FrameworkDefault& f : run_defaults().frameworks) {
    EXPECT_FALSE(f.match.empty());
    EXPECT_NE(find_engine(f.engine), nullptr) << f.engine;
    for (const auto& [key, value] : f.defaults) EXPECT_FALSE(value.source.empty()) << f.engine << " " << key;
  }
}

TEST(RunDefaults, WhatIsWrongInTheFileIsAnErrorWithItsPlace) {
  const auto without = read_run_defaults("{devices: []}", "defaults.yaml");
  ASSERT_FALSE(without);
  EXPECT_THAT(without.error().message(), HasSubstr("defaults.yaml:1:1"));
  EXPECT_FALSE(read_run_defaults("[1]", "defaults.yaml"));
}

}  // namespace
}  // namespace espalier::job::space_values_test
