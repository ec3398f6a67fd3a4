// SPDX-License-Identifier: Apache-2.0
// Runs many plans one after the other in as many processes as the largest plan has ranks. Groups are created again
// for each plan, processes only once. The process of the tests itself never uses libtorch; it forks the crew before
// anything else and reads the records of each rank.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/trainer.h"

namespace espalier::runtime::testing {

struct Assignment {
  std::string name;
  Plan plan;
  TrainOptions options;
};

/// Holds the reports of all ranks about a run.
struct Outcome {
  std::vector<StepReport> steps;                                    ///< rank 0
  std::map<std::int32_t, std::map<std::int64_t, float>> gradients;  ///< by layer, by number of the element
  std::map<std::array<std::int64_t, 3>, float> logits;              ///< by sample, token and row of the vocabulary
  std::map<std::string, Calls> calls;                               ///< all ranks, by the purpose of the group
  std::int64_t twice = 0;                                           ///< elements that two ranks counted
  std::string errors;
};

/// Runs all assignments and returns outcomes by name. A rank that fails ends its part of everything; `seconds` bounds
/// the whole run.
std::map<std::string, Outcome> run_all(const std::vector<Assignment>& assignments, double seconds);

}  // namespace espalier::runtime::testing
