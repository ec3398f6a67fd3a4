// SPDX-License-Identifier: Apache-2.0
// Builds jobs of the models in models/, and their plans, for tests.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "data/source_dir.h"
#include "espalier/planner.h"

namespace espalier::planner::test {

inline Job job(const std::string& model, const std::string& cluster, const std::string& training, const std::string& more = "") {
  const std::string root = ESPALIER_SOURCE_DIR;
  auto loaded = load_job(
      "model: " + root + "/models/" + model + "/config.json\ncluster: " + cluster + "\ntraining: " + training + "\n" + more,
      "test", ".", {});
  EXPECT_TRUE(loaded.ok()) << (loaded ? "" : loaded.error().message());
  return loaded ? *loaded : Job{};
}

inline PlannerResult planned(const Job& job, const PlannerOptions& options = {}) {
  auto result = plan(job, options);
  EXPECT_TRUE(result.ok()) << (result ? "" : result.error().message());
  return result ? *result : PlannerResult{};
}

}  // namespace espalier::planner::test
