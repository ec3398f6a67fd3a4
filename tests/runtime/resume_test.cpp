// SPDX-License-Identifier: Apache-2.0
// Tests that a run that is ended and resumed, under the same plan or another, has the losses of an uninterrupted
// one (1e-6). Each pair has three runs: six steps at once; three steps, which leave a checkpoint; three more steps
// of another plan from there. Every run of the tests takes some pairs; ESPALIER_RUNTIME_ALL=1 (./dev test
// --runtime) takes all.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "runtime/crew.h"
#include "runtime/heterogeneous_plans.h"
#include "runtime/partitioned_plans.h"
#include "runtime/same_run.h"
#include "storage/checkpoint.h"

namespace espalier::runtime::testing::resume_test {
namespace {

namespace fs = std::filesystem;

constexpr ScheduleKind k1f1b = ScheduleKind::one_f_one_b;
constexpr SequenceParallel kSp = SequenceParallel::megatron;

struct Pair {
  std::string name;
  const char* config;
  Plan before, after;
};

void PrintTo(const Pair& p, std::ostream* out) { *out << p.name; }

Plan uneven(const char* config, const Strategy& s, std::int32_t stages, const std::vector<std::int32_t>& lasts) {
  Plan plan = plan_of(config, s, schedule(k1f1b, stages));
  cut(plan, lasts);
  return plan;
}

/// Returns a plan with five samples through two ranks that split weights, and three through two stages.
Plan two_pipelines() {
  Plan plan = plan_of(kTiedLlama, strategy(1, 1), schedule(k1f1b, 1));
  beside(plan,
         {{5, schedule(k1f1b, 1), {{5, strategy(2, 1)}}}, {3, schedule(k1f1b, 2), {{2, strategy(1, 1)}, {5, strategy(1, 1)}}}});
  return plan;
}

Plan unequal_states() {
  Plan plan = plan_of(kLlama, strategy(1, 4, 3), schedule(k1f1b, 1));
  share_out(plan, {}, {4, 1, 2, 1});
  return plan;
}

Plan with_experts(Strategy s, std::int32_t ep) {
  s.ep = ep;
  return plan_of(kMixtral, s, schedule(k1f1b, 1));
}

/// Puts all linears of the blocks in space and time on four ranks.
Plan in_space_and_time(std::int32_t dp, std::int32_t zero) {
  const BlockPartition partition = partition_of(kGpt2, 2, {"P2", "M,N", "M,H", "M,N", "M,N"});
  return plan_of(kGpt2, partitioned(strategy(4, dp, zero), partition), schedule(k1f1b, 1, 1, 2));
}

const std::vector<Pair>& pairs() {
  const Schedule whole = schedule(k1f1b, 1), two = schedule(k1f1b, 2), four = schedule(k1f1b, 4);
  static const std::vector<Pair> all{
      {"same", kLlama, plan_of(kLlama, strategy(1, 2, 1), whole), plan_of(kLlama, strategy(1, 2, 1), whole)},
      {"dp_to_tp", kLlama, plan_of(kLlama, strategy(1, 4), whole), plan_of(kLlama, strategy(2, 1, 0, kSp), two)},
      {"zero3_to_pipeline", kGpt2, plan_of(kGpt2, strategy(1, 8, 3), whole), plan_of(kGpt2, strategy(1, 1), four)},
      {"tied_pipeline_to_zero2", kGpt2, plan_of(kGpt2, strategy(1, 2, 1), four), plan_of(kGpt2, strategy(1, 4, 2), whole)},
      {"shared_heads_to_one", kTiedLlama, plan_of(kTiedLlama, strategy(4, 2, 1, kSp), whole),
       plan_of(kTiedLlama, strategy(1, 1), whole)},
      {"one_to_all", kTiedLlama, plan_of(kTiedLlama, strategy(1, 1), whole), plan_of(kTiedLlama, strategy(2, 2, 3, kSp), two)},
      {"pipelines_beside_each_other", kTiedLlama, plan_of(kTiedLlama, strategy(2, 1), whole), two_pipelines()},
      {"pipelines_to_zero3", kTiedLlama, two_pipelines(), plan_of(kTiedLlama, strategy(1, 4, 3), whole)},
      {"unequal_states", kLlama, unequal_states(), plan_of(kLlama, strategy(2, 1), two)},
      {"experts_to_one", kMixtral, with_experts(strategy(1, 4, 1), 4), plan_of(kMixtral, strategy(1, 1), whole)},
      {"experts_to_fewer", kMixtral, with_experts(strategy(1, 4), 2), with_experts(strategy(1, 2, 2), 2)},
      {"space_and_time_to_tp", kGpt2, in_space_and_time(2, 1), plan_of(kGpt2, strategy(2, 1, 0, kSp), two)},
      {"dp_to_space_and_time", kGpt2, plan_of(kGpt2, strategy(1, 4), whole), in_space_and_time(1, 0)},
      {"other_cuts", kGpt2, uneven(kGpt2, strategy(1, 2), 2, {1, 5}), uneven(kGpt2, strategy(2, 1), 3, {0, 4, 5})},
  };
  return all;
}

bool every_time(const Pair& p) {
  static const std::set<std::string> names{
      "same", "dp_to_tp", "tied_pipeline_to_zero2", "pipelines_to_zero3", "experts_to_one", "space_and_time_to_tp"};
  return names.count(p.name) > 0 || runs_all();
}

fs::path scratch() {
  static const fs::path folder = [] {
    std::string pattern = (fs::temp_directory_path() / "espalier-resume-XXXXXX").string();
    return fs::path(mkdtemp(pattern.data()));
  }();
  return folder;
}

Assignment part_of(const std::string& name, const Plan& plan, std::int64_t steps, const std::string& folder, bool resume) {
  Assignment work{name, plan, {}};
  work.options.steps = steps;
  work.options.checkpoint.folder = folder;
  work.options.checkpoint.resume = resume;
  return work;
}

/// Changes the last byte of the last rank's file, in a second moment.
void damage(const fs::path& step) {
  const fs::path file = step / "rank-00000.safetensors";
  std::ifstream in(file, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(in), {}};
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  std::ofstream(file, std::ios::binary) << bytes;
}

/// Runs first everything that writes, then, with one checkpoint damaged, everything that resumes.
const std::map<std::string, Outcome>& outcomes() {
  static const std::map<std::string, Outcome> all = [] {
    std::vector<Assignment> before, after;
    for (const Pair& p : pairs()) {
      const bool folders =
          p.name == "same" && (wanted("DamagedCheckpointsArePassedOver") || wanted("NothingToResumeIsABeginning"));
      if (!every_time(p) || (!folders && !wanted("LossesOfAnUndisturbedRun/" + p.name))) continue;
      before.push_back(part_of(p.name + "-whole", p.before, 6, "", false));
      before.push_back(part_of(p.name + "-begin", p.before, 3, (scratch() / p.name).string(), false));
      after.push_back(part_of(p.name + "-end", p.after, 6, (scratch() / p.name).string(), true));
    }
    const Plan &two = pairs()[0].before, &other = pairs()[1].after;
    before.push_back(part_of("damaged-begin", two, 4, (scratch() / "damaged").string(), false));
    before.back().options.checkpoint.every = 2;
    after.push_back(part_of("damaged-end", other, 6, (scratch() / "damaged").string(), true));
    after.push_back(part_of("nothing-end", two, 2, (scratch() / "nothing").string(), true));
    std::map<std::string, Outcome> out = run_all(before, 200);
    damage(storage::step_folder((scratch() / "damaged").string(), 4));
    out.merge(run_all(after, 200));
    fs::remove_all(scratch());
    return out;
  }();
  return all;
}

void expect_same_losses(const Outcome& whole, const Outcome& end, std::int64_t from) {
  ASSERT_EQ(whole.steps.size(), 6u) << whole.errors;
  ASSERT_EQ(static_cast<std::int64_t>(end.steps.size()), 6 - from) << end.errors;
  for (std::int64_t k = from; k < 6; ++k) {
    const StepReport& found = end.steps[static_cast<std::size_t>(k - from)];
    EXPECT_EQ(found.step, k);
    EXPECT_NEAR(found.loss / whole.steps[static_cast<std::size_t>(k)].loss, 1, 1e-6) << "step " << k;
  }
}

class Resume : public ::testing::TestWithParam<Pair> {};

TEST_P(Resume, LossesOfAnUndisturbedRun) {
  const std::string& name = GetParam().name;
  if (!every_time(GetParam())) GTEST_SKIP() << "some pairs; ESPALIER_RUNTIME_ALL=1 runs all";
  ASSERT_EQ(outcomes().at(name + "-begin").steps.size(), 3u) << outcomes().at(name + "-begin").errors;
  expect_same_losses(outcomes().at(name + "-whole"), outcomes().at(name + "-end"), 3);
}

INSTANTIATE_TEST_SUITE_P(Plans, Resume, ::testing::ValuesIn(pairs()), [](const auto& of) { return of.param.name; });

/// The checkpoint of step 4 has a flipped bit: all ranks go on from that of step 2, under another plan.
TEST(ResumeFolders, DamagedCheckpointsArePassedOver) {
  expect_same_losses(outcomes().at("same-whole"), outcomes().at("damaged-end"), 2);
}

TEST(ResumeFolders, NothingToResumeIsABeginning) {
  const Outcome &whole = outcomes().at("same-whole"), &found = outcomes().at("nothing-end");
  ASSERT_EQ(found.steps.size(), 2u) << found.errors;
  EXPECT_EQ(found.steps[0].loss, whole.steps[0].loss);
}

}  // namespace
}  // namespace espalier::runtime::testing::resume_test
