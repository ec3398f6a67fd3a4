// SPDX-License-Identifier: Apache-2.0
#include "solve/device_group_chains.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <tuple>
#include <utility>

namespace espalier::solve::device_group_chains_test {
namespace {

using Stages = std::vector<GroupedStage>;
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

/// Builds an option on one unit of a kind, with one layer type with forward f and backward b, and enough memory.
StageOption simple(std::int32_t kind, std::int64_t f, std::int64_t b) {
  StageOption option;
  option.kind = kind;
  option.forward_ns = {f};
  option.backward_ns = {b};
  option.static_bytes = {0};
  option.saved_bytes = {1};
  option.end_ns = {0};
  option.memory_bytes = 1'000'000;
  return option;
}

DeviceGroupsProblem equal_layers(std::vector<std::int32_t> units, std::size_t layers, std::int64_t m) {
  DeviceGroupsProblem problem;
  problem.units = std::move(units);
  problem.layers.assign(layers, 0);
  problem.microbatches = m;
  return problem;
}

std::vector<std::int32_t> layers_by_kind(const DeviceGroupsProblem& problem, const Stages& stages) {
  std::vector<std::int32_t> result(problem.units.size(), 0);
  for (const GroupedStage& stage : stages) result[problem.options[stage.option].kind] += stage.last - stage.first + 1;
  return result;
}

TEST(DeviceGroups, SmallestExample) {
  // There are three layers, one unit of a kind with f = b = 1 per layer, and one of a kind with f = b = 2. There are
  // four micro-batches, and a send takes 1. The fast stage is first with two layers (f = b = 2, w = 4), then the slow
  // one with one (w = 4):
  //   the slow stage: m·w = 16, no chain behind: X = 16, Y = 16
  //   the fast stage: k = 2, a trip to the end takes A = 4 + 1 + 4 + 1 = 10.  First A, one step of w = 4 between,
  //       last A: G = 24
  //                   X = max(24, 4 + 2 + 16) = 24
  // The trips are real. F1 of the fast stage ends at 2. Its B1 starts at 2 + 6 = 8 and ends at 10, F3 ends at 12. B2
  // ends at 14 (after B1 of the slow stage at 5 … 7 and F2, B2 until 11, sent at 12), F4 at 16. B3 waits for F3: 13,
  // slow 13 … 17, sent 18, B3 18 … 20. F4 reaches the slow stage at 17, is done at 21, sent 22, B4 22 … 24.
  //
  // All three layers on the fast unit also take 4·6 = 24. The estimate is 3·6 + 6 = 24 against 3·4 + 4 + 4 + 2 = 22,
  // so the pipeline is first. The other order has the slow stage first, A = 4 + 4 + 2 = 10, k = 2, and again 24 and
  // 22. Then the stages decide: option 0 comes before option 1.
  DeviceGroupsProblem problem = equal_layers({1, 1}, 3, 4);
  problem.options = {simple(0, 1, 1), simple(1, 2, 2)};
  problem.send_ns = {{1, 1}, {1, 1}};
  const DeviceGroupsOutcome found = plan_device_groups(problem);
  EXPECT_TRUE(found.exact);
  EXPECT_EQ(found.lower_bound_ns, 24);
  ASSERT_EQ(found.candidates.size(), 3u);
  EXPECT_EQ(found.candidates[0].stages, (Stages{{0, 0, 1}, {1, 2, 2}}));
  EXPECT_EQ(found.candidates[0].bound_ns, 24);
  EXPECT_EQ(found.candidates[0].estimate_ns, 22);
  EXPECT_EQ(found.candidates[1].stages, (Stages{{1, 0, 0}, {0, 1, 2}}));
  EXPECT_EQ(found.candidates[2].stages, (Stages{{0, 0, 2}}));
  // Without sends, fast 2 and slow 1 take 4 + 4·4 = 20 in both orders, as w + X of the second: 4 + 16.
  problem.send_ns.clear();
  EXPECT_EQ(plan_device_groups(problem).lower_bound_ns, 20);
  problem.cutoff_ns = 20;
  EXPECT_TRUE(plan_device_groups(problem).candidates.empty());
  EXPECT_EQ(plan_device_groups(problem).lower_bound_ns, 20);
  // The fast unit has an end of 7. First in line it takes 20 + 7. Second in line its end overlaps the backward pass
  // of the first stage: Y = max(16 + 7, …) = 23, then max(20, f + 23) = 2 + 23 = 25.
  problem.cutoff_ns = kMost;
  problem.options[0].end_fixed_ns = 7;
  const DeviceGroupsOutcome ends = plan_device_groups(problem);
  EXPECT_EQ(ends.lower_bound_ns, 25);
  EXPECT_EQ(ends.candidates[0].stages, (Stages{{1, 0, 0}, {0, 1, 2}}));
}

TEST(DeviceGroups, MemoryCountsMicroBatchesInFlight) {
  // Two units hold four layers of one byte per micro-batch, five bytes each. The first of two stages keeps two
  // micro-batches, so it has at most two layers (2·2 ≤ 5 < 2·3). Alone, one unit holds 4 ≤ 5. With four bytes 2 | 2
  // still fits; with three, only 1 | 3 (2·1, 3); with two bytes nothing fits.
  DeviceGroupsProblem problem = equal_layers({2}, 4, 8);
  problem.options = {simple(0, 1, 2)};
  problem.options[0].memory_bytes = 5;
  EXPECT_FALSE(evaluate_stages(problem, {{0, 0, 2}, {0, 3, 3}}).has_value());
  EXPECT_EQ(plan_device_groups(problem).candidates[0].stages, (Stages{{0, 0, 1}, {0, 2, 3}}));
  EXPECT_EQ(plan_device_groups(problem).lower_bound_ns, 6 + 8 * 6);
  problem.options[0].memory_bytes = 3;
  const DeviceGroupsOutcome tight = plan_device_groups(problem);
  ASSERT_EQ(tight.candidates.size(), 1u);
  EXPECT_EQ(tight.candidates[0].stages, (Stages{{0, 0, 0}, {0, 1, 3}}));
  problem.options[0].memory_bytes = 2;
  const DeviceGroupsOutcome none = plan_device_groups(problem);
  EXPECT_TRUE(none.candidates.empty());
  EXPECT_TRUE(none.exact);
  EXPECT_EQ(none.lower_bound_ns, kMost);
}

TEST(DeviceGroups, MemoryCountsTransientsAndMessages) {
  // Three layers keep 2 bytes each; the first needs 9 while it runs, the others 1. One stage holds max(2 + 9, 4 + 1,
  // 6 + 1) = 11 during a micro-batch. As the first of two stages (k = 2) layer 0 alone holds 2·2 + 9 = 13, with 3
  // bytes of messages 16.
  DeviceGroupsProblem problem = equal_layers({2}, 3, 4);
  problem.layers = {0, 1, 1};
  StageOption option = simple(0, 1, 2);
  for (auto* figures : {&option.forward_ns, &option.backward_ns, &option.static_bytes, &option.end_ns})
    figures->push_back(figures->front());
  option.saved_bytes = {2, 2};
  option.transient_bytes = {9, 1};
  option.message_bytes = 3;
  option.memory_bytes = 11;
  problem.options = {option};
  EXPECT_TRUE(evaluate_stages(problem, {{0, 0, 2}}));
  EXPECT_FALSE(evaluate_stages(problem, {{0, 0, 0}, {0, 1, 2}}));
  ASSERT_EQ(plan_device_groups(problem).candidates.size(), 1U);
  EXPECT_EQ(plan_device_groups(problem).candidates[0].stages, (Stages{{0, 0, 2}}));
  problem.options[0].memory_bytes = 10;
  EXPECT_TRUE(plan_device_groups(problem).candidates.empty());
  problem.options[0].memory_bytes = 16;
  EXPECT_TRUE(evaluate_stages(problem, {{0, 0, 0}, {0, 1, 2}}));
  EXPECT_EQ(plan_device_groups(problem).lower_bound_ns, 3 + 4 * 6);  // 1 | 2 layers
}

// ---- random problems ----

using Random = std::mt19937_64;

std::int64_t draw(Random& random, std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(high - low + 1));
}

std::vector<std::int64_t> draws(Random& random, std::size_t count, std::int64_t low, std::int64_t high) {
  std::vector<std::int64_t> result;
  for (std::size_t i = 0; i < count; ++i) result.push_back(draw(random, low, high));
  return result;
}

StageOption random_option(Random& random, std::int32_t kind, std::int32_t units) {
  StageOption option;
  option.kind = kind;
  option.units = units;
  option.forward_ns = draws(random, 3, 10, 100 / units);
  option.backward_ns = draws(random, 3, 10, 200 / units);
  option.pass_forward_ns = draw(random, 0, 5);
  option.pass_backward_ns = draw(random, 0, 5);
  option.static_bytes = draws(random, 3, 0, 10);
  option.saved_bytes = draws(random, 3, 0, 5);
  option.fixed_bytes = draw(random, 0, 5);
  option.memory_bytes = draw(random, 20, 120);
  if (draw(random, 0, 1) == 0) option.transient_bytes = draws(random, 3, 0, 20);
  if (draw(random, 0, 1) == 0) option.message_bytes = draw(random, 0, 20);
  option.end_ns = draws(random, 3, 0, 60);
  option.end_fixed_ns = draw(random, 0, 100);
  if (draw(random, 0, 1) == 0) option.gather_ns = draws(random, 3, 0, 150);
  if (draw(random, 0, 1) == 0) option.reduce_ns = draws(random, 3, 0, 300);
  option.parts = static_cast<std::int32_t>(draw(random, 1, 4));
  if (draw(random, 0, 2) == 0) option.slowdown_millionths = draw(random, 1'000'000, 2'000'000);
  return option;
}

/// Draws a problem with at most 3 kinds with 4 units each, 6 layers, 4 stages.
DeviceGroupsProblem random_problem(Random& random) {
  DeviceGroupsProblem problem;
  const std::int64_t kinds = draw(random, 1, 3), layers = draw(random, 1, 6), options = draw(random, 1, 5);
  for (std::int64_t k = 0; k < kinds; ++k) problem.units.push_back(static_cast<std::int32_t>(draw(random, 0, 4)));
  for (std::int64_t l = 0; l < layers; ++l) problem.layers.push_back(static_cast<std::int32_t>(draw(random, 0, 2)));
  for (std::int64_t o = 0; o < options; ++o) {
    const auto units = static_cast<std::int32_t>(draw(random, 1, 3));
    problem.options.push_back(random_option(random, static_cast<std::int32_t>(draw(random, 0, kinds - 1)), units));
  }
  problem.microbatches = draw(random, 1, 12);
  if (draw(random, 0, 3) > 0) {  // a port of each kind, and perhaps one of each option
    const std::int64_t ports = kinds + (draw(random, 0, 1) == 0 ? options : 0);
    for (std::int64_t k = 0; k < ports; ++k) problem.send_ns.push_back(draws(random, static_cast<std::size_t>(ports), 0, 60));
    if (ports > kinds)
      for (std::size_t o = 0; o < problem.options.size(); ++o)
        problem.options[o].port = static_cast<std::int32_t>(kinds) + static_cast<std::int32_t>(o);
  }
  problem.max_stages = static_cast<std::int32_t>(draw(random, 1, 4));
  problem.depth = static_cast<std::int32_t>(draw(random, 1, 4));
  problem.table_cells = draw(random, 0, 1) == 0 ? draw(random, 0, 300) : 1'000'000;
  return problem;
}

/// Calls `visit` for every feasible chain with every split.
void for_all_plans(const DeviceGroupsProblem& problem, const std::function<void(const GroupedPipeline&)>& visit) {
  Stages stages;
  const std::function<void(std::int32_t)> from = [&](std::int32_t first) {
    if (static_cast<std::size_t>(first) == problem.layers.size()) {
      if (const auto plan = evaluate_stages(problem, stages)) visit(*plan);
      return;
    }
    if (stages.size() == static_cast<std::size_t>(problem.max_stages)) return;
    for (std::size_t option = 0; option < problem.options.size(); ++option) {
      for (auto last = first; static_cast<std::size_t>(last) < problem.layers.size(); ++last) {
        stages.push_back({static_cast<std::int32_t>(option), first, last});
        from(last + 1);
        stages.pop_back();
      }
    }
  };
  from(0);
}

std::int64_t least_bound(const DeviceGroupsProblem& problem) {
  std::int64_t least = kMost;
  for_all_plans(problem, [&](const GroupedPipeline& plan) { least = std::min(least, plan.bound_ns); });
  return least;
}

// ---- an exact simulation of 1F1B with sends that do not block ----

/// Computes the same sums as the solver, layer by layer.
struct SimulatedStage {
  std::int64_t forward = 0, backward = 0, down = 0, up = 0, end = 0, gather = 0, reduce = 0, n = 1;
  double slowdown = 1;
};

std::int32_t port_of(const StageOption& option) { return option.port < 0 ? option.kind : option.port; }

/// Returns a sum over the layers of a stage; 0 if the figures are empty.
std::int64_t sum_of(const DeviceGroupsProblem& problem, const GroupedStage& stage, const std::vector<std::int64_t>& of_type) {
  std::int64_t sum = 0;
  for (std::int32_t l = stage.first; l <= stage.last && !of_type.empty(); ++l) sum += of_type[problem.layers[l]];
  return sum;
}

std::vector<SimulatedStage> simulated_stages(const DeviceGroupsProblem& problem, const Stages& stages) {
  std::vector<SimulatedStage> result;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const StageOption& option = problem.options[stages[i].option];
    SimulatedStage stage{option.pass_forward_ns, option.pass_backward_ns, 0, 0, option.end_fixed_ns};
    for (std::int32_t l = stages[i].first; l <= stages[i].last; ++l) {
      stage.forward += option.forward_ns[problem.layers[l]];
      stage.backward += option.backward_ns[problem.layers[l]];
      stage.end += option.end_ns[problem.layers[l]];
    }
    if (i + 1 < stages.size() && !problem.send_ns.empty()) {
      const std::int32_t here = port_of(option), behind = port_of(problem.options[stages[i + 1].option]);
      stage.down = problem.send_ns[here][behind];
      stage.up = problem.send_ns[behind][here];
    }
    stage.gather = sum_of(problem, stages[i], option.gather_ns);
    stage.reduce = sum_of(problem, stages[i], option.reduce_ns);
    stage.n = std::min(option.parts, stages[i].last - stages[i].first + 1);
    stage.slowdown = static_cast<double>(option.slowdown_millionths) * 1e-6;
    result.push_back(stage);
  }
  return result;
}

