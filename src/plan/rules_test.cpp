// SPDX-License-Identifier: Apache-2.0
#include "plan/rules.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <functional>
#include <set>

#include "plan/generators.h"
#include "plan/test_problem.h"

namespace espalier::plan_test::rules_test {
namespace {

struct Problem {
  Model model;
  Cluster cluster;
  Training training;
};
/// Returns a problem with 8 heads, 4 key/value heads, ffn 512, 8 blocks; 8 devices, sequence 64, 16 samples.
Problem small() {
  return {plan_test::decoder({8, 8, 4, 16, 512, 1000, 0, 0}), plan_test::cluster(1, 8), plan_test::training(64, 16)};
}

std::vector<RuleViolation> broken(const Problem& p, const Strategy& s, Schedule c) {
  return violations(p.model, p.cluster, p.training, s, c);
}
std::vector<std::string> names(const std::vector<RuleViolation>& all) {
  std::vector<std::string> out;
  for (const RuleViolation& v : all) out.push_back(v.rule);
  return out;
}
using Names = std::vector<std::string>;

// A scan in one group with 16 heads: the error is not about a linear layer that eight ranks cannot divide.
TEST(Rules, ScansAreNamed) {
  const auto model = load_model(R"({"model_type": "mamba2", "vocab_size": 1000, "hidden_size": 512, "num_hidden_layers": 4,
    "num_heads": 16, "head_dim": 64, "n_groups": 1, "state_size": 128, "conv_kernel": 4, "chunk_size": 256})",
                                "toy");
  ASSERT_TRUE(model.ok());
  Strategy s;
  s.tp = 8;
  const auto all =
      violations(*model, plan_test::cluster(1, 8), plan_test::training(256, 8), s, {ScheduleKind::one_f_one_b, 1, 1, 8, 1});
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].rule, "divide-ffn");
  EXPECT_EQ(all[0].text, "a linear layer's width, or a scan's number of heads or groups, of 1 is not divisible by tp 8");
}

// With offload to a host without a description, the message names the key that would state it.
TEST(Rules, OffloadToUnknownHostsNamesTheRemedy) {
  Problem p = small();
  for (NodeGroup& group : p.cluster.groups) group.host = {};
  Strategy s;
  s.dp = 8;
  s.offload = Offload::optimizer;
  const auto all = broken(p, s, {ScheduleKind::one_f_one_b, 1, 1, 2, 1});
  ASSERT_EQ(names(all), (Names{"offload-host"}));
  EXPECT_NE(all[0].text.find("cluster.host: {memory, memory_bandwidth, bandwidth}"), std::string::npos) << all[0].text;
}

// With tp 4 · dp 2 = 8 devices, 16 samples / (1 · 2) = 8 micro-batches are legal. tp 6 divides neither 8 heads
// nor 8 devices.
TEST(Rules, SmallestExample) {
  Strategy s;
  s.tp = 4;
  s.dp = 2;
  EXPECT_TRUE(broken(small(), s, {ScheduleKind::one_f_one_b, 1, 1, 8, 1}).empty());
  s.tp = 6;
  const auto all = broken(small(), s, {ScheduleKind::one_f_one_b, 1, 1, 8, 1});
  EXPECT_EQ(names(all), (Names{"world", "divide-heads", "divide-kv-heads", "divide-ffn"}));
  EXPECT_EQ(all[0].text, "tp 6 · cp 1 · dp 2 · pp 1 = 12 ranks, but the cluster has 8 devices");
  EXPECT_EQ(all[1].text, "8 heads are not divisible by tp 6");
  EXPECT_EQ(all[1].hint, "tp 4 or 8");
}

struct Case {
  const char* rule;
  std::function<void(Strategy&, Schedule&)> change;
  const char* hint;
};

