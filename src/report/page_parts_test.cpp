// SPDX-License-Identifier: Apache-2.0
// Tests the tables of the page, from small results that are made by hand.
#include "report/page_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace espalier::report {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> texts(const std::vector<Cell>& row) {
  std::vector<std::string> out;
  for (const Cell& cell : row) out.push_back(cell.text);
  return out;
}

std::vector<std::string> column(const PageTable& table, std::size_t at) {
  std::vector<std::string> out;
  for (const auto& row : table.rows) out.push_back(row[at].text);
  return out;
}

const std::vector<Cell>& row_of(const PageTable& table, const std::string& name) {
  for (const auto& row : table.rows)
    if (row.front().text == name) return row;
  ADD_FAILURE() << "no row " << name;
  return table.rows.front();
}

/// Returns a step of one second: 0.7 s of compute, 0.2 s of exposed communication and 0.1 s of bubble. Stage 1 is
/// busier.
Prediction second() {
  Prediction p;
  p.iteration_ns = 1'000'000'000;
  p.breakdown.compute_ns = 700'000'000;
  p.breakdown.exposed_communication_ns = 200'000'000;
  p.breakdown.bubble_ns = 100'000'000;
  p.memory = {1LL << 30, 2LL << 30, 3LL << 30, 4LL << 30, 0, 6LL << 30};
  p.memory_limit_bytes = 32LL << 30;
  p.peak_memory_bytes = 16LL << 30;
  return p;
}

TEST(PageTables, ACellIsATextOrATextAndAShare) {
  PageTable t{"toy", "Toy", "a note", {"name", "share"}, {}, {{"a \"quoted\" name", {"50.0 %", 0.5}}, {"b", "–"}}};
  base::JsonWriter w(0);
  write(w, t);
  const auto read = base::read_json(w.text(), "table");
  ASSERT_TRUE(read) << read.error().message();
  const base::Node& rows = *read->root.find("rows");
  ASSERT_EQ(rows.items.size(), 2u);
  EXPECT_EQ(rows.items[0].items[0].text, "a \"quoted\" name");
  EXPECT_EQ(rows.items[0].items[1].items[0].text, "50.0 %");
  EXPECT_EQ(rows.items[0].items[1].items[1].real, 0.5);
  EXPECT_EQ(rows.items[1].items[1].text, "–");
}

TEST(PageTables, AFigureWithoutAPlaceIsNotKnown) {
  base::JsonWriter w(0);
  write(w, Figure{"cost", "Cost", "not known", "", "", "price · time"});
  const auto read = base::read_json(w.text(), "figure");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->root.find("from")->text, "");
  EXPECT_EQ(read->root.find("share"), nullptr);
  EXPECT_THAT(read->root.find("derivation")->items, IsEmpty());
}

TEST(PageTables, TimeOfOneStageIsThatOfTheRankThatEndsLast) {
  const PageTable t = time_table(second());
  EXPECT_EQ(t.note, "");
  EXPECT_THAT(texts(row_of(t, "compute")), ElementsAre("compute", "70.0 %", "700.0 ms"));
  EXPECT_THAT(texts(row_of(t, "exposed communication")), ElementsAre("exposed communication", "20.0 %", "200.0 ms"));
  EXPECT_DOUBLE_EQ(*row_of(t, "pipeline bubble")[1].share, 0.1);
}

TEST(PageTables, TimeOfAPipelineIsThatOfItsBusiestStage) {
  Prediction p = second();
  p.bottleneck.stage = 1;
  p.bottleneck.busy_per_stage = {0.9, 0.95};
  p.bottleneck.breakdown.compute_ns = 950'000'000;
  p.bottleneck.breakdown.bubble_ns = 50'000'000;
  const PageTable t = time_table(p);
  EXPECT_THAT(t.note, HasSubstr("stage 1"));
  EXPECT_EQ(row_of(t, "compute")[1].text, "95.0 %");
}

TEST(PageTables, MemoryIsSharedOutOfTheLimit) {
  const PageTable t = memory_table(second());
  EXPECT_THAT(column(t, 2), ElementsAre("1.0 GiB", "2.0 GiB", "3.0 GiB", "4.0 GiB", "0.0 GiB", "6.0 GiB"));
  EXPECT_DOUBLE_EQ(*row_of(t, "activations")[1].share, 0.125);  // 4 of 32
}

TEST(PageTables, AlternativesSayWhatTheyLoseAndWhichDoNotFit) {
  PlannerResult r;
  r.prediction = second();
  Alternative slower;
  slower.label = "FSDP (ZeRO-3)";
  slower.fits = true;
  slower.iteration_ns = 1'250'000'000;
  slower.peak_memory_bytes = 8LL << 30;
  slower.lost_to = "exposed communication +0.250 s";
  Alternative large;
  large.label = "DDP";
  large.peak_memory_bytes = 64LL << 30;
  large.iteration_ns = 900'000'000;
  Alternative illegal;
  illegal.label = "HSDP";
  illegal.lost_to = "needs several nodes";
  r.alternatives = {slower, large, illegal};
  const PageTable t = why_not_table(r);
  EXPECT_THAT(texts(t.rows[0]),
              ElementsAre("FSDP (ZeRO-3)", "", "1.250 s", "+25.0 %", "8.0 GiB", "exposed communication +0.250 s"));
  EXPECT_THAT(texts(t.rows[1]), ElementsAre("DDP", "", "900.0 ms", "-10.0 %", "64.0 GiB !", "does not fit"));
  EXPECT_THAT(texts(t.rows[2]), ElementsAre("HSDP", "", "–", "–", "–", "needs several nodes"));
}

