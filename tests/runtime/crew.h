// SPDX-License-Identifier: Apache-2.0
// Processes, as many as the largest plan has ranks, that run many plans one after the other: groups are made anew for
// each plan, processes only once. The process of the tests itself never touches libtorch; it forks the crew before
// anything else and reads what each rank wrote down.
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

/// What all ranks together said of a run.
struct Outcome {
  std::vector<StepReport> steps;                                    ///< of rank 0
  std::map<std::int32_t, std::map<std::int64_t, float>> gradients;  ///< by layer, by number of the element
  std::map<std::array<std::int64_t, 3>, float> logits;              ///< by sample, token and row of the vocabulary
  std::map<std::string, Calls> calls;                               ///< of all ranks, by what groups are for
  std::int64_t twice = 0;                                           ///< elements that two ranks counted
  std::string errors;
};

/// Runs all of them; by name. A rank that fails ends its part of everything; `seconds` bounds the whole.
std::map<std::string, Outcome> run_all(const std::vector<Assignment>& assignments, double seconds);

}  // namespace espalier::runtime::testing
