// SPDX-License-Identifier: Apache-2.0
#include "reference/v1_planner.h"

#include <gtest/gtest.h>

#include <cmath>

#include "reference/v1_fixture.h"

namespace espalier::reference {
namespace {

std::string name_of(const GridRow& row) {
  return row.model + ", " + std::to_string(row.devices) + " GPUs, " + std::to_string(row.memory_gb) + " GB";
}

/// Returns the rows of both tables, space "full".
std::vector<GridRow> all_rows() {
  std::vector<GridRow> rows;
  for (const std::int32_t devices : {8, 16}) {
    for (GridRow& row : published_rows(devices)) {
      if (row.space == "full") rows.push_back(std::move(row));
    }
  }
  return rows;
}

std::optional<V1Plan> plan_row(const GridRow& row, const V1Options& options) {
  return plan_v1(workload(row.model, row.devices), row.memory_gb * 1024, options);
}

TEST(V1Planner, FirstRowOfThePublishedTable) {
  const auto plan = plan_v1(workload("BERT-Huge-32", 8), 8 * 1024, kPublishedV1);
  ASSERT_TRUE(plan);
  EXPECT_NEAR(plan->samples_per_s, 9.37, 0.005);
  EXPECT_EQ(plan->batch, 8);
  EXPECT_EQ(to_string(*plan), "2-2*-2×15, 2-2*-2f×1");
}

/// Converts "2-1-4f×6, 2-1-4×11 ‖ 2-1-4×9, …" back to stages; one list represents `pp` equal ones.
std::vector<std::vector<V1Strategy>> stages_of(const std::string& text, const V1Profile& profile, std::int32_t pp) {
  std::map<std::string, V1Strategy> by_name;
  for (const V1Strategy& s : profile.strategies) by_name[to_string(s)] = s;
  const std::string times = "×", bar = " ‖ ";
  std::vector<std::vector<V1Strategy>> stages(1);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t name_end = text.find(times, at), count = name_end + times.size();
    const std::size_t end = std::min(text.find_first_not_of("0123456789", count), text.size());
    stages.back().insert(stages.back().end(), std::stoul(text.substr(count, end - count)),
                         by_name.at(text.substr(at, name_end - at)));
    const bool next_stage = text.compare(end, bar.size(), bar) == 0;
    if (next_stage) stages.emplace_back();
    at = end + (next_stage ? bar.size() : 2);  // ", "
  }
  if (stages.size() == 1) stages.resize(static_cast<std::size_t>(pp), stages.front());
  return stages;
}

// Compares the 64 rows of space "full": batch, stages and samples per second to the printed digits.
TEST(V1Planner, ReproducesThePublishedTables) {
  const std::vector<GridRow> rows = all_rows();
  ASSERT_EQ(rows.size(), 64u);
  for (const GridRow& row : rows) {
    const auto plan = plan_row(row, kPublishedV1);
    ASSERT_EQ(plan.has_value(), row.samples_per_s > 0) << name_of(row);
    if (!plan) continue;
    EXPECT_EQ(std::round(plan->samples_per_s * 100), std::round(row.samples_per_s * 100)) << name_of(row);
    EXPECT_EQ(plan->batch, row.batch) << name_of(row);
    EXPECT_EQ(plan->pp, row.pp) << name_of(row);
  }
}

// Several plans can take the same time. The published plan itself, priced here, fits and takes exactly as
// long as ours.
TEST(V1Planner, PublishedPlansAreAsGoodAsOurs) {
  for (const GridRow& row : all_rows()) {
    if (row.samples_per_s == 0) continue;
    const V1Workload workload = reference::workload(row.model, row.devices);
    V1Plan theirs;
    theirs.batch = row.batch;
    theirs.pp = row.pp;
    theirs.stages = stages_of(row.plan, *workload.profile, row.pp);
    const auto seconds = seconds_of(workload, row.memory_gb * 1024, theirs, V1Capacity::published);
    ASSERT_TRUE(seconds) << name_of(row) << ": " << row.plan;
    EXPECT_NEAR(*seconds, plan_row(row, kPublishedV1)->seconds, 1e-12 * *seconds) << name_of(row);
  }
}

// A larger space is never worse: free divisions contain the published ones.
TEST(V1Planner, FreeDivisionIsNeverWorse) {
  int better = 0;
  for (const GridRow& row : all_rows()) {
    const auto published = plan_row(row, kPublishedV1);
    const auto free = plan_row(row, V1Options{});
    if (!published) continue;
    ASSERT_TRUE(free) << name_of(row);
    EXPECT_GE(free->samples_per_s, published->samples_per_s * (1 - 1e-12)) << name_of(row);
    better += free->samples_per_s > published->samples_per_s * 1.0001;
  }
  EXPECT_GT(better, 0);
}

// No smaller space of the tables is better: 512 rows, seven more spaces.
TEST(V1Planner, FreeDivisionIsNotBelowAnySmallerSpace) {
  std::map<std::string, double> free;
  for (const GridRow& row : all_rows()) {
    const auto plan = plan_row(row, V1Options{});
    free[name_of(row)] = plan ? plan->samples_per_s : 0;
  }
  for (const std::int32_t devices : {8, 16}) {
    for (const GridRow& row : published_rows(devices))
      EXPECT_GE(free.at(name_of(row)), row.samples_per_s - 0.005) << name_of(row) << ", space " << row.space;
  }
}

// The published planner found 33.12 here and 33.91 in the smaller space dp+pp, since its division follows the leanest
// strategy of the space.
TEST(V1Planner, FreeDivisionMendsThePublishedAnomaly) {
  const auto plan = plan_v1(workload("T5-Large-32", 16), 16 * 1024, V1Options{});
  ASSERT_TRUE(plan);
  EXPECT_GE(plan->samples_per_s, 33.91);
}

// Plans fit and add up, priced layer by layer.
TEST(V1Planner, PlansFitAndAddUp) {
  for (const GridRow& row : all_rows()) {
    const auto plan = plan_row(row, V1Options{});
    if (!plan) continue;
    const auto seconds = seconds_of(workload(row.model, row.devices), row.memory_gb * 1024, *plan, V1Capacity::per_stage);
    ASSERT_TRUE(seconds) << name_of(row);
    EXPECT_NEAR(*seconds, plan->seconds, 1e-12 * *seconds) << name_of(row);
  }
}

// Compares the layer search with the published recurrence over megabytes, on stages of every model.
TEST(V1Planner, StagesEqualTheMegabyteGrid) {
  for (const char* name : {"BERT-Huge-32", "ViT-Huge-32", "T5-Large-32", "Swin-Huge-32"}) {
    for (const std::int32_t pp : {1, 2, 4}) {
      const auto stages = v1_stages(workload(name, 8), 12 * 1024, 16, pp, V1Capacity::published);
      const solve::LayerProblem stage = v1_stage(*stages, 0, 32 / pp);
      const double reference = best_on_megabyte_grid(stage, stages->capacity[0]);
      const auto found = solve::best_layers(stage, {}, stages->capacity[0], std::numeric_limits<double>::infinity());
      ASSERT_EQ(found.has_value(), std::isfinite(reference)) << name;
      if (!found) continue;
      EXPECT_NEAR(found->steady, reference, 1e-12 * reference) << name;
    }
  }
}

}  // namespace
}  // namespace espalier::reference
