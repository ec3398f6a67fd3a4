// SPDX-License-Identifier: Apache-2.0
// espalier run PLAN.json: trains the model of a plan. With --local its ranks are processes of this machine; under torchrun, srun or mpirun this
// process becomes the rank that the launcher says. The ranks are the program espalier-rank beside this one.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <sstream>

#include "base/document.h"
#include "base/format.h"
#include "base/text.h"
#include "cli/command.h"
#include "launch/launch.h"

namespace espalier::cli {
namespace {

using base::cat;

struct RunFlags {
  std::string path, data;
  bool local = false;
  std::int64_t steps = 20, seed = 1;
  double rate = 1e-3, clip = 1, timeout = 300;
};

/// One line of rank 0: "step 3 LOSS NORM SECONDS".
struct StepLine {
  std::int64_t step = 0;
  double loss = 0, gradient = 0, seconds = 0;
};

std::optional<StepLine> parsed(const std::string& line) {
  std::istringstream in(line);
  std::string word;
  StepLine out;
  if (!(in >> word >> out.step >> out.loss >> out.gradient >> out.seconds) || word != "step") return std::nullopt;
  return out;
}

/// ESPALIER_RANK, or espalier-rank beside this program.
Result<std::string> rank_program() {
  std::error_code none;
  const char* named = std::getenv("ESPALIER_RANK");
  const std::filesystem::path path = named != nullptr
                                         ? std::filesystem::path(named)
                                         : std::filesystem::read_symlink("/proc/self/exe", none).parent_path() / "espalier-rank";
  if (std::filesystem::exists(path, none)) return path.string();
  return Error{ErrorKind::usage, "run", "no espalier-rank beside this program", "a build with the runtime",
               "./dev runtime installs libtorch and builds it"};
}

std::int64_t device_count(const Plan& plan) {
  std::int64_t devices = 0;
  for (const Pipeline& pipeline : plan.pipelines)
    for (const Stage& stage : pipeline.stages)
      for (const DeviceRange& range : stage.devices) devices += range.count;
  return devices;
}

std::vector<std::string> words_of(const RunFlags& flags, const std::string& plan, int rank, std::int64_t world,
                                  const std::string& rendezvous) {
  std::vector<std::string> words{plan,
                                 std::to_string(rank),
                                 std::to_string(world),
                                 rendezvous,
                                 std::to_string(flags.steps),
                                 std::to_string(flags.seed),
                                 base::shortest(flags.rate),
                                 base::shortest(flags.clip),
                                 base::shortest(flags.timeout)};
  if (!flags.data.empty()) words.push_back(flags.data);
  return words;
}

/// A folder that is gone when this is.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "espalier-run-XXXXXX").string();
    if (mkdtemp(pattern.data()) != nullptr) path_ = pattern;
  }
  ~ScratchFolder() {
    std::error_code none;
    if (!path_.empty()) std::filesystem::remove_all(path_, none);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

std::string step_text(const StepLine& step, std::int64_t steps, double tokens) {
  return cat("step ", step.step + 1, " of ", steps, "   loss ", base::fixed(step.loss, 6), "   gradient ",
             base::fixed(step.gradient, 4), "   ", base::fixed(step.seconds * 1e3, 1), " ms   ",
             base::count(std::round(tokens / step.seconds)), " tokens/s");
}

double median_seconds(std::vector<StepLine> steps) {
  if (steps.size() > 1) steps.erase(steps.begin());  // the first step warms up
  std::sort(steps.begin(), steps.end(), [](const StepLine& a, const StepLine& b) { return a.seconds < b.seconds; });
  return steps.empty() ? 0 : steps[steps.size() / 2].seconds;
}

void deliver_run(Context& context, const LoadedPlan& loaded, const std::vector<StepLine>& steps, double tokens) {
  const double measured = median_seconds(steps);
  std::int64_t predicted = 0;
  if (auto job = job_of_plan(loaded.plan))
    if (auto result = simulate(*job, loaded.plan)) predicted = result->prediction.iteration_ns;
  if (!context.json) {
    print_answer(context, cat("measured ", base::fixed(measured * 1e3, 1), " ms a step (median), ",
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
  for (const StepLine& step : steps)
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
  const ScratchFolder scratch;
  const std::string plan = (scratch.path() / "plan.json").string();
  if (Status error = write_file(plan, to_json(loaded.plan))) return fail(context, *error);
  setenv("OMP_NUM_THREADS", "1", 0);  // ranks share the cores of this machine
  setenv("MKL_NUM_THREADS", "1", 0);
  const double tokens = static_cast<double>(loaded.plan.training.global_batch * loaded.plan.training.sequence.main);
  launch::LocalRun run;
  run.program = program;
  const std::int64_t world = device_count(loaded.plan);
  for (std::int64_t rank = 0; rank < world; ++rank)
    run.arguments.push_back(
        words_of(flags, plan, static_cast<int>(rank), world, cat("file:", (scratch.path() / "port").string())));
  std::vector<StepLine> steps;
  run.line = [&](const std::string& line) {
    const auto step = parsed(line);
    if (!step) return;
    steps.push_back(*step);
    if (!context.json && !context.quiet) context.out << step_text(*step, flags.steps, tokens) << std::endl;
  };
  run.interrupted = [&context] { return context.interrupted(); };
  if (Status error = launch::run_local(run)) return context.interrupted() ? kInterrupted : fail(context, *error);
  deliver_run(context, loaded, steps, tokens);
  return kOk;
}

int run_run(Context& context, const RunFlags& flags) {
  auto loaded = load_plan_file(context, flags.path);
  if (!loaded) return fail(context, loaded.error());
  const auto program = rank_program();
  if (!program) return fail(context, program.error());
  if (flags.local) return run_here(context, flags, *loaded, *program);
  const auto place = launch::rank_of([](const std::string& name) {
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  });
  if (!place) return fail(context, place.error());
  if (!*place)
    return fail(context, Error{ErrorKind::usage, "run", "no launcher (RANK and WORLD_SIZE are not set)",
                               "--local, or torchrun, srun or mpirun around this command", ""});
  const launch::RankPlace& at = **place;
  const std::string rendezvous = cat("tcp:", at.address, ":", at.port);
  return fail(context, launch::become(*program, words_of(flags, flags.path, at.rank, at.world, rendezvous)));
}

}  // namespace

void add_run_command(Command& app, Context& context) {
  Command* command = app.add_subcommand("run", "train the model of a plan on this machine or under a launcher");
  auto flags = std::make_shared<RunFlags>();
  command->add_option("plan", flags->path, "plan.json or result.json")->required()->type_name("PLAN.json");
  command->add_flag("--local", flags->local, "start a process of this machine for every device of the plan");
  command->add_option("--steps", flags->steps, "training steps")->range(1, 1'000'000'000)->show_default();
  command->add_option("--data", flags->data, "tokens of 16 bits one after the other (default: synthetic)")->type_name("FILE");
  command->add_option("--seed", flags->seed, "of parameters and synthetic tokens")->range(0, 1'000'000'000)->show_default();
  command->add_option("--learning-rate", flags->rate, "of AdamW")->positive()->show_default();
  command->add_option("--clip", flags->clip, "largest norm of gradients; 0: not clipped")->non_negative()->show_default();
  command->add_option("--timeout", flags->timeout, "seconds after which a rank gives a silent peer up")
      ->positive()
      ->show_default();
  add_common_flags(*command, context);
  command->footer(
      "Under torchrun, srun and mpirun the process becomes the rank that RANK and WORLD_SIZE (or theirs) say; docs/runtime.md");
  command->callback([&context, flags] { context.exit_code = run_run(context, *flags); });
}

}  // namespace espalier::cli
