// SPDX-License-Identifier: Apache-2.0
#include "solve/layer_search.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <tuple>

#include <gtest/gtest.h>

#include "base/infinity.h"

namespace espalier::solve {
namespace {

using base::kInfinity;
constexpr std::int64_t kPlenty = std::int64_t{1} << 50;

// There are two layers and one micro-batch in flight. Keeping everything takes 3 s with 5 bytes saved. Recomputing
// takes 4 s with 1 byte saved and 5 bytes while it runs.
//   keep, keep:            6 s, peak max(5, 10)        = 10
//   recompute, keep:       7 s, peak max(1 + 5, 1 + 5) =  6   the second layer has freed its 5 bytes by then
//   keep, recompute:       7 s, peak max(5, 5 + 1 + 5) = 11   so it is never chosen
//   recompute, recompute:  8 s, peak max(1 + 5, 1 + 1 + 5) =  7   slower and larger than recompute, keep
TEST(LayerSearch, RecomputationBelongsInFront) {
  LayerProblem problem;
  problem.layers = {0, 0};
  problem.options = {{{3, 0, 0, 5, 0, 0}, {4, 0, 0, 1, 5, 0}}};
  problem.transition = {{0}};
  const auto at = [&](std::int64_t capacity) { return best_layers(problem, {}, capacity, kInfinity); };
  EXPECT_EQ(at(10)->options, (std::vector<std::int32_t>{0, 0}));
  EXPECT_EQ(at(9)->options, (std::vector<std::int32_t>{1, 0}));
  EXPECT_EQ(at(9)->steady, 7);
  EXPECT_EQ(at(9)->peak, 6);
  EXPECT_EQ(at(9)->held, 6);
  EXPECT_FALSE(at(5).has_value());
  const auto frontier = layer_frontier(problem, kPlenty, true);
  ASSERT_EQ(frontier.size(), 2U);
  EXPECT_EQ(frontier[0].peak, 10);
  EXPECT_EQ(frontier[1].peak, 6);
}

struct Choice {
  double steady = 0, sync = 0;
  std::int64_t peak = 0;
};

/// Computes the sums as the header defines them, last layer included.
Choice evaluate(const LayerProblem& p, const std::vector<std::size_t>& options) {
  Choice out;
  std::int64_t states = 0, saved = 0, reach = 0;
  for (std::size_t l = 0; l < options.size(); ++l) {
    const auto& o = p.options[static_cast<std::size_t>(p.layers[l])][options[l]];
    if (l > 0) {
      const auto& before = p.options[static_cast<std::size_t>(p.layers[l - 1])][options[l - 1]];
      out.steady += p.transition[static_cast<std::size_t>(before.layout)][static_cast<std::size_t>(o.layout)];
    }
    out.steady += o.steady;
    out.sync += o.sync;
    states += o.states;
    saved += o.saved;
    reach = std::max(reach, saved + o.transient);
  }
  out.peak = states + (p.in_flight - 1) * saved + reach;
  return out;
}

std::vector<Choice> all_choices(const LayerProblem& p) {
  std::vector<Choice> out;
  std::vector<std::size_t> options(p.layers.size(), 0);
  for (;;) {
    const Choice choice = evaluate(p, options);
    if (!std::isinf(choice.steady) && !std::isinf(choice.sync)) out.push_back(choice);
    std::size_t l = 0;
    while (l < options.size() && ++options[l] == p.options[static_cast<std::size_t>(p.layers[l])].size()) options[l++] = 0;
    if (l == options.size()) return out;
  }
}

class Generator {
 public:
  explicit Generator(std::uint32_t seed) : random_(seed) {}
  int in(int low, int high) { return low + static_cast<int>(random_() % static_cast<std::uint32_t>(high - low + 1)); }
  bool one_in(int n) { return in(1, n) == 1; }

  /// Draws a problem; costs are whole numbers where `fine` is false, so that ties are frequent.
  LayerProblem problem(int layers, int strategies, bool fine) {
    const auto cost = [&](int high) { return fine ? in(0, high * 1000) * 1e-3 : static_cast<double>(in(0, high)); };
    LayerProblem p;
    const int types = one_in(2) ? 1 : in(1, 3), layouts = in(1, 4);
    for (int l = 0; l < layers; ++l) p.layers.push_back(one_in(2) && l > 0 ? p.layers.back() : in(0, types - 1));
    p.in_flight = in(1, 4);
    const bool metric = one_in(2);
    p.transition.assign(static_cast<std::size_t>(layouts), std::vector<double>(static_cast<std::size_t>(layouts), 0));
    for (int a = 0; a < layouts; ++a) {
      for (int b = 0; b < layouts; ++b) {
        double& t = p.transition[static_cast<std::size_t>(a)][static_cast<std::size_t>(b)];
        if (a != b) t = metric ? 2 : one_in(12) ? kInfinity : cost(4);
        if (a == b && one_in(30)) t = cost(2);
      }
    }
    for (int type = 0; type < types; ++type) {
      std::vector<LayerOption> options;
      for (int s = one_in(2) ? strategies : in(1, strategies); s > 0; --s) options.push_back(option(cost(10), cost(6), layouts));
      p.options.push_back(std::move(options));
    }
    return p;
  }

