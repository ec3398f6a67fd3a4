// SPDX-License-Identifier: Apache-2.0
// Implements espalier check FILE. It verifies a plan again from its embedded inputs, by code that shares nothing with
// the search, and checks its engine's rules (or those of --engine) by name. For a result.json it also verifies every
// figure; with --search the search runs again and is compared. For an answer of what-if, replan or --survive it
// verifies bytes that move, pauses and horizons.
#include "cli/command.h"
#include "espalier/check.h"
#include "espalier/engines.h"

namespace espalier::cli {
namespace {

struct CheckFlags {
  std::string path, engine;
  bool search = false;
};

/// Checks an answer of what-if, replan or --survive.
int check_change(Context& context, const CheckFlags& flags, const std::string& text) {
  if (flags.search || !flags.engine.empty())
    return fail(context,
                {ErrorKind::usage, flags.search ? "--search" : "--engine", flags.path + ", an answer about a running plan",
                 "a plan or a result of espalier plan", "omit the flag"});
  const auto report = report::check_answer_to_change(text, input_name(flags.path));
  if (!report) return fail(context, report.error());
  print_either(
      context, [&] { return report::to_json(*report, flags.path); },
      [&] { return report::to_text(*report, input_name(flags.path)); });
  return report->ok() ? kOk : kCheckFailed;
}

int run_check(Context& context, const CheckFlags& flags) {
  if (const auto text = read_input(context, flags.path); text.ok() && report::is_answer_to_change(*text))
    return check_change(context, flags, *text);
  auto loaded = load_plan_file(context, flags.path);
  if (!loaded) return fail(context, loaded.error());
  if (flags.search && !loaded->result)
    return fail(context,
                {ErrorKind::usage, "--search", flags.path + ", a plan", "a result.json: a plan does not describe a search", ""});
  const auto job = job_of_plan(loaded->plan);
  if (!job) return fail(context, in_file(flags.path, job.error()));
  note_all(context, job->notes);
  report::CheckOptions options;
  options.engine = flags.engine;
  options.search_again = flags.search;
  options.how.interrupted = context.surroundings.interrupted;
  const auto report = loaded->result ? report::check_result(*job, *loaded->result, loaded->text, options)
                                     : report::check_plan(*job, loaded->plan, options);
  if (!report) return fail(context, in_file(flags.path, report.error()));
  print_either(
      context, [&] { return report::to_json(*report, flags.path); }, [&] { return report::to_text(*report, loaded->plan); });
  return context.interrupted() ? kInterrupted : report->ok() ? kOk : kCheckFailed;
}

}  // namespace

void add_check_command(Command& app, Context& context) {
  Command* command = app.add_subcommand(
      "check", "re-verify a plan, a result, or an answer of what-if or replan, against the rules of its engine or another");
  auto flags = std::make_shared<CheckFlags>();
  command->add_option("plan", flags->path, "plan.json, result.json, or the --json output of what-if or replan; - for stdin")
      ->required()
      ->type_name("FILE");
  command->add_option("--engine", flags->engine, "check this engine's rules (default: the plan's own)")
      ->suggest(engine_names())
      ->type_name("NAME");
  command->add_flag("--search", flags->search, "for a result.json: search again and compare");
  add_common_flags(*command, context);
  command->callback([&context, flags] { context.exit_code = run_check(context, *flags); });
}

}  // namespace espalier::cli
