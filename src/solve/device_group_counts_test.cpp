// SPDX-License-Identifier: Apache-2.0
#include "solve/device_group_counts.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "solve/device_group_level.h"

namespace espalier::solve::device_groups::device_group_counts_test {
namespace {

/// Builds an option on `units` units of a kind; a layer takes f forward and b backward.
StageOption option(std::int32_t kind, std::int32_t units, std::int64_t f, std::int64_t b) {
  StageOption result;
  result.kind = kind;
  result.units = units;
  result.forward_ns = {f};
  result.backward_ns = {b};
  result.static_bytes = result.saved_bytes = result.end_ns = {0};
  return result;
}

DeviceGroupsProblem problem_of(std::vector<std::int32_t> units, std::size_t layers, std::vector<StageOption> options) {
  DeviceGroupsProblem problem;
  problem.units = std::move(units);
  problem.layers.assign(layers, 0);
  problem.options = std::move(options);
  problem.microbatches = 4;
  return problem;
}

struct Counted {
  explicit Counted(const DeviceGroupsProblem& problem, std::int64_t limit)
      : tables(problem), count{1, tables.most_stages()}, ranges(tables, count, limit), work(tables, ranges, count) {}
  StageTables tables;
  StageCount count;
  StageRanges ranges;
  CountedWork work;
};

// There are five layers. The fast unit takes 3 per layer, each of two slow ones 9. With four micro-batches within 40,
// a stage of at most w = 10 has three fast layers or one slow one. So all three units are needed: 3·3 + 9 + 9 = 27.
// Prices would allow an average of 5/3 fast units, which do not exist.
TEST(CountedWork, KeepsCountsExactly) {
  const Counted c(problem_of({1, 2}, 5, {option(0, 1, 1, 2), option(1, 1, 3, 6)}), 40);
  EXPECT_EQ(c.work.whole(), 27);
  EXPECT_EQ(c.work.others(0, 0, 3), 18);      // both slow units remain next to the fast stage
  EXPECT_EQ(c.work.others(1, 4, 5), 18);      // the fast and the other slow unit remain
  EXPECT_GE(c.work.others(0, 0, 2), kNever);  // three layers are too many for two slow units
  EXPECT_GE(Counted(problem_of({1, 1}, 5, {option(0, 1, 1, 2), option(1, 1, 3, 6)}), 40).work.whole(), kNever);
}

// Messages take 2 each way: all of three stages but the one with the last layer have another behind them. 27 + 2·4.
TEST(CountedWork, CountsMessagesOnceAStage) {
  DeviceGroupsProblem problem = problem_of({1, 2}, 5, {option(0, 1, 1, 2), option(1, 1, 3, 6)});
  problem.send_ns = {{2, 2}, {2, 2}};
  EXPECT_EQ(Counted(problem, 40).work.whole(), 35);
}

// The remaining units hold the first layers at 3 each on the fast unit, three at most; s, v and e are 0 here.
TEST(CountedWork, KnowsWhatComesBefore) {
  Counted c(problem_of({1, 2}, 5, {option(0, 1, 1, 2), option(1, 1, 3, 6)}), 40);
  c.work.look_before(c.ranges, c.count);
  const std::int64_t fast = c.tables.strides()[0], slow = c.tables.strides()[1];
  const std::vector<std::int64_t> with_fast = c.work.before(fast), with_slow = c.work.before(slow);
  EXPECT_EQ((std::vector<std::int64_t>(with_fast.begin(), with_fast.begin() + 4)), (std::vector<std::int64_t>{0, 3, 6, 9}));
  EXPECT_GE(with_fast[4], kNever);
  EXPECT_EQ(with_slow[1], 9);
  EXPECT_GE(with_slow[2], kNever);
  EXPECT_EQ(c.work.before(fast + slow)[4], 18);
}

/// Every plan has at least this work, and every stage of it at least these others.
TEST(CountedWork, IsBelowEveryPlan) {
  std::mt19937 random(5);
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  int plans = 0, met = 0;
  for (int n = 0; n < 200; ++n) {
    std::vector<StageOption> options;
    for (int o = draw(1, 4); o > 0; --o) options.push_back(option(draw(0, 1), draw(1, 2), draw(1, 9), draw(1, 9)));
    DeviceGroupsProblem problem = problem_of({draw(0, 3), draw(0, 3)}, static_cast<std::size_t>(draw(1, 5)), options);
    problem.send_ns = {{draw(0, 3), draw(0, 3)}, {draw(0, 3), draw(0, 3)}};
    const std::int64_t limit = draw(50, 400);
    const Counted c(problem, limit);
    std::int64_t least = kNever;
    std::vector<GroupedStage> stages;
    const std::function<void(std::int32_t)> from = [&](std::int32_t first) {
      if (first == c.tables.layers()) {
        const auto plan = evaluate_stages(problem, stages);
        if (!plan || plan->bound_ns > limit) return;
        std::int64_t work = 0;
        for (std::size_t i = 0; i < stages.size(); ++i) {
          const StageOption& o = problem.options[stages[i].option];
          work += (o.forward_ns[0] + o.backward_ns[0]) * (stages[i].last - stages[i].first + 1);
          if (i + 1 == stages.size()) continue;
          const std::int32_t behind = problem.options[stages[i + 1].option].kind;
          work += problem.send_ns[o.kind][behind] + problem.send_ns[behind][o.kind];
        }
        least = std::min(least, work);
        ++plans;
        return;
      }
      for (std::size_t o = 0; o < options.size(); ++o)
        for (std::int32_t last = first; last < c.tables.layers(); ++last) {
          stages.push_back({static_cast<std::int32_t>(o), first, last});
          from(last + 1);
          stages.pop_back();
        }
    };
    from(0);
    ASSERT_LE(c.work.whole(), least) << n;
    met += least < kNever && c.work.whole() == least ? 1 : 0;
  }
  EXPECT_GT(plans, 1000);
  EXPECT_GT(met, 50);
}

ChainLabel label_of(std::int64_t span, std::int64_t work) {
  ChainLabel label;
  label.first = 3;
  label.kind = label.port = 0;
  label.tail.span = span;
  label.tail.work = work;
  return label;
}

TEST(Level, ALabelThatIsNoBetterInAnyFigureIsLeftOut) {
  const StageTables tables(problem_of({2}, 4, {option(0, 1, 1, 2)}));
  Level level(tables);
  EXPECT_TRUE(level.insert(label_of(100, 50)));
  EXPECT_FALSE(level.insert(label_of(100, 50)));
  EXPECT_TRUE(level.insert(label_of(101, 49)));
  EXPECT_TRUE(level.insert(label_of(99, 49)));  // beats both
  EXPECT_EQ(level.take().size(), 1U);
}

// Four micro-batches, two in flight in front, leave one step between and no round of two. Times in `work` count
// twice: 10 / 2 = 5.
TEST(Level, ANearlyEqualLabelLendsItsBetterFigures) {
  const StageTables tables(problem_of({2}, 4, {option(0, 1, 1, 2)}));
  Level level(tables);
  level.merge(10, InFlight(4, 2));
  EXPECT_TRUE(level.insert(label_of(100, 50)));
  EXPECT_FALSE(level.insert(label_of(90, 52)));  // better by 10 in one figure
  EXPECT_TRUE(level.insert(label_of(79, 60)));   // 11 below the 90 that the first has now
  EXPECT_TRUE(level.insert(label_of(200, 44)));  // 6 below its work
  const std::vector<ChainLabel> left = level.take();
  ASSERT_EQ(left.size(), 3U);
  EXPECT_EQ(left[0].tail.span, 90);
  EXPECT_EQ(left[0].tail.work, 50);
}

}  // namespace
}  // namespace espalier::solve::device_groups::device_group_counts_test
