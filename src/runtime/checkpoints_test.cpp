// SPDX-License-Identifier: Apache-2.0
// Tests checkpoints of one rank and of two: what is written when, what is resumed, and what a damaged or foreign
// checkpoint says. Damage to each kind of file is tested in storage/checkpoint_test.cpp.
#include "runtime/checkpoints.h"

#include <ATen/TensorOperators.h>
#include <gmock/gmock.h>

#include <filesystem>

#include "runtime/test_rank.h"

namespace espalier::runtime::testing::checkpoints_test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr ScheduleKind k1f1b = ScheduleKind::one_f_one_b;

/// Fills the states of a rank with numbers that a training would leave: w, w/10 and w².
void fill(RankModel& model, float value) {
  for (State* state : model.states()) {
    state->restore(std::vector<float>(static_cast<std::size_t>(elements_of(state->shape().held)), value));
    const auto own = static_cast<std::size_t>(elements_of(state->own()));
    state->restore_moments(std::vector<float>(own, value / 10), std::vector<float>(own, value * value));
  }
}

void expect_filled(const RankModel& model, double value) {
  for (const State* state : model.states()) {
    const auto size = elements_of(state->own());
    EXPECT_NEAR(state->own_values().narrow(0, 0, size).sum().item<double>() / static_cast<double>(size), value, 1e-4);
    EXPECT_NEAR(state->first_moment().narrow(0, 0, size).sum().item<double>() / static_cast<double>(size), value / 10, 1e-4);
    EXPECT_NEAR(state->second_moment().narrow(0, 0, size).sum().item<double>() / static_cast<double>(size), value * value, 1e-2);
  }
}

CheckpointOptions options_of(const std::string& folder, std::int64_t every, std::int64_t keep = 2) {
  CheckpointOptions options;
  options.folder = folder;
  options.every = every;
  options.keep = keep;
  return options;
}

/// Holds one rank of the smallest plan, and a folder.
class OneRank : public ::testing::Test {
 protected:
  [[nodiscard]] Checkpoints checkpoints(const CheckpointOptions& options, const std::string& data = "") {
    return {options, rank_.view, *rank_.parts, nullptr, data};
  }
  [[nodiscard]] std::string folder() const { return scratch_.file("checkpoints"); }
  [[nodiscard]] std::string said() const {
    std::string all;
    for (const std::string& note : notes_) all += note + "\n";
    return all;
  }
  std::function<void(const std::string&)> note() {
    return [this](const std::string& text) { notes_.push_back(text); };
  }
  /// Changes a bit of the last value of a checkpoint.
  void damage(std::int64_t step) const {
    const std::string path = storage::step_folder(folder(), step) + "/rank-00000.safetensors";
    std::string bytes = text_of(path);
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    put_text(path, bytes);
  }

  ScratchFolder scratch_;
  Meeting meeting_{Rendezvous()};
  PlannedRank rank_{plan_of_one(kQwen2), meeting_};
  std::vector<std::string> notes_;
};

TEST_F(OneRank, ResumesValuesAndMoments) {
  fill(*rank_.parts, 0.5);
  ASSERT_TRUE(checkpoints(options_of(folder(), 1)).after(3, 10).ok());
  fill(*rank_.parts, 7);
  const auto updates = checkpoints(options_of(folder(), 1)).resume(note());
  ASSERT_TRUE(updates.ok()) << updates.error().message();
  EXPECT_EQ(*updates, 3);
  expect_filled(*rank_.parts, 0.5);
  EXPECT_THAT(said(), HasSubstr("after step 3"));
}

// With a checkpoint every four of ten steps, 4, 8 and 10 are written, and the last two kept.
TEST_F(OneRank, WritesWhereOneIsDue) {
  Checkpoints writes = checkpoints(options_of(folder(), 4));
  for (std::int64_t updates = 1; updates <= 10; ++updates) {
    ASSERT_TRUE(writes.after(updates, 10).ok());
    EXPECT_EQ(fs::exists(storage::step_folder(folder(), updates)), updates == 4 || updates == 8 || updates == 10) << updates;
  }
  EXPECT_EQ(storage::steps_in(folder()), (std::vector<std::int64_t>{10, 8}));
}

