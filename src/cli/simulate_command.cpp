// SPDX-License-Identifier: Apache-2.0
// Implements espalier simulate PLAN.json: it simulates the plan again, unchanged, and writes its timeline with
// --trace.
#include "cli/command.h"
#include "espalier/calibration.h"
#include "espalier/schedule_grid.h"

namespace espalier::cli {
namespace {

/// Returns the plan's own job, with another calibration in place of the plan's.
Result<Job> job_of(Plan& plan, const std::string& calibration) {
  if (calibration.empty()) return job_of_plan(plan);
  forget_calibration(plan);
  auto job = job_of_plan(plan);
  if (!job) return job;
  auto read = read_calibration_file(calibration);
  if (!read) return read.error();
  if (Status status = use_calibration(*job, std::move(*read)); !status.ok()) return status.error();
  return job;
}

struct SimulateFlags {
  std::string path, calibration, block, network;
  bool grid = false, ascii = false;
};

/// Prints the schedule as text in place of the answer.
int print_grid(Context& context, const Job& job, const PlannerResult& result, const SimulateFlags& flags) {
  const auto simulated = simulate_with_timeline(job, result.plan);
  if (!simulated) return fail(context, in_file(flags.path, simulated.error()));
  context.out << report::schedule_grid(result, simulated->timeline, {context.width(), flags.ascii || !context.surroundings.utf8});
  return kOk;
}

int run_simulate(Context& context, const SimulateFlags& flags, const OutputFlags& output) {
  const auto& [path, calibration, block, network, grid, ascii] = flags;
  if (Status status = outputs_refused(output); !status.ok()) return fail(context, status.error());
  auto loaded = load_plan_file(context, path);
  if (!loaded) return fail(context, loaded.error());
  auto job = job_of(loaded->plan, calibration);
  if (!job) return fail(context, in_file(path, job.error()));
  job->network = network_of(network);
  auto result = simulate(*job, loaded->plan);
  if (!result) return fail(context, in_file(path, result.error()));
  std::vector<std::string> files;
  if (Status status = write_outputs(context, output, *job, *result, files); !status.ok()) return fail(context, status.error());
  if (!block.empty()) {
    const auto timeline = block_timeline(*job, loaded->plan);
    if (!timeline) return fail(context, in_file(path, timeline.error()));
    if (Status status = report::write_file(block, *timeline); !status.ok()) return fail(context, status.error());
    files.push_back(block);
  }
  if (grid && !context.json) return print_grid(context, *job, *result, flags);
  return deliver(context, *result, files);
}

}  // namespace

void add_simulate_command(Command& app, Context& context) {
  Command* command = app.add_subcommand("simulate", "simulate the events of a plan, and write its timeline");
  auto flags = std::make_shared<SimulateFlags>();
  auto output = std::make_shared<OutputFlags>();
  command->add_option("plan", flags->path, "plan.json or result.json; - for stdin")->required()->type_name("PLAN.json");
  command->add_option("--block", flags->block, "write the timeline of one block with an operator partition here")
      ->type_name("FILE");
  add_calibration_flag(*command, flags->calibration);
  add_network_flag(*command, flags->network);
  add_output_flags(*command, output);
  add_plan_schema_flag(*command, context);
  command->add_flag("--detail", output->detail,
                    "show the steps inside instructions in the timeline: operators, their collectives, bytes, concurrent steps");
  command->add_flag("--grid", flags->grid, "print the schedule as text: stages by time slots, and a table of the stages");
  command->add_flag("--ascii", flags->ascii, "with --grid: print ASCII only, as in a locale without UTF-8");
  add_common_flags(*command, context);
  command->callback([&context, flags, output] { context.exit_code = run_simulate(context, *flags, *output); });
}

}  // namespace espalier::cli
