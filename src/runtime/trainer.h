// SPDX-License-Identifier: Apache-2.0
// Trains a model under a plan, as one of its ranks: the table of contents of this module. No header of libtorch is needed to call it.
//
//   plan ─▶ model (of the configuration that the plan embeds) ─▶ Program, a rank for every device ─▶ groups, states, layers ─▶ steps
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "espalier/plan.h"
#include "espalier/result.h"
#include "plan/ownership.h"
#include "runtime/communicator.h"

namespace espalier::runtime {

struct TrainOptions {
  std::int64_t steps = 20;
  std::uint64_t seed = 1;
  std::string data;    ///< a file of 16-bit tokens; empty: synthetic
  double rate = 1e-3;  ///< of AdamW
  double clip = 1;     ///< largest norm of gradients; 0: not clipped
};

struct StepReport {
  std::int64_t step = 0;  ///< from 0
  double loss = 0, gradient = 0, seconds = 0;
};

/// What a rank has of a layer's gradients in the first step, before clipping: elements by number, and their values in that order.
struct GradientPart {
  std::int32_t layer = 0;
  Intervals elements;
  std::vector<float> values;
};

struct Watching {
  std::function<void(const StepReport&)> step;  ///< on every rank, after each step
  std::function<void(const std::vector<GradientPart>&)>
      first_gradients;  ///< on every rank, each element of the model on one rank
};

/// How many ranks a plan has.
int ranks_of(const Plan& plan);

/// Runs the plan as rank `meeting.rank()`; ranks beyond those of the plan return at once. `name` is used once in a meeting. A peer that is
/// lost, a time-out and a loss that is no number are errors.
Status train(const Plan& plan, const TrainOptions& options, Meeting& meeting, const std::string& name, const Watching& watching);

}  // namespace espalier::runtime
