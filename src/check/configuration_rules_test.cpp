// SPDX-License-Identifier: Apache-2.0
#include "check/configuration_rules.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <random>

#include "check/plan_structure.h"
#include "check/test_problem.h"

namespace espalier::check {
namespace {

using namespace test;

TEST(Rules, FourHeadsDoNotDivideOverEight) {
  Strategy s;
  s.tp = 8;
  const Case c = make_case(model_of(gpt(1)), s, schedule_of(ScheduleKind::one_f_one_b, 1, 1, 1));
  const CheckReport report{check_rules(make_view(c.plan, c.model, c.cluster))};
  EXPECT_FALSE(find(report, "heads")->ok);
  EXPECT_EQ(find(report, "heads")->text, "4 heads of 'decoder' do not divide over 8 ranks");
}

class Dice {
 public:
  template <class T>
  T one_of(std::initializer_list<T> choices) {
    return choices.begin()[engine_() % choices.size()];
  }
  std::size_t below(std::size_t n) { return engine_() % n; }
  bool rarely() { return engine_() % 8 == 0; }

 private:
  std::mt19937 engine_{20260101};
};

Strategy random_strategy(Dice& dice) {
  const auto degree = [&] { return dice.one_of({1, 1, 1, 2, 4}); };
  Strategy s;
  s.tp = degree();
  s.cp = degree();
  s.dp = degree();
  s.ep = dice.one_of({1, 1, 2, 4});
  s.etp = dice.one_of({1, 1, 2});
  s.sp = dice.one_of({SequenceParallel::none, SequenceParallel::none, SequenceParallel::megatron, SequenceParallel::ulysses});
  s.cp_kind = dice.one_of({ContextParallelKind::ring, ContextParallelKind::ring, ContextParallelKind::all_to_all});
  s.zero = ZeroStage{dice.one_of({0, 0, 1, 2, 3})};
  s.shard = dice.one_of({1, 1, 2, 4});
  s.order = dice.one_of({RankOrder::tp_cp_dp_pp, RankOrder::tp_cp_dp_pp, RankOrder::tp_cp_pp_dp, RankOrder::tp_dp_cp_pp});
  s.recompute.kind = dice.one_of({RecomputeKind::none, RecomputeKind::selective, RecomputeKind::full});
  s.recompute.layers = s.recompute.kind == RecomputeKind::full ? 1 : dice.one_of({0, 0, 0, 1});
  s.overlap = {dice.rarely(), dice.rarely(), dice.rarely(), dice.rarely()};
  return s;
}

Schedule random_schedule(Dice& dice) {
  using K = ScheduleKind;
  Schedule schedule;
  schedule.kind = dice.rarely() ? K::one_f_one_b : kScheduleKinds[dice.below(kScheduleKinds.size())];
  schedule.stages = dice.one_of({1, 2, 2, 4});
  schedule.virtual_stages = schedule.kind == K::interleaved ? dice.one_of({2, 1}) : schedule.kind == K::zb_v ? 2 : 1;
  schedule.microbatches = dice.one_of({1, 2, 3, 4, 8});
  schedule.micro_batch = dice.one_of({1, 2});
  return schedule;
}

Case random_case(Dice& dice) {
  DecoderShape shape = gpt(8);
  shape.kv_heads = dice.one_of<std::int64_t>({1, 2, 4, 4});
  shape.ffn = dice.one_of<std::int64_t>({256, 256, 250, 255});
  shape.experts = dice.one_of({0, 0, 0, 8, 6});
  shape.top_k = shape.experts > 0 ? 2 : 0;
  Strategy s = random_strategy(dice);
  if (shape.experts == 0 && !dice.rarely()) s.ep = s.etp = 1;
  const Schedule schedule = random_schedule(dice);
  Case c;
  c.model = model_of(shape);
  c.cluster = cluster_of(1);
  c.cluster.groups.front().devices_per_node = std::int64_t{s.tp} * s.cp * s.dp * schedule.stages;
  Training training;
  training.sequence.main = dice.one_of<std::int64_t>({128, 128, 64, 4, 96, 6, 7});
  training.global_batch = std::int64_t{schedule.micro_batch} * s.dp * schedule.microbatches;
  c.plan = make_uniform_plan(c.model, c.cluster, training, "generic", s, schedule, SplitPolicy::balanced);
  return c;
}

/// Tests that the check, which has its own rules, and espalier::violations, which defines the space, agree on what is
/// legal.
TEST(Rules, AgreeWithTheDefinitionOfTheSpace) {
  Dice dice;
  int legal = 0, illegal = 0;
  for (int trial = 0; trial < 20000; ++trial) {
    const Case c = random_case(dice);
    const std::vector<RuleViolation> defined =
        violations(c.model, c.cluster, c.plan.training, c.plan.strategy(), c.plan.only_pipeline().schedule);
    CheckReport own{check_structure(c.plan, c.model, c.cluster)};
    for (Finding& finding : check_rules(make_view(c.plan, c.model, c.cluster))) own.findings.push_back(std::move(finding));
    ASSERT_EQ(own.ok(), defined.empty()) << c.plan.label() << "\n"
                                         << broken(own)
                                         << (defined.empty() ? "" : defined.front().rule + ": " + defined.front().text);
    ++(own.ok() ? legal : illegal);
  }
  EXPECT_GT(legal, 500);
  EXPECT_GT(illegal, 500);
}

}  // namespace
}  // namespace espalier::check
