// SPDX-License-Identifier: Apache-2.0
// Implements espalier import galvatron STRATEGY.json --job JOB.yaml: it reads Galvatron's strategy file as a plan of
// the job, and simulates it.
#include "cli/import_command.h"

#include "base/document.h"
#include "espalier/exchange.h"

namespace espalier::cli {
namespace {

struct ImportFlags {
  std::string path;
  JobFlags job;
  OutputFlags output;
  bool without_sequence_parallel = false;
};

int run_import(Context& context, const ImportFlags& flags) {
  auto text = base::read_file(flags.path);
  if (!text) return fail(context, text.error());
  const auto job = load_job_of(context, flags.job);
  if (!job) return fail(context, job.error());
  exchange::ImportRequest request{&*job, {{"strategy", flags.path, std::move(*text)}}, {}};
  if (flags.without_sequence_parallel) request.options["sequence-parallel"] = "no";
  const auto imported = exchange::find_importer("galvatron")->read(request);
  if (!imported) return fail(context, imported.error());
  for (const std::string& sentence : imported->notes) note(context, sentence);
  const auto result = simulate(*job, imported->plan);
  if (!result) return fail(context, result.error());
  std::vector<std::string> files;
  if (Status status = write_outputs(context, flags.output, *job, *result, files); !status.ok())
    return fail(context, status.error());
  return deliver(context, *result, files);
}

void add_import_galvatron(Command& command, Context& context) {
  Command* part = command.add_subcommand("galvatron", "import Galvatron's strategy file as a plan of the job, and simulate it");
  auto flags = std::make_shared<ImportFlags>();
  part->add_option("strategy", flags->path, "galvatron_config_*.json")->required()->type_name("STRATEGY.json");
  add_import_job_flags(*part, flags->job);
  part->add_flag("--no-sequence-parallel", flags->without_sequence_parallel,
                 "run tensor groups without Megatron's sequence parallelism (a launch flag of Galvatron, not in the file)");
  add_output_flags(*part, std::shared_ptr<OutputFlags>(flags, &flags->output));
  add_plan_schema_flag(*part, context);
  add_common_flags(*part, context);
  part->callback([&context, flags] { context.exit_code = run_import(context, *flags); });
}

}  // namespace

void add_import_job_flags(Command& command, JobFlags& flags) {
  command.add_option("--job", flags.path, "job file: model, cluster, training")->required()->type_name("JOB.yaml");
  command.add_option("--set", flags.overrides, "override a value of the job: a.b.c=value (repeatable)")
      ->type_name("PATH=VALUE")
      ->one_value_each();
  add_calibration_flag(command, flags.calibration);
}

void add_import_command(Command& app, Context& context) {
  Command* command = app.add_subcommand("import", "import a plan, measurements or traces from another tool");
  command->require_subcommand();
  add_import_galvatron(*command, context);
  add_import_galvatron_profile(*command, context);
  add_import_trace(*command, context);
  add_import_configuration(*command, context);
  add_import_cluster(*command, context);
}

}  // namespace espalier::cli
