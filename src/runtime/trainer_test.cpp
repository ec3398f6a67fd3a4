// SPDX-License-Identifier: Apache-2.0
// Tests whole runs of one rank: reports, faults, requests and files. Runs of many ranks are in tests/runtime.
#include "runtime/trainer.h"

#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>

#include "base/document.h"
#include "runtime/test_rank.h"
#include "storage/checkpoint.h"

namespace espalier::runtime::testing::trainer_test {
namespace {

using ::testing::HasSubstr;

/// Holds everything that a run of one rank reported.
struct Reported {
  Status status;
  std::vector<StepReport> steps;
  std::vector<std::string> notes, seen;
};

Reported run(const Plan& plan, const TrainOptions& options) {
  Meeting meeting({});
  Reported out;
  Watching watching;
  watching.step = [&](const StepReport& report) { out.steps.push_back(report); };
  watching.note = [&](const std::string& text) { out.notes.push_back(text); };
  watching.seen = [&](const std::string& text) { out.seen.push_back(text); };
  out.status = train(plan, options, meeting, "run", watching);
  return out;
}

TrainOptions steps_of(std::int64_t steps) {
  TrainOptions options;
  options.steps = steps;
  return options;
}

TEST(Trainer, ReportsEveryStep) {
  const Reported run_ = run(plan_of_one(kQwen2), steps_of(3));
  ASSERT_TRUE(run_.status.ok()) << run_.status.error().message();
  ASSERT_EQ(run_.steps.size(), 3u);
  for (std::size_t k = 0; k < 3; ++k) {
    EXPECT_EQ(run_.steps[k].step, static_cast<std::int64_t>(k));
    EXPECT_GT(run_.steps[k].seconds, 0);
    EXPECT_GT(run_.steps[k].gradient, 0);
  }
  EXPECT_NEAR(run_.steps[0].loss, std::log(64.0), 0.05);
  EXPECT_LT(run_.steps[2].loss, run_.steps[0].loss + 0.05);
}

TEST(Trainer, SeedsDecideEverything) {
  const Reported a = run(plan_of_one(kQwen2), steps_of(2)), b = run(plan_of_one(kQwen2), steps_of(2));
  TrainOptions other = steps_of(2);
  other.seed = 2;
  const Reported c = run(plan_of_one(kQwen2), other);
  EXPECT_EQ(a.steps.at(1).loss, b.steps.at(1).loss);
  EXPECT_NE(a.steps.at(1).loss, c.steps.at(1).loss);
}

// Gradients and logits of the first step cover the whole model and batch.
TEST(Trainer, ShowsTheFirstGradientsAndLogits) {
  Meeting meeting({});
  std::int64_t gradients = 0, passes = 0, logits = 0;
  Watching watching;
  watching.first_gradients = [&](const std::vector<GradientPart>& parts) {
    for (const GradientPart& part : parts) {
      EXPECT_EQ(elements_of(part.elements), static_cast<std::int64_t>(part.values.size()));
      gradients += static_cast<std::int64_t>(part.values.size());
    }
  };
  watching.first_logits = [&](const LogitsPart& part) {
    ++passes;
    EXPECT_EQ(part.first_sample, 2 * (passes - 1));
    logits += static_cast<std::int64_t>(part.values.size());
  };
  ASSERT_TRUE(train(plan_of_one(kQwen2), steps_of(2), meeting, "run", watching).ok());
  EXPECT_EQ(gradients, parameter_count(model_of(kQwen2)));
  EXPECT_EQ(passes, 4);
  EXPECT_EQ(logits, kTokens * kSamples * 64);
}

// ---- faults -------------------------------------------------------------------------------------------------------

TEST(Trainer, APlanNeedsItsRanks) {
  const Reported r = run(plan_of(kQwen2, strategy(1, 2), schedule(ScheduleKind::one_f_one_b, 1)), steps_of(1));
  ASSERT_FALSE(r.status.ok());
  EXPECT_EQ(r.status.error().found, "2 devices");
  EXPECT_THAT(r.status.error().expected, HasSubstr("1 ranks"));
}

// The update of the first step makes parameters infinite: the second has no finite loss.
TEST(Trainer, ALossThatIsNotFiniteEndsTheRun) {
  TrainOptions options = steps_of(5);
  options.rate = 1e30;
  const Reported r = run(plan_of_one(kQwen2), options);
  ASSERT_FALSE(r.status.ok());
  EXPECT_EQ(r.status.error().kind, ErrorKind::limit);
  EXPECT_EQ(r.status.error().where, "step 1");
  EXPECT_EQ(r.steps.size(), 1u);
}

TEST(Trainer, WhatCannotBeRunIsRefusedByName) {
  Plan plan = plan_of_one(kQwen2);
  plan.training.precision = Precision::fp16;
  EXPECT_EQ(run(plan, steps_of(1)).status.error().where, "plan: $.training.precision");
  plan = plan_of_one(kQwen2);
  plan.model_source = "{}";
  EXPECT_FALSE(run(plan, steps_of(1)).status.ok());
  TrainOptions options = steps_of(1);
  options.pace = "flops=no";
  EXPECT_EQ(run(plan_of_one(kQwen2), options).status.error().where, "--pace");
  options = steps_of(1);
  options.data = "/nonexistent/tokens.bin";
  EXPECT_FALSE(run(plan_of_one(kQwen2), options).status.ok());
  options = steps_of(1);
  options.weights = "/nonexistent/weights";
  EXPECT_FALSE(run(plan_of_one(kQwen2), options).status.ok());
}

TEST(Trainer, RanksMustBeStartedAlike) {
  as_ranks(2, [](Meeting& meeting) {
    TrainOptions options = steps_of(1);
    options.rate = meeting.rank() == 0 ? 1e-3 : 2e-3;
    const Status failed =
        train(plan_of(kQwen2, strategy(1, 2), schedule(ScheduleKind::one_f_one_b, 1)), options, meeting, "run", {});
    ASSERT_FALSE(failed.ok());
    EXPECT_EQ(failed.error().where, "rank 1");
    EXPECT_THAT(failed.error().found, HasSubstr("rate 0.002"));
  });
}

// Ranks beyond those of the plan have nothing to do.
TEST(Trainer, SurplusRanksReturnAtOnce) {
  as_ranks(2, [](Meeting& meeting) {
    int steps = 0;
    Watching watching;
    watching.step = [&](const StepReport&) { ++steps; };
    EXPECT_TRUE(train(plan_of_one(kQwen2), steps_of(1), meeting, "run", watching).ok());
    EXPECT_EQ(steps, meeting.rank() == 0 ? 1 : 0);
  });
}

// ---- files --------------------------------------------------------------------------------------------------------

// Six steps at once, or three and then three from the checkpoint, have the same losses.
TEST(Trainer, AResumedRunGoesOnWhereItEnded) {
  const ScratchFolder folder;
  const Plan plan = plan_of_one(kQwen2);
  const Reported whole = run(plan, steps_of(6));
  TrainOptions options = steps_of(3);
  options.checkpoint.folder = folder.file("checkpoints");
  ASSERT_TRUE(run(plan, options).status.ok());
  options.steps = 6;
  options.checkpoint.resume = true;
  const Reported end = run(plan, options);
  ASSERT_EQ(end.steps.size(), 3u);
  for (std::size_t k = 0; k < 3; ++k) {
    EXPECT_EQ(end.steps[k].step, static_cast<std::int64_t>(k) + 3);
    EXPECT_EQ(end.steps[k].loss, whole.steps.at(k + 3).loss);
  }
  const Reported again = run(plan, options);
  EXPECT_TRUE(again.steps.empty());
  EXPECT_THAT(again.notes.back(), HasSubstr("nothing left to do"));
}

// Saved parameters are those that a second run begins with: its first loss is that of a third step.
TEST(Trainer, SavedWeightsBeginAnotherRun) {
  const ScratchFolder folder;
  TrainOptions options = steps_of(2);
  options.save = folder.file("weights");
  ASSERT_TRUE(run(plan_of_one(kQwen2), options).status.ok());
  TrainOptions next = steps_of(1);
  next.weights = folder.file("weights");
  const Reported begun = run(plan_of_one(kQwen2), next), fresh = run(plan_of_one(kQwen2), steps_of(1));
  ASSERT_TRUE(begun.status.ok()) << begun.status.error().message();
  EXPECT_LT(begun.steps.at(0).loss, fresh.steps.at(0).loss);
}

TEST(Trainer, RecordsTimesOfOperators) {
  const ScratchFolder folder;
  TrainOptions options = steps_of(3);
  options.record = folder.file("record.json");
  ASSERT_TRUE(run(plan_of_one(kQwen2), options).status.ok());
  const auto record = base::read_json(text_of(options.record), "record.json");
  ASSERT_TRUE(record.ok());
  const base::Node& root = record->root;
  EXPECT_EQ(root.find("schema")->text, "espalier.operator-times/1");
  EXPECT_EQ(root.find("steps")->integer, 2);  // the first one warms up
  EXPECT_EQ(root.find("updated_elements")->integer, parameter_count(model_of(kQwen2)));
  EXPECT_GT(root.find("operators_s")->real, 0);
  EXPECT_TRUE(root.find("peak_bytes")->items.empty());
  EXPECT_GT(root.find("operators")->items.size(), 5u);
  options.record = "/nonexistent/record.json";
  EXPECT_THAT(run(plan_of_one(kQwen2), options).status.error().message(), HasSubstr("--record"));
}

// ---- requests -----------------------------------------------------------------------------------------------------

TEST(Trainer, LeavesAfterACheckpointOnRequest) {
  const ScratchFolder folder;
  TrainOptions options = steps_of(50);
  options.steering = folder.file("steering");
  options.checkpoint.folder = folder.file("checkpoints");
  std::filesystem::create_directories(options.steering);
  put_text(options.steering + "/request", "leave");
  const Reported left = run(plan_of_one(kQwen2), options);
  ASSERT_TRUE(left.status.ok());
  EXPECT_EQ(left.steps.size(), 1u);
  EXPECT_EQ(left.seen, std::vector<std::string>{"left 1"});
  EXPECT_EQ(storage::steps_in(options.checkpoint.folder), std::vector<std::int64_t>{1});
  EXPECT_FALSE(std::filesystem::exists(options.steering + "/request"));
}

TEST(Trainer, LooksAtItsRanksOnRequest) {
  const ScratchFolder folder;
  TrainOptions options = steps_of(2);
  options.steering = folder.file("steering");
  std::filesystem::create_directories(options.steering);
  put_text(options.steering + "/request", "look");
  const Reported looked = run(plan_of_one(kQwen2), options);
  EXPECT_EQ(looked.steps.size(), 2u);
  ASSERT_EQ(looked.seen.size(), 2u);
  EXPECT_EQ(looked.seen[0].rfind("seen rank 0 ", 0), 0u);
  EXPECT_EQ(looked.seen[1], "seen end 1");
  put_text(options.steering + "/request", "dance");
  EXPECT_TRUE(run(plan_of_one(kQwen2), options).seen.empty());
}

TEST(Trainer, ALookMeasuresEveryPairOfRanks) {
  const ScratchFolder folder;
  std::filesystem::create_directories(folder.file("steering"));
  put_text(folder.file("steering/request"), "look");
  as_ranks(2, [&](Meeting& meeting) {
    TrainOptions options = steps_of(1);
    options.steering = folder.file("steering");
    std::vector<std::string> seen;
    Watching watching;
    watching.seen = [&](const std::string& text) { seen.push_back(text.substr(0, text.rfind(' '))); };
    const Plan plan = plan_of(kQwen2, strategy(1, 2), schedule(ScheduleKind::one_f_one_b, 1));
    EXPECT_TRUE(train(plan, options, meeting, "run", watching).ok());
    ASSERT_EQ(seen.size(), meeting.rank() == 0 ? 5u : 0u);  // a rank and the rate into it, twice, and the end
    if (meeting.rank() != 0) return;
    EXPECT_EQ(seen[1], "seen rate 1 0");
    EXPECT_EQ(seen[3], "seen rate 0 1");
    EXPECT_EQ(seen[4], "seen end");
  });
}

}  // namespace
}  // namespace espalier::runtime::testing::trainer_test
