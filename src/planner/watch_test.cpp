// SPDX-License-Identifier: Apache-2.0
// Tests why a search stops, and what it reports on the way. Nothing here depends on the speed of the machine.
#include "planner/watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <vector>

#include "data/source_dir.h"

namespace espalier::planner::watch_test {
namespace {

Job job(const std::string& model, const std::string& search, int devices = 8) {
  const std::string root = ESPALIER_SOURCE_DIR;
  auto loaded = load_job(
      "model: " + root + "/models/" + model + "/config.json\ncluster: {nodes: 1, devices_per_node: " + std::to_string(devices) +
          ", device: a100-sxm-80gb}\ntraining: {sequence_length: 1024, global_batch: 32}\nsearch: " + search + "\n",
      "test", ".", {});
  EXPECT_TRUE(loaded.ok()) << (loaded ? "" : loaded.error().message());
  return loaded ? *loaded : Job{};
}

TEST(Watch, ATimeLimitIsAReasonOfItsOwn) {
  PlannerOptions options;
  options.time_limit_s = 1e-9;  // over before it began: only the baselines exist then
  for (const char* space : {"uniform", "layerwise", "spatial_temporal", "full"}) {
    const auto r = plan(job("gpt2", std::string("{space: ") + space + "}"), options);
    ASSERT_TRUE(r.ok()) << r.error().message();
    EXPECT_EQ(r->search.reason, SearchEnd::time_limit) << space;
    EXPECT_FALSE(r->search.optimal);
    EXPECT_EQ(r->search.lower_bound_ns, 0) << "nothing is known of what was not looked at";
    EXPECT_EQ(r->search.gap, 1.0);
  }
}

TEST(Watch, ATimeLimitFarAwayChangesNothing) {
  PlannerOptions options;
  options.time_limit_s = 1e6;
  const Job one = job("gpt2", "{space: layerwise, limits: {pp: 2, vpp: 2}}");
  const auto plain = plan(one, {}), limited = plan(one, options);
  ASSERT_TRUE(plain.ok() && limited.ok());
  EXPECT_EQ(to_json(*plain, false), to_json(*limited, false));
}

/// Stops the search after a number of polls, wherever that is. The answer is sound, and hardly
/// anything happens afterwards.
TEST(Watch, AnInterruptionIsAnsweredInEveryPhase) {
  for (const char* space : {"layerwise", "full"}) {
    const Job one = job("gpt2", std::string("{space: ") + space + ", limits: {pp: 4, vpp: 3}}", 4);
    std::int64_t all = 0;
    PlannerOptions count;
    count.threads = 1;
    count.interrupted = [&all] { return ++all < 0; };
    const auto whole = plan(one, count);
    ASSERT_TRUE(whole.ok());
    ASSERT_EQ(whole->search.reason, SearchEnd::gap);
    ASSERT_GT(all, 2000) << "it is polled all the time";
    for (int part = 0; part < 24; ++part) {
      const std::int64_t last = all * part / 24;
      std::int64_t looks = 0;
      PlannerOptions options = count;
      options.interrupted = [&looks, last] { return ++looks > last; };
      const auto r = plan(one, options);
      if (!r) {
        EXPECT_EQ(r.error().kind, ErrorKind::limit) << r.error().message();
        continue;
      }
      // After the searches, while the extras of the answer are computed, the certificate is complete.
      if (r->search.reason == whole->search.reason) {
        EXPECT_EQ(to_json(*r, false).substr(0, 2000), to_json(*whole, false).substr(0, 2000));
        EXPECT_GT(part, 12) << "that is late";
      } else {
        EXPECT_EQ(r->search.reason, SearchEnd::interrupted) << space << " after " << last << " looks of " << all;
      }
      EXPECT_LE(r->search.lower_bound_ns, whole->search.lower_bound_ns) << "a search cut short knows no more";
      EXPECT_GE(r->prediction.iteration_ns, whole->search.lower_bound_ns);
      EXPECT_LE(looks, last + 2) << "once true it is not asked again";
    }
  }
}

TEST(Watch, ANodeLimitHoldsInsideGroupsToo) {
  const Job one = job("gpt2", "{space: layerwise}");
  const auto whole = plan(one, {});
  ASSERT_TRUE(whole.ok());
  const std::int64_t uniform = whole->search.simulated;
  ASSERT_GT(whole->search.count(SearchCounter::simulated, {kLayersPhase}), 200);
  for (const std::int64_t more : {8, 40, 100}) {
    PlannerOptions options;
    options.node_limit = uniform + more;
    const auto r = plan(one, options);
    ASSERT_TRUE(r.ok());
    EXPECT_EQ(r->search.reason, SearchEnd::node_limit);
    // Four groups are solved in parallel, each with its share of the limit and at least one plan.
    EXPECT_LE(r->search.simulated + r->search.count(SearchCounter::simulated, {kLayersPhase}), *options.node_limit + 4);
    EXPECT_LE(r->search.lower_bound_ns, r->prediction.iteration_ns);
  }
}

TEST(Watch, OneLineASecondAtMost) {
  int lines = 0;
  std::string last;
  PlannerOptions options;
  options.progress = [&](const std::string& line) {
    ++lines;
    last = line;
  };
  Watch watch(options);
  EXPECT_FALSE(watch.stopped());
  EXPECT_EQ(lines, 0) << "nothing to say yet";
  for (int i = 0; i < 1000; ++i) watch.stands({"layer-wise", i, 1000, "pipelines and batches", 2'500'000'000, 2'000'000'000});
  EXPECT_GE(lines, 1);
  EXPECT_LE(lines, 3) << "1,000 calls take no three seconds";
  EXPECT_THAT(last, testing::StartsWith("layer-wise: "));
  EXPECT_THAT(last, testing::HasSubstr(" of 1,000 pipelines and batches, best 2.500 s, no plan below 2.000 s"));
}

TEST(Watch, ObserverReceivesEveryImprovementAndBoundOnce) {
  std::vector<SearchState> states;
  PlannerOptions options;
  options.observer = [&](const SearchState& state) { states.push_back(state); };
  Watch watch(options);
  watch.stands({"uniform", 0, 9, "layer choices", 0, 0});
  EXPECT_TRUE(states.empty()) << "neither a plan nor a bound";
  watch.stands({"uniform", 1, 9, "layer choices", 500, 100});
  watch.stands({"uniform", 2, 9, "layer choices", 500, 100});
  EXPECT_EQ(states.size(), 1U) << "the second state holds no news";
  watch.stands({"uniform", 3, 9, "layer choices", 400, 100});
  watch.stands({"layer-wise", 0, 0, "pipelines", 0, 100});
  ASSERT_EQ(states.size(), 3U);
  EXPECT_EQ(states[1].best_ns, 400);
  EXPECT_EQ(states[2].phase, "layer-wise");
  EXPECT_EQ(states[2].best_ns, 400) << "the best plan of an earlier phase stays";
}

TEST(Watch, ObservedBoundsOfAPhaseRiseToTheAnswer) {
  for (const char* space : {"uniform", "layerwise", "full"}) {
    std::map<std::string, std::vector<std::int64_t>> bounds;
    std::vector<std::int64_t> best;
    PlannerOptions options;
    options.observer = [&](const SearchState& state) {
      if (state.lower_bound_ns) bounds[state.phase].push_back(*state.lower_bound_ns);
      if (state.best_ns && (best.empty() || *state.best_ns != best.back())) best.push_back(*state.best_ns);
    };
    const Job one = job("gpt2", std::string("{space: ") + space + "}");
    const auto watched = plan(one, options);
    ASSERT_TRUE(watched.ok());
    EXPECT_TRUE(std::is_sorted(best.rbegin(), best.rend())) << space;
    EXPECT_GE(best.back(), watched->prediction.iteration_ns) << space;
    EXPECT_TRUE(std::is_sorted(bounds["uniform"].begin(), bounds["uniform"].end())) << space;
    EXPECT_EQ(to_json(*watched, false), to_json(*plan(one, {}), false)) << "observation never changes the answer";
  }
}

TEST(Watch, EveryPhaseSaysWhereItStands) {
  EXPECT_EQ(text_of({"uniform", 3, 12, "layer choices", 0, 0}, 4.2), "uniform: 3 of 12 layer choices, 4 s");
  EXPECT_EQ(text_of({"memory", 0, 0, "looking for what would fit", 0, 0}, 61.0), "memory: looking for what would fit, 61 s");
}

}  // namespace
}  // namespace espalier::planner::watch_test
