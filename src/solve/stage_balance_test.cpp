// SPDX-License-Identifier: Apache-2.0
#include "solve/stage_balance.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <random>
#include <string>

#include "base/infinity.h"

namespace espalier::solve::stage_balance_test {
namespace {

using base::kInfinity;
using Firsts = std::vector<std::int32_t>;

TEST(StageBalance, SmallestExample) {
  // Three layers of steady time 1, 1 and 2, without tails, are on two stages with 4 micro-batches; a message takes 1.
  //   1 | 1 2   max(4·1, 1 + 1 + 4·3) = 14        1 1 | 2   max(4·2, 2 + 1 + 4·2) = 11
  const std::vector<double> seconds{1, 1, 2};
  BalanceProblem problem;
  problem.layers = 3;
  problem.stages = 2;
  problem.microbatches = 4;
  problem.message = {1};
  const StageOracle oracle = [&](std::int32_t, std::int32_t first, std::int32_t end) {
    StageValue value;
    for (std::int32_t l = first; l < end; ++l) value.steady += seconds[static_cast<std::size_t>(l)];
    value.peak = end - first;
    return value;
  };
  const auto best = best_partition(problem, oracle);
  ASSERT_TRUE(best.has_value());
  EXPECT_EQ(best->first, (Firsts{0, 2}));
  EXPECT_EQ(best->time, 11);
  EXPECT_EQ(best->alpha_t, 0.5);             // 1 − 2/4
  EXPECT_DOUBLE_EQ(best->alpha_m, 1.0 / 3);  // 1 − 2/3
  EXPECT_EQ(evaluate_partition(problem, oracle, {0, 1})->time, 14);
  EXPECT_EQ(time_balanced(problem, oracle)->first, (Firsts{0, 2}));    // 2 against 3
  EXPECT_EQ(memory_balanced(problem, oracle)->first, (Firsts{0, 2}));  // both are 2, so the better T decides
  EXPECT_FALSE(best_partition(problem, oracle, 11).has_value());       // nothing is below
  problem.time = PipelineTime::published;                              // 4 + 3·2
  EXPECT_EQ(best_partition(problem, oracle)->time, 10);
  problem.stages = 4;
  problem.message = {1, 1, 1};
  EXPECT_FALSE(best_partition(problem, oracle).has_value());  // a stage without layers
}

TEST(StageBalance, TheLoopWalksFromTheMemoryEndToTheTimeEnd) {
  // Six layers have time 1, but the first stage keeps two micro-batches and the last one: memory is 2 and 1 per
  // layer. p_m = 2 | 4 layers (peaks 4 and 4), p_t = 3 | 3 (6 and 3). The slowest stage of p_m gives one layer: 3 | 3
  // is no slower (3 ≤ 4) and within 6. From there 2 | 4 has a stage of 4 > 3. So two were visited.
  BalanceProblem problem;
  problem.layers = 6;
  problem.stages = 2;
  problem.microbatches = 8;
  problem.time = PipelineTime::published;
  const StageOracle oracle = [](std::int32_t stage, std::int32_t first, std::int32_t end) {
    StageValue value;
    value.steady = end - first;
    value.peak = (2 - stage) * (end - first);
    return value;
  };
  EXPECT_EQ(memory_balanced(problem, oracle)->first, (Firsts{0, 2}));
  EXPECT_EQ(time_balanced(problem, oracle)->first, (Firsts{0, 3}));
  const BiObjective loop = bi_objective(problem, oracle);
  EXPECT_EQ(loop.best->first, (Firsts{0, 3}));
  EXPECT_EQ(loop.best->time, 6 + 7 * 3);
  EXPECT_EQ(loop.visited, 2);
  EXPECT_TRUE(loop.complete);
  EXPECT_FALSE(bi_objective(problem, oracle, 1).complete);
}

// ---- random oracles ----

struct Instance {
  BalanceProblem problem;
  std::vector<std::vector<std::vector<std::optional<StageValue>>>> table;  ///< [stage][first][end]
  [[nodiscard]] StageOracle oracle() const {
    return [this](std::int32_t i, std::int32_t f, std::int32_t e) { return table[at(i)][at(f)][at(e)]; };
  }
  static std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }
};

/// Selects which figures are monotone: steady, tail and peak each, as time_balanced and memory_balanced require, or
/// only whether a stage fits and m·steady + tail, as best_partition requires.
enum class Monotone { each, cost };

/// Draws integer values, so that all sums are exact. Half of the instances have a memory limit, half a floor.
Instance random_instance(std::mt19937& random, Monotone monotone) {
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  Instance instance;
  BalanceProblem& problem = instance.problem;
  problem.stages = 1 + below(5);
  problem.layers = 1 + below(10);
  problem.microbatches = 1 + below(12);
  problem.time = below(2) == 0 ? PipelineTime::bound : PipelineTime::published;
  const int message = below(6), step = 1 + below(8), tail_step = 1 + below(20), peak_step = 2 + below(6);
  if (message > 0) problem.message.resize(Instance::at(problem.stages - 1));
  for (double& m : problem.message) m = below(message);
  std::vector<double> least(Instance::at(problem.layers), 0);
  if (below(2) == 0) {
    for (double& l : least) l = below(4);
    problem.layer_floor = least;
  }
  const std::int64_t capacity = below(2) == 0 ? std::numeric_limits<std::int64_t>::max() : 2 + below(peak_step * problem.layers);
  const auto n = Instance::at(problem.layers);
  instance.table.assign(Instance::at(problem.stages), {});
  for (auto& stage : instance.table) {
    stage.assign(n, std::vector<std::optional<StageValue>>(n + 1));
    std::vector<std::vector<StageValue>> extra(n + 1, std::vector<StageValue>(n + 1));  // above the floor; monotone
    for (std::size_t length = 1; length <= n; ++length) {
      for (std::size_t f = 0; f + length <= n; ++f) {
        const std::size_t e = f + length;
        StageValue& v = extra[f][e];
        const StageValue &a = extra[f + 1][e], &b = extra[f][e - 1];
        v.steady = std::max(a.steady, b.steady) + below(step);
        v.tail = std::max(a.tail, b.tail) + below(tail_step);
        v.peak = std::max(a.peak, b.peak) + below(peak_step);
        if (v.peak > capacity) continue;
        StageValue value = v;
        for (std::size_t l = f; l < e; ++l) value.steady += least[l];
        // The cost is unchanged but divided differently: some of the steady time goes into the tail.
        if (monotone == Monotone::cost) {
          const double moved = below(static_cast<int>(v.steady) + 1);
          value.steady -= moved;
          value.tail += problem.microbatches * moved;
        }
        stage[f][e] = value;
      }
    }
  }
  return instance;
}

void all_partitions(std::int32_t layers, std::int32_t stages, Firsts& first, const std::function<void(const Firsts&)>& visit) {
  if (static_cast<std::int32_t>(first.size()) == stages) return visit(first);
  const auto left = stages - static_cast<std::int32_t>(first.size()) - 1;
  for (std::int32_t f = first.empty() ? 0 : first.back() + 1; f < layers - left; ++f) {
    first.push_back(f);
    all_partitions(layers, stages, first, visit);
    first.pop_back();
    if (first.empty()) return;  // the first stage starts at layer 0
  }
}

/// Returns (objective, T, first) of the best of all partitions, tried in lexicographical order.
using Objective = std::function<double(const Partition&)>;
std::optional<Partition> brute_force(const Instance& instance, const Objective& objective) {
  std::optional<Partition> best;
  Firsts first;
  const StageOracle oracle = instance.oracle();
  all_partitions(instance.problem.layers, instance.problem.stages, first, [&](const Firsts& candidate) {
    const auto value = evaluate_partition(instance.problem, oracle, candidate);
    if (!value) return;
    if (!best || std::pair(objective(*value), value->time) < std::pair(objective(*best), best->time)) best = value;
  });
  return best;
}

double slowest(const Partition& p) {
  double largest = 0;
  for (const StageValue& stage : p.stages) largest = std::max(largest, stage.steady);
  return largest;
}
double fullest(const Partition& p) {
  double largest = 0;
  for (const StageValue& stage : p.stages) largest = std::max(largest, static_cast<double>(stage.peak));
  return largest;
}
double time_of(const Partition& p) { return p.time; }

void expect_same(const std::optional<Partition>& found, const std::optional<Partition>& expected, const std::string& where) {
  ASSERT_EQ(found.has_value(), expected.has_value()) << where;
  if (!found) return;
  EXPECT_EQ(found->time, expected->time) << where;
  EXPECT_EQ(found->first, expected->first) << where;
}

TEST(StageBalance, EqualsBruteForce) {
  std::mt19937 random(7);
  int feasible = 0;
  for (int n = 0; n < 1000; ++n) {
    const Instance instance = random_instance(random, n % 2 == 0 ? Monotone::cost : Monotone::each);
    const StageOracle oracle = instance.oracle();
    const std::string where = "instance " + std::to_string(n);
    const auto expected = brute_force(instance, time_of);
    feasible += expected.has_value() ? 1 : 0;
    expect_same(best_partition(instance.problem, oracle), expected, where);
    if (!expected) continue;
    expect_same(best_partition(instance.problem, oracle, expected->time + 1), expected, where + " with a bound");
    expect_same(best_partition(instance.problem, oracle, expected->time * 1.5 + 1), expected, where + " with a loose bound");
    EXPECT_FALSE(best_partition(instance.problem, oracle, expected->time).has_value()) << where;
  }
  EXPECT_GT(feasible, 500);
  EXPECT_LT(feasible, 950);
}

TEST(StageBalance, EndsEqualBruteForce) {
  std::mt19937 random(11);
  for (int n = 0; n < 500; ++n) {
    const Instance instance = random_instance(random, Monotone::each);
    const std::string where = "instance " + std::to_string(n);
    expect_same(time_balanced(instance.problem, instance.oracle()), brute_force(instance, slowest), where + " time");
    expect_same(memory_balanced(instance.problem, instance.oracle()), brute_force(instance, fullest), where + " memory");
  }
}

TEST(StageBalance, NoOtherPartitionIsBetterThanTheBest) {
  std::mt19937 random(13);
  for (int n = 0; n < 500; ++n) {
    const Instance instance = random_instance(random, Monotone::each);
    const StageOracle oracle = instance.oracle();
    const auto best = best_partition(instance.problem, oracle);
    const BiObjective loop = bi_objective(instance.problem, oracle);
    EXPECT_EQ(loop.best.has_value(), best.has_value());
    if (!best) continue;
    const auto memory_end = memory_balanced(instance.problem, oracle);
    EXPECT_LE(best->time, loop.best->time);
    EXPECT_LE(best->time, time_balanced(instance.problem, oracle)->time);
    EXPECT_LE(loop.best->time, memory_end->time);  // where the loop starts
    EXPECT_LE(slowest(*loop.best), slowest(*memory_end));
    EXPECT_LE(fullest(*loop.best), fullest(*time_balanced(instance.problem, oracle)));
    Firsts even;
    for (std::int32_t i = 0; i < instance.problem.stages; ++i)
      even.push_back(i * instance.problem.layers / instance.problem.stages);
    const auto even_value = evaluate_partition(instance.problem, oracle, even);
    EXPECT_LE(best->time, even_value ? even_value->time : kInfinity);
  }
}

/// Visits all partitions the published loop accepts, by recursion over its three conditions.
void walk(const Instance& instance, const Partition& from, double memory_limit, std::map<Firsts, double>& seen) {
  if (!seen.emplace(from.first, from.time).second) return;
  std::size_t slow = 0;
  for (std::size_t i = 1; i < from.stages.size(); ++i) slow = from.stages[i].steady > from.stages[slow].steady ? i : slow;
  for (const int boundary : {0, 1}) {  // the one before the slowest stage, the one after it
    Firsts first = from.first;
    first.push_back(instance.problem.layers);
    const std::size_t moved = slow + static_cast<std::size_t>(boundary);
    if (moved == 0 || moved == from.stages.size() || first[slow + 1] - first[slow] == 1) continue;
    first[moved] += boundary == 0 ? 1 : -1;
    first.pop_back();
    const auto next = evaluate_partition(instance.problem, instance.oracle(), first);
    if (next && slowest(*next) <= slowest(from) && fullest(*next) <= memory_limit) walk(instance, *next, memory_limit, seen);
  }
}

TEST(StageBalance, TheLoopVisitsWhatThePseudoCodeDoes) {
  std::mt19937 random(23);
  std::size_t longest = 0;
  for (int n = 0; n < 500; ++n) {
    const Instance instance = random_instance(random, Monotone::each);
    const BiObjective loop = bi_objective(instance.problem, instance.oracle());
    if (!loop.best) continue;
    std::map<Firsts, double> seen;
    walk(instance, *memory_balanced(instance.problem, instance.oracle()),
         fullest(*time_balanced(instance.problem, instance.oracle())), seen);
    EXPECT_EQ(loop.visited, static_cast<std::int64_t>(seen.size()));
    double best = kInfinity;
    for (const auto& visit : seen) best = std::min(best, visit.second);
    EXPECT_EQ(loop.best->time, best);
    longest = std::max(longest, seen.size());
  }
  EXPECT_GE(longest, 5u);
}

// ---- a transformer under one-forward-one-backward: cheap to ask, and every call is counted ----

/// Models layers of 30 µs (the first 5 µs more, the last 40 µs). A layer has states of 80 units (first and last 200
/// more). Stage i keeps 10 units of each of p − i micro-batches, and a tenth of that where the layer is recomputed,
/// which takes 10 µs more. As many layers are recomputed as the capacity demands. Steady time and tail are monotone;
/// the peak is as long as nothing is recomputed.
struct Transformer {
  std::int32_t layers, stages;
  std::int64_t capacity = std::numeric_limits<std::int64_t>::max() / 2;
  std::int64_t calls = 0;