// Starting from tp 2 · dp 2 · pp 2 with 8 micro-batches of 1, each change breaks the named rule (and possibly others).
TEST(Rules, EachRuleByName) {
  using K = ScheduleKind;
  const std::vector<Case> cases = {
      {"degrees-positive", [](Strategy& s, Schedule&) { s.tp = 0; }, "tp 1"},
      {"degrees-positive", [](Strategy&, Schedule& c) { c.micro_batch = -1; }, ""},
      {"world", [](Strategy& s, Schedule&) { s.dp = 4; }, "dp 2"},
      {"divide-batch", [](Strategy&, Schedule& c) { c.micro_batch = 3; }, "micro_batch 2 or 4"},
      {"divide-batch", [](Strategy&, Schedule& c) { c.microbatches = 9; }, "microbatches 8"},
      {"divide-heads", [](Strategy& s, Schedule&) { s.tp = 3; }, "tp 2 or 4"},
      {"divide-heads",
       [](Strategy& s, Schedule&) {
         s.tp = 8;
         s.cp = 2;
         s.cp_kind = ContextParallelKind::all_to_all;
       },
       "tp 4"},
      {"divide-kv-heads", [](Strategy& s, Schedule&) { s.tp = 6; }, "tp 4 or 8"},
      {"divide-ffn", [](Strategy& s, Schedule&) { s.tp = 5; }, "tp 4 or 8"},
      {"divide-sequence-cp", [](Strategy& s, Schedule&) { s.cp = 5; }, "cp 4 or 8"},
      {"divide-sequence-sp",
       [](Strategy& s, Schedule&) {
         s.tp = 3;
         s.sp = SequenceParallel::megatron;
       },
       "tp 2 or 4"},
      {"sp-needs-tp",
       [](Strategy& s, Schedule&) {
         s.tp = 1;
         s.sp = SequenceParallel::ulysses;
       },
       "sp none"},
      {"cp-kind", [](Strategy& s, Schedule&) { s.cp_kind = ContextParallelKind::all_to_all; }, "cp_kind ring"},
      {"experts-needed", [](Strategy& s, Schedule&) { s.ep = 2; }, "ep 1"},
      {"expert-grid", [](Strategy& s, Schedule&) { s.ep = 3; }, "ep 2 or 4"},
      {"expert-tp", [](Strategy& s, Schedule&) { s.etp = 4; }, "etp 2"},
      {"stages", [](Strategy&, Schedule& c) { c.stages = 11; }, "pp 8"},
      {"schedule-pipeline",
       [](Strategy&, Schedule& c) {
         c.stages = 1;
         c.kind = K::zb_h1;
       },
       "schedule 1f1b"},
      {"virtual-stages", [](Strategy&, Schedule& c) { c.kind = K::interleaved; }, "vpp 2"},
      {"virtual-stages",
       [](Strategy&, Schedule& c) {
         c.kind = K::zb_v;
         c.virtual_stages = 3;
       },
       "vpp 2"},
      {"virtual-stages", [](Strategy&, Schedule& c) { c.virtual_stages = 2; }, "vpp 1"},
      {"interleaved-batch",
       [](Strategy&, Schedule& c) {
         c.kind = K::interleaved;
         c.virtual_stages = 2;
         c.stages = 3;
       },
       ""},
      {"zero-range", [](Strategy& s, Schedule&) { s.zero = ZeroStage{4}; }, "zero 3"},
      {"zero-shard", [](Strategy& s, Schedule&) { s.zero = ZeroStage::optimizer; }, "shard 2"},
      {"zero-shard", [](Strategy& s, Schedule&) { s.shard = 2; }, "shard 1"},
      {"divide-shard",
       [](Strategy& s, Schedule&) {
         s.zero = ZeroStage::optimizer;
         s.shard = 3;
       },
       "shard 2"},
      {"zero-bubble-zero",
       [](Strategy& s, Schedule& c) {
         s.zero = ZeroStage::gradients;
         s.shard = 2;
         c.kind = K::zb_h1;
       },
       "zero 1"},
      {"order", [](Strategy& s, Schedule&) { s.order = RankOrder::tp_dp_cp_pp; }, "order tp-cp-dp-pp or tp-cp-pp-dp"},
      {"order",
       [](Strategy& s, Schedule&) {
         s.dp = 1;
         s.order = RankOrder::tp_cp_pp_dp;
       },
       "order tp-cp-dp-pp"},
      {"recompute-layers",
       [](Strategy& s, Schedule&) {
         s.recompute = {RecomputeKind::full, 5};
       },
       "recompute_layers 4"},
      {"recompute-layers",
       [](Strategy& s, Schedule&) {
         s.recompute = {RecomputeKind::full, 0};
       },
       "recompute_layers 1"},
      {"recompute-layers",
       [](Strategy& s, Schedule&) {
         s.recompute = {RecomputeKind::selective, 1};
       },
       "recompute_layers 0"},
      {"overlap-grad",
       [](Strategy& s, Schedule&) {
         s.dp = 1;
         s.overlap.grad_reduce = true;
       },
       "overlap_grad off"},
      {"overlap-param", [](Strategy& s, Schedule&) { s.overlap.param_gather = true; }, "overlap_param off"},
      {"overlap-p2p",
       [](Strategy& s, Schedule& c) {
         c.stages = 1;
         s.overlap.p2p = true;
       },
       "overlap_p2p off"},
      {"overlap-tp", [](Strategy& s, Schedule&) { s.overlap.tp = true; }, "overlap_tp off"},
  };
  for (const Case& c : cases) {
    Strategy s;
    s.tp = s.dp = 2;
    Schedule schedule{ScheduleKind::one_f_one_b, 2, 1, 8, 1};
    EXPECT_TRUE(broken(small(), s, schedule).empty());
    c.change(s, schedule);
    const auto all = broken(small(), s, schedule);
    const auto it = std::find_if(all.begin(), all.end(), [&c](const RuleViolation& v) { return v.rule == c.rule; });
    ASSERT_NE(it, all.end()) << c.rule;
    if (*c.hint != '\0') {
      EXPECT_EQ(it->hint, c.hint) << c.rule << ": " << it->text;
    }
    EXPECT_NE(it->text.find_first_of("0123456789_"), std::string::npos) << it->text;
  }
}