TEST_F(OneRank, WithoutAnIntervalOnlyTheLastStepIsWritten) {
  Checkpoints writes = checkpoints(options_of(folder(), 0));
  for (std::int64_t updates = 1; updates <= 3; ++updates) ASSERT_TRUE(writes.after(updates, 3).ok());
  EXPECT_EQ(storage::steps_in(folder()), std::vector<std::int64_t>{3});
}

TEST_F(OneRank, WithoutAFolderNothingIsWritten) {
  Checkpoints writes = checkpoints(options_of("", 1));
  EXPECT_TRUE(writes.after(1, 1).ok());
  EXPECT_TRUE(writes.now(1).ok());
  EXPECT_FALSE(fs::exists(folder()));
}

// now() writes what after() has not just written.
TEST_F(OneRank, ALeavingRunWritesOnce) {
  Checkpoints writes = checkpoints(options_of(folder(), 2));
  ASSERT_TRUE(writes.after(2, 10).ok());
  const auto written = fs::last_write_time(storage::step_folder(folder(), 2));
  ASSERT_TRUE(writes.now(2).ok());
  EXPECT_EQ(fs::last_write_time(storage::step_folder(folder(), 2)), written);
  ASSERT_TRUE(writes.now(3).ok());
  EXPECT_EQ(storage::steps_in(folder()), (std::vector<std::int64_t>{3, 2}));
}

TEST_F(OneRank, NothingToResumeIsTheBeginning) {
  const auto updates = checkpoints(options_of(folder(), 1)).resume(note());
  ASSERT_TRUE(updates.ok());
  EXPECT_EQ(*updates, 0);
  EXPECT_THAT(said(), HasSubstr("has no complete checkpoint"));
}

// The last checkpoint has a flipped bit: the one before it is resumed, and the note states which one was skipped.
TEST_F(OneRank, ADamagedCheckpointIsSkipped) {
  Checkpoints writes = checkpoints(options_of(folder(), 1));
  fill(*rank_.parts, 0.25);
  ASSERT_TRUE(writes.after(1, 5).ok());
  fill(*rank_.parts, 0.75);
  ASSERT_TRUE(writes.after(2, 5).ok());
  damage(2);
  const auto updates = checkpoints(options_of(folder(), 1)).resume(note());
  ASSERT_TRUE(updates.ok()) << updates.error().message();
  EXPECT_EQ(*updates, 1);
  expect_filled(*rank_.parts, 0.25);
  EXPECT_THAT(said(), HasSubstr("skipped: " + storage::step_folder(folder(), 2)));
}

TEST_F(OneRank, OnlyDamagedCheckpointsAreAnError) {
  ASSERT_TRUE(checkpoints(options_of(folder(), 1)).after(1, 5).ok());
  damage(1);
  const auto updates = checkpoints(options_of(folder(), 1)).resume(note());
  ASSERT_FALSE(updates.ok());
  EXPECT_EQ(updates.error().kind, ErrorKind::bad_input);
  EXPECT_THAT(updates.error().message(), HasSubstr("rank-00000.safetensors"));
}

// A partial folder of a run that was stopped while it wrote is neither resumed nor in the way.
TEST_F(OneRank, PartialCheckpointsAreReplaced) {
  const std::string partial = storage::partial_folder(folder(), 1);
  fs::create_directories(partial);
  put_text(partial + "/rank-00000.json", "half a file");
  EXPECT_EQ(checkpoints(options_of(folder(), 1)).resume(note()).value(), 0);
  ASSERT_TRUE(checkpoints(options_of(folder(), 1)).after(1, 5).ok());
  EXPECT_FALSE(fs::exists(partial));
  EXPECT_EQ(checkpoints(options_of(folder(), 1)).resume(note()).value(), 1);
}

