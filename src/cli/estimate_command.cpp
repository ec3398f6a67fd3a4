// SPDX-License-Identifier: Apache-2.0
// Implements espalier estimate JOB.yaml --tp 8 --pp 4 …, for one given configuration. One that does not fit is still
// printed, and exits 4.
#include "cli/command.h"
#include "cli/configuration_flags.h"
#include "cli/engine_flag.h"
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
  if (!flags.dp && error.found.find(dp + " ") != std::string::npos) error.found += " (" + dp + " is derived)";
  if (std::string hint = change_that_helps(flags, job); !hint.empty()) error.hint = std::move(hint);
  return error;
}

struct EstimateFlags {
  JobFlags job;
  ConfigurationFlags configuration;
  std::string engine;  ///< value of --engine; empty: the job's
  std::string network;
  OutputFlags output;
  int threads = 0;
};

int run_estimate(Context& context, const EstimateFlags& flags) {
  const ConfigurationFlags& configuration = flags.configuration;
  if (Status status = outputs_refused(flags.output); !status.ok()) return fail(context, status.error());
  JobFlags asked = flags.job;
  if (Status status = take_engine(flags.engine, asked); !status.ok()) return fail(context, status.error());
  auto job = load_job_of(context, asked);
  if (!job) return fail(context, job.error());
  auto c = read_flags(configuration, *job);
  if (!c) return fail(context, c.error());
  job->network = network_of(flags.network);
  auto result = estimate(*job, c->strategy, c->schedule);
  if (!result) return fail(context, with_flags_that_help(result.error(), configuration, *job, *c));
  std::vector<std::string> files;
  if (Status status = write_outputs(context, flags.output, *job, *result, files); !status.ok())
    return fail(context, status.error());
  const int code = deliver(context, *result, files);
  return code == kOk && !result->prediction.fits ? kInfeasible : code;
}

}  // namespace

void add_estimate_command(Command& app, Context& context) {
  Command* command = app.add_subcommand("estimate", "predict one given configuration");
  auto flags = std::make_shared<EstimateFlags>();
  add_job_flags(*command, std::shared_ptr<JobFlags>(flags, &flags->job));
  add_engine_flag(*command, flags->engine, "predict for this engine, with its defaults below, instead of the job's");
  add_configuration_flags(*command, flags->configuration);
  add_network_flag(*command, flags->network);
  add_output_flags(*command, std::shared_ptr<OutputFlags>(flags, &flags->output));
  add_plan_schema_flag(*command, context);
  add_common_flags(*command, context);
  command->footer(configuration_defaults_help());
  command->add_option("--threads", flags->threads, "accepted for symmetry with plan; one configuration needs one thread")
      ->range(0, 4096)
      ->type_name("N");
  command->callback([&context, flags] { context.exit_code = run_estimate(context, *flags); });
}

}  // namespace espalier::cli