/// Returns the order of stage i: +t is the forward pass of micro-batch t, −t its backward pass (1-based).
std::vector<std::int64_t> order_of(std::int64_t m, std::int64_t k) {
  std::vector<std::int64_t> order;
  for (std::int64_t t = 1; t <= k; ++t) order.push_back(t);
  for (std::int64_t t = 1; t <= m; ++t) {
    order.push_back(-t);
    if (k + t <= m) order.push_back(k + t);
  }
  return order;
}

/// Returns when work that takes `time` alone is done. It starts at `from` and is slowed down while the data stream is
/// busy, until `busy`.
double done_at(double from, double time, double busy, double slowdown) {
  if (from >= busy) return from + time;
  return from + time * slowdown <= busy ? from + time * slowdown : busy + time - (busy - from) / slowdown;
}

/// Returns the end of the first forward pass of a stage whose input is available at `from`: part by part, each after
/// its gather.
double first_forward(const SimulatedStage& stage, double from) {
  const auto n = static_cast<double>(stage.n), gathers = static_cast<double>(stage.gather);
  for (std::int64_t part = 1; part <= stage.n; ++part)
    from = done_at(std::max(from, gathers * static_cast<double>(part) / n), static_cast<double>(stage.forward) / n, gathers,
                   stage.slowdown);
  return from;
}