TEST_F(OneRank, CheckpointsOfOtherTrainingAreRefused) {
  ASSERT_TRUE(checkpoints(options_of(folder(), 1)).after(1, 5).ok());
  const auto other_data = checkpoints(options_of(folder(), 1), "tokens.bin").resume(note());
  ASSERT_FALSE(other_data.ok());
  EXPECT_EQ(other_data.error().kind, ErrorKind::usage);
  EXPECT_EQ(other_data.error().found, "global batch 8, sequence length 16, seed 1, data synthetic");
  EXPECT_EQ(other_data.error().expected, "global batch 8, sequence length 16, seed 1, data tokens.bin");
  rank_.view.seed = 2;
  EXPECT_FALSE(checkpoints(options_of(folder(), 1)).resume(note()).ok());
  rank_.view.seed = 1;
  rank_.plan.model_hash = "another";
  const auto other_model = checkpoints(options_of(folder(), 1)).resume(note());
  ASSERT_FALSE(other_model.ok());
  EXPECT_EQ(other_model.error().found, "a checkpoint of another model");
}

TEST_F(OneRank, AFolderThatCannotBeMadeIsAnError) {
  put_text(folder(), "a file");
  const Status failed = checkpoints(options_of(folder(), 1)).after(1, 1);
  ASSERT_FALSE(failed.ok());
  EXPECT_THAT(failed.error().message(), HasSubstr(folder()));
}

// ---- two ranks ----------------------------------------------------------------------------------------------------

/// Writes under one plan and resumes under another, whose ranks hold other elements.
void expect_resumed(const Plan& before, const Plan& after) {
  const ScratchFolder scratch;
  const std::string folder = scratch.file("checkpoints");
  as_ranks(ranks_of(before), [&](Meeting& meeting) {
    PlannedRank rank(before, meeting);
    fill(*rank.parts, 0.5);
    EXPECT_TRUE(Checkpoints(options_of(folder, 1), rank.view, *rank.parts, rank.world, "").after(4, 9).ok());
  });
  as_ranks(ranks_of(after), [&](Meeting& meeting) {
    PlannedRank rank(after, meeting);
    const auto updates = Checkpoints(options_of(folder, 1), rank.view, *rank.parts, rank.world, "").resume({});
    ASSERT_TRUE(updates.ok()) << updates.error().message();
    EXPECT_EQ(*updates, 4);
    expect_filled(*rank.parts, 0.5);
  });
}

TEST(CheckpointsOfTwoRanks, AnyPlanResumesAnyOther) {
  const Plan one = plan_of_one(kQwen2), zero = plan_of(kQwen2, strategy(1, 2, 3), schedule(k1f1b, 1)),
             tensor = plan_of(kQwen2, strategy(2, 1), schedule(k1f1b, 1)),
             stages = plan_of(kQwen2, strategy(1, 1), schedule(k1f1b, 2));
  expect_resumed(one, zero);
  expect_resumed(zero, tensor);
  expect_resumed(tensor, stages);
  expect_resumed(stages, one);
}

// Each rank checks a share of the files: damage that only rank 1 meets stops both.
TEST(CheckpointsOfTwoRanks, AllRanksLearnOfDamage) {
  const ScratchFolder scratch;
  const std::string folder = scratch.file("checkpoints");
  const Plan plan = plan_of(kQwen2, strategy(1, 1), schedule(k1f1b, 2));
  as_ranks(2, [&](Meeting& meeting) {
    PlannedRank rank(plan, meeting);
    ASSERT_TRUE(Checkpoints(options_of(folder, 1), rank.view, *rank.parts, rank.world, "").after(1, 9).ok());
  });
  const std::string path = storage::step_folder(folder, 1) + "/rank-00001.safetensors";
  put_text(path, text_of(path).substr(0, 1000));
  as_ranks(2, [&](Meeting& meeting) {
    PlannedRank rank(plan, meeting);
    const auto updates = Checkpoints(options_of(folder, 1), rank.view, *rank.parts, rank.world, "").resume({});
    ASSERT_FALSE(updates.ok());
    EXPECT_THAT(updates.error().message(), HasSubstr("rank-00001"));
  });
}

}  // namespace
}  // namespace espalier::runtime::testing::checkpoints_test
