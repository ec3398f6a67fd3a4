// SPDX-License-Identifier: Apache-2.0
// Tests the margin that `plan` keeps free: its source, the limit from which it is subtracted, and what it
// does not affect.
#include "planner/memory_margin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/source_dir.h"

namespace espalier::planner::memory_margin_test {
namespace {

using testing::HasSubstr;

Job job(const std::string& engine, const std::string& search = "{}") {
  const std::string root = ESPALIER_SOURCE_DIR;
  auto loaded = load_job("model: " + root +
                             "/models/gpt2/config.json\ncluster: {nodes: 1, devices_per_node: 4, device: h100-sxm-80gb, "
                             "memory_limit: 10GiB}\ntraining: {sequence_length: 1024, global_batch: 64}\nengine: " +
                             engine + "\nsearch: " + search + "\n",
                         "test", ".", {});
  EXPECT_TRUE(loaded.ok()) << (loaded ? "" : loaded.error().message());
  return loaded ? *loaded : Job{};
}

TEST(MemoryMargin, PairThenEngineThenAnything) {
  const auto table = read_memory_errors(R"(
schema: espalier.memory-errors/1
errors:
  - {engine: "", device: "", half_width: 0.2, runs: 30}
  - {engine: "a", device: "", half_width: 0.1, runs: 20}
  - {engine: "a", device: "x", half_width: 0.05, runs: 10}
)",
                                        "test");
  ASSERT_TRUE(table.ok()) << table.error().message();
  EXPECT_EQ(memory_error_for(*table, "a", "x").half_width, 0.05);
  EXPECT_EQ(memory_error_for(*table, "a", "y").half_width, 0.1);
  EXPECT_EQ(memory_error_for(*table, "b", "x").half_width, 0.2);
  EXPECT_THAT(memory_error_for(*table, "b", "x").basis, HasSubstr("none of b"));
}

// A margin of 5 % leaves this much of 10 GiB: 10737418240 · 0.95 = 10200547328.
TEST(MemoryMargin, IsTakenOffTheLimit) {
  const Job five = job("generic", "{memory_margin: 0.05}");
  EXPECT_EQ(memory_room_bytes(five), 10'200'547'328);
  EXPECT_EQ(memory_margin_of(five).basis, "search.memory_margin");
  EXPECT_EQ(memory_room_bytes(job("generic", "{memory_margin: 0}")), 10'737'418'240);
  EXPECT_EQ(with_memory_room(five).cluster.usable_memory().count(), 10'200'547'328);
}

// A measured engine leaves less memory free than one without measurements.
TEST(MemoryMargin, DefaultIsTheErrorOfTheEngineAndDevice) {
  const double measured = memory_margin_of(job("megatron-core")).share, other = memory_margin_of(job("generic")).share;
  EXPECT_GT(measured, 0.0);
  EXPECT_LT(measured, other);
  EXPECT_LT(other, 0.5);
}

// The plan stays below the room. `fits` of any prediction compares with the limit, fits_with_margin with the room.
TEST(MemoryMargin, PlanKeepsIt) {
  const auto tight = plan(job("generic", "{memory_margin: 0}"), {});
  ASSERT_TRUE(tight.ok()) << tight.error().message();
  const std::int64_t limit = tight->prediction.memory_limit_bytes;
  ASSERT_GT(tight->prediction.peak_memory_bytes, limit / 2);
  const auto careful = plan(job("generic", "{memory_margin: 0.5}"), {});
  ASSERT_TRUE(careful.ok()) << careful.error().message();
  EXPECT_LE(careful->prediction.peak_memory_bytes, limit / 2);
  EXPECT_EQ(careful->prediction.memory_limit_bytes, limit);
  EXPECT_GE(careful->prediction.iteration_ns, tight->prediction.iteration_ns);
  EXPECT_EQ(careful->search.memory_margin, 0.5);
  EXPECT_THAT(careful->brief(), HasSubstr("that leaves 50.0 % of memory free"));
  const auto estimated =
      estimate(job("generic", "{memory_margin: 0.5}"), tight->plan.strategy(), tight->plan.only_pipeline().schedule);
  ASSERT_TRUE(estimated.ok());
  EXPECT_TRUE(estimated->prediction.fits);
  EXPECT_FALSE(estimated->prediction.fits_with_margin);
  EXPECT_THAT(to_json(*estimated), HasSubstr("\"fits_with_margin\": false"));
}

TEST(MemoryMargin, IsNamedWhereNothingFits) {
  Job small = job("generic", "{memory_margin: 0.5}");
  const auto lean = plan(job("generic", "{memory_margin: 0.5}"), {});
  ASSERT_TRUE(lean.ok());
  // This is the smallest limit at which something still fits without a margin, found by bisection.
  std::int64_t low = 0, high = small.cluster.usable_memory().count();
  while (high - low > (std::int64_t{1} << 24)) {
    const std::int64_t middle = low + (high - low) / 2;
    Job tried = job("generic", "{memory_margin: 0}");
    tried.cluster.memory_limit = Bytes(middle);
    (plan(tried, {}).ok() ? high : low) = middle;
  }
  small.cluster.memory_limit = Bytes(high);
  const auto none = plan(small, {});
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().kind, ErrorKind::infeasible);
  EXPECT_THAT(none.error().hint, HasSubstr("search.memory_margin: 0 would fit"));
}

TEST(MemoryMargin, OutOfRangeIsRefused) {
  const std::string root = ESPALIER_SOURCE_DIR;
  for (const char* value : {"-0.1", "0.95", "much"}) {
    const auto loaded = load_job_file(root + "/examples/gpt2-on-4xrtx4090.yaml", {std::string("search.memory_margin=") + value});
    EXPECT_FALSE(loaded.ok()) << value;
  }
}

}  // namespace
}  // namespace espalier::planner::memory_margin_test