/// Returns the end of the last backward pass, started at `from`, and of the reductions after its parts.
std::pair<double, double> last_backward(const SimulatedStage& stage, double from) {
  const auto n = static_cast<double>(stage.n);
  double reduced = from;
  for (std::int64_t part = 1; part <= stage.n; ++part) {
    from = done_at(from, static_cast<double>(stage.backward) / n, part > 1 && stage.reduce > 0 ? reduced : 0.0, stage.slowdown);
    reduced = std::max(reduced, from) + static_cast<double>(stage.reduce) / n;
  }
  return {from, reduced};
}

/// Runs everything that is ready until nothing is left; returns the end of the step.
double simulate(const std::vector<SimulatedStage>& stages, std::int64_t m) {
  const std::size_t p = stages.size();
  std::vector<std::vector<std::int64_t>> order;
  std::vector<std::vector<double>> forward(p), backward(p);
  for (std::size_t i = 0; i < p; ++i) order.push_back(order_of(m, std::min(m, static_cast<std::int64_t>(p - i))));
  for (std::size_t i = 0; i < p; ++i) forward[i].assign(static_cast<std::size_t>(m) + 1, -1);
  backward = forward;  // end of each pass
  std::vector<std::size_t> next(p, 0);
  std::vector<double> now(p, 0), reduced(p, 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t i = 0; i < p; ++i) {
      if (next[i] == order[i].size()) continue;
      const std::int64_t t = order[i][next[i]];
      const auto micro = static_cast<std::size_t>(std::abs(t));
      double ready = 0;
      if (t > 0 && i > 0)
        ready = forward[i - 1][micro] < 0 ? -1 : forward[i - 1][micro] + static_cast<double>(stages[i - 1].down);
      if (t < 0 && i + 1 < p)
        ready = backward[i + 1][micro] < 0 ? -1 : backward[i + 1][micro] + static_cast<double>(stages[i].up);
      if (ready < 0) continue;
      const double begin = std::max(now[i], ready);
      now[i] = begin + static_cast<double>(t > 0 ? stages[i].forward : stages[i].backward);
      if (t == 1) now[i] = first_forward(stages[i], begin);
      if (t == -m) std::tie(now[i], reduced[i]) = last_backward(stages[i], begin);
      (t > 0 ? forward : backward)[i][micro] = now[i];
      ++next[i];
      moved = true;
    }
  }
  double end = 0;
  for (std::size_t i = 0; i < p; ++i) {
    EXPECT_EQ(next[i], order[i].size());
    end = std::max(end, std::max(now[i], reduced[i]) + static_cast<double>(stages[i].end));
  }
  return end + 1e-6;
}

