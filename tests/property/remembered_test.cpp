// SPDX-License-Identifier: Apache-2.0
// Tests that cached values, whose keys have fewer inputs than the request, equal newly computed ones. These are layer
// costs (search/layer_prices.h), memory tables (search/memory_table.h), and the choices below a layer choice
// (search/space.h). One cache serves all configurations of a problem, so that a missing part of a key would show.
#include <gtest/gtest.h>

#include <vector>

#include "cost/bound.h"
#include "random_problem.h"
#include "search/layer_prices.h"
#include "search/memory_table.h"

namespace espalier::property::remembered_test {
namespace {

const int kProblems = cases(60, 1000);

struct Tree {
  search::Space space;
  search::CostBook book;
  std::vector<Configuration> layers;

  explicit Tree(const RandomProblem& p) : space(p.model, p.cluster, p.training, *p.engine, p.space), book(p.view()) {
    space.layer_group([&](const Configuration& c) {
      if (space.leaves(c) == 0) return;
      layers.push_back(c);
      book.prepare(c.schedule.stages);
    });
  }
};

TEST(Remembered, LayerCostsMakeTheSameTimings) {
  Random random(21);
  for (int i = 0; i < kProblems; ++i) {
    const RandomProblem p = random_problem(i);
    const Tree tree(p);
    search::Workspace remembered, anew;
    for (const Configuration& layer : tree.layers) {
      bool found = false;
      const Configuration c = random_below(tree.space, layer, random, found);
      if (!found) continue;
      price_layers(tree.book, c, remembered);
      assemble(tree.book, c, remembered);
      cost::layer_costs(tree.book.context(), c.strategy, c.schedule.stages, c.schedule.micro_batch, anew.layers);
      assemble(tree.book, c, anew);
      ASSERT_EQ(remembered.costs, anew.costs) << canonical_text(c.strategy, c.schedule) << describe(p);
    }
  }
}

TEST(Remembered, ChoicesAreThoseOfTheGroups) {
  for (int i = 0; i < kProblems; ++i) {
    const RandomProblem p = random_problem(i);
    const Tree tree(p);
    for (const Configuration& layer : tree.layers) {
      std::vector<Configuration> listed, grouped;
      tree.space.schedule_group(layer, [&](const Configuration& b) {
        tree.space.shard_group(b, [&](const Configuration& s) {
          tree.space.overlap_group(s, [&](const Configuration& o) { grouped.push_back(o); });
        });
      });
      Configuration c = layer;
      for (const auto& schedule : tree.space.schedules(layer)) {
        c.schedule.kind = schedule.kind;
        c.schedule.virtual_stages = schedule.virtual_stages;
        for (const auto& shard : tree.space.shards(c)) {
          c.strategy.zero = shard.zero;
          c.strategy.shard = shard.shard;
          for (const Overlap& overlap : shard.overlaps) {
            search::take_overlap(overlap, c.strategy);
            listed.push_back(c);
          }
        }
        c = layer;
      }
      ASSERT_EQ(listed, grouped) << canonical_text(layer.strategy, layer.schedule) << describe(p);
    }
  }
}

/// Applies the definition: every stage of this configuration, by its peak bound.
std::vector<char> fitting_by_definition(const Tree& tree, const Configuration& shard, search::Workspace& w) {
  std::vector<char> out;
  tree.space.recompute_group(shard, [&](const Configuration& r) {
    assemble(tree.book, r, w);
    out.push_back(search::peak_bound_bytes(w) <= tree.book.memory_limit() ? 1 : 0);
  });
  return out;
}

TEST(Remembered, MemoryTablesSayWhatFits) {
  int fit = 0, refused = 0;
  for (int i = 0; i < kProblems; ++i) {
    const RandomProblem p = random_problem(i);
    const Tree tree(p);
    search::Workspace remembered, anew;
    for (const Configuration& layer : tree.layers) {
      tree.space.schedule_group(layer, [&](const Configuration& b) {
        const search::MemoryTable& table = remembered.tables.of(tree.book, tree.space, b, remembered);
        price_layers(tree.book, b, remembered);
        price_layers(tree.book, b, anew);
        tree.space.shard_group(b, [&](const Configuration& s) {
          const std::vector<char> fits = fitting(tree.book, table, s.strategy, remembered);
          ASSERT_EQ(fits, fitting_by_definition(tree, s, anew)) << canonical_text(s.strategy, s.schedule) << describe(p);
          for (std::size_t k = 0; k < fits.size(); ++k) {
            ASSERT_LE(fits[k], table.best_case[k]) << canonical_text(s.strategy, s.schedule) << describe(p);
            fit += fits[k] == 1;
            refused += fits[k] == 0;
          }
        });
      });
    }
  }
  EXPECT_GT(fit, 1000);
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace espalier::property::remembered_test
