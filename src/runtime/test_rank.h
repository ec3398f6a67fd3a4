// SPDX-License-Identifier: Apache-2.0
// Helps the unit tests of this module. It makes a rank of a small plan with its model, and trains plans on threads.
#pragma once

#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "runtime/executor.h"
#include "runtime/rank_model.h"
#include "runtime/small_plans.h"
#include "runtime/testing.h"
#include "runtime/trainer.h"

namespace espalier::runtime::testing {

/// Holds one rank of a plan: its view, program, groups, states and layers.
class PlannedRank {
 public:
  PlannedRank(const Plan& of, Meeting& meeting, bool initialised = true, OperatorClock* clock = nullptr)
      : plan(of),
        model(load_model(plan.model_source, "config.json").value()),
        program(lower(plan, model, false)),
        view(view_of(meeting, initialised, clock)),
        groups(meeting, "plan") {
    groups.make("world", everyone(ranks()));
    groups.make("meetings", everyone(ranks()));
    parts = std::make_unique<RankModel>(view, program, groups);
    world = groups.find("world", everyone(ranks()));
  }
  /// Waits for the other ranks, which may still connect their groups to this one.
  ~PlannedRank() {
    try {
      if (world != nullptr) world->barrier();
    } catch (const std::exception& failure) {
      ADD_FAILURE() << cause_of(failure);
    }
  }
  PlannedRank(const PlannedRank&) = delete;
  PlannedRank& operator=(const PlannedRank&) = delete;

  [[nodiscard]] int ranks() const { return static_cast<int>(view.devices.size()); }
  [[nodiscard]] const RankClass& list() const { return rank_class(program, view.device); }
  [[nodiscard]] std::unique_ptr<Executor> executor(const TokenSource& data, const TrainingRecipe& recipe = {}) {
    Communicator* meetings = program.pipelines.size() > 1 ? groups.find("meetings", everyone(ranks())) : nullptr;
    return std::make_unique<Executor>(view, program, *parts, world, data, recipe, meetings);
  }

  Plan plan;
  Model model;
  Program program;
  RankView view;
  Groups groups;
  std::unique_ptr<RankModel> parts;
  Communicator* world = nullptr;

 private:
  RankView view_of(const Meeting& meeting, bool initialised, OperatorClock* clock) const {
    RankView out;
    out.plan = &plan;
    out.model = &model;
    out.architecture = architecture_of(plan, model).value();
    for (int device = 0; device < ranks_of(plan); ++device) out.devices.push_back(device);
    out.device = meeting.rank();
    out.initialised = initialised;
    out.clock = clock;
    return out;
  }
};

/// Returns the plan of one rank that holds the whole model.
inline Plan plan_of_one(const char* config, std::int32_t micro_batch = 2) {
  return plan_of(config, strategy(1, 1), schedule(ScheduleKind::one_f_one_b, 1, 1, micro_batch));
}

/// Trains a plan, each rank a thread, and returns the results of rank 0.
inline std::vector<StepResult> results_of(const Plan& plan, std::int64_t steps = 2, const TrainingRecipe& recipe = {}) {
  std::vector<StepResult> results;
  as_ranks(ranks_of(plan), [&](Meeting& meeting) {
    PlannedRank rank(plan, meeting);
    const TokenSource data = TokenSource::synthetic(rank.model.vocabulary, 1);
    const auto executor = rank.executor(data, recipe);
    for (std::int64_t step = 0; step < steps; ++step) {
      const StepResult result = executor->step(step);
      if (meeting.rank() == 0) results.push_back(result);
    }
  });
  return results;
}

/// Checks that two runs of equal length had equal losses and gradients.
inline void expect_same_results(const std::vector<StepResult>& found, const std::vector<StepResult>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t k = 0; k < found.size(); ++k) {
    EXPECT_NEAR(found[k].loss / expected[k].loss, 1, 1e-5) << "step " << k;
    EXPECT_NEAR(found[k].gradient / expected[k].gradient, 1, 1e-4) << "step " << k;
  }
}

}  // namespace espalier::runtime::testing
