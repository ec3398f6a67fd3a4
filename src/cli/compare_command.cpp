// SPDX-License-Identifier: Apache-2.0
// espalier compare A.json B.json …: plans side by side, each simulated now, so that all figures come from one version.
#include "cli/command.h"
#include "espalier/compare.h"

namespace espalier::cli {
namespace {

int run_compare(Context& context, const std::vector<std::string>& paths) {
  std::vector<Compared> plans;
  for (const std::string& path : paths) {
    if (context.interrupted()) return kInterrupted;  // columns that are missing would be no comparison
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
    print_json(context, compare_json(plans));
  else
    print_answer(context, compare(plans, context.width()));
  return kOk;
}

}  // namespace

void add_compare_command(Command& app, Context& context) {
  Command* command = app.add_subcommand("compare", "plans side by side");
  auto paths = std::make_shared<std::vector<std::string>>();
  command->add_option("plans", *paths, "plan.json or result.json files")->required()->type_name("A.json B.json …");
  add_common_flags(*command, context);
  command->callback([&context, paths] { context.exit_code = run_compare(context, *paths); });
}

}  // namespace espalier::cli
