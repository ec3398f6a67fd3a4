// SPDX-License-Identifier: Apache-2.0
// Implements espalier export FORMAT PLAN.json, and espalier export PLAN.json --engine NAME. It writes the plan in a
// format of the registry. A feature that a format cannot express is an error that names it.
#include <algorithm>
#include <optional>

#include "base/format.h"
#include "cli/command.h"
#include "espalier/check.h"
#include "espalier/engines.h"
#include "espalier/exchange.h"
#include "espalier/planner.h"

namespace espalier::cli {
namespace {

struct Asked {
  std::string path, out;
  std::string engine;    ///< engine of the second form
  std::string launcher;  ///< empty: the usual one
  bool allow_lossy = false;
  bool by_name = false;  ///< the first form, whose command has run
};

/// Returns the engine whose rules the plan must keep for the format; empty where there is none.
std::string engine_of(const exchange::Exporter& format, const Plan& plan) {
  const auto own = exchange::exporters_of(plan.engine);
  return std::find(own.begin(), own.end(), &format) != own.end() ? plan.engine : format.engine;
}

/// Returns the rules of the format's engine that the plan breaks, all of them in one error.
Status rules_broken(const Job& job, const Plan& plan, const exchange::Exporter& format) {
  if (format.engine.empty()) return {};
  report::CheckOptions options;
  options.engine = engine_of(format, plan);
  const auto report = report::check_plan(job, plan, options);
  if (!report) return report.error();
  std::string broken;
  for (const Finding& finding : report->findings)
    if (!finding.ok) broken += (broken.empty() ? "" : "; ") + finding.name + ": " + finding.text;
  if (broken.empty()) return {};
  const std::string hint = job.cluster.groups.size() > 1
                               ? "plan one node group for " + options.engine + " (docs/how-to/unequal-devices.md)"
                               : "espalier plan --engine " + options.engine +
                                     " finds one; --allow-lossy writes the nearest plan that " + options.engine + " can express";
  return Error{ErrorKind::check_failed, "$", broken, "a plan that " + options.engine + " can run", hint};
}

/// Returns engines that some format writes.
std::vector<std::string> written_engines() {
  std::vector<std::string> out;
  for (const std::string& engine : engine_names())
    if (!exchange::exporters_of(engine).empty()) out.push_back(engine);
  return out;
}

/// Returns the formats of an engine, or why there are none.
Result<std::vector<const exchange::Exporter*>> formats_of(const std::string& engine) {
  auto formats = exchange::exporters_of(engine);
  const exchange::Exporter* by_name = exchange::find_exporter(engine);  // "torchtitan-recipe": a format of the engine
  if (formats.empty() && by_name != nullptr && !by_name->engine.empty()) formats = {by_name};
  if (!formats.empty()) return formats;
  const std::string why = exchange::why_unwritten(engine);
  if (!why.empty())
    return Error{ErrorKind::usage, "--engine", base::cat(engine, ": no format writes its plans"),
                 base::cat("one of ", base::joined(written_engines())), why};
  return Error{ErrorKind::usage, "--engine", base::cat("\"", engine, "\""), base::cat("one of ", base::joined(written_engines())),
               ""};
}

Result<std::string> text_of(Context& context, const exchange::Exporter& format, const Job& job, const exchange::ClosestPlan& what,
                            const Asked& asked) {
  if (format.name == "plan") {
    if (Status status = unwritable(what.plan, plan_schema_of(context)); !status.ok()) return status.error();
    return to_json(what.plan, plan_schema_of(context)) + "\n";
  }
  return format.write(
      {&job, &what.plan, asked.launcher.empty() ? std::nullopt : exchange::parse_launcher(asked.launcher), what.lost});
}

/// Returns "1.234 s a step, 56.7 GiB", or why there is no prediction.
std::string figures_of(const Job& job, const Plan& plan) {
  Job own = job;
  own.engine = plan.engine;
  const auto predicted = simulate(own, plan);
  if (!predicted) return "no prediction: " + predicted.error().found;
  const Prediction& p = predicted->prediction;
  return base::cat(base::seconds(p.iteration_ns), " a step, ", base::gib(p.peak_memory_bytes));
}

/// Returns the plan to write. With --allow-lossy it is the closest plan that the format can express; the lost
/// features are noted, with the times of both plans.
Result<exchange::ClosestPlan> plan_to_write(const Context& context, const exchange::Exporter& format, const Job& job,
                                            const Plan& plan, const Asked& asked) {
  if (!asked.allow_lossy) return exchange::ClosestPlan{plan, {}};
  auto closest = exchange::closest_plan(format, job, plan);
  if (!closest || closest->lost.empty()) return closest;
  for (const std::string& lost : closest->lost) note(context, "not as planned: " + lost);
  note(context, base::cat("planned: ", figures_of(job, plan), "; written: ", figures_of(job, closest->plan)));
  return closest;
}

std::vector<std::string> launching_formats() {
  std::vector<std::string> out;
  for (const exchange::Exporter& format : exchange::exporters())
    if (!format.launchers.empty()) out.push_back(format.name);
  return out;
}

/// Checks that the format has launchers, including this one.
Status wrong_launcher(const exchange::Exporter& format, const Asked& asked) {
  if (asked.launcher.empty()) return {};
  std::vector<std::string> known;
  for (const exchange::Launcher launcher : format.launchers) known.emplace_back(to_string(launcher));
  if (known.empty())
    return Error{ErrorKind::usage, "--launcher", base::cat("\"", asked.launcher, "\" with ", format.name),
                 base::cat("a format that starts processes: ", base::joined(launching_formats())), ""};
  if (const auto one = exchange::parse_launcher(asked.launcher);
      one && std::find(format.launchers.begin(), format.launchers.end(), *one) != format.launchers.end())
    return {};
  return Error{ErrorKind::usage, "--launcher", base::cat("\"", asked.launcher, "\" with ", format.name),
               base::cat("one of ", base::joined(known)), ""};
}

int run_export(Context& context, const exchange::Exporter& format, const Asked& asked) {
  if (Status status = wrong_launcher(format, asked); !status.ok()) return fail(context, status.error());
  const auto loaded = load_plan_file(context, asked.path);
  if (!loaded) return fail(context, loaded.error());
  const auto job = job_of_plan(loaded->plan);
  if (!job) return fail(context, in_file(asked.path, job.error()));
  const auto what = plan_to_write(context, format, *job, loaded->plan, asked);
  if (!what) return fail(context, in_file(asked.path, what.error()));
  if (Status status = rules_broken(*job, what->plan, format); !status.ok())
    return fail(context, in_file(asked.path, status.error()));
  const auto text = text_of(context, format, *job, *what, asked);
  if (!text) return fail(context, in_file(asked.path, text.error()));
  if (asked.out.empty()) {
    context.out << *text;
    return kOk;
  }
  const std::string out = report::file_or_in_folder(asked.out, format.file_name);
  if (Status status = report::write_file(out, *text); !status.ok()) return fail(context, status.error());
  note(context, "wrote " + out);
  return kOk;
}

/// Returns the first format of the engine that can express the plan. Where none can, it is the first of all, whose
/// error counts.
Result<const exchange::Exporter*> format_for(Context& context, const Asked& asked) {
  const auto formats = formats_of(asked.engine);
  if (!formats) return formats.error();
  const auto loaded = load_plan_file(context, asked.path);
  if (!loaded) return formats->front();
  const auto job = job_of_plan(loaded->plan);
  for (const exchange::Exporter* format : *formats)
    if (job && (format->fault == nullptr || !format->fault(*job, loaded->plan))) return format;
  return formats->front();
}

int run_for_engine(Context& context, const Asked& asked) {
  if (asked.path.empty() || asked.engine.empty())
    return fail(context, Error{ErrorKind::usage, "export", "neither a format nor a plan with an engine",
                               "espalier export FORMAT PLAN.json, or espalier export PLAN.json --engine NAME", ""});
  const auto format = format_for(context, asked);
  if (!format) return fail(context, format.error());
  return run_export(context, **format, asked);
}

void add_launcher(Command& command, Asked& asked) {
  command
      .add_option("--launcher", asked.launcher,
                  "launcher that starts the processes: torchrun (default), sbatch, mpirun, kubeflow")
      ->suggest({"torchrun", "sbatch", "mpirun", "kubeflow"})
      ->type_name("NAME");
}

void add_lossy(Command& command, Asked& asked) {
  command.add_flag("--allow-lossy", asked.allow_lossy,
                   "write the nearest plan that the engine can express and list the differences, instead of refusing");
}

void add_format(Command& command, Context& context, const exchange::Exporter& format, const std::shared_ptr<Asked>& outer) {
  Command* part = command.add_subcommand(format.name, format.writes);
  auto asked = std::make_shared<Asked>();
  part->add_option("plan", asked->path, "plan.json or result.json; - for stdin")->required()->type_name("PLAN.json");
  part->add_option("-o,--out", asked->out, "write here instead of to stdout; into a folder under the usual name")
      ->type_name("FILE");
  if (format.name == "plan") add_plan_schema_flag(*part, context);
  if (!format.launchers.empty()) add_launcher(*part, *asked);
  if (format.fault != nullptr || !format.engine.empty()) add_lossy(*part, *asked);
  add_common_flags(*part, context);
  part->callback([&context, &format, asked, outer] {
    outer->by_name = true;
    context.exit_code = run_export(context, format, *asked);
  });
}

}  // namespace

void add_export_command(Command& app, Context& context) {
  Command* command = app.add_subcommand("export", "write a plan in another format, or as a launch script");
  auto asked = std::make_shared<Asked>();
  command->add_option("plan", asked->path, "plan.json or result.json, with --engine")->type_name("PLAN.json");
  command
      ->add_option("--engine", asked->engine,
                   base::cat("write the launch script or configuration of this engine: ", base::joined(written_engines())))
      ->suggest(written_engines())
      ->type_name("NAME");
  add_launcher(*command, *asked);
  add_lossy(*command, *asked);
  command->add_option("-o,--out", asked->out, "write here instead of to stdout; into a folder under the usual name")
      ->type_name("FILE");
  add_common_flags(*command, context);
  for (const exchange::Exporter& format : exchange::exporters()) add_format(*command, context, format, asked);
  command->callback([&context, asked] {
    if (!asked->by_name) context.exit_code = run_for_engine(context, *asked);
  });
}

}  // namespace espalier::cli
