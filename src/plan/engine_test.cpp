// SPDX-License-Identifier: Apache-2.0
#include "plan/engine.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>

#include "base/format.h"
#include "plan/engine_rules.h"
#include "plan/generators.h"
#include "plan/test_problem.h"

namespace espalier::plan_test::engine_test {
namespace {

using Names = std::vector<std::string>;

struct Problem {
  Model model;
  Cluster cluster;
  Training training;
};
Problem dense() { return {plan_test::decoder({}), plan_test::cluster(1, 8), plan_test::training(64, 16)}; }
Problem moe() {
  return {plan_test::decoder({8, 8, 4, 16, 512, 1000, 4, 256}), plan_test::cluster(1, 8), plan_test::training(64, 16)};
}

Names broken(const char* engine, const Problem& p, const Strategy& s, const Schedule& c) {
  Names names;
  for (const RuleViolation& v : engine_violations(*find_engine(engine), p.model, p.cluster, p.training, s, c)) {
    EXPECT_FALSE(v.text.empty()) << v.rule;
    names.push_back(v.rule);
  }
  return names;
}

// With tp 2 · dp 2 · pp 2 and interleaving, Megatron-Core runs only with overlapped p2p (pp 2), and the
// 2021 version never.
TEST(EngineRules, SmallestExample) {
  Strategy s;
  s.tp = s.dp = 2;
  const Schedule c{ScheduleKind::interleaved, 2, 2, 8, 1};
  EXPECT_EQ(broken("megatron-core", dense(), s, c), (Names{"MEG-VPP"}));
  s.overlap.p2p = true;
  EXPECT_TRUE(broken("megatron-core", dense(), s, c).empty());
  EXPECT_EQ(broken("megatron-lm-2021", dense(), s, c), (Names{"MEG-OVERLAP-P2P"}));
  EXPECT_EQ(broken("deepspeed", dense(), s, c), (Names{"DS-SCHEDULE", "DS-NO-PP", "DS-OVERLAP-P2P"}));
  EXPECT_EQ(broken("fsdp2", dense(), s, c), (Names{"FSDP-SCHEDULE", "FSDP-NO-PP", "FSDP-OVERLAP-P2P"}));
  EXPECT_EQ(broken("torchtitan", dense(), s, c), (Names{"TT-OVERLAP-ALWAYS"}));
  EXPECT_EQ(broken("nanotron", dense(), s, c), (Names{"NANO-SCHEDULE", "NANO-OVERLAP-P2P"}));
  EXPECT_TRUE(broken("generic", dense(), s, c).empty());
}

// DistributedDataParallel wraps nanotron's model only without ZeRO; otherwise nothing is reduced during
// the backward pass.
TEST(EngineRules, NanotronOverlapsWithoutZero) {
  const Schedule flat{ScheduleKind::one_f_one_b, 1, 1, 4, 1};
  Strategy s;
  s.dp = 4;
  s.overlap.grad_reduce = true;
  EXPECT_TRUE(broken("nanotron", dense(), s, flat).empty());
  s.zero = ZeroStage::optimizer;
  s.shard = 4;
  EXPECT_EQ(broken("nanotron", dense(), s, flat), (Names{"NANO-OVERLAP-ZERO"}));
  s.overlap.grad_reduce = false;
  EXPECT_TRUE(broken("nanotron", dense(), s, flat).empty());
}

TEST(EngineRules, Megatron) {
  const Schedule flat{ScheduleKind::one_f_one_b, 1, 1, 4, 1};
  const Schedule pipe{ScheduleKind::one_f_one_b, 2, 1, 8, 1};
  Strategy s;
  s.tp = 2;
  s.dp = 4;
  s.ep = 4;
  EXPECT_EQ(broken("megatron-core", moe(), s, flat), (Names{"MEG-EP"}));  // EP with TP needs SP
  s.sp = SequenceParallel::megatron;
  EXPECT_TRUE(broken("megatron-core", moe(), s, flat).empty());
  s = {};
  s.dp = 8;
  s.zero = ZeroStage::gradients;
  s.shard = 8;
  EXPECT_EQ(broken("megatron-core", dense(), s, {ScheduleKind::one_f_one_b, 1, 1, 2, 1}), (Names{"MEG-ZERO"}));
  s.zero = ZeroStage::optimizer;
  s.overlap.param_gather = true;
  EXPECT_EQ(broken("megatron-core", dense(), s, {ScheduleKind::one_f_one_b, 1, 1, 2, 1}), (Names{"MEG-DISTOPT"}));
  s = {};
  s.tp = s.dp = 2;
  s.overlap.p2p = true;
  EXPECT_EQ(broken("megatron-core", dense(), s, pipe), (Names{"MEG-P2P"}));
  s = {};
  s.cp = s.dp = 2;
  s.order = RankOrder::tp_cp_pp_dp;
  EXPECT_EQ(broken("megatron-core", dense(), s, pipe), (Names{"MEG-ORDER"}));  // expert-DP 4, DP 2
  s = {};
  s.tp = s.dp = 2;
  EXPECT_EQ(broken("megatron-lm-2021", dense(), s, {ScheduleKind::interleaved, 2, 2, 8, 1}), (Names{"MEG-VPP"}));
  s = {};
  s.tp = 3;  // the space's own rules under the names of the engine
  EXPECT_EQ(broken("megatron-core", dense(), s, flat), (Names{"MEG-WORLD", "MEG-GBS", "MEG-HEADS"}));
}

TEST(EngineRules, UnevenStages) {
  Problem p = dense();
  p.cluster = plan_test::cluster(1, 3);
  const Schedule c{ScheduleKind::one_f_one_b, 3, 1, 16, 1};
  EXPECT_TRUE(broken("megatron-core", p, {}, c).empty());  // a pipeline layout splits 3, 3, 2
  EXPECT_EQ(broken("megatron-lm-2021", p, {}, c), (Names{"MEG-PP-EVEN"}));
  Strategy s;
  s.recompute = {RecomputeKind::full, 3};
  EXPECT_TRUE(broken("megatron-core", p, s, c).empty());
  EXPECT_EQ(broken("nanotron", p, s, c).size(), 0u);
  s.recompute.layers = 1;
  EXPECT_EQ(broken("nanotron", p, s, c), (Names{"NANO-RECOMP-ALL"}));
}

TEST(EngineRules, ShardingEngines) {
  Strategy s;
  s.dp = 8;
  s.zero = ZeroStage::optimizer;
  s.shard = 4;
  const Schedule c{ScheduleKind::one_f_one_b, 1, 1, 2, 1};
  EXPECT_EQ(broken("deepspeed", dense(), s, c), (Names{"DS-HYBRID-SHARD", "DS-MICS"}));
  EXPECT_EQ(broken("fsdp2", dense(), s, c), (Names{"FSDP-ZERO"}));
  EXPECT_EQ(broken("nanotron", dense(), s, c), (Names{"NANO-HYBRID-SHARD"}));
  s.zero = ZeroStage::parameters;
  EXPECT_EQ(broken("deepspeed", dense(), s, c), (Names{"DS-HYBRID-SHARD"}));  // MiCS was removed
  EXPECT_TRUE(broken("fsdp2", dense(), s, c).empty());
  s.cp = 2;
  s.dp = 4;
  s.shard = 8;
  EXPECT_TRUE(broken("fsdp2", dense(), s, {ScheduleKind::one_f_one_b, 1, 1, 4, 1}).empty());
  s.cp = 1;
  s.tp = 2;
  s.shard = 4;
  EXPECT_EQ(broken("deepspeed", dense(), s, {ScheduleKind::one_f_one_b, 1, 1, 4, 1}), (Names{"DS-AUTOTP"}));
  s.tp = 1;
  s.shard = 4;
  EXPECT_EQ(broken("megatron-deepspeed", dense(), s, {ScheduleKind::one_f_one_b, 2, 1, 4, 1}), (Names{"DS-PP-ZERO"}));
}

/// Checks one legal configuration under every engine; `other` supplies values for the dimensions that a rule
/// does not read.
void compare(const Problem& p, const RuleFacts& facts, const Strategy& s, const Schedule& c, const Strategy& other,
             const Schedule& other_c) {
  for (const EngineModel& engine : engine_catalogue()) {
    const RuleFacts own = rule_facts(p.model, p.cluster, p.training, std::int64_t{c.stages} * c.virtual_stages, engine.split);
    if (!is_legal(own, s, c)) continue;  // under its split, a chunk may have fewer blocks to recompute
    RC_ASSERT(engine_allows(engine, own, s, c) == engine_violations(engine, p.model, p.cluster, p.training, s, c).empty());
    for (const EngineRule& rule : engine_rules()) {
      Strategy changed = s;
      Schedule changed_c = c;
      for (int i = 0; i < kDimensions; ++i) {
        const auto d = static_cast<Dimension>(i);
        if ((rule.reads & bit(d)) == 0) set(d, get(d, other, other_c), changed, changed_c);
      }
      RC_ASSERT(rule.holds(engine, facts, s, c) == rule.holds(engine, facts, changed, changed_c));
    }
  }
}

TEST(EngineRules, AllowsExactlyWhatBreaksNothing) {
  const Problem p = moe();
  const RuleFacts facts = rule_facts(p.model, p.cluster, p.training);
  EXPECT_TRUE(rc::check("engine_allows == engine_violations().empty() on legal configurations; reads is honest", [&] {
    const auto all = *plan_test::many(plan_test::likely_configuration(8, 16));
    const auto [other, other_c] = *plan_test::any_configuration();
    for (const auto& [s, c] : all) {
      if (!is_legal(facts, s, c)) continue;
      compare(p, facts, s, c, other, other_c);
    }
  }));
}

/// Returns whether an engine runs plain data parallelism of 8 ranks in one of its ZeRO stages and forms of overlap.
bool runs_data_parallel(const EngineModel& engine, const Problem& p) {
  for (int choice = 0; choice < 16; ++choice) {
    Strategy s;
    s.dp = 8;
    s.zero = static_cast<ZeroStage>(choice / 4);
    s.overlap.grad_reduce = choice % 2 != 0;
    s.overlap.param_gather = choice / 2 % 2 != 0;
    if (engine_violations(engine, p.model, p.cluster, p.training, s, {ScheduleKind::one_f_one_b, 1, 1, 2, 1}).empty())
      return true;
  }
  return false;
}

TEST(EngineRules, EveryEngineRunsSomething) {
  for (const EngineModel& engine : engine_catalogue()) {
    EXPECT_TRUE(runs_data_parallel(engine, dense())) << engine.name;
    const bool loops = engine.kernels.looped_experts;  // it rejects mixtures
    EXPECT_EQ(runs_data_parallel(engine, moe()), !loops) << engine.name;
  }
}

TEST(Engines, OtherNamesSuggestTheEngine) {
  EXPECT_EQ(engine_suggestion("megatron-lm"), "did you mean \"megatron-core\"?");
  EXPECT_EQ(engine_suggestion("fsdp"), "did you mean \"fsdp2\"?");
  EXPECT_EQ(engine_suggestion("torchtitn"), "did you mean \"torchtitan\"?");
  EXPECT_EQ(engine_suggestion("qqq"), "");
}

TEST(Engines, CatalogueIsComplete) {
  for (const char* name : {"generic", "megatron-core", "megatron-core-unfused", "megatron-lm-2021", "oneflow", "ddp",
                           "megatron-deepspeed", "deepspeed", "fsdp2", "torchtitan", "nanotron"}) {
    const EngineModel* engine = find_engine(name);
    ASSERT_NE(engine, nullptr) << name;
    EXPECT_FALSE(engine->note.empty());
    EXPECT_FALSE(engine->runs.schedules.empty());
    EXPECT_FALSE(engine->runs.zero.empty());
    EXPECT_GE(engine_rule_catalogue(*engine).size(), engine->family == EngineFamily::generic ? 0u : 5u);
  }
  EXPECT_EQ(find_engine("colossal"), nullptr);
  EXPECT_EQ(find_engine("deepspeed+live-parameters=5")->memory.zero.live, 5);
  EXPECT_EQ(find_engine("deepspeed+live-parameters=5+fp32-gradients")->name, "deepspeed+fp32-gradients+live-parameters=5");
  for (const char* wrong : {"live-parameters", "live-parameters=", "live-parameters=-5", "live-parameters=5x", "bf16-states=1",
                            "live-parameters=1+live-parameters=2", "live-parameters=99999999999999999999"})
    EXPECT_EQ(find_engine(base::cat("deepspeed+", wrong)), nullptr) << wrong;
  EXPECT_EQ(to_string(find_engine("megatron-lm-2021")->memory.activations), "megatron-2022-unfused");
  // Megatron needs 18 bytes per parameter; DeepSpeed and FSDP2 need 16.
  const auto bytes = [](const char* name) {
    const StatePolicy& s = find_engine(name)->memory.states;
    return s.parameter + s.gradient + s.master + s.optimizer;
  };
  EXPECT_EQ(bytes("megatron-core"), 18);
  EXPECT_EQ(bytes("megatron-lm-2021"), 18);
  EXPECT_EQ(bytes("deepspeed"), 16);
  EXPECT_EQ(bytes("fsdp2"), 16);
}

}  // namespace
}  // namespace espalier::plan_test::engine_test
