// SPDX-License-Identifier: Apache-2.0
// Implements espalier run PLAN.json, which trains the model of a plan. With --local its ranks are processes of this
// machine. Under torchrun, srun or mpirun this process becomes the launcher's rank. The ranks are the program
// espalier-rank in the folder of this one.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "base/document.h"
#include "base/format.h"
#include "base/text.h"
#include "cli/adapting_run.h"
#include "cli/command.h"
#include "cli/local_memory.h"
#include "cli/ranks.h"

namespace espalier::cli {
namespace {

struct RunFlags : RankOptions {
  std::string path;
  bool local = false;
  AdaptFlags adapt;
};

double median_seconds(std::vector<TrainedStep> steps) {
  if (steps.size() > 1) steps.erase(steps.begin());  // the first step warms up
  std::sort(steps.begin(), steps.end(), [](const TrainedStep& a, const TrainedStep& b) { return a.seconds < b.seconds; });
  return steps.empty() ? 0 : steps[steps.size() / 2].seconds;
}

/// Checks the folder, so that the run fails before it trains anything where no checkpoint could be kept.
Status usable_checkpoint_folder(const std::string& folder) {
  std::error_code failed;
  const auto refused = [&](const std::string& found) {
    return Error{ErrorKind::usage, "--checkpoint", cat(folder, ": ", found), "a writable folder that exists or can be created",
                 ""};
  };
  if (std::filesystem::exists(folder, failed) && !std::filesystem::is_directory(folder, failed)) return refused("not a folder");
  failed.clear();
  std::filesystem::create_directories(folder, failed);
  if (failed) return refused(failed.message());
  if (access(folder.c_str(), R_OK | W_OK | X_OK) != 0) return refused(std::generic_category().message(errno));
  return {};
}

/// Reports a resumed run whose checkpoint holds all of its steps.
void deliver_nothing_left(Context& context, const LoadedPlan& loaded, const RunFlags& flags) {
  if (!context.json)
    return print_answer(context, cat("nothing left to do: the checkpoint in ", flags.checkpoint, " holds all ", flags.steps,
                                     " steps; raise --steps to train further\n"));
  base::JsonWriter json;
  json.begin_object().key("plan").value(content_hash(loaded.plan)).key("nothing_left").value(true);
  json.key("steps").begin_array().end_array().end_object();
  print_json(context, json.text());
}

void deliver_run(Context& context, const LoadedPlan& loaded, const std::vector<TrainedStep>& steps, double tokens) {
  const double measured = median_seconds(steps);
  std::int64_t predicted = 0;
  if (auto job = job_of_plan(loaded.plan))
    if (auto result = simulate(*job, loaded.plan)) predicted = result->prediction.iteration_ns;
  if (!context.json) {
    print_answer(context, cat("measured ", base::fixed(measured * 1e3, 1), " ms per step (median), ",
                              base::count(std::round(tokens / measured)), " tokens/s; predicted on the cluster of the plan ",
                              base::fixed(static_cast<double>(predicted) * 1e-6, 1), " ms\n"));
    return;
  }
  base::JsonWriter json;
  json.begin_object().key("plan").value(content_hash(loaded.plan)).key("predicted_iteration_seconds").seconds(predicted);
  json.key("timing")
      .begin_object()
      .key("median_step_seconds")
      .value(measured)
      .key("tokens_per_second")
      .value(tokens / measured)
      .end_object();
  json.key("steps").begin_array();
  for (const TrainedStep& step : steps)
    json.compact_next()
        .begin_object()
        .key("step")
        .value(step.step)
        .key("loss")
        .value(step.loss)
        .key("gradient_norm")
        .value(step.gradient)
        .end_object();
  json.end_array().end_object();
  print_json(context, json.text());
}

int run_here(Context& context, const RunFlags& flags, const LoadedPlan& loaded, const std::string& program) {
  const double tokens = static_cast<double>(loaded.plan.training.global_batch * loaded.plan.training.sequence.main);
  std::vector<TrainedStep> steps;
  const auto line = [&](const std::string& text) {
    if (text.rfind("note ", 0) == 0) note(context, text.substr(5));
    const auto step = step_line(text);
    if (!step) return;
    steps.push_back(*step);
    if (!context.json && !context.quiet) context.out << step_text(*step, flags.steps, tokens) << std::endl;
  };
  if (Status status = run_plan_here(loaded.plan, flags, program, line, [&context] { return context.interrupted(); });
      !status.ok())
    return context.interrupted() ? kInterrupted : fail(context, status.error());
  if (steps.empty() && !flags.resume)
    return fail(context, Error{ErrorKind::limit, "run", "ranks that ended without a step", cat(flags.steps, " steps"), ""});
  if (steps.empty())
    deliver_nothing_left(context, loaded, flags);
  else
    deliver_run(context, loaded, steps, tokens);
  return kOk;
}

/// Announces the processes that start here, or rejects them where they do not fit.
Status ready_here(const Context& context, const Plan& plan) {
  const auto need = local_need(plan);
  if (!need) return need.error();
  const auto available = available_memory();
  if (Status status = fits_here(*need, available); !status.ok()) return status;
  note(context, cat("starting ", need->processes, need->processes == 1 ? " process" : " processes", " on this machine, about ",
                    base::gib(need->bytes), " together", available ? cat(" of ", base::gib(*available), " free") : ""));
  return {};
}

int run_run(Context& context, RunFlags flags, const ChangeFlags& change) {
  setenv("TORCH_CPP_LOG_LEVEL", "ERROR", 0);  // a rank itself reports why it ends
  if (flags.checkpoint.empty() && (flags.resume || flags.every > 0))
    return fail(context,
                Error{ErrorKind::usage, "run", flags.resume ? "--resume" : "--every", "--checkpoint FOLDER with it", ""});
  if (!flags.checkpoint.empty())
    if (Status status = usable_checkpoint_folder(flags.checkpoint); !status.ok()) return fail(context, status.error());
  auto loaded = load_plan_file(context, flags.path);
  if (!loaded) return fail(context, loaded.error());
  flags.direct_bytes = direct_bytes_of(loaded->plan);
  const auto program = rank_program();
  if (!program) return fail(context, program.error());
  if (flags.local)
    if (Status status = ready_here(context, loaded->plan); !status.ok()) return fail(context, status.error());
  if (flags.adapt.factor <= 1)
    return fail(context, Error{ErrorKind::usage, "--slow", base::shortest(flags.adapt.factor), "more than 1, such as 1.15", ""});
  if (!flags.adapt.folder.empty()) {
    std::optional<launch::RankPlace> here;
    if (!flags.local) {
      auto place = place_by_launcher("run");
      if (!place) return fail(context, place.error());
      here = std::move(*place);
    }
    return run_adapting(context, flags.adapt, change, flags, flags.path, *program, here);
  }
  if (flags.local) return run_here(context, flags, *loaded, *program);
  const auto place = place_by_launcher("run");
  if (!place) return fail(context, place.error());
  const std::string rendezvous = cat("tcp:", place->address, ":", place->port);
  return fail(context, launch::become(*program, words_of(flags, flags.path, place->rank, place->world, rendezvous)));
}

}  // namespace

void add_run_command(Command& app, Context& context) {
  Command* command = app.add_subcommand("run", "train the model of a plan on this machine or under a launcher");
  auto flags = std::make_shared<RunFlags>();
  command->add_option("plan", flags->path, "plan.json or result.json")->required()->type_name("PLAN.json");
  command->add_flag("--local", flags->local, "start a process on this machine for every device of the plan");
  command->add_option("--steps", flags->steps, "training steps")->range(1, 1'000'000'000)->show_default();
  command
      ->add_option("--data", flags->data, "consecutive 16-bit tokens, or Megatron-LM's .bin with its .idx (default: synthetic)")
      ->type_name("FILE");
  command->add_option("--weights", flags->weights, "initial weights as safetensors (default: random)")->type_name("FOLDER");
  command->add_option("--save", flags->save, "where to write the final parameters, as safetensors")->type_name("FOLDER");
  command
      ->add_option("--checkpoint", flags->checkpoint,
                   "where to write parameters and optimizer states that another plan can resume")
      ->type_name("FOLDER");
  command->add_option("--every", flags->every, "steps between two checkpoints; 0: one after the last step")
      ->range(0, 1'000'000'000)
      ->show_default();
  command->add_option("--keep", flags->keep, "number of complete checkpoints to keep")->range(1, 1'000'000)->show_default();
  command->add_flag("--resume", flags->resume, "resume from the last complete checkpoint; damaged ones are skipped");
  command->add_option("--seed", flags->seed, "seed of parameters and synthetic tokens")->range(0, 1'000'000'000)->show_default();
  command->add_option("--learning-rate", flags->rate, "learning rate of AdamW")->positive()->show_default();
  command->add_option("--clip", flags->clip, "largest gradient norm; 0: no clipping")->non_negative()->show_default();
  command->add_option("--timeout", flags->timeout, "seconds after which a rank gives up on a silent peer")
      ->positive()
      ->show_default();
  command->add_option("--pace", flags->pace, "make ranks emulate a device: flops=F,bandwidth=B,launch=S and speed:RANK=X")
      ->type_name("PACE");
  command->add_option("--record", flags->record, "file in which rank 0 records how long its operators took")->type_name("FILE");
  command
      ->add_option("--timeline", flags->timeline,
                   "file in which rank 0 records what every rank ran and when, for `compare --timeline`")
      ->type_name("FILE");
  command
      ->add_option("--adapt", flags->adapt.folder,
                   "watch the run, and move it to another plan when that pays off; all hosts must share the folder")
      ->type_name("FOLDER");
  command->add_option("--slow", flags->adapt.factor, "with --adapt: investigate steps that take this many times as long as usual")
      ->positive()
      ->show_default();
  auto change = std::make_shared<ChangeFlags>();
  add_change_flags(*command, change);
  add_common_flags(*command, context);
  command->footer(
      "Under torchrun, srun or mpirun, the process becomes the rank that RANK and WORLD_SIZE (or the launcher's equivalents) "
      "give; see docs/runtime.md.");
  command->callback([&context, flags, change] { context.exit_code = run_run(context, *flags, *change); });
}

}  // namespace espalier::cli