TEST(DeviceGroups, TheBoundIsNeverAboveTheSimulation) {
  Random random(7);
  std::int64_t plans = 0, met = 0;
  double share = 0;
  for (int i = 0; i < 6000; ++i) {
    DeviceGroupsProblem problem;
    const std::int64_t p = draw(random, 1, 6), kinds = draw(random, 1, 3), longest = draw(random, 1, 100), layers = 3;
    problem.microbatches = draw(random, 1, 14);
    problem.layers.assign(static_cast<std::size_t>(layers * p), 0);
    problem.units.assign(static_cast<std::size_t>(kinds), 6);
    Stages stages;
    for (std::int64_t s = 0; s < p; ++s) {
      problem.options.push_back(
          simple(static_cast<std::int32_t>(draw(random, 0, kinds - 1)), draw(random, 0, 20), draw(random, 0, 33)));
      StageOption& option = problem.options.back();
      option.end_fixed_ns = draw(random, 0, 3 * longest);
      if (draw(random, 0, 2) == 0) option.gather_ns = {draw(random, 0, 2 * longest)};
      if (draw(random, 0, 2) == 0) option.reduce_ns = {draw(random, 0, 2 * longest)};
      option.parts = static_cast<std::int32_t>(draw(random, 1, layers));
      option.slowdown_millionths = draw(random, 1'000'000, 2'000'000);
      stages.push_back(
          {static_cast<std::int32_t>(s), static_cast<std::int32_t>(layers * s), static_cast<std::int32_t>(layers * (s + 1) - 1)});
    }
    for (std::int64_t k = 0; k < kinds; ++k)
      problem.send_ns.push_back(draws(random, static_cast<std::size_t>(kinds), 0, longest));
    const auto plan = evaluate_stages(problem, stages);
    ASSERT_TRUE(plan.has_value());
    const double simulated = simulate(simulated_stages(problem, stages), problem.microbatches);
    const auto bound = static_cast<double>(plan->bound_ns);
    ASSERT_LE(bound, simulated) << "case " << i;
    ++plans;
    met += bound > simulated - 3 * static_cast<double>(p) ? 1 : 0;  // up to rounding
    share += bound / std::max(simulated, 1.0);
  }
  EXPECT_GT(met * 2, plans);  // it equals the simulated time of more than half of them
  EXPECT_GT(share, 0.97 * static_cast<double>(plans));
}

