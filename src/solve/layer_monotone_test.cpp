// SPDX-License-Identifier: Apache-2.0
// A larger space or more memory never gives a slower plan. This is tested for partition and layers together, over
// pairs of nested problems.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "solve/layer_search.h"
#include "solve/stage_balance.h"

namespace espalier::solve {
namespace {

struct Nested {
  LayerProblem large, small;  ///< options of `small` are some of those of `large`
  std::int64_t large_capacity = 0, small_capacity = 0;
  std::int32_t stages = 1, microbatches = 1;
};

Nested nested(std::mt19937& random) {
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  Nested n;
  const int layouts = 1 + below(3), types = 1 + below(2), layers = 2 + below(7);
  n.large.transition.assign(static_cast<std::size_t>(layouts), std::vector<double>(static_cast<std::size_t>(layouts), 0.0));
  for (int i = 0; i < layouts; ++i)
    for (int j = i + 1; j < layouts; ++j)
      n.large.transition[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)] =
          n.large.transition[static_cast<std::size_t>(j)][static_cast<std::size_t>(i)] = below(5);
  n.large.options.resize(static_cast<std::size_t>(types));
  for (auto& options : n.large.options)
    for (int i = 2 + below(5); i > 0; --i)
      options.push_back({10.0 + below(30), double(below(40)), 5 + below(40), 1 + below(20), below(15), below(layouts)});
  for (int l = 0; l < layers; ++l) n.large.layers.push_back(below(types));
  n.small = n.large;
  for (auto& options : n.small.options)
    while (options.size() > 1 && below(2) == 0) options.erase(options.begin() + below(static_cast<int>(options.size())));
  n.stages = 1 + below(std::min(3, layers));
  n.microbatches = 1 + below(8);
  n.large_capacity = 60 * layers / n.stages + below(60 * layers);
  n.small_capacity = n.large_capacity - (below(2) == 0 ? 0 : below(100));
  return n;
}

/// Returns the least time of the pipeline over all partitions and strategies; infinity if none fits.
double best_time(const LayerProblem& all, std::int64_t capacity, std::int32_t stages, std::int32_t microbatches) {
  BalanceProblem b;
  b.layers = static_cast<std::int32_t>(all.layers.size());
  b.stages = stages;
  b.microbatches = microbatches;
  const auto oracle = [&](std::int32_t stage, std::int32_t first, std::int32_t end) -> std::optional<StageValue> {
    LayerProblem p = all;
    p.layers.assign(all.layers.begin() + first, all.layers.begin() + end);
    p.in_flight = std::min(microbatches, stages - stage);
    const auto s = best_layers(p, {static_cast<double>(microbatches), 1.0}, capacity, std::numeric_limits<double>::infinity());
    if (!s) return std::nullopt;
    return StageValue{0.0, microbatches * s->steady + s->sync, s->peak};
  };
  const auto found = best_partition(b, oracle);
  return found ? found->time : std::numeric_limits<double>::infinity();
}

TEST(LayerSearch, MoreMemoryAndMoreChoicesAreNeverSlower) {
  std::mt19937 random(11);
  int fits = 0, faster = 0;
  for (int i = 0; i < 500; ++i) {
    const Nested n = nested(random);
    const double large = best_time(n.large, n.large_capacity, n.stages, n.microbatches),
                 small = best_time(n.small, n.small_capacity, n.stages, n.microbatches);
    EXPECT_LE(large, small * (1 + 1e-12)) << "pair " << i;
    fits += small < std::numeric_limits<double>::infinity() ? 1 : 0;
    faster += large < small ? 1 : 0;
  }
  EXPECT_GT(fits, 250);    // most of 500 pairs have a plan in the small space
  EXPECT_GT(faster, 100);  // and often the larger one is better
}

}  // namespace
}  // namespace espalier::solve