 private:
  LayerOption option(double steady, double sync, int layouts) {
    LayerOption o;
    o.steady = one_in(40) ? kInfinity : steady;
    o.sync = one_in(2) ? 0 : sync;
    o.states = in(0, 12);
    o.saved = in(0, 8);
    if (one_in(2)) {
      o.transient = o.saved + in(0, 8);
      o.saved = in(0, 2);
    }  // recomputation
    o.layout = in(0, layouts - 1);
    return o;
  }
  std::mt19937 random_;
};

bool near(double a, double b) { return std::abs(a - b) <= 1e-12 * std::max({1.0, std::abs(a), std::abs(b)}); }

/// Checks every capacity at which the optimum changes, from both sides.
void expect_best(const LayerProblem& p, const std::vector<Choice>& all, const LayerObjective& objective) {
  std::vector<std::pair<std::int64_t, double>> by_peak;
  for (const Choice& c : all) by_peak.emplace_back(c.peak, objective.steady_weight * c.steady + objective.sync_weight * c.sync);
  std::sort(by_peak.begin(), by_peak.end());
  double best = kInfinity;
  const auto expect = [&](std::int64_t capacity, double value) {
    const auto found = best_layers(p, objective, capacity, kInfinity);
    const double bound = layers_lower_bound(p, objective, capacity);
    ASSERT_EQ(found.has_value(), !std::isinf(value)) << "capacity " << capacity;
    EXPECT_LE(bound, value);
    if (!found) return;
    std::vector<std::size_t> options(found->options.begin(), found->options.end());
    const Choice sums = evaluate(p, options);
    EXPECT_TRUE(near(sums.steady, found->steady) && near(sums.sync, found->sync));
    EXPECT_EQ(sums.peak, found->peak);
    EXPECT_LE(sums.peak, capacity);
    EXPECT_TRUE(near(objective.steady_weight * sums.steady + objective.sync_weight * sums.sync, value))
        << found->steady << " " << found->sync << " instead of " << value << " at " << capacity;
    if (value > 0) {
      EXPECT_TRUE(best_layers(p, objective, capacity, value * (1 + 1e-9)).has_value());
      EXPECT_FALSE(best_layers(p, objective, capacity, value * (1 - 1e-9)).has_value());
    }
  };
  if (by_peak.empty()) return expect(kPlenty, kInfinity);
  for (const auto& [peak, value] : by_peak) {
    if (value >= best - 1e-9) continue;
    expect(peak - 1, best);
    best = value;
    expect(peak, best);
  }
  expect(kPlenty, best);
}

std::vector<Choice> frontier_by_pairs(std::vector<Choice> all, std::int64_t capacity, bool ignore_sync) {
  for (Choice& c : all) c.sync = ignore_sync ? 0 : c.sync;
  std::sort(all.begin(), all.end(), [](const Choice& a, const Choice& b) {
    return std::tuple(a.steady, a.sync, a.peak) < std::tuple(b.steady, b.sync, b.peak);
  });
  std::vector<Choice> out;
  for (const Choice& c : all) {
    const auto beats = [&](const Choice& o) { return o.steady <= c.steady && o.sync <= c.sync && o.peak <= c.peak; };
    if (c.peak <= capacity && std::none_of(out.begin(), out.end(), beats)) out.push_back(c);
  }
  return out;
}

/// Compares frontiers with whole costs, whose sums are exact in any order.
void expect_frontier(const LayerProblem& p, const std::vector<Choice>& all, std::int64_t capacity, bool ignore_sync) {
  const auto expected = frontier_by_pairs(all, capacity, ignore_sync);
  const auto found = layer_frontier(p, capacity, ignore_sync);
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].steady, expected[i].steady);
    if (!ignore_sync) {
      EXPECT_EQ(found[i].sync, expected[i].sync);
    }
    EXPECT_EQ(found[i].peak, expected[i].peak);
  }
}