/// Builds a chain with one layer per stage, on units of the only kind.
Stages one_layer_each(std::int32_t stages) {
  Stages chain;
  for (std::int32_t i = 0; i < stages; ++i) chain.push_back({0, i, i});
  return chain;
}

// Three stages have f = 1, b = 2, messages of 1 each way, and nine micro-batches. Trips from the first stage take 3,
// 3 + 2 + 3 = 8, and 13 to the last. Three are in flight: first 13, last 13, and 9 − 3 − 1 = 5 steps between. The
// steps between take 15 at depth 0 and 8 + 8 + 3 = 19 at depth 1. To the last stage they take 13 plus 8 for the two
// remaining steps: 21. The sum is 13 + 21 + 13 = 47, the actual time. Trips to the end alone give 13 + 13 + 13 + 2·3
// = 45.
TEST(DeviceGroups, TripsOfSeveralDepthsFollowEachOther) {
  DeviceGroupsProblem problem = equal_layers({3}, 3, 9);
  problem.options = {simple(0, 1, 2)};
  problem.send_ns = {{1}};
  const auto plan = evaluate_stages(problem, one_layer_each(3));
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->bound_ns, 47);
  EXPECT_NEAR(simulate(simulated_stages(problem, plan->stages), 9), 47.0, 1e-3);
}