TEST(PageTables, WhatASearchDidSumsToItsSpace) {
  SearchSummary s;
  EXPECT_THAT(pruning_table(s).rows, IsEmpty());
  EXPECT_THAT(pruning_table(s).note, HasSubstr("not searched"));
  s.reason = SearchEnd::optimal;
  s.space_size = 100;
  s.simulated = 5;
  s.pruned = {{"memory", 75}, {"bound", 20}};
  s.lower_bound_ns = 1'000'000'000;
  const PageTable t = pruning_table(s);
  EXPECT_THAT(column(t, 0), ElementsAre("removed by bound", "removed by memory", "simulated", "all legal ones"));
  EXPECT_THAT(column(t, 2), ElementsAre("20.0 %", "75.0 %", "5.0 %", "100.0 %"));
}

TEST(PageTables, MeasuredAgainstPredictedRankByRank) {
  StepComparison c;
  c.predicted_ns = 1'000'000'000;
  c.measured_ns = 1'100'000'000;
  c.step = 3;
  c.steps = 5;
  RankComparison rank;
  rank.device = 7;
  rank.stage = 1;
  rank.predicted.compute_ns = 900'000'000;
  rank.predicted.bubble_ns = 100'000'000;
  rank.measured.compute_ns = 800'000'000;
  rank.measured.bubble_ns = 300'000'000;
  c.ranks = {rank};
  const PageTable t = measured_table(c);
  EXPECT_THAT(t.note, HasSubstr("1.000 s predicted, 1.100 s measured (+10.0 %)"));
  EXPECT_THAT(texts(t.rows[0]), ElementsAre("7", "1", "compute", "900.0 ms", "800.0 ms", "-100.0 ms"));
  EXPECT_DOUBLE_EQ(*t.rows[0][5].share, -0.1);
  EXPECT_EQ(t.rows[2][5].text, "+200.0 ms");
}

Job eight(const std::string& cluster) {
  auto job = load_job(R"(
model: {model_type: gpt2, n_layer: 4, n_embd: 64, n_head: 4, n_positions: 128, vocab_size: 256}
training: {sequence_length: 128, global_batch: 64}
cluster: )" + cluster,
                      "job.yaml", ".", {});
  EXPECT_TRUE(job) << job.error().message();
  return std::move(job).value();
}

TEST(PageTables, DevicesAndFabricWithTheirSources) {
  const Job job = eight("{nodes: 2, devices_per_node: 8, device: a100-sxm-80gb}");
  const PageTable devices = device_table(job), fabric = fabric_table(job.cluster);
  ASSERT_EQ(devices.rows.size(), 1u);
  EXPECT_EQ(devices.rows[0][1].text, "a100-sxm-80gb");
  EXPECT_EQ(devices.rows[0][4].text, "312.0 TFLOP/s");
  EXPECT_THAT(devices.rows[0][7].text, HasSubstr("NVIDIA A100"));
  ASSERT_EQ(fabric.rows.size(), 2u);
  EXPECT_EQ(fabric.rows[0][1].text, "inside nodes");
  EXPECT_EQ(fabric.rows[0][4].text, "300.0 GB/s");
  EXPECT_EQ(fabric.rows[1][1].text, "between nodes");
  EXPECT_EQ(fabric.rows[1][3].text, "16");
}

TEST(PageTables, TrafficOfTooManyDevicesIsLeftOutWithTheReason) {
  const Job job = eight("{nodes: 256, devices_per_node: 8, device: a100-sxm-80gb}");
  PlannerResult r;
  const PageTable t = link_table(job, r);
  EXPECT_THAT(t.rows, IsEmpty());
  EXPECT_EQ(t.note, "not simulated: the flow-level network supports at most 1,024 devices, the cluster has 2,048");
}

TEST(PageTables, TrafficUnderTheFlowNetworkIsThatOfThePrediction) {
  PlannerResult r;
  r.prediction = second();
  r.prediction.network = NetworkPrediction{900'000'000, {{"rails out", 16, 2.5e12, 0.25, 1.0}}};
  const PageTable t = link_table(eight("{nodes: 2, devices_per_node: 8, device: a100-sxm-80gb}"), r);
  ASSERT_EQ(t.rows.size(), 1u);
  EXPECT_THAT(texts(t.rows[0]), ElementsAre("rails out", "16", "2.5 TB", "25.0 %", "100.0 %"));
  EXPECT_THAT(t.note, HasSubstr("900.0 ms"));
}

TEST(PageTables, StagesOfSeveralPipelinesSayWhichTheyBelongTo) {
  const Job job = eight("{nodes: 1, devices_per_node: 2, device: a100-sxm-80gb}");
  PlannerResult r;
  r.prediction = second();
  r.prediction.peak_memory_bytes_per_stage = {8LL << 30, 16LL << 30};
  r.prediction.bottleneck.busy_per_stage = {0.5, 1.0};
  Pipeline whole;
  whole.stages = {{{{0, 1, 1}}, {Chunk{{{0, 5, Strategy{}}}}}}};
  r.plan.pipelines = {whole, whole};
  r.plan.pipelines[1].stages[0].devices = {{1, 1, 1}};
  const PageTable t = stage_table(job, r);
  EXPECT_THAT(column(t, 0), ElementsAre("pipeline 0, 0", "pipeline 1, 0"));
  EXPECT_THAT(column(t, 1), ElementsAre("1: 0", "1: 1"));
  EXPECT_THAT(column(t, 2), ElementsAre("0–5", "0–5"));
  EXPECT_DOUBLE_EQ(*t.rows[1][4].share, 0.5);  // 16 GiB of 32
  EXPECT_EQ(t.rows[0][5].text, "50.0 %");
}

}  // namespace
}  // namespace espalier::report