TEST(LayerSearch, EqualsTryingAll) {
  Generator generator(20221125);
  for (int instance = 0; instance < 1000; ++instance) {
    SCOPED_TRACE(instance);
    const bool fine = instance % 2 == 1;
    const LayerProblem p = generator.problem(generator.in(1, 6), instance % 4 == 0 ? 5 : 4, fine);
    const auto all = all_choices(p);
    static constexpr LayerObjective objectives[] = {{1, 0}, {3, 1}, {0, 1}, {1, 2.5}};
    expect_best(p, all, objectives[instance % 4]);
    if (!fine) expect_frontier(p, all, instance % 3 == 0 ? kPlenty : generator.in(10, 120), instance % 4 < 2);
    if (HasFailure()) return;
  }
}

/// Returns problems where other layouts have the same options, and runs are so long that copies are forced. The
/// reference is the frontier by labels, which uses neither sets nor forced copies nor multipliers. The test above
/// compares it with trying all.
LayerProblem long_runs(Generator& generator, bool fine) {
  LayerProblem p = generator.problem(1, 4, fine);
  const std::size_t layouts = p.transition.size();
  for (auto& options : p.options) {
    for (LayerOption& o : options) o.sync = 0;
    for (std::size_t twins = generator.one_in(2) ? options.size() : 0; twins > 0; --twins) {
      LayerOption twin = options[twins - 1];
      twin.layout = static_cast<std::int32_t>((static_cast<std::size_t>(twin.layout) + 1) % layouts);
      options.push_back(twin);
    }
  }
  p.layers.assign(static_cast<std::size_t>(generator.in(6, 20)), p.layers[0]);
  const int more = generator.in(0, 6);
  for (int l = 0; l < more; ++l) p.layers.push_back(static_cast<std::int32_t>(p.options.size()) - 1);
  return p;
}

TEST(LayerSearch, LongRunsEqualTheFrontierByLabels) {
  Generator generator(7);
  for (int instance = 0; instance < 150; ++instance) {
    SCOPED_TRACE(instance);
    const bool fine = instance % 2 == 1;
    const LayerProblem p = long_runs(generator, fine);
    const auto frontier = layer_frontier(p, kPlenty, false);
    for (const LayerSolution& point : frontier) {
      const auto best = best_layers(p, {2, 1}, point.peak, kInfinity);
      ASSERT_TRUE(best.has_value());
      EXPECT_TRUE(near(best->steady, point.steady)) << best->steady << " instead of " << point.steady << " at " << point.peak;
      EXPECT_LE(layers_lower_bound(p, {2, 1}, point.peak), 2 * point.steady * (1 + 1e-12));
    }
    if (fine) continue;  // labels distinguish sums that differ by rounding alone
    const auto by_capacity = layer_frontier(p, kPlenty, true);
    ASSERT_EQ(by_capacity.size(), frontier.size());
    for (std::size_t i = 0; i < frontier.size(); ++i) EXPECT_EQ(by_capacity[i].peak, frontier[i].peak);
    if (HasFailure()) return;
  }
}

/// Compares 96 layers with formulas. The faster layout a takes 3 s and 5 bytes per layer, b takes 4 s and 3 bytes,
/// and changing over costs 2 s. With capacity C at most x = (C − 3·96)/2 layers are in a.
TEST(LayerSearch, NinetySixLayers) {
  LayerProblem p;
  p.layers.assign(96, 0);
  p.options = {{{3, 0, 5, 0, 0, 0}, {4, 0, 3, 0, 0, 1}}};
  p.transition = {{0, 2}, {2, 0}};
  for (std::int64_t capacity = 286; capacity <= 482; ++capacity) {
    const auto best = best_layers(p, {}, capacity, kInfinity);
    ASSERT_EQ(best.has_value(), capacity >= 288);
    if (!best) continue;
    const auto in_a = static_cast<double>(std::min<std::int64_t>(96, (capacity - 288) / 2));
    EXPECT_EQ(best->steady, in_a == 96 ? 288 : std::min(384.0, 384 - in_a + 2)) << capacity;
  }
}

TEST(LayerSearch, NoLayersCostNothing) {
  LayerProblem problem;
  EXPECT_EQ(best_layers(problem, {}, 0, kInfinity)->peak, 0);
  EXPECT_EQ(layer_frontier(problem, 0, false).size(), 1U);
}

TEST(LayerSearch, TypesWithoutOptionsFitNowhere) {
  LayerProblem problem;
  problem.layers = {0};
  problem.options = {{{kInfinity, 0, 0, 0, 0, 0}}};
  problem.transition = {{0}};
  EXPECT_FALSE(best_layers(problem, {}, kPlenty, kInfinity).has_value());
  EXPECT_TRUE(std::isinf(layers_lower_bound(problem, {}, kPlenty)));
  EXPECT_TRUE(layer_frontier(problem, kPlenty, false).empty());
}

}  // namespace
}  // namespace espalier::solve