TEST(Rules, ExpertsFoldIntoTheStage) {
  Problem p = small();
  p.model = plan_test::decoder({8, 8, 4, 16, 512, 1000, 6, 256});
  Strategy s;
  s.tp = 2;
  s.dp = 4;
  s.ep = 4;  // 6 experts are not divisible
  const Schedule c{ScheduleKind::one_f_one_b, 1, 1, 4, 1};
  EXPECT_EQ(names(broken(p, s, c)), (Names{"divide-experts"}));
  EXPECT_EQ(broken(p, s, c)[0].hint, "ep 3 or 6");
  s.ep = 2;
  s.etp = 2;
  EXPECT_TRUE(broken(p, s, c).empty());
  s.ep = 3;
  EXPECT_EQ(names(broken(p, s, c)), (Names{"expert-grid"}));
  s.ep = 2;
  s.sp = SequenceParallel::ulysses;  // dense weights are not split, so experts are not either
  EXPECT_EQ(names(broken(p, s, c)), (Names{"expert-tp"}));
}

// There is one data rank, but each expert is on four of eight ranks. Their gradients are reduced, and this may
// overlap with the backward pass. With experts split over all eight ranks there is nothing to reduce.
TEST(Rules, GradientsOfExpertsMayOverlap) {
  Problem p = small();
  p.model = plan_test::decoder({8, 8, 4, 16, 512, 1000, 8, 256});
  Strategy s;
  s.tp = 8;
  s.ep = 2;
  s.overlap.grad_reduce = true;
  const Schedule c{ScheduleKind::one_f_one_b, 1, 1, 16, 1};
  EXPECT_TRUE(broken(p, s, c).empty());
  s.ep = 8;
  EXPECT_EQ(names(broken(p, s, c)), (Names{"overlap-grad"}));
  s.ep = 1;
  EXPECT_EQ(names(broken(small(), s, c)), (Names{"overlap-grad"}));  // no experts
}