// Two stages of two layers have f = 10 and b = 20 per stage, reductions of 40 in two parts, and κ = 2. Then v = (1 −
// 1/2)·min(20·1, 40·(1 − 1/2)) = 10 and e = max(40/2, 40 − 20/2 − 10) = 20. There are three micro-batches, two in
// flight in the first stage: first 60, nothing between. The last trip passes the stretched backward pass of the
// second stage, 60 + 10. With its own v and e: 60 + 70 + 10 + 20 = 160.
TEST(DeviceGroups, TheLastTripPassesEveryStretchedBackward) {
  DeviceGroupsProblem problem = equal_layers({2}, 4, 3);
  problem.options = {simple(0, 5, 10)};
  problem.options[0].reduce_ns = {20};
  problem.options[0].parts = 2;
  problem.options[0].slowdown_millionths = 2'000'000;
  const auto plan = evaluate_stages(problem, {{0, 0, 1}, {0, 2, 3}});
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->bound_ns, 160);
  EXPECT_NEAR(simulate(simulated_stages(problem, plan->stages), 3), 160.0, 1e-3);
}

TEST(DeviceGroups, EqualsTryingAllPlans) {
  Random random(11);
  int feasible = 0;
  for (int i = 0; i < 1000; ++i) {
    DeviceGroupsProblem problem = random_problem(random);
    const std::int64_t least = least_bound(problem);
    const DeviceGroupsOutcome found = plan_device_groups(problem);
    ASSERT_TRUE(found.exact) << "case " << i;
    ASSERT_EQ(found.lower_bound_ns, least) << "case " << i;
    ASSERT_EQ(found.candidates.empty(), least == kMost) << "case " << i;
    if (least == kMost) continue;
    ++feasible;
    ASSERT_EQ(found.candidates[0].bound_ns, least) << "case " << i;
    for (const GroupedPipeline& plan : found.candidates) {
      const auto again = evaluate_stages(problem, plan.stages);
      ASSERT_TRUE(again && again->bound_ns == plan.bound_ns && again->estimate_ns == plan.estimate_ns);
      ASSERT_LE(static_cast<double>(plan.bound_ns), simulate(simulated_stages(problem, plan.stages), problem.microbatches));
    }
    problem.cutoff_ns = least;
    ASSERT_TRUE(plan_device_groups(problem).candidates.empty()) << "case " << i;
    problem.cutoff_ns = least + 1;
    ASSERT_EQ(plan_device_groups(problem).candidates.at(0).bound_ns, least) << "case " << i;
  }
  EXPECT_GE(feasible, 500);
}

// There are two units of one kind and one of another that is a hundred times slower. The best plan leaves it out,
// with 10 | 10 on the fast ones; if all units must be used, it gets a layer.
TEST(DeviceGroups, EveryUnitIsTakenWhereItMustBe) {
  DeviceGroupsProblem problem = equal_layers({2, 1}, 20, 16);
  problem.options = {simple(0, 1, 2), simple(1, 100, 200)};
  EXPECT_EQ(layers_by_kind(problem, plan_device_groups(problem).candidates.at(0).stages), (std::vector<std::int32_t>{20, 0}));
  problem.all_units = true;
  EXPECT_FALSE(evaluate_stages(problem, {{0, 0, 9}, {0, 10, 19}}));
  const DeviceGroupsOutcome found = plan_device_groups(problem);
  EXPECT_TRUE(found.exact);
  EXPECT_EQ(layers_by_kind(problem, found.candidates.at(0).stages), (std::vector<std::int32_t>{19, 1}));
  problem.options[1].units = 2;  // only one exists
  EXPECT_TRUE(plan_device_groups(problem).candidates.empty());
  EXPECT_TRUE(plan_device_groups(problem).exact);
}

TEST(DeviceGroups, EveryUnitTakenEqualsTryingAllPlans) {
  Random random(31);
  int feasible = 0, dearer = 0;
  for (int i = 0; i < 2000; ++i) {
    DeviceGroupsProblem problem = random_problem(random);
    const std::int64_t any = least_bound(problem);
    problem.all_units = true;
    const std::int64_t least = least_bound(problem);
    ASSERT_GE(least, any);
    const DeviceGroupsOutcome found = plan_device_groups(problem);
    ASSERT_TRUE(found.exact) << "case " << i;
    ASSERT_EQ(found.lower_bound_ns, least) << "case " << i;
    ASSERT_EQ(found.candidates.empty(), least == kMost) << "case " << i;
    if (least == kMost) continue;
    ++feasible;
    dearer += least > any ? 1 : 0;
    ASSERT_EQ(found.candidates[0].bound_ns, least) << "case " << i;
    problem.states = draw(random, 1, 40);
    ASSERT_LE(plan_device_groups(problem).lower_bound_ns, least) << "case " << i;
  }
  EXPECT_GE(feasible, 200);
  EXPECT_GE(dearer, 50);
}

