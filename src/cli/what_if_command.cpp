// SPDX-License-Identifier: Apache-2.0
// Implements espalier what-if PLAN.json: the plan on a changed cluster, and the possible reactions. Nothing is
// executed.
#include "cli/change_flags.h"
#include "cli/command.h"
#include "espalier/adapt.h"

namespace espalier::cli {
namespace {

struct WhatIfFlags {
  std::string path;
  std::vector<std::string> lost, slow, links, added;
  std::int64_t survive = 0;
};

Result<adapt::Disturbance> disturbance_of(const WhatIfFlags& flags) {
  adapt::Disturbance out;
  out.lost = flags.lost;
  for (const std::string& text : flags.slow) {
    auto read = adapt::named_factor(text, "--slow", 1, 1e6);
    if (!read) return read.error();
    out.slow.push_back(*read);
  }
  for (const std::string& text : flags.links) {
    auto read = adapt::named_factor(text, "--link", 0, 1);
    if (!read) return read.error();
    out.links.push_back(*read);
  }
  for (const std::string& text : flags.added) {
    const auto read = adapt::named_factor(text, "--add", 1, 100'000);
    if (!read) return read.error();
    out.added.emplace_back(read->first, static_cast<std::int64_t>(read->second));
  }
  return out;
}

int run_survive(Context& context, const RunningPlan& running, std::int64_t most, const adapt::ChangeOptions& options) {
  const auto answer = adapt::survive(running.job, running.plan, most, options);
  if (!answer) return fail(context, answer.error());
  if (context.json)
    print_json(context, to_json(*answer, running.plan));
  else
    print_answer(context, to_text(*answer));
  return answer->covered == answer->losses ? kOk : kInfeasible;
}

int run_what_if(Context& context, const WhatIfFlags& flags, const ChangeFlags& how) {
  const auto running = running_plan(context, flags.path);
  if (!running) return fail(context, running.error());
  const auto options = change_options(context, how);
  if (!options) return fail(context, options.error());
  const auto what = disturbance_of(flags);
  if (!what) return fail(context, what.error());
  if (flags.survive > 0) {
    if (!what->empty())
      return fail(context,
                  Error{ErrorKind::usage, "--survive", "other changes with it", "--survive alone", "run the command twice"});
    return run_survive(context, *running, flags.survive, *options);
  }
  if (what->empty())
    return fail(context, Error{ErrorKind::usage, "what-if", "no change", "--lose, --slow, --link, --add or --survive",
                               "espalier what-if PLAN.json --lose node:3"});
  const auto answer = adapt::what_if(running->job, running->plan, *what, *options);
  if (!answer) return fail(context, in_file(flags.path, answer.error()));
  if (context.json)
    print_json(context, to_json(*answer, running->plan));
  else
    print_answer(context, to_text(*answer));
  return answer->actions[answer->recommended].possible ? kOk : kInfeasible;
}

}  // namespace

void add_what_if_command(Command& app, Context& context) {
  Command* command =
      app.add_subcommand("what-if", "list the actions for a plan on a changed cluster, what each costs and when it pays off");
  auto flags = std::make_shared<WhatIfFlags>();
  auto how = std::make_shared<ChangeFlags>();
  command->add_option("plan", flags->path, "plan.json or result.json; - for stdin")->required()->type_name("PLAN.json");
  command->add_option("--lose", flags->lost, "a lost node")->one_value_each()->type_name("node:3");
  command->add_option("--slow", flags->slow, "a slow device or node, and how many times as long it takes")
      ->one_value_each()
      ->type_name("rank:17=1.2");
  command
      ->add_option("--link", flags->links,
                   "a link, or the network connection of a node or device, and its remaining share of bandwidth")
      ->one_value_each()
      ->type_name("a-b=0.5");
  command->add_option("--add", flags->added, "add this number of nodes to a group")->one_value_each()->type_name("GROUP=4");
  command->add_option("--survive", flags->survive, "plan for every loss of up to N nodes")->range(1, 3)->type_name("N");
  add_change_flags(*command, how);
  add_common_flags(*command, context);
  command->callback([&context, flags, how] { context.exit_code = run_what_if(context, *flags, *how); });
}

}  // namespace espalier::cli
