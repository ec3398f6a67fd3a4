// SPDX-License-Identifier: Apache-2.0
// espalier simulate PLAN.json: the plan as it stands, simulated again; its timeline with --trace.
#include <CLI/CLI.hpp>

#include "cli/command.h"

namespace espalier::cli {
namespace {

int run_simulate(Context& context, const std::string& path, const OutputFlags& output) {
  auto loaded = load_plan_file(path);
  if (!loaded) return fail(context, loaded.error());
  auto job = job_of_plan(loaded->plan);
  if (!job) return fail(context, job.error());
  auto result = simulate(*job, loaded->plan);
  if (!result) return fail(context, result.error());
  std::vector<std::string> files;
  if (Status error = write_outputs(output, *job, *result, files)) return fail(context, *error);
  if (context.json) {
    print_json(context, to_json(*result));
    return kOk;
  }
  print_answer(context, result->brief());
  for (const std::string& file : files) context.out << "wrote " << file << "\n";
  return kOk;
}

}  // namespace

void add_simulate_command(CLI::App& app, Context& context) {
  CLI::App* command = app.add_subcommand("simulate", "run the event simulation of a plan, write its timeline");
  auto path = std::make_shared<std::string>();
  auto output = std::make_shared<OutputFlags>();
  command->add_option("plan", *path, "plan.json or result.json")->required()->type_name("PLAN.json");
  add_output_flags(*command, output);
  add_common_flags(*command, context);
  command->callback([&context, path, output] { context.exit_code = run_simulate(context, *path, *output); });
}

}  // namespace espalier::cli