TEST(DeviceGroups, RulesChangeNothingButTheEffort) {
  Random random(23);
  std::int64_t with = 0, without[4] = {0, 0, 0, 0};
  for (int i = 0; i < 200; ++i) {
    DeviceGroupsProblem problem = random_problem(random);
    const DeviceGroupsOutcome found = plan_device_groups(problem);
    with += found.counters.tried;
    for (std::uint32_t rule = 0; rule < 4; ++rule) {
      problem.without = 1U << rule;
      const DeviceGroupsOutcome other = plan_device_groups(problem);
      ASSERT_EQ(other.lower_bound_ns, found.lower_bound_ns) << "case " << i << ", rule " << rule;
      without[rule] += other.counters.tried;
    }
  }
  EXPECT_GT(without[0], with);
  EXPECT_GT(without[2], with);
}

TEST(DeviceGroups, ASmallBudgetStillGivesABound) {
  Random random(13);
  int cut = 0;
  for (int i = 0; i < 300; ++i) {
    DeviceGroupsProblem problem = random_problem(random);
    problem.states = draw(random, 1, 40);  // a part of these is for labels that represent others
    const DeviceGroupsOutcome found = plan_device_groups(problem);
    const std::int64_t least = least_bound(problem);
    ASSERT_LE(found.lower_bound_ns, least) << "case " << i;
    if (found.exact) {
      ASSERT_EQ(found.lower_bound_ns, least) << "case " << i;
    }
    cut += found.exact ? 0 : 1;
  }
  EXPECT_GE(cut, 50);
}

// If the search is stopped at once, or after some steps, its statements still hold.
TEST(DeviceGroups, StoppedItStillGivesABound) {
  Random random(37);
  int cut = 0;
  for (int i = 0; i < 200; ++i) {
    DeviceGroupsProblem problem = random_problem(random);
    const std::int64_t least = least_bound(problem), looks = draw(random, 0, 12);
    std::int64_t polled = 0;
    problem.stop = [&] { return polled++ >= looks; };
    const DeviceGroupsOutcome found = plan_device_groups(problem);
    ASSERT_LE(found.lower_bound_ns, least) << "case " << i;
    if (found.exact) {
      ASSERT_EQ(found.lower_bound_ns, least) << "case " << i;
    }
    cut += found.exact ? 0 : 1;
  }
  EXPECT_GE(cut, 10);
}

// ---- properties of any planner of heterogeneous devices ----

TEST(DeviceGroups, AnInfinitelySlowUnitGetsNothing) {
  DeviceGroupsProblem problem = equal_layers({3, 1}, 12, 16);
  problem.options = {simple(0, 10, 20), simple(1, 10'000'000'000, 20'000'000'000)};
  const DeviceGroupsOutcome found = plan_device_groups(problem);
  EXPECT_TRUE(found.exact);
  for (const GroupedPipeline& plan : found.candidates) EXPECT_EQ(layers_by_kind(problem, plan.stages)[1], 0);
  // 4 | 4 | 4: 2·120 + 16·120.
  EXPECT_EQ(found.lower_bound_ns, 2160);
}

TEST(DeviceGroups, SpeedsOneToTwoShareLayersOneToTwo) {
  for (const std::int64_t m : {8, 32, 256}) {
    for (std::size_t layers = 12; layers <= 24; ++layers) {
      DeviceGroupsProblem problem = equal_layers({1, 1}, layers, m);
      problem.options = {simple(0, 100, 200), simple(1, 200, 400)};
      const auto shares = layers_by_kind(problem, plan_device_groups(problem).candidates.at(0).stages);
      EXPECT_LE(std::abs(shares[0] - 2 * shares[1]), 3) << layers;  // within one layer of 2 : 1
    }
  }
}

/// Returns the problem with all times multiplied by `factor`.
DeviceGroupsProblem scaled(DeviceGroupsProblem problem, std::int64_t factor) {
  const auto scale = [&](std::vector<std::int64_t>& times) {
    for (std::int64_t& time : times) time *= factor;
  };
  for (StageOption& option : problem.options) {
    scale(option.forward_ns);
    scale(option.backward_ns);
    scale(option.end_ns);
    scale(option.gather_ns);
    scale(option.reduce_ns);
    option.pass_forward_ns *= factor;
    option.pass_backward_ns *= factor;
    option.end_fixed_ns *= factor;
  }
  for (auto& row : problem.send_ns) scale(row);
  return problem;
}