  std::optional<StageValue> value(std::int32_t stage, std::int32_t first, std::int32_t end) {
    ++calls;
    const std::int64_t n = end - first, in_flight = stages - stage, ends = (first == 0 ? 1 : 0) + (end == layers ? 1 : 0);
    const std::int64_t states = 80 * n + 200 * ends;
    const std::int64_t missing = states + 10 * in_flight * n - capacity;
    const std::int64_t recomputed = missing <= 0 ? 0 : (missing + 9 * in_flight - 1) / (9 * in_flight);
    if (recomputed > n) return std::nullopt;
    StageValue result;
    result.steady =
        static_cast<double>(30'000 * n + (first == 0 ? 5'000 : 0) + (end == layers ? 40'000 : 0) + 10'000 * recomputed);
    result.tail = static_cast<double>(50 * states);
    result.peak = states + in_flight * (10 * n - 9 * recomputed);
    return result;
  }
  [[nodiscard]] std::vector<double> floor() const {
    std::vector<double> result(static_cast<std::size_t>(layers), 30'000);
    result.front() += 5'000;
    result.back() += 40'000;
    return result;
  }
  [[nodiscard]] BalanceProblem problem(std::int32_t microbatches, PipelineTime time) const {
    BalanceProblem result;
    result.layers = layers;
    result.stages = stages;
    result.microbatches = microbatches;
    result.time = time;
    result.message.assign(static_cast<std::size_t>(stages - 1), 2'000);
    return result;
  }
};

TEST(StageBalance, AsksLittle) {
  // 96 layers on 16 stages have 16·(96·97/2) = 74 496 (stage, first, end). At capacity 1400 the first stages
  // recompute.
  struct Case {
    std::int32_t microbatches;
    PipelineTime time;
    bool floor;
    std::int64_t bounded, unbounded;  ///< calls with an upper bound 2 % above the best, and without
  };
  const std::vector<Case> cases{
      {64, PipelineTime::bound, false, 364, 729},       {64, PipelineTime::bound, true, 140, 466},
      {64, PipelineTime::published, false, 1756, 1558}, {64, PipelineTime::published, true, 265, 414},
      {16, PipelineTime::bound, false, 1535, 2265},     {16, PipelineTime::bound, true, 296, 863},
      {16, PipelineTime::published, false, 4631, 4414}, {16, PipelineTime::published, true, 266, 414},
  };
  for (const Case& c : cases) {
    Transformer model{96, 16, 1'400};
    const StageOracle oracle = [&](std::int32_t i, std::int32_t f, std::int32_t e) { return model.value(i, f, e); };
    BalanceProblem problem = model.problem(c.microbatches, c.time);
    if (c.floor) problem.layer_floor = model.floor();
    const auto best = best_partition(problem, oracle);
    ASSERT_TRUE(best.has_value());
    EXPECT_EQ(model.calls, c.unbounded);
    model.calls = 0;
    const auto again = best_partition(problem, oracle, best->time * 1.02);
    ASSERT_TRUE(again.has_value());
    EXPECT_EQ(model.calls, c.bounded);
    EXPECT_EQ(again->first, best->first);
  }
}

TEST(StageBalance, ManyStages) {
  for (const PipelineTime time : {PipelineTime::bound, PipelineTime::published}) {
    Transformer model{126, 64, 2'000};
    const BalanceProblem problem = model.problem(256, time);
    const StageOracle oracle =
        memoised(problem, [&](std::int32_t i, std::int32_t f, std::int32_t e) { return model.value(i, f, e); });
    const auto best = best_partition(problem, oracle);
    ASSERT_TRUE(best.has_value());
    EXPECT_LE(best->time, time_balanced(problem, oracle)->time);
    EXPECT_LE(best->time, memory_balanced(problem, oracle)->time);
    EXPECT_LE(best->time, bi_objective(problem, oracle).best->time);
    EXPECT_EQ(evaluate_partition(problem, oracle, best->first)->time, best->time);
  }
}

TEST(StageBalance, MemoisedAsksOnce) {
  Transformer model{12, 2, 900};  // stage 0: 80·n + 200 + 20·n − 18·n ≤ 900 with all recomputed: at most 8 layers
  const BalanceProblem problem = model.problem(4, PipelineTime::bound);
  const StageOracle oracle =
      memoised(problem, [&](std::int32_t i, std::int32_t f, std::int32_t e) { return model.value(i, f, e); });
  EXPECT_TRUE(oracle(0, 0, 8).has_value());
  EXPECT_TRUE(oracle(0, 0, 8).has_value());
  EXPECT_EQ(model.calls, 1);
  EXPECT_FALSE(oracle(0, 0, 9).has_value());
  EXPECT_EQ(model.calls, 2);
  EXPECT_FALSE(oracle(0, 0, 9).has_value());
  EXPECT_FALSE(oracle(0, 0, 11).has_value());  // contains an interval that did not fit
  EXPECT_EQ(model.calls, 2);
  EXPECT_TRUE(oracle(1, 0, 8).has_value());  // another stage
  EXPECT_EQ(model.calls, 3);
  const StageOracle copy = oracle;
  EXPECT_TRUE(copy(1, 0, 8).has_value());
  EXPECT_EQ(model.calls, 3);
}

// ---- balance ----

TEST(StageBalance, WithEqualSumsTheEndsAreTheBestBalanced) {
  // When Σ C does not depend on the partition, α_t = 1 − max C/Σ C is largest where max C is least: at p_t. This also
  // holds for memory and p_m. The published time without tails is then Σ C + (m − 1)·max C, so p* is as balanced in
  // time as p_t.
  std::mt19937 random(17);
  for (int n = 0; n < 200; ++n) {
    BalanceProblem problem;
    problem.layers = 5 + static_cast<std::int32_t>(random() % 10);
    problem.stages = 2 + static_cast<std::int32_t>(random() % 4);
    problem.microbatches = 2 + static_cast<std::int32_t>(random() % 9);
    std::vector<std::int64_t> time, memory;
    for (std::int32_t l = 0; l < problem.layers; ++l) {
      time.push_back(1 + random() % 50);
      memory.push_back(1 + random() % 50);
    }
    const StageOracle oracle = [&](std::int32_t, std::int32_t first, std::int32_t end) {
      StageValue value;
      for (auto l = static_cast<std::size_t>(first); l < static_cast<std::size_t>(end); ++l) {
        value.steady += static_cast<double>(time[l]);
        value.peak += memory[l];
      }
      return value;
    };
    for (const PipelineTime kind : {PipelineTime::bound, PipelineTime::published}) {
      problem.time = kind;
      const Partition time_end = *time_balanced(problem, oracle), memory_end = *memory_balanced(problem, oracle);
      const Partition best = *best_partition(problem, oracle), loop = *bi_objective(problem, oracle).best;
      for (const Partition& p : {time_end, memory_end, best, loop}) {
        EXPECT_LE(p.alpha_t, time_end.alpha_t);
        EXPECT_LE(p.alpha_m, memory_end.alpha_m);
      }
      EXPECT_TRUE(kind == PipelineTime::bound || best.alpha_t == time_end.alpha_t);
    }
  }
}

TEST(StageBalance, BetweenTheEndsIsARuleOfThumb) {
  // For the best partition p*, α_t(p_m) ≤ α_t(p*) ≤ α_t(p_t) and α_m(p_t) ≤ α_m(p*) ≤ α_m(p_m) are not theorems.
  // Where layers are recomputed for lack of memory, Σ C depends on the partition. Under one-forward-one-backward Σ O
  // always does, and the bound favours earlier stages that are slower than later ones. The counts show how often each
  // holds, in this order, among 300 transformers, which all fit.
  std::mt19937 random(19);
  const auto holds = [&](PipelineTime kind) {
    std::vector<int> count(5, 0);
    for (int n = 0; n < 300; ++n) {
      Transformer model{static_cast<std::int32_t>(12 + random() % 30), static_cast<std::int32_t>(2 + random() % 7)};
      model.capacity =
          (80 + 10 * model.stages) * model.layers / model.stages * static_cast<std::int64_t>(90 + random() % 80) / 100 + 200;
      const BalanceProblem problem = model.problem(model.stages * static_cast<std::int32_t>(1 + random() % 8), kind);
      const StageOracle oracle =
          memoised(problem, [&](std::int32_t i, std::int32_t f, std::int32_t e) { return model.value(i, f, e); });
      const auto best = best_partition(problem, oracle);
      if (!best) continue;
      const Partition time_end = *time_balanced(problem, oracle), memory_end = *memory_balanced(problem, oracle);
      count[0] += memory_end.alpha_t <= best->alpha_t ? 1 : 0;
      count[1] += best->alpha_t <= time_end.alpha_t ? 1 : 0;
      count[2] += time_end.alpha_m <= best->alpha_m ? 1 : 0;
      count[3] += best->alpha_m <= memory_end.alpha_m ? 1 : 0;
      ++count[4];
    }
    return count;
  };
  EXPECT_EQ(holds(PipelineTime::bound), (std::vector<int>{250, 296, 140, 300, 300}));
  EXPECT_EQ(holds(PipelineTime::published), (std::vector<int>{300, 300, 300, 300, 300}));
}

}  // namespace
}  // namespace espalier::solve::stage_balance_test
