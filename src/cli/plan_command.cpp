// SPDX-License-Identifier: Apache-2.0
// Implements espalier plan JOB.yaml. It searches the space of the job, and prints the fastest plan that fits and why.
// It prints a table with --sweep, and a size of the cluster with --deadline and --budget.
#include <charconv>
#include <optional>

#include "base/document.h"
#include "base/format.h"
#include "cli/engine_flag.h"
#include "cli/plan_long_run.h"
#include "cli/plan_objective.h"
#include "cli/plan_over_time.h"
#include "cli/questions.h"
#include "cli/search_hooks.h"
#include "cli/sweep.h"
#include "espalier/documents.h"
#include "espalier/text.h"
#include "report/brief_text.h"
#include "report/phase_text.h"

namespace espalier::cli {
namespace {

struct PlanFlags {
  JobFlags job;
  OutputFlags output;
  PlannerOptions options;
  SweepFlags sweep;
  QuestionFlags questions;
  std::string network = "closed";
  std::string simple;  ///< "1%" where --simple was given
  std::string engine;  ///< value of --engine; empty: the job's
  bool no_options = false;
};

/// Returns "1%", "1 %" or "0.01" as a share; nothing for anything else.
std::optional<double> share_of(std::string text) {
  const bool percent = !text.empty() && text.back() == '%';
  if (percent) text.pop_back();
  while (!text.empty() && text.back() == ' ') text.pop_back();
  double value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  value = percent ? value / 100 : value;
  if (!(value >= 0 && value <= 10)) return std::nullopt;
  return value;
}

/// Returns the options with --simple read.
Result<PlannerOptions> options_of(const PlanFlags& flags) {
  PlannerOptions options = flags.options;
  if (flags.simple.empty()) return options;
  const auto within = share_of(flags.simple);
  if (!within)
    return Error{ErrorKind::usage, "--simple", "\"" + flags.simple + "\"", "a share of the fastest time such as 1% or 0.01",
                 "--simple alone means 1%"};
  options.simple = true;
  options.simple_within = *within;
  return options;
}

/// Prints the answer first, then writes the files that need no further simulation, so that an interrupted user does
/// not wait for a timeline.
int deliver_best_so_far(Context& context, const PlanFlags& flags, const PlannerResult& result) {
  deliver(context, result, {});
  context.out << std::flush;
  if (!flags.output.folder.empty()) {
    const auto written = report::write_answer(flags.output.folder, result, "", plan_schema_of(context));
    if (!written) note(context, written.error().message());
  }
  note(context, result.search.optimal ? "interrupted: the timeline is left out"
                                      : "interrupted: this is the best so far, not proven optimal; the timeline is left out");
  return kInterrupted;
}

int run_plan(Context& context, const PlanFlags& flags) {
  if (Status status = outputs_refused(flags.output); !status.ok()) return fail(context, status.error());
  const auto options = options_of(flags);
  if (!options) return fail(context, options.error());
  auto job = load_job_of(context, flags.job);
  if (!job) return fail(context, job.error());
  job->network = network_of(flags.network);
  if (job->objective) return run_objective(context, *job, hooked(context, *options), flags.output);
  if (job->with_buckets && !job->cluster.changes()) return run_long_run(context, *job, hooked(context, *options), flags.output);
  if (job->cluster.changes()) return run_over_time(context, *job, *options, flags.output);
  PlannerOptions asked = hooked(context, *options);
  asked.engine_options = !flags.no_options;
  auto result = plan(*job, asked);
  clear_progress(context);
  if (!result) return fail(context, result.error());
  if (context.interrupted()) return deliver_best_so_far(context, flags, *result);
  std::vector<std::string> files;
  if (Status status = write_outputs(context, flags.output, *job, *result, files); !status.ok())
    return fail(context, status.error());
  deliver(context, *result, files);
  if (context.verbose > 0) context.err << report::lay_out(report::phases_text(result->search), context.width());
  if (context.verbose > 1) context.err << report::lay_out(report::budgets_text(), context.width());
  const int code = exit_code_of(context, result->search);
  if (code != kOk)
    note(context,
         "stopped early (" + std::string(to_string(result->search.reason)) + "): this is the best so far, not proven optimal");
  return code;
}

/// Returns the flags with --engine in place of the job's engine, and requests the price of its rules.
Result<PlanFlags> for_engine(const PlanFlags& flags) {
  PlanFlags out = flags;
  if (flags.engine.empty()) return out;
  if (Status status = take_engine(flags.engine, out.job); !status.ok()) return status.error();
  out.options.restriction = flags.sweep.axes.empty();
  return out;
}

int run_command(Context& context, const PlanFlags& flags) {
  auto chosen = for_engine(flags);
  if (!chosen) return fail(context, chosen.error());
  PlanFlags asked = std::move(*chosen);
  const auto job = with_questions(context, asked.job, flags.questions);
  if (!job) return fail(context, job.error());
  asked.job = *job;
  if (flags.sweep.axes.empty()) {
    if (!flags.sweep.csv.empty())
      return fail(context, Error{ErrorKind::usage, "--csv", "no --sweep", "--sweep PATH=V1,V2 with it", ""});
    return run_plan(context, asked);
  }
  const auto options = options_of(asked);
  if (!options) return fail(context, options.error());
  return run_sweep(context, asked.job, asked.sweep, *options, network_of(asked.network), asked.output);
}

}  // namespace

void add_plan_command(Command& app, Context& context) {
  Command* command = app.add_subcommand("plan", "find the best plan; print its predicted time and memory, and a certificate");
  auto flags = std::make_shared<PlanFlags>();
  add_job_flags(*command, std::shared_ptr<JobFlags>(flags, &flags->job));
  add_output_flags(*command, std::shared_ptr<OutputFlags>(flags, &flags->output));
  add_plan_schema_flag(*command, context);
  add_network_flag(*command, flags->network);
  command->add_option("--threads", flags->options.threads, "threads of the search; never changes the answer (0: all)")
      ->range(0, 4096)
      ->type_name("N");
  command->add_flag("--exhaustive", flags->options.exhaustive, "reference: simulate every legal configuration that fits");
  command->add_option("--no-rule", flags->options.disabled_rules, "switch a pruning rule off by name (repeatable)")
      ->one_value_each()
      ->type_name("NAME");
  command->add_option("--no-phase", flags->options.left_out_phases, "skip a phase of the search by name (repeatable)")
      ->one_value_each()
      ->type_name("NAME");
  command->add_option("--node-limit", flags->options.node_limit, "simulate at most N configurations (0: no limit)")
      ->non_negative()
      ->type_name("N");
  command->add_flag(
      "--simple{1%}", flags->simple,
      "choose the simplest plan that is at most this much slower than the fastest (--simple=2%; without a value: 1%)");
  add_engine_flag(*command, flags->engine,
                  "plan for this engine, and report what its rules cost against the best plan without them");
  command->add_flag("--no-options", flags->no_options, "do not report what the engine's options would gain");
  command->add_flag("--engines", flags->options.engines,
                    "also report the best plan of every engine, its time and loss, or why it has none");
  command
      ->add_option("--time-limit", flags->options.time_limit_s,
                   "stop the search after S seconds; such answers may differ from run to run (0: no limit)")
      ->non_negative()
      ->type_name("S");
  command->add_option("--alternatives", flags->options.alternatives, "runners-up to list")->range(0, 1000)->type_name("N");
  command
      ->add_option("--sweep", flags->sweep.axes,
                   "plan for each value and tabulate the answers (repeatable: every combination); nodes, devices, batch, "
                   "sequence, precision and engine are short for their paths")
      ->type_name("PATH=V1,V2,…")
      ->one_value_each();
  command->add_option("--csv", flags->sweep.csv, "with --sweep: also write the table here as CSV")->type_name("FILE");
  add_question_flags(*command, flags->questions);
  add_common_flags(*command, context);
  command->footer(engines_help());
  command->callback([&context, flags] { context.exit_code = run_command(context, *flags); });
}

}  // namespace espalier::cli
