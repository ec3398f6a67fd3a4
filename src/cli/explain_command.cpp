// SPDX-License-Identifier: Apache-2.0
// Implements espalier explain PLAN.json: what limits the plan, how much slower the others are, which rule removed
// what. The search is read from a result.json (given, or next to the plan). Without one, the space is searched again.
#include "cli/command.h"
#include "espalier/explain.h"

namespace espalier::cli {
namespace {

/// Returns the plan simulated unchanged, together with a search of its job's whole space.
Result<PlannerResult> searched_again(Context& context, const Plan& given, int threads) {
  const auto job = report::job_to_explain(given);
  if (!job) return job.error();
  auto result = simulate(*job, given);
  if (!result) return result.error();
  note(context, "no result.json next to the plan: searching the whole " + std::string(to_string(job->search.kind)) +
                    " space of " + given.engine + " again");
  PlannerOptions options;
  options.threads = threads;
  options.interrupted = context.surroundings.interrupted;
  return report::with_search(*job, std::move(*result), options);
}

int run_explain(Context& context, const std::string& path, int threads) {
  auto loaded = load_plan_file(context, path);
  if (!loaded) return fail(context, loaded.error());
  if (!loaded->result || !searched(loaded->result->search.reason)) {
    auto beside = result_beside(path, loaded->plan);
    if (beside) loaded->result = std::move(beside);
  }
  if (!loaded->result || !searched(loaded->result->search.reason)) {
    auto again = searched_again(context, loaded->plan, threads);
    if (!again) return fail(context, in_file(path, again.error()));
    loaded->result = std::make_unique<PlannerResult>(std::move(again).value());
  }
  note_all(context, loaded->result->notes);
  if (const auto job = report::job_to_explain(loaded->plan)) report::simulate_changes(*job, *loaded->result);
  print_either(
      context, [&] { return report::explain_json(*loaded->result); },
      [&] { return report::explain(*loaded->result, context.width()); });
  return context.interrupted() ? kInterrupted : kOk;
}

}  // namespace

void add_explain_command(Command& app, Context& context) {
  Command* command =
      app.add_subcommand("explain", "explain a plan: its bottleneck, the runners-up and where they lose time, pruning by rule");
  auto path = std::make_shared<std::string>();
  auto threads = std::make_shared<int>(0);
  command->add_option("plan", *path, "plan.json or result.json; - for stdin")->required()->type_name("PLAN.json");
  command->add_option("--threads", *threads, "threads, if the space must be searched again")->range(0, 4096)->type_name("N");
  add_common_flags(*command, context);
  command->callback([&context, path, threads] { context.exit_code = run_explain(context, *path, *threads); });
}

}  // namespace espalier::cli
