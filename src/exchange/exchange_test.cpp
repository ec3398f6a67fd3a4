// SPDX-License-Identifier: Apache-2.0
#include "espalier/exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/invariant.h"
#include "data/source_dir.h"
#include "espalier/planner.h"
#include "exchange/galvatron.h"
#include "exchange/request.h"

namespace espalier::exchange::exchange_test {
namespace {

using testing::HasSubstr;

/// Returns a job of GPT-2 on four devices.
Job job() {
  auto loaded = load_job_file(ESPALIER_SOURCE_DIR "/examples/gpt2-on-4xrtx4090.yaml", {"training.global_batch=8"});
  EXPECT_TRUE(loaded) << (loaded ? "" : loaded.error().message());
  return std::move(*loaded);
}

/// Returns a plan of two stages with two data-parallel replicas.
Plan plan_of(const Job& job) {
  Strategy s;
  s.dp = 2;
  const Schedule schedule{ScheduleKind::one_f_one_b, 2, 1, 4, 1};  // 8 samples = 4 micro-batches · 1 · dp 2
  auto result = estimate(job, s, schedule);
  EXPECT_TRUE(result) << (result ? "" : result.error().message());
  return result->plan;
}

TEST(Exchange, APlanComesBackFromItsOwnFormat) {
  const Job one = job();
  const Plan plan = plan_of(one);
  const auto text = find_exporter("plan")->write({&one, &plan});
  ASSERT_TRUE(text.ok());
  const auto back = find_importer("plan")->read({nullptr, {{"plan", "plan.json", *text}}, {}});
  ASSERT_TRUE(back.ok()) << back.error().message();
  EXPECT_EQ(back->plan, plan);
}

// The file holds layers, degrees and micro-batches; inputs and engine come from the job. Overlaps are not in the
// file, and the import sets those of Galvatron's runtime. The test therefore compares stages and degrees instead of
// whole plans.
TEST(Exchange, GalvatronsStrategyGoesThereAndBack) {
  const Job one = job();
  Plan plan = plan_of(one);
  for (Stage& stage : plan.only_pipeline().stages) stage.chunks[0].ranges[0].strategy.overlap.grad_reduce = true;
  const auto text = find_exporter("galvatron")->write({&one, &plan});
  ASSERT_TRUE(text.ok()) << text.error().message();
  EXPECT_THAT(*text, HasSubstr("\"pp_deg\": 2"));
  const auto back = find_importer("galvatron")->read({&one, {{"strategy", "s.json", *text}}, {{"sequence-parallel", "no"}}});
  ASSERT_TRUE(back.ok()) << back.error().message();
  EXPECT_EQ(back->plan.only_pipeline().schedule, plan.only_pipeline().schedule);
  EXPECT_EQ(back->plan.strategy().dp, 2);
  EXPECT_EQ(back->plan.model_hash, plan.model_hash);
  EXPECT_EQ(back->plan.engine, one.engine);
  EXPECT_TRUE(simulate(one, back->plan).ok());
}

TEST(Exchange, TheTimelineIsATraceOfThePlan) {
  const Job one = job();
  const Plan plan = plan_of(one);
  const auto text = find_exporter("timeline")->write({&one, &plan});
  ASSERT_TRUE(text.ok());
  EXPECT_THAT(*text, HasSubstr("\"traceEvents\":["));
}

TEST(Exchange, WhatIsMissingOrUnknownIsNamed) {
  const Job one = job();
  const Importer& format = *find_importer("galvatron");
  EXPECT_THAT(format.read({nullptr, {}, {}}).error().message(), HasSubstr("no job"));
  EXPECT_THAT(format.read({&one, {}, {}}).error().message(), HasSubstr("no file for \"strategy\""));
  EXPECT_THAT(format.read({&one, {{"strategy", "s", "{}"}, {"other", "o", ""}}, {}}).error().message(),
              HasSubstr("a file for \"other\""));
  EXPECT_THAT(format.read({&one, {{"strategy", "s", "{}"}}, {{"colour", "red"}}}).error().message(),
              HasSubstr("the option \"colour\""));
  EXPECT_EQ(format.read({&one, {}, {}}).error().kind, ErrorKind::usage);
  const auto wrong = find_importer("galvatron-profile")
                         ->read({&one, {{"computation", "c", "{}"}, {"memory", "m", "{}"}, {"allreduce", "a", "{}"}}, {}});
  EXPECT_EQ(wrong.error().kind, ErrorKind::bad_input);
}

// A count of 2³² + 1 stages must not wrap to one stage.
TEST(Exchange, CountsThatNoPlanHasAreRefused) {
  const auto asked = [](const std::string& pp) { return count_of(galvatron_profile(), {nullptr, {}, {{"pp", pp}}}, "pp"); };
  EXPECT_EQ(*asked("2147483647"), 2'147'483'647);
  for (const char* wrong : {"2147483648", "4294967297", "-1", "1.5", "2x", ""}) {
    const auto refused = asked(wrong);
    ASSERT_FALSE(refused.ok()) << wrong;
    EXPECT_EQ(refused.error().kind, ErrorKind::usage);
    EXPECT_EQ(refused.error().expected, "a number from 0 to 2147483647");
  }
}

// A request that refused() accepts has every file that the row requires. Importers ask only for options of their row.
TEST(Exchange, ImportersAskForWhatTheirRowLists) {
  EXPECT_THROW((void)required_file({}, "strategy"), base::InternalError);
  EXPECT_THROW((void)option_of(galvatron_strategy(), {}, "colour"), base::InternalError);
  EXPECT_EQ(option_of(galvatron_strategy(), {}, "sequence-parallel"), "yes");
  Plan other = plan_of(job());
  other.training.global_batch += 1;
  EXPECT_THROW((void)embed_job(job(), other), base::InternalError);
}

TEST(Exchange, RowsAreCompleteAndTheirNamesDiffer) {
  std::set<std::string> names;
  for (const Importer& row : importers()) {
    EXPECT_TRUE(names.insert(row.name).second);
    EXPECT_EQ(find_importer(row.name), &row);
    EXPECT_NE(row.read, nullptr);
    EXPECT_FALSE(row.reads.empty() || row.files.empty());
  }
  names.clear();
  for (const Exporter& row : exporters()) {
    EXPECT_TRUE(names.insert(row.name).second);
    EXPECT_EQ(find_exporter(row.name), &row);
    EXPECT_NE(row.write, nullptr);
    EXPECT_FALSE(row.writes.empty() || row.file_name.empty());
  }
  EXPECT_EQ(find_importer("unknown"), nullptr);
  EXPECT_EQ(find_exporter("unknown"), nullptr);
}

}  // namespace
}  // namespace espalier::exchange::exchange_test
