// SPDX-License-Identifier: Apache-2.0
#include "runtime/trainer.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <memory>
#include <utility>

#include "base/format.h"
#include "plan/process_groups.h"
#include "plan/program.h"
#include "runtime/executor.h"

namespace espalier::runtime {
namespace {

using base::cat;

std::vector<std::int64_t> devices_of(const Plan& plan) {
  std::vector<std::int64_t> devices;
  for (const Pipeline& pipeline : plan.pipelines)
    for (const Stage& stage : pipeline.stages)
      for (const std::int64_t device : espalier::devices_of(stage.devices)) devices.push_back(device);
  std::sort(devices.begin(), devices.end());
  return devices;
}

Result<TokenSource> data_of(const TrainOptions& options, const Model& model) {
  if (options.data.empty()) return TokenSource::synthetic(model.vocabulary, options.seed);
  return TokenSource::of_file(options.data, model.vocabulary);
}

std::vector<GradientPart> gradients_of(const RankModel& model) {
  std::vector<GradientPart> parts;
  for (const State* state : model.states()) {
    GradientPart part;
    part.layer = state->shape().layer;
    const float* values = state->own_gradient().data_ptr<float>();
    std::int64_t at = 0;
    for (const Interval& piece : state->own()) {
      for (const Interval& counted : intersection({piece}, state->shape().counted)) {
        part.elements.push_back(counted);
        const float* from = values + at + counted.first - piece.first;
        part.values.insert(part.values.end(), from, from + counted.size());
      }
      at += piece.size();
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

Error lost(const std::string& what) {
  return {ErrorKind::limit, "run", what, "all ranks to take part until the end", "the log of the rank that ended first says why"};
}

/// The steps; what c10d throws passes through.
Status run(const RankView& view, const TrainOptions& options, const TokenSource& data, Meeting& meeting, const std::string& name,
           const Watching& watching) {
  const Program program = lower(*view.plan, *view.model, false);
  Groups groups(meeting, name);
  std::vector<int> everyone(view.devices.size());
  for (std::size_t r = 0; r < everyone.size(); ++r) everyone[r] = static_cast<int>(r);
  groups.make("world", everyone);
  RankModel model(view, program, groups);
  Recipe recipe;
  recipe.adam.rate = options.rate;
  recipe.clip = options.clip;
  Executor executor(view, program, model, groups.find("world", everyone), data, recipe);
  for (std::int64_t step = 0; step < options.steps; ++step) {
    const auto begin = std::chrono::steady_clock::now();
    const bool looks = step == 0 && watching.first_gradients;
    const StepResult result = executor.step(
        step, looks ? [&](RankModel& m) { watching.first_gradients(gradients_of(m)); } : std::function<void(RankModel&)>());
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    if (!std::isfinite(result.loss))
      return Error{ErrorKind::limit, cat("step ", step), "a loss that is no number", "a finite loss",
                   "a smaller --learning-rate"};
    if (watching.step) watching.step({step, result.loss, result.gradient, took.count()});
  }
  return {};
}

}  // namespace

int ranks_of(const Plan& plan) { return static_cast<int>(devices_of(plan).size()); }

Status train(const Plan& plan, const TrainOptions& options, Meeting& meeting, const std::string& name, const Watching& watching) {
  RankView view;
  view.plan = &plan;
  view.devices = devices_of(plan);
  view.seed = options.seed;
  const auto world = static_cast<int>(view.devices.size());
  if (world > meeting.world())
    return Error{ErrorKind::bad_input, "plan", cat(world, " devices"),
                 cat("no more than the ", meeting.world(), " ranks that were started"), ""};
  if (meeting.rank() >= world) return {};
  view.device = view.devices[static_cast<std::size_t>(meeting.rank())];
  const auto model = load_model(plan.model_source, "plan: $.model.source");
  if (!model) return model.error();
  view.model = &*model;
  if (Status error = not_runnable(plan, *model)) return error;
  const auto architecture = architecture_of(plan, *model);
  if (!architecture) return architecture.error();
  view.architecture = *architecture;
  const auto data = data_of(options, *model);
  if (!data) return data.error();
  try {
    return run(view, options, *data, meeting, name, watching);
  } catch (const std::exception& error) {
    return lost(error.what());
  }
}

}  // namespace espalier::runtime
