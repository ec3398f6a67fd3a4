// SPDX-License-Identifier: Apache-2.0
// Tests the page of a small plan: the same figures as result.json, fronts by hand, and no name read as HTML.
#include "espalier/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/document.h"
#include "base/format.h"
#include "espalier/step_comparison.h"
#include "report/page_parts.h"
#include "report/page_searched.h"

namespace espalier::report {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

Job toy_job(const std::string& more = "") {
  auto job = load_job(R"(
model: {model_type: gpt2, n_layer: 4, n_embd: 64, n_head: 4, n_positions: 128, vocab_size: 256}
cluster: {nodes: 2, devices_per_node: 4, device: h100-sxm-80gb}
training: {sequence_length: 128, global_batch: 64, tokens: 1e9}
)" + more,
                      "job.yaml", ".", {});
  EXPECT_TRUE(job) << job.error().message();
  return std::move(job).value();
}

/// Returns two stages of two replicas with two tensor ranks each.
PlannerResult piped(const Job& job) {
  Strategy s;
  s.tp = 2;
  s.dp = 2;
  s.overlap.grad_reduce = true;
  auto result = estimate(job, s, {ScheduleKind::one_f_one_b, 2, 1, 8, 4});
  EXPECT_TRUE(result) << result.error().message();
  return std::move(result).value();
}

const Figure& called(const std::vector<Figure>& figures, const std::string& id) {
  for (const Figure& figure : figures)
    if (figure.id == id) return figure;
  ADD_FAILURE() << id;
  return figures.front();
}

TEST(ReportFigures, AreThoseOfTheResult) {
  const Job job = toy_job();
  const PlannerResult r = piped(job);
  const Prediction& p = r.prediction;
  const std::vector<Figure> figures = page_figures(job, r);
  EXPECT_EQ(called(figures, "iteration").text, base::seconds(p.iteration_ns));
  EXPECT_EQ(called(figures, "mfu").text, base::percent(p.mfu));
  EXPECT_EQ(called(figures, "mfu").note, "of 989 TFLOP/s, attention in full");
  EXPECT_EQ(called(figures, "memory").text, base::gib(p.peak_memory_bytes));
  EXPECT_EQ(called(figures, "days").text, base::fixed(p.days, 1) + " days");
  EXPECT_EQ(called(figures, "cost").from, "");  // the cluster names no prices
  EXPECT_EQ(called(figures, "bubble").from, "prediction.bottleneck.breakdown_s.bubble");
  EXPECT_DOUBLE_EQ(*called(figures, "bubble").share,
                   static_cast<double>(p.bottleneck.breakdown.bubble_ns) / static_cast<double>(p.iteration_ns));
  for (const Figure& figure : figures) {
    EXPECT_FALSE(figure.equation.empty()) << figure.id;
    if (figure.from.empty()) continue;
    EXPECT_FALSE(figure.derivation.empty()) << figure.id;
    for (const DerivationLine& line : figure.derivation) EXPECT_FALSE(line.source.empty()) << figure.id << ": " << line.name;
  }
}

TEST(ReportFigures, APriceBecomesACost) {
  auto job = load_job(R"(
model: {model_type: gpt2, n_layer: 4, n_embd: 64, n_head: 4, n_positions: 128, vocab_size: 256}
cluster: {groups: [{nodes: 2, devices_per_node: 4, device: h100-sxm-80gb, price_per_device_hour: 2}]}
training: {sequence_length: 128, global_batch: 64}
)",
                      "job.yaml", ".", {});
  ASSERT_TRUE(job) << job.error().message();
  const PlannerResult r = piped(*job);
  ASSERT_TRUE(r.prediction.cost);
  const std::vector<Figure> figures = page_figures(*job, r);
  EXPECT_EQ(called(figures, "cost").from, "prediction.cost.per_step");
  EXPECT_THAT(called(figures, "cost").note, HasSubstr("16.00 "));  // eight devices at 2 an hour
  EXPECT_EQ(called(figures, "days").from, "");                     // no training.tokens
}

TEST(ReportTables, PartsOfTheStepSumToIt) {
  const PlannerResult r = piped(toy_job());
  double sum = 0;
  for (const auto& row : time_table(r.prediction).rows) sum += *row[1].share;
  EXPECT_NEAR(sum, 1.0, 1e-12);
}

TEST(ReportTables, EveryLayerStandsInOneRow) {
  const Job job = toy_job();
  const PageTable t = layer_table_of(job, piped(job).plan);
  std::int64_t layers = 0;
  for (const auto& row : t.rows) layers += std::stoll(row[2].text);
  EXPECT_EQ(layers, 6);  // embedding, four blocks, head
  EXPECT_EQ(t.rows.front()[1].text, "embedding");
  const PageTable stages = stage_table(job, piped(job));
  ASSERT_EQ(stages.rows.size(), 2u);
  EXPECT_EQ(stages.rows[1][1].text, "4: 4–7");
}

