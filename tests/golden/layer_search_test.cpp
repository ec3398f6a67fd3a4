// SPDX-License-Identifier: Apache-2.0
// Compares the layer search with the dynamic programs of another planner (README.md).
#include <cmath>
#include <limits>
#include <sstream>
#include <vector>

#include "base/document.h"
#include "golden.h"
#include "solve/layer_search.h"

namespace espalier {
namespace {

using solve::LayerProblem;

/// Builds a problem whose strategies save nothing and need no transient memory: all memory is states, in MB. Each is
/// a layout of its own.
LayerProblem problem_of(const base::Node& row) {
  LayerProblem problem;
  for (const base::Node& type : row.find("layers")->items) problem.layers.push_back(static_cast<std::int32_t>(type.integer));
  const auto& memory = row.find("memory")->items;
  const auto& time = row.find("time")->items;
  for (std::size_t type = 0; type < time.size(); ++type) {
    problem.options.emplace_back();
    for (std::size_t s = 0; s < time[type].items.size(); ++s) {
      solve::LayerOption option;
      option.steady = time[type].items[s].real;
      option.states = memory[type].items[s].integer;
      option.layout = static_cast<std::int32_t>(s);
      problem.options.back().push_back(option);
    }
  }
  for (const base::Node& from : row.find("transition")->items) {
    problem.transition.emplace_back();
    for (const base::Node& to : from.items) problem.transition.back().push_back(to.real);
  }
  return problem;
}

TEST(Golden, LayerSearchEqualsGalvatron) {
  std::istringstream lines(golden::read_text(golden::golden_path("galvatron_v1_layer_dp.jsonl")));
  int programs = 0;
  for (std::string line; std::getline(lines, line); ++programs) {
    const auto document = base::read_json(line, "galvatron_v1_layer_dp.jsonl");
    ASSERT_TRUE(document) << document.error().message();
    const base::Node& row = document->root;
    const LayerProblem problem = problem_of(row);
    const std::int64_t capacity = row.find("capacity")->integer;
    const auto found = solve::best_layers(problem, {}, capacity, std::numeric_limits<double>::infinity());
    const double bound = solve::layers_lower_bound(problem, {}, capacity);
    const base::Node& best = *row.find("best");
    SCOPED_TRACE(line.substr(0, 60));
    if (best.kind == base::NodeKind::null) {
      EXPECT_FALSE(found.has_value());
      continue;
    }
    EXPECT_LE(bound, best.real);
    ASSERT_TRUE(found.has_value());
    EXPECT_LE(std::abs(found->steady - best.real), 1e-12 * best.real) << found->steady << " instead of " << best.real;
    EXPECT_LE(found->peak, capacity);
  }
  EXPECT_EQ(programs, 580);
}

}  // namespace
}  // namespace espalier
