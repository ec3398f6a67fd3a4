// SPDX-License-Identifier: Apache-2.0
#include "launch/launch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace espalier::launch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Environment of(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const std::string& name) {
    const auto at = variables.find(name);
    return at == variables.end() ? std::nullopt : std::optional<std::string>(at->second);
  };
}

TEST(RankOf, Torchrun) {
  const auto place = rank_of(of({{"RANK", "3"}, {"WORLD_SIZE", "8"}, {"MASTER_ADDR", "node-0"}, {"MASTER_PORT", "1234"}}));
  ASSERT_TRUE(place.ok() && place->has_value());
  EXPECT_EQ((*place)->rank, 3);
  EXPECT_EQ((*place)->world, 8);
  EXPECT_EQ((*place)->address, "node-0");
  EXPECT_EQ((*place)->port, 1234);
}

TEST(RankOf, OtherLaunchersAndNone) {
  for (const auto& [rank, world] : std::map<std::string, std::string>{
           {"SLURM_PROCID", "SLURM_NTASKS"}, {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}, {"PMI_RANK", "PMI_SIZE"}}) {
    const auto place = rank_of(of({{rank, "1"}, {world, "2"}, {"MASTER_ADDR", "a"}}));
    ASSERT_TRUE(place.ok() && place->has_value()) << rank;
    EXPECT_EQ((*place)->rank, 1);
    EXPECT_EQ((*place)->port, 29500);
  }
  const auto none = rank_of(of({}));
  ASSERT_TRUE(none.ok());
  EXPECT_FALSE(none->has_value());
}

TEST(RankOf, RefusesWhatCannotBe) {
  EXPECT_THAT(rank_of(of({{"RANK", "8"}, {"WORLD_SIZE", "8"}, {"MASTER_ADDR", "a"}})).error().message(),
              HasSubstr("from 0 to 7"));
  EXPECT_THAT(rank_of(of({{"RANK", "x"}, {"WORLD_SIZE", "8"}, {"MASTER_ADDR", "a"}})).error().message(), HasSubstr("RANK"));
  EXPECT_THAT(rank_of(of({{"RANK", "0"}, {"WORLD_SIZE", "2"}})).error().message(), HasSubstr("MASTER_ADDR"));
}

/// Returns ranks that are shells.
LocalRun shells(const std::vector<std::string>& scripts) {
  LocalRun run;
  run.program = "/bin/sh";
  for (const std::string& script : scripts) run.arguments.push_back({"-c", script});
  return run;
}

TEST(RunLocal, LinesOfRankZero) {
  std::vector<std::string> lines;
  LocalRun run = shells({"echo one >&3; echo two >&3", "exit 0"});
  run.line = [&](const std::string& line) { lines.push_back(line); };
  const Status failed = run_local(run);
  EXPECT_TRUE(failed.ok()) << failed.error().message();
  EXPECT_THAT(lines, ElementsAre("one", "two"));
}

// The error is from the rank with its own cause, not the one that lost it. A rank that would sleep for a minute is
// ended.
TEST(RunLocal, FirstCauseSpeaksAndAllEnd) {
  const Status failed =
      run_local(shells({"exec sleep 60", "echo 'espalier: rank 1: no data' >&2; exit 3", "echo 'espalier: lost' >&2; exit 6"}));
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().kind, ErrorKind::bad_input);
  EXPECT_THAT(failed.error().message(), HasSubstr("rank 1: no data"));
}

TEST(RunLocal, KilledRankIsNamed) {
  const Status failed = run_local(shells({"exec sleep 60", "kill -9 $$"}));
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().kind, ErrorKind::limit);
  EXPECT_THAT(failed.error().message(), HasSubstr("rank 1"));
  EXPECT_THAT(failed.error().message(), HasSubstr("signal 9"));
}

// A rank that ignores SIGTERM is killed after the grace.
TEST(RunLocal, DeafRankIsKilled) { EXPECT_FALSE(run_local(shells({"trap '' TERM; exec sleep 60", "exit 1"})).ok()); }

TEST(RunLocal, InterruptEndsIt) {
  LocalRun run = shells({"exec sleep 60", "exec sleep 60"});
  run.interrupted = [] { return true; };
  const Status failed = run_local(run);
  ASSERT_FALSE(failed.ok());
  EXPECT_THAT(failed.error().message(), HasSubstr("interrupt"));
}

TEST(RunLocal, MissingProgram) {
  LocalRun run = shells({"exit 0"});
  run.program = "/no/such/program";
  EXPECT_FALSE(run_local(run).ok());
}

}  // namespace
}  // namespace espalier::launch