TEST(ReportTables, LinksCarryWhatAStepMoves) {
  const Job job = toy_job();
  const PageTable links = link_table(job, piped(job));
  ASSERT_FALSE(links.rows.empty()) << links.note;
  for (const auto& row : links.rows) {
    EXPECT_GT(*row[3].share, 0);
    EXPECT_LE(*row[3].share, 1);
  }
  EXPECT_EQ(fabric_table(job.cluster).rows.size(), 2u);  // inside nodes, between them
}

TEST(ReportWhatIf, WorseIsSlowerAndBetterIsNot) {
  const Job job = toy_job();
  const PageTable t = what_if_table(job, piped(job));
  constexpr double kSlowdown = 1e-3;  // a slower collective disturbs the overlapped compute less (overlap_traffic)
  int changed = 0;
  for (const auto& row : t.rows) {
    if (!row[2].share) continue;
    const bool worse = row[0].text.find("half") != std::string::npos || row[0].text.find("slower") != std::string::npos;
    const bool better = row[0].text.find("twice") != std::string::npos || row[0].text.find("faster") != std::string::npos;
    EXPECT_TRUE(!worse || *row[2].share >= -kSlowdown) << row[0].text;
    EXPECT_TRUE(!better || *row[2].share <= kSlowdown) << row[0].text;
    changed += *row[2].share != 0 ? 1 : 0;
  }
  EXPECT_GT(changed, 3);
}

// Times 10, 11, 12, 13 have memory 8, 9, 6, 6. The second is beaten by the first, the fourth by the third.
TEST(ReportSearched, TheFrontIsWhatNoOtherBeatsInBoth) {
  PlannerResult r = piped(toy_job());
  r.alternatives.clear();
  r.prediction.iteration_ns = 10;
  r.prediction.peak_memory_bytes = 8;
  for (const auto& [ns, bytes] : {std::pair{11, 9}, {12, 6}, {13, 6}})
    r.searched.push_back({"plan of " + std::to_string(ns), r.plan.strategy(), r.plan.only_pipeline().schedule, ns, bytes});
  std::vector<bool> front;
  for (const SearchedPoint& point : searched_points(r)) front.push_back(point.front);
  EXPECT_THAT(front, ElementsAre(true, false, true, false));
}

TEST(ReportSearched, WhatDoesNotFitIsNoFrontAndNothingStandsTwice) {
  PlannerResult r = piped(toy_job());
  ASSERT_FALSE(r.alternatives.empty());
  r.searched.push_back({r.plan.label(), r.plan.strategy(), r.plan.only_pipeline().schedule, r.prediction.iteration_ns,
                        r.prediction.peak_memory_bytes});
  for (Alternative& a : r.alternatives) a.fits = false;
  const auto points = searched_points(r);
  EXPECT_TRUE(points.front().front);
  EXPECT_EQ(points.front().what, "answer");
  for (std::size_t i = 1; i < points.size(); ++i) EXPECT_FALSE(points[i].front) << points[i].label;
  EXPECT_EQ(std::count_if(points.begin(), points.end(), [&](const auto& p) { return p.label == r.plan.label(); }), 1);
}

TEST(ReportData, HoldsTheResultAsItIsAndIsTheSameEachTime) {
  const Job job = toy_job();
  const PlannerResult r = piped(job);
  const auto data = page_data(job, r, nullptr, {});
  ASSERT_TRUE(data) << data.error().message();
  const auto document = base::read_json(*data, "data");
  ASSERT_TRUE(document) << document.error().message();
  EXPECT_EQ(document->root.find("schema")->text, "espalier.report/1");
  EXPECT_EQ(base::to_json(*document->root.find("result")), base::to_json(base::read_json(to_json(r, false), "result")->root));
  EXPECT_EQ(*data, *page_data(job, r, nullptr, {}));
}

TEST(ReportData, AMeasuredStepOfAnotherPlanIsRefused) {
  const Job job = toy_job();
  MeasuredStep step;
  step.plan = "0123456789abcdef";
  const auto data = page_data(job, piped(job), &step, {});
  ASSERT_FALSE(data);
  EXPECT_EQ(data.error().kind, ErrorKind::bad_input);
}

TEST(ReportPage, NothingOfTheDataEndsItsElementOrIsReadAsHtml) {
  const std::string evil = R"({"label": "</script><script>alert(1)</script><!-- <b>"})";
  const std::string html = page(evil, "</pre><script>alert(2)</script>&");
  EXPECT_THAT(html, Not(HasSubstr("alert(1)</script>")));
  EXPECT_THAT(html, Not(HasSubstr("<script>alert")));
  EXPECT_THAT(html, HasSubstr(R"(\u003c/script>\u003cscript>alert(1))"));
  EXPECT_THAT(html, HasSubstr("&lt;/pre&gt;&lt;script&gt;alert(2)&lt;/script&gt;&amp;"));
  EXPECT_THAT(html, Not(HasSubstr("@@")));
  // Escaping does not change the text of the data.
  const std::size_t from = html.find("id=\"data\">") + 10;
  const std::string inside = html.substr(from, html.find("</script>", from) - from);
  EXPECT_EQ(base::read_json(inside, "inside")->root.find("label")->text, base::read_json(evil, "evil")->root.find("label")->text);
}

}  // namespace
}  // namespace espalier::report
