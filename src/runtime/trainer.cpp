// SPDX-License-Identifier: Apache-2.0
#include "runtime/trainer.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <fstream>
#include <memory>
#include <utility>

#include "base/document.h"
#include "base/format.h"
#include "plan/process_groups.h"
#include "plan/program.h"
#include "runtime/checkpoints.h"
#include "runtime/executor.h"
#include "runtime/recording.h"
#include "runtime/steering.h"
#include "runtime/step_clock.h"
#include "runtime/weights.h"

namespace espalier::runtime {
namespace {

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
    CountedPart part = counted_part(*state, state->own_gradient());
    parts.push_back({part.layer, std::move(part.elements), std::move(part.values)});
  }
  return parts;
}

/// Returns callbacks that pass on copies of the logits.
std::function<WatchLogits(std::int64_t)> copies_of_logits(const std::function<void(const LogitsPart&)>& to) {
  return [&to](std::int64_t first_sample) {
    return [&to, first_sample](const at::Tensor& z, std::int64_t first_token, std::int64_t first_row) {
      const at::Tensor whole = z.to(at::kFloat).contiguous();
      const float* values = whole.data_ptr<float>();
      to({first_token, first_sample, first_row, z.size(0), z.size(1), z.size(2), {values, values + whole.numel()}});
    };
  };
}

/// Returns the settings with which every rank must have been started.
std::string said_of(const Plan& plan, const TrainOptions& options) {
  const CheckpointOptions& kept = options.checkpoint;
  return cat("plan ", content_hash(plan), ", ", options.steps, " steps, seed ", options.seed, ", rate ",
             base::six_digits(options.rate), ", clip ", base::six_digits(options.clip), ", data ", options.data, ", weights ",
             options.weights, ", checkpoints ", kept.folder, " every ", kept.every, kept.resume ? ", resumed" : "");
}

Error lost(const std::exception& failure) {
  return {ErrorKind::limit, "run", cause_of(failure), "all ranks to run to the end",
          "the log of the rank that ended first states why"};
}

/// Runs the steps. Exceptions of c10d pass through.
Status run(RankView view, const TrainOptions& options, const TokenSource& data, Meeting& meeting, const std::string& name,
           const Watching& watching) {
  const auto pace = pace_from(options.pace, meeting.rank());
  if (!pace) return pace.error();
  const Program program = lower(*view.plan, *view.model, false);
  const RankClass& list = rank_class(program, view.device);
  StepClock steps(view.device, static_cast<std::size_t>(list.end - list.begin));
  OperatorClock clock(*pace, options.timeline.empty() ? nullptr : &steps);
  if (pace->plays() || !options.record.empty() || !options.timeline.empty() || !options.steering.empty()) view.clock = &clock;
  Groups groups(meeting, name);
  std::vector<int> everyone(view.devices.size());
  for (std::size_t r = 0; r < everyone.size(); ++r) everyone[r] = static_cast<int>(r);
  groups.make("world", everyone);
  RankModel model(view, program, groups);
  Communicator* world = groups.find("world", everyone);
  if (!options.weights.empty())
    if (Status status = load_weights(options.weights, view, model, world); !status.ok()) return status;
  Checkpoints checkpoints(options.checkpoint, view, model, world, options.data);
  std::int64_t begins = 0;
  if (options.checkpoint.resume) {
    const auto resumed = checkpoints.resume(watching.note);
    if (!resumed) return resumed.error();
    begins = *resumed;
    if (begins >= options.steps && watching.note)
      watching.note(cat("nothing left to do: the checkpoint holds ", begins, " steps, --steps is ", options.steps));
  }
  TrainingRecipe recipe;
  recipe.adam.rate = options.rate;
  recipe.clip = options.clip;
  const bool meets = program.pipelines.size() > 1;
  if (meets) groups.make("meetings", everyone);
  Executor executor(view, program, model, world, data, recipe, meets ? groups.find("meetings", everyone) : nullptr);
  double seconds = 0;
  Steering steering(options.steering, view, program.structure(list).schedule.microbatches, world);
  for (std::int64_t step = begins; step < options.steps; ++step) {
    if (step == begins + 1) clock.restart();
    if (step == begins + 1) steps.restart();
    if (step == begins + 1 && options.memory != nullptr) options.memory->restart();
    const auto begin = std::chrono::steady_clock::now();
    executor.ask(static_cast<double>(steering.asked()));
    const bool looks = step == begins && watching.first_gradients;
    executor.watch_logits(step == begins && watching.first_logits ? copies_of_logits(watching.first_logits) : nullptr);
    const StepResult result = executor.step(
        step, looks ? [&](RankModel& m) { watching.first_gradients(gradients_of(m)); } : std::function<void(RankModel&)>());
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    if (!std::isfinite(result.loss))
      return Error{ErrorKind::limit, cat("step ", step), "a loss that is NaN or infinite", "a finite loss",
                   "a smaller --learning-rate"};
    if (step > begins) seconds += took.count();
    if (watching.step) watching.step({step, result.loss, result.gradient, took.count()});
    if (Status status = checkpoints.after(step + 1, options.steps); !status.ok()) return status;
    steering.stepped();
    const auto say = [&watching](const std::string& text) {
      if (watching.seen) watching.seen(text);
    };
    if (result.wish == static_cast<double>(Wish::look)) steering.look(step + 1, say);
    if (result.wish != static_cast<double>(Wish::leave) || step + 1 == options.steps) continue;
    if (Status status = checkpoints.now(step + 1); !status.ok()) return status;
    say(cat("left ", step + 1));
    return {};
  }
  if (watching.calls) watching.calls(groups.calls());
  if (!options.record.empty()) {
    const std::int64_t counted = std::max<std::int64_t>(1, options.steps - begins - 1);
    const Recording recording{clock, options.memory, counted, seconds / static_cast<double>(counted)};
    if (Status status = write_recording(options.record, recording, world); !status.ok()) return status;
  }
  if (!options.timeline.empty() && options.steps > begins)
    if (Status status = steps.write(options.timeline, content_hash(*view.plan), world); !status.ok()) return status;
  return options.save.empty() ? Status() : save_weights(options.save, view, model, world);
}

}  // namespace

int ranks_of(const Plan& plan) { return static_cast<int>(devices_of(plan).size()); }

Status train(const Plan& plan, const TrainOptions& options, Meeting& meeting, const std::string& name, const Watching& watching) {
  try {
    if (Status status = meeting.agree(name, said_of(plan, options)); !status.ok()) return status;
  } catch (const std::exception& error) {
    return lost(error);
  }
  RankView view;
  view.plan = &plan;
  view.devices = devices_of(plan);
  view.seed = options.seed;
  view.initialised = options.weights.empty();
  const auto world = static_cast<int>(view.devices.size());
  if (world > meeting.world())
    return Error{ErrorKind::bad_input, "plan", cat(world, " devices"),
                 cat("at most the ", meeting.world(), " ranks that were started"), ""};
  if (meeting.rank() >= world) return {};
  view.device = view.devices[static_cast<std::size_t>(meeting.rank())];
  const auto model = load_model(plan.model_source, "plan: $.model.source");
  if (!model) return model.error();
  view.model = &*model;
  if (Status status = not_runnable(plan, *model); !status.ok()) return status;
  const auto architecture = architecture_of(plan, *model);
  if (!architecture) return architecture.error();
  view.architecture = *architecture;
  const auto data = data_of(options, *model);
  if (!data) return data.error();
  try {
    return run(view, options, *data, meeting, name, watching);
  } catch (const std::exception& error) {
    return lost(error);
  }
}

}  // namespace espalier::runtime
