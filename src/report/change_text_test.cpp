// SPDX-License-Identifier: Apache-2.0
// Tests the text of a ladder, of prepared losses, of an observation and of a trace, from values made by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/document.h"
#include "espalier/adapt.h"
#include "espalier/objective.h"
#include "espalier/observation.h"
#include "espalier/policy.h"
#include "espalier/text.h"

namespace espalier::report::change_text_test {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr double kForGood = std::numeric_limits<double>::infinity();

adapt::Change change(adapt::ActionKind kind, std::int64_t ns, double pause) {
  adapt::Change c;
  c.action = kind;
  c.possible = ns > 0;
  c.what = ns > 0 ? "does something" : "there is only one replica";
  c.iteration_ns = ns;
  c.move.restart_s = pause;
  return c;
}

/// Staying takes 4 s per step. Planned again, a step takes 3 s after a pause of 30 s and 6 GiB, which pays off from
/// 120 s on.
adapt::WhatIf ladder() {
  adapt::WhatIf out;
  out.actions = {change(adapt::ActionKind::stay, 4'000'000'000, 0), change(adapt::ActionKind::shift, 0, 0),
                 change(adapt::ActionKind::re_place, 0, 0), change(adapt::ActionKind::reroute, 0, 0),
                 change(adapt::ActionKind::reshape, 3'000'000'000, 30)};
  adapt::Change& last = out.actions.back();
  last.move.peer_bytes = std::int64_t{6} << 30;
  last.move.links = {{"node:3 out", std::int64_t{6} << 30, 0.2}};
  last.gain_ns = 1'000'000'000;
  last.break_even_s = 120;
  last.nodes = {0, 2};
  out.recommended = 4;
  out.horizon_s = kForGood;
  out.before_ns = 2'500'000'000;
  out.if_stay_ns = 4'000'000'000;
  out.notes = {"a note"};
  return out;
}

base::Node parsed(const std::string& json) { return base::read_json(json, "json").value().root; }

TEST(ChangeText, TheLadderAsATable) {
  const std::string text = lay_out(to_text(ladder()), 0);
  EXPECT_THAT(text, HasSubstr("reshape: does something, 3.000 s per step (4.000 s without a change, 2.500 s before)"));
  EXPECT_THAT(text, HasSubstr("there is only one replica"));
  EXPECT_THAT(text, HasSubstr("6.0 GiB"));
  EXPECT_THAT(text, HasSubstr("reshape beats stay if the change lasts more than 2.0 min"));
  EXPECT_THAT(text, HasSubstr("for a permanent change"));
  EXPECT_THAT(text, HasSubstr("a note"));
}

TEST(ChangeText, WhatCannotStay) {
  adapt::WhatIf answer = ladder();
  answer.if_stay_ns.reset();
  answer.actions[0] = change(adapt::ActionKind::stay, 0, 0);
  answer.horizon_s = 1440;
  const std::string text = to_text(answer);
  EXPECT_THAT(text, HasSubstr("it cannot stay"));
  EXPECT_THAT(text, Not(HasSubstr("beats stay")));
  EXPECT_THAT(text, HasSubstr("a change of 24 min"));
}

TEST(ChangeText, BoundsAndWhatNeverPays) {
  adapt::WhatIf answer = ladder();
  answer.actions.back().upper_bound = true;
  answer.actions.back().iteration_ns = 5'000'000'000;
  answer.actions.back().break_even_s.reset();
  answer.recommended = 0;
  const std::string text = lay_out(to_text(answer), 0);
  EXPECT_THAT(text, HasSubstr("≤ 5.000 s"));
  EXPECT_THAT(text, HasSubstr("never"));
  EXPECT_THAT(text, HasSubstr("stay: does something, 4.000 s per step"));
  EXPECT_THAT(text, Not(HasSubstr("beats")));
}

TEST(ChangeText, DurationsAreReadable) {
  const auto said = [](double seconds) {
    adapt::WhatIf answer = ladder();
    answer.actions.back().break_even_s = seconds;
    return lay_out(to_text(answer), 0);
  };
  EXPECT_THAT(said(5.25), HasSubstr("5.2 s"));
  EXPECT_THAT(said(90), HasSubstr("90 s"));
  EXPECT_THAT(said(6000), HasSubstr("100 min"));
  EXPECT_THAT(said(36'000), HasSubstr("10.0 h"));
  EXPECT_THAT(said(864'000), HasSubstr("10.0 days"));
}

TEST(ChangeText, NothingCanBeDone) {
  adapt::WhatIf answer = ladder();
  for (adapt::Change& c : answer.actions) c = change(c.action, 0, 0);
  answer.recommended = 0;
  EXPECT_THAT(to_text(answer), HasSubstr("nothing can be done"));
}

TEST(ChangeText, LostWorkIsNamed) {
  adapt::WhatIf answer = ladder();
  answer.actions.back().move.storage_bytes = std::int64_t{8} << 30;
  answer.actions.back().move.rollback_s = 900;
  const std::string text = lay_out(to_text(answer), 0);
  EXPECT_THAT(text, HasSubstr("8.0 GiB of the last checkpoint"));
  EXPECT_THAT(text, HasSubstr("15.0 min of work lost"));
}

TEST(ChangeJson, OfALadder) {
  const base::Node root = parsed(to_json(ladder(), Plan{}));
  EXPECT_EQ(root.find("schema")->text, "espalier.what-if/1");
  EXPECT_EQ(root.find("recommended")->text, "reshape");
  EXPECT_EQ(root.find("horizon_s")->kind, base::NodeKind::null);
  const std::vector<base::Node>& actions = root.find("actions")->items;
  ASSERT_EQ(actions.size(), 5u);
  for (const base::Node& action : actions) EXPECT_EQ(action.find("schema")->text, "espalier.change/1");
  EXPECT_EQ(actions[1].find("pause_s")->kind, base::NodeKind::null);
  const base::Node& last = actions.back();
  EXPECT_DOUBLE_EQ(last.find("pause_s")->real, 30);
  EXPECT_DOUBLE_EQ(last.find("break_even_s")->real, 120);
  EXPECT_DOUBLE_EQ(last.find("gain_s_per_step")->real, 1);
  EXPECT_DOUBLE_EQ(last.find("if_stay_s")->real, 4);
  EXPECT_EQ(last.find("bytes_per_link")->find("node:3 out")->integer, std::int64_t{6} << 30);
  EXPECT_EQ(last.find("nodes")->items.size(), 2u);
}

TEST(ChangeJson, OfAnObservation) {
  adapt::Replan answer;
  answer.diagnosis.what.slow = {{"rank:3", 1.5}};
  answer.diagnosis.what.lost = {"node:5"};
  answer.ladder = ladder();
  const base::Node root = parsed(to_json(answer, Plan{}));
  EXPECT_EQ(root.find("schema")->text, "espalier.change/1");
  EXPECT_EQ(root.find("action")->text, "reshape");
  EXPECT_EQ(root.find("others")->items.size(), 4u);
  EXPECT_DOUBLE_EQ(root.find("observed")->find("slow")->find("rank:3")->real, 1.5);
  const std::string text = to_text(answer);
  EXPECT_THAT(text, HasSubstr("rank:3 takes 1.50 times as long as its peers"));
  EXPECT_THAT(text, HasSubstr("node:5 is lost"));
}

TEST(ChangeJson, NothingIsWrong) {
  const base::Node root = parsed(to_json(adapt::Replan{}, Plan{}));
  EXPECT_EQ(root.find("action")->text, "stay");
  EXPECT_EQ(root.find("iteration_s")->kind, base::NodeKind::null);
  EXPECT_THAT(to_text(adapt::Replan{}), HasSubstr("stay: no fault of the cluster was observed"));
}

TEST(ChangeJson, OfPreparedLosses) {
  adapt::Survival answer;
  answer.most = 2;
  answer.losses = 3;
  answer.covered = 2;
  answer.plans = 1;
  answer.classes = {{{0}, 2, "stage 0", change(adapt::ActionKind::reroute, 3'000'000'000, 30)},
                    {{0, 1}, 1, "all stages", change(adapt::ActionKind::stay, 0, 0)}};
  const base::Node root = parsed(to_json(answer, Plan{}));
  EXPECT_EQ(root.find("schema")->text, "espalier.survival/1");
  EXPECT_EQ(root.find("classes")->items.size(), 2u);
  const std::string text = lay_out(to_text(answer), 0);
  EXPECT_THAT(text, HasSubstr("2 of 3 losses of up to 2 nodes have a plan: 2 classes, 1 plans"));
  EXPECT_THAT(text, HasSubstr("none"));
}

TEST(OverTimeText, TheTableOfATrace) {
  adapt::OverTime answer;
  answer.length_s = 7200;
  answer.epochs = 9;
  answer.states = 3;
  answer.plans.resize(1);
  answer.plans[0].nodes_by_group = {3, 4};
  answer.plans[0].iteration_ns = 2'000'000'000;
  answer.plans[0].runs_s = 3600;
  answer.plans[0].plan.pipelines.front().stages.resize(1);
  answer.plans[0].plan.pipelines.front().stages[0].chunks = {{{LayerRange{}}}};
  answer.runs = {{"static", 10, 60, 30, 0, {{0, 0}}}, {"online", 12, 40, 30, 1, {{0, 0}, {600, 0}}}};
  answer.bound = {4, 900, 60, 30, 90};  // 4 · 960 + 120 = 3,960 s
  answer.regret = 0.25;
  const std::string text = lay_out(to_text(answer), 0);
  EXPECT_THAT(text, HasSubstr("over 2.0 h: 9 epochs, 3 different clusters"));
  EXPECT_THAT(text, HasSubstr("50.0 %"));
  EXPECT_THAT(text, HasSubstr("misses 25.0 %"));
  EXPECT_THAT(text, HasSubstr("loses at most 66.0 min (4.0 times the 15.0 min lost by the clairvoyant policy on these plans"));
  const base::Node root = parsed(to_json(answer));
  EXPECT_EQ(root.find("schema")->text, "espalier.over-time/1");
  EXPECT_DOUBLE_EQ(root.find("bound_s")->real, 3960);
  EXPECT_DOUBLE_EQ(root.find("clairvoyant_of_offered_s")->real, 900);
  EXPECT_EQ(root.find("runs")->items[1].find("decisions")->items.size(), 2u);
  EXPECT_EQ(root.find("plans")->items[0].find("nodes_by_group")->items[1].integer, 4);
}

TEST(ObjectiveText, TheTableOfSizes) {
  adapt::ObjectiveAnswer answer;
  answer.objective = {Objective::Minimise::cost, 0.5, 864000.0};
  answer.least_cost = 0.125;
  answer.sizes.resize(2);
  answer.sizes[0] = {{1, 2}, 24, 48, 2'000'000'000, Expense{0.25, 1e-6, 48, 0, 24, 1234.5, "EUR"}, 3.5, true, "TP8"};
  answer.sizes[1].nodes_by_group = {1, 0};
  answer.sizes[1].label = "nothing fits";
  answer.answer.emplace();
  const std::string text = lay_out(to_text(answer), 0);
  EXPECT_THAT(text, HasSubstr("the cheapest at 0.5000 per step or less within 10.0 days of 2 sizes"));
  EXPECT_THAT(text, HasSubstr("1+2"));
  EXPECT_THAT(text, HasSubstr("0.2500"));
  EXPECT_THAT(text, HasSubstr("nothing fits"));
  EXPECT_THAT(text, HasSubstr("costs less than 0.1250 EUR"));
  EXPECT_THAT(text, HasSubstr("EUR in total"));
  EXPECT_THAT(text, HasSubstr("1234"));
  answer.answer->plan.pipelines.front().stages.resize(1);
  answer.answer->plan.pipelines.front().stages[0].chunks = {{{LayerRange{}}}};
  const base::Node root = parsed(to_json(answer));
  EXPECT_EQ(root.find("schema")->text, "espalier.objective/1");
  EXPECT_EQ(root.find("minimise")->text, "cost");
  EXPECT_EQ(root.find("sizes")->items[0].find("nodes_by_group")->items[1].integer, 2);
  EXPECT_DOUBLE_EQ(root.find("sizes")->items[0].find("cost_whole_run")->real, 1234.5);
  EXPECT_EQ(root.find("sizes")->items[0].find("currency")->text, "EUR");
  EXPECT_EQ(root.find("sizes")->items[1].find("cost_per_step"), nullptr);
}

}  // namespace
}  // namespace espalier::report::change_text_test
