// SPDX-License-Identifier: Apache-2.0
// Implements espalier compare A.json B.json …, which prints plans side by side. Each is simulated now, so that all
// figures come from one version. With --timeline it compares a measured step of one plan with the simulated one, with
// --log the log of a framework.
#include "base/document.h"
#include "base/format.h"
#include "cli/command.h"
#include "espalier/compare.h"
#include "espalier/log_comparison.h"
#include "espalier/step_comparison.h"

namespace espalier::cli {
namespace {

int run_compare(Context& context, const std::vector<std::string>& paths) {
  std::vector<report::Compared> plans;
  for (const std::string& path : paths) {
    if (context.interrupted()) return kInterrupted;  // a comparison needs all its columns
    auto loaded = load_plan_file(context, path);
    if (!loaded) return fail(context, loaded.error());
    auto job = job_of_plan(loaded->plan);
    if (!job) return fail(context, in_file(path, job.error()));
    auto result = simulate(*job, loaded->plan);
    if (!result) return fail(context, in_file(path, result.error()));
    note_all(context, job->notes);
    plans.push_back({path, std::move(result).value()});
  }
  if (context.json)
    print_json(context, report::compare_json(plans));
  else
    print_answer(context, report::compare(plans, context.width()));
  return kOk;
}

struct StepFlags {
  std::string measured, out, log;
  std::optional<std::int64_t> warm_up;
};

int run_log(Context& context, const std::vector<std::string>& paths, const StepFlags& flags) {
  if (paths.size() != 1)
    return fail(context,
                Error{ErrorKind::usage, "compare --log", base::cat(paths.size(), " plans"), "the plan that was run", ""});
  auto loaded = load_plan_file(context, paths.front());
  if (!loaded) return fail(context, loaded.error());
  auto text = read_input(context, flags.log);
  if (!text) return fail(context, text.error());
  auto job = job_of_plan(loaded->plan);
  if (!job) return fail(context, in_file(paths.front(), job.error()));
  const auto compared = compare_log(*job, loaded->plan, {input_name(flags.log), std::move(*text)}, flags.warm_up);
  if (!compared) return fail(context, compared.error());
  note_all(context, job->notes);
  if (context.json)
    print_json(context, to_json(*compared));
  else
    print_answer(context, to_text(*compared, context.width()));
  return kOk;
}

int run_step(Context& context, const std::vector<std::string>& paths, const StepFlags& flags) {
  if (paths.size() != 1)
    return fail(context,
                Error{ErrorKind::usage, "compare --timeline", base::cat(paths.size(), " plans"), "the plan that was run", ""});
  auto loaded = load_plan_file(context, paths.front());
  if (!loaded) return fail(context, loaded.error());
  auto text = base::read_file(flags.measured);
  if (!text) return fail(context, text.error());
  auto measured = read_measured_step(*text, flags.measured);
  if (!measured) return fail(context, measured.error());
  auto job = job_of_plan(loaded->plan);
  if (!job) return fail(context, in_file(paths.front(), job.error()));
  auto compared = compare_step(*job, loaded->plan, *measured);
  if (!compared) return fail(context, in_file(flags.measured, compared.error()));
  note_all(context, job->notes);
  if (!flags.out.empty())
    if (Status status = report::write_trace_file(flags.out, to_trace(compared->predicted, compared->measured)); !status.ok())
      return fail(context, status.error());
  if (context.json)
    print_json(context, to_json(*compared));
  else
    print_answer(context, to_text(*compared, context.width()));
  return kOk;
}

}  // namespace

void add_compare_command(Command& app, Context& context) {
  Command* command = app.add_subcommand("compare", "compare plans, or a measured step with its plan");
  auto paths = std::make_shared<std::vector<std::string>>();
  command->add_option("plans", *paths, "plan.json or result.json files")->required()->type_name("A.json B.json …");
  auto step = std::make_shared<StepFlags>();
  command
      ->add_option("--timeline", step->measured,
                   "file that `run --timeline` wrote for this plan: compare predicted and measured times")
      ->type_name("FILE");
  command
      ->add_option("--trace", step->out, "with --timeline: write both to one Perfetto trace (compressed if the name ends in .gz)")
      ->type_name("FILE");
  command
      ->add_option("--log", step->log,
                   "log of a run of this plan (Megatron-LM, NeMo, torchtitan, nanotron, DeepSpeed, Trainer, MLPerf): check "
                   "whether its throughput is normal")
      ->type_name("FILE");
  command->add_option("--warm-up", step->warm_up, "with --log: lines to skip at the beginning; default: a fifth")
      ->range(0, 1'000'000'000);
  add_common_flags(*command, context);
  command->callback([&context, paths, step] {
    if (!step->log.empty() && !step->measured.empty())
      context.exit_code = fail(context, Error{ErrorKind::usage, "compare", "--log and --timeline", "one of them", ""});
    else if (!step->log.empty())
      context.exit_code = run_log(context, *paths, *step);
    else if (step->measured.empty() && !step->out.empty())
      context.exit_code = fail(context, Error{ErrorKind::usage, "compare", "--trace", "--timeline FILE with it", ""});
    else
      context.exit_code = step->measured.empty() ? run_compare(context, *paths) : run_step(context, *paths, *step);
  });
}

}  // namespace espalier::cli