TEST(Rules, ImagesAreNotSplitAlongTheSequence) {
  Problem p{plan_test::windowed(), plan_test::cluster(1, 6), plan_test::training(0, 12)};
  Strategy s;
  s.tp = 3;
  s.dp = 2;
  const Schedule c{ScheduleKind::one_f_one_b, 1, 1, 6, 1};
  EXPECT_TRUE(broken(p, s, c).empty());
  s.tp = 1;
  s.cp = 2;
  s.dp = 3;
  EXPECT_EQ(names(broken(p, s, {ScheduleKind::one_f_one_b, 1, 1, 4, 1})), (Names{"cp-one-sequence"}));
  s.cp = 1;
  s.tp = 3;
  s.dp = 2;
  s.sp = SequenceParallel::ulysses;
  EXPECT_EQ(names(broken(p, s, c)), (Names{"divide-sequence-sp", "ulysses-attention"}));  // 3136 patches over 3
}

// Several layers use the same weights, so two stages would hold a copy each.
TEST(Rules, SharedWeightsStandOnOneStage) {
  const auto model = load_model(R"({"model_type": "albert", "hidden_size": 16, "embedding_size": 4, "num_hidden_layers": 4,
    "num_attention_heads": 2, "intermediate_size": 24, "vocab_size": 32})",
                                "toy");
  ASSERT_TRUE(model.ok());
  Strategy s;
  s.dp = 2;
  const auto broken_by = [&](std::int32_t stages, std::int32_t devices) {
    return violations(*model, plan_test::cluster(1, devices), plan_test::training(64, 8), s,
                      {ScheduleKind::one_f_one_b, stages, 1, 4, 1});
  };
  EXPECT_TRUE(broken_by(1, 2).empty());
  const auto all = broken_by(2, 4);
  ASSERT_EQ(names(all), (Names{"weights-again"}));
  EXPECT_EQ(all[0].text, "pp 2 separates layers that share weights, so each stage would hold a copy");
  // The layers of this plan have two layouts: ranges of tp 1 and tp 2 on one stage.
  Plan plan;
  Strategy wide = s;
  wide.tp = 2;
  plan.pipelines = {Pipeline{0, {ScheduleKind::one_f_one_b, 1, 1, 4, 1}, 8, {Stage{{}, {Chunk{{{0, 2, s}, {3, 5, wide}}}}}}}};
  const auto layouts = plan_violations(*model, plan);
  ASSERT_FALSE(layouts.empty());
  EXPECT_EQ(layouts[0].rule, "again-alike");
}

// Key/value heads may be replicated: 2 key/value heads on tp 4. The fused projection of 6 heads of 5 features with 2
// key/value heads has a width of 50. tp 6 does not divide it, and need not.
TEST(Rules, KeyValueHeadsMayBeReplicated) {
  Problem p = small();
  p.model = plan_test::decoder({4, 6, 2, 5, 60, 1000, 0, 0});
  p.cluster = plan_test::cluster(1, 6);
  p.training = plan_test::training(60, 6);
  Strategy s;
  s.tp = 6;
  EXPECT_TRUE(broken(p, s, {ScheduleKind::one_f_one_b, 1, 1, 6, 1}).empty());
}

TEST(Rules, HugeNumbersAreRefusedNotComputed) {
  Strategy s;
  s.tp = s.cp = s.dp = s.ep = 2147483647;
  EXPECT_EQ(names(broken(small(), s, {ScheduleKind::one_f_one_b, 2147483647, 2147483647, 2147483647, 2147483647})),
            (Names{"degrees-positive"}));
  s.tp = s.cp = s.dp = s.ep = kMaxDegree;
  EXPECT_FALSE(broken(small(), s, {ScheduleKind::one_f_one_b, kMaxDegree, kMaxDegree, 1, 2147483647}).empty());
}