TEST(DeviceGroups, HalfTheTimesGiveHalfTheTime) {
  Random random(17);
  for (int i = 0; i < 100; ++i) {
    DeviceGroupsProblem problem = scaled(random_problem(random), 12);  // so that up to 4 parts are whole numbers
    for (StageOption& option : problem.options) option.slowdown_millionths = 1'000'000;
    const DeviceGroupsOutcome half = plan_device_groups(problem), whole = plan_device_groups(scaled(problem, 2));
    ASSERT_EQ(half.candidates.empty(), whole.candidates.empty());
    if (half.candidates.empty()) continue;
    EXPECT_EQ(2 * half.lower_bound_ns, whole.lower_bound_ns);
    EXPECT_EQ(half.candidates[0].stages, whole.candidates[0].stages);
  }
}

TEST(DeviceGroups, TheOrderOfTheKindsChangesNothing) {
  Random random(19);
  for (int i = 0; i < 100; ++i) {
    const DeviceGroupsProblem problem = random_problem(random);
    const auto kinds = static_cast<std::int32_t>(problem.units.size());
    DeviceGroupsProblem turned = problem;  // kind k becomes kinds − 1 − k
    std::reverse(turned.units.begin(), turned.units.end());
    std::reverse(turned.send_ns.begin(), turned.send_ns.end());
    for (auto& row : turned.send_ns) std::reverse(row.begin(), row.end());
    for (StageOption& option : turned.options) {
      if (option.port >= 0) option.port = static_cast<std::int32_t>(turned.send_ns.size()) - 1 - option.port;
      option.kind = kinds - 1 - option.kind;
    }
    const DeviceGroupsOutcome a = plan_device_groups(problem), b = plan_device_groups(turned);
    EXPECT_EQ(a.lower_bound_ns, b.lower_bound_ns);
    ASSERT_EQ(a.candidates.empty(), b.candidates.empty());
    if (a.candidates.empty()) continue;
    EXPECT_EQ(a.candidates[0].bound_ns, b.candidates[0].bound_ns);
  }
}

TEST(DeviceGroups, UnitsThatComeInPairsAreCountedInPairs) {
  // Options take 2 and 4 of 5 units, so 2 pairs are available; the odd unit is left out.
  DeviceGroupsProblem problem = equal_layers({5}, 4, 8);
  problem.options = {simple(0, 4, 8), simple(0, 2, 4)};
  problem.options[0].units = 2;
  problem.options[1].units = 4;
  // Two pairs with 2 | 2 take 12 each: 24 + 8·24 = 216; one stage of four takes 8·4·6 = 192.
  const DeviceGroupsOutcome found = plan_device_groups(problem);
  EXPECT_EQ(found.lower_bound_ns, 192);
  EXPECT_EQ(found.candidates[0].stages, (Stages{{1, 0, 3}}));
}

// The bound of an earlier call is used as it is: the answer stays the same, also below a cutoff.
TEST(DeviceGroups, AKnownFloorChangesNothing) {
  Random random(23);
  for (int i = 0; i < 100; ++i) {
    DeviceGroupsProblem problem = random_problem(random);
    const DeviceGroupsOutcome before = plan_device_groups(problem);
    if (before.candidates.empty()) continue;
    for (const std::int64_t cutoff : {kMost, before.candidates[0].bound_ns + 1, before.candidates[0].bound_ns}) {
      problem.cutoff_ns = cutoff;
      problem.floor_ns = 0;
      const DeviceGroupsOutcome alone = plan_device_groups(problem);
      problem.floor_ns = before.lower_bound_ns;
      const DeviceGroupsOutcome told = plan_device_groups(problem);
      EXPECT_EQ(told.lower_bound_ns, alone.lower_bound_ns);
      EXPECT_EQ(told.exact, alone.exact);
      ASSERT_EQ(told.candidates.empty(), alone.candidates.empty());
      EXPECT_EQ(told.candidates.empty(), cutoff == before.candidates[0].bound_ns);
      if (told.candidates.empty()) continue;
      EXPECT_EQ(told.candidates[0].stages, alone.candidates[0].stages);
    }
  }
}

TEST(DeviceGroups, BeatenOptionsAreDropped) {
  DeviceGroupsProblem problem = equal_layers({2}, 4, 8);
  problem.options = {simple(0, 4, 8), simple(0, 5, 8), simple(0, 4, 8)};
  EXPECT_EQ(plan_device_groups(problem).counters.options_dropped, 2);
}

}  // namespace
}  // namespace espalier::solve::device_group_chains_test
