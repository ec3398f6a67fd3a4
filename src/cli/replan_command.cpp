// SPDX-License-Identifier: Apache-2.0
// Implements espalier replan PLAN.json --observe OBS.json. From the observation of a running plan, it derives what is
// wrong with the cluster, and what to do. Nothing is executed.
#include "cli/change_flags.h"
#include "cli/command.h"
#include "espalier/observation.h"

namespace espalier::cli {
namespace {

struct ReplanFlags {
  std::string path, observation;
};

int run_replan(Context& context, const ReplanFlags& flags, const ChangeFlags& how) {
  const auto running = running_plan(context, flags.path);
  if (!running) return fail(context, running.error());
  const auto options = change_options(context, how);
  if (!options) return fail(context, options.error());
  const auto text = read_input(context, flags.observation);
  if (!text) return fail(context, text.error());
  const auto seen = adapt::load_observation(*text, input_name(flags.observation));
  if (!seen) return fail(context, seen.error());
  const auto answer = adapt::replan(running->job, running->plan, *seen, *options);
  if (!answer) return fail(context, in_file(flags.observation, answer.error()));
  if (context.json)
    print_json(context, to_json(*answer, running->plan));
  else
    print_answer(context, to_text(*answer));
  return !answer->ladder || answer->ladder->actions[answer->ladder->recommended].possible ? kOk : kInfeasible;
}

}  // namespace

void add_replan_command(Command& app, Context& context) {
  Command* command = app.add_subcommand("replan", "recommend what to do about observations of a running plan; executes nothing");
  auto flags = std::make_shared<ReplanFlags>();
  auto how = std::make_shared<ChangeFlags>();
  command->add_option("plan", flags->path, "plan.json or result.json; - for stdin")->required()->type_name("PLAN.json");
  command->add_option("--observe", flags->observation, "observations: espalier.observation/1")->required()->type_name("OBS.json");
  add_change_flags(*command, how);
  add_common_flags(*command, context);
  command->callback([&context, flags, how] { context.exit_code = run_replan(context, *flags, *how); });
}

}  // namespace espalier::cli
