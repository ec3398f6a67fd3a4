// SPDX-License-Identifier: Apache-2.0
// Implements espalier estimate JOB.yaml --tp 8 --pp 4 …, for one given configuration. One that does not fit is still
// printed, and exits 4.
#include "cli/command.h"
#include "cli/configuration_flags.h"
#include "cli/legal_flags.h"
#include "plan/engine.h"
#include "planner/legality.h"

namespace espalier::cli {
namespace {

/// Returns the error with flags to type instead, where it is about rules.
Error with_flags_that_help(Error error, const ConfigurationFlags& flags, const Job& job, const Configuration& c) {
  const EngineModel* engine = find_engine(job.engine);
  if (engine == nullptr || planner::illegal(job, *engine, c.strategy, c.schedule).ok()) return error;
  const std::string dp = "dp " + std::to_string(c.strategy.dp);
  if (flags.dp == 0 && error.found.find(dp + " ") != std::string::npos) error.found += " (" + dp + " is derived)";
  if (std::string hint = change_that_helps(flags, job); !hint.empty()) error.hint = std::move(hint);
  return error;
}

int run_estimate(Context& context, const JobFlags& flags, const ConfigurationFlags& configuration, const std::string& network,
                 const OutputFlags& output) {
  if (Status status = outputs_refused(output); !status.ok()) return fail(context, status.error());
  auto job = load_job_of(context, flags);
  if (!job) return fail(context, job.error());
  auto c = read_flags(configuration, *job);
  if (!c) return fail(context, c.error());
  job->network = network_of(network);
  auto result = estimate(*job, c->strategy, c->schedule);
  if (!result) return fail(context, with_flags_that_help(result.error(), configuration, *job, *c));
  std::vector<std::string> files;
  if (Status status = write_outputs(context, output, *job, *result, files); !status.ok()) return fail(context, status.error());
  const int code = deliver(context, *result, files);
  return code == kOk && !result->prediction.fits ? kInfeasible : code;
}

}  // namespace

void add_estimate_command(Command& app, Context& context) {
  Command* command = app.add_subcommand("estimate", "predict one given configuration");
  auto job = std::make_shared<JobFlags>();
  auto configuration = std::make_shared<ConfigurationFlags>();
  auto network = std::make_shared<std::string>();
  auto output = std::make_shared<OutputFlags>();
  add_job_flags(*command, job);
  add_configuration_flags(*command, *configuration);
  add_network_flag(*command, *network);
  add_output_flags(*command, output);
  add_plan_schema_flag(*command, context);
  add_common_flags(*command, context);
  command->footer(configuration_defaults_help());
  auto threads = std::make_shared<int>(0);
  command->add_option("--threads", *threads, "accepted for symmetry with plan; one configuration needs one thread")
      ->range(0, 4096)
      ->type_name("N");
  command->callback([&context, job, configuration, network, output, threads] {
    context.exit_code = run_estimate(context, *job, *configuration, *network, *output);
  });
}

}  // namespace espalier::cli