TEST(Rules, IsLegalExactlyWhenNothingIsBroken) {
  const std::vector<Problem> problems = {
      small(),
      {plan_test::decoder({6, 12, 4, 8, 384, 1000, 4, 96}), plan_test::cluster(2, 6), plan_test::training(48, 24)},
      {plan_test::windowed(), plan_test::cluster(1, 6), plan_test::training(0, 12)}};
  std::vector<RuleFacts> facts;
  for (const Problem& p : problems) facts.push_back(rule_facts(p.model, p.cluster, p.training));
  int legal = 0;
  EXPECT_TRUE(rc::check("is_legal == violations().empty()", [&] {
    const auto which = *rc::gen::inRange<std::size_t>(0, problems.size());
    const Problem& p = problems[which];
    const auto some = rc::gen::oneOf(plan_test::any_configuration(),
                                     plan_test::likely_configuration(p.cluster.devices(), p.training.global_batch));
    for (const auto& [s, c] : *plan_test::many(some)) {
      const bool fast = is_legal(facts[which], s, c);
      legal += fast ? 1 : 0;
      RC_ASSERT(fast == broken(p, s, c).empty());
    }
  }));
  EXPECT_GT(legal, 100);
}

TEST(Rules, ReadOnlyTheDimensionsTheyName) {
  const Problem p{plan_test::decoder({6, 12, 4, 8, 384, 1000, 4, 96}), plan_test::cluster(2, 6), plan_test::training(48, 24)};
  const RuleFacts facts = rule_facts(p.model, p.cluster, p.training);
  EXPECT_TRUE(rc::check("a dimension that a rule does not read changes nothing", [&] {
    auto [s, c] = *plan_test::likely_configuration(12, 24);
    auto [other, other_c] = *plan_test::any_configuration();
    for (const Rule& rule : rules()) {
      Strategy changed = s;
      Schedule changed_c = c;
      for (int i = 0; i < kDimensions; ++i) {
        const auto d = static_cast<Dimension>(i);
        if ((rule.reads & bit(d)) == 0) set(d, get(d, other, other_c), changed, changed_c);
      }
      RC_ASSERT(rule.holds(facts, s, c) == rule.holds(facts, changed, changed_c));
    }
  }));
}

TEST(Rules, CatalogueHasUniqueNames) {
  std::set<std::string> seen;
  for (const auto& [name, sentence] : rule_catalogue()) {
    EXPECT_TRUE(seen.insert(name).second) << name;
    EXPECT_FALSE(sentence.empty());
    const bool of_plans =
        std::any_of(plan_rules().begin(), plan_rules().end(), [&](const PlanRule& r) { return r.name == name; });
    EXPECT_TRUE(of_plans || find_rule(name) != nullptr) << name;
  }
}

// The facts of one chunk count equal those of the whole table.
TEST(RuleFacts, TableAndSingleEntryAgree) {
  const Problem p = small();
  const RuleFacts all = rule_facts(p.model, p.cluster, p.training);
  for (std::int64_t chunks = 1; chunks <= 10; ++chunks) {
    const RuleFacts one = rule_facts(p.model, p.cluster, p.training, chunks);
    EXPECT_EQ(one.largest_chunk[static_cast<std::size_t>(chunks)], all.largest_chunk[static_cast<std::size_t>(chunks)]);
  }
  EXPECT_EQ(all.largest_chunk[1], 8);
  EXPECT_EQ(all.largest_chunk[2], 4);
  EXPECT_EQ(all.largest_chunk[10], 1);
}

}  // namespace
}  // namespace espalier::plan_test::rules_test
