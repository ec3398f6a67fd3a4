// SPDX-License-Identifier: Apache-2.0
#include "search/memory_table.h"

#include <gtest/gtest.h>

#include "plan/engine.h"
#include "plan/test_problem.h"
#include "search/cost_book.h"

namespace espalier::search::memory_table_test {
namespace {

using plan_test::decoder;
using plan_test::training;

/// Holds four blocks on two stages of one device.
struct Small {
  Model model = decoder({.blocks = 4, .heads = 4, .kv_heads = 2});
  Cluster machines = load_cluster("{nodes: 1, devices_per_node: 2, device: a100-sxm-80gb}", "test").value();
  Training job = training(16, 8);
  Problem problem;
  Configuration choice;
  explicit Small(const SearchSpace& part = {}) {
    problem = {&model, &machines, job, find_engine("generic"), part};
    choice.schedule = {ScheduleKind::one_f_one_b, 2, 1, 4, 2};
  }
  [[nodiscard]] MemoryTable table() const {
    Space space(model, machines, job, *problem.engine, problem.space);
    (void)space.leaves(choice);  // caches the possible recomputation below it
    CostBook book(problem);
    book.prepare(choice.schedule.stages);
    Workspace w;
    price_layers(book, choice, w);
    return memory_table(book, space, choice, w);
  }
};

// The order is none, selective, then full recomputation of one block of each chunk and of both.
TEST(MemoryTable, ChoicesInTheOrderOfTheLadder) {
  const MemoryTable t = Small().table();
  ASSERT_EQ(t.choices.size(), 4u);
  EXPECT_EQ(t.choices[0].kind, RecomputeKind::none);
  EXPECT_EQ(t.choices[1].kind, RecomputeKind::selective);
  EXPECT_EQ(t.choices[2].layers, 1);
  EXPECT_EQ(t.choices[3].layers, 2);
  EXPECT_EQ(t.first_full, 2u);
  const std::size_t stages = t.parts.stages.size();
  EXPECT_EQ(t.activations.size(), 4 * stages);
  for (std::size_t i = 0; i < stages; ++i)
    EXPECT_LE(t.activations[stages + i], t.activations[i]);  // selective holds no more than none
}

// A job may allow no recomputation at all. Nothing fits then, and costs that were priced before are not read.
TEST(MemoryTable, NoChoiceIsAnEmptyTable) {
  SearchSpace none;
  none.forbid(Dimension::recompute, {0, 1, 2});
  const MemoryTable t = Small(none).table();
  EXPECT_TRUE(t.choices.empty());
  EXPECT_TRUE(t.activations.empty());
  EXPECT_TRUE(t.best_case.empty());
}

}  // namespace
}  // namespace espalier::search::memory_table_test
