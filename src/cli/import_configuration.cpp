// SPDX-License-Identifier: Apache-2.0
// Implements espalier import config --format NAME FILE --cluster FILE: it converts a configuration of a training
// framework to a job and a plan, and simulates it.
#include <filesystem>

#include "base/document.h"
#include "base/format.h"
#include "cli/import_command.h"
#include "cli/imported.h"

namespace espalier::cli {
namespace {

struct ConfigurationImportFlags {
  ImportedFlags imported;
  OutputFlags output;
};

int print_result(Context& context, const ConfigurationImportFlags& flags, const ImportedJob& imported,
                 const PlannerResult& result, const std::vector<std::string>& files) {
  if (context.json) {
    base::JsonWriter w;
    w.begin_object();
    w.key("schema").value("espalier.import/1");
    w.key("import").raw(keys_json(imported.configuration, flags.imported.format));
    w.key("result").raw(to_json(result, false, plan_schema_of(context)));
    w.end_object();
    print_json(context, w.text());
  } else {
    print_answer(context, base::cat(keys_text(imported.configuration), "\n", answer_text(context, result)));
    for (const std::string& file : files) context.out << "wrote " << file << "\n";
  }
  return result.prediction.fits ? kOk : kInfeasible;
}

int run(Context& context, const ConfigurationImportFlags& flags) {
  if (Status status = outputs_refused(flags.output); !status.ok()) return fail(context, status.error());
  auto imported = read_imported(context, flags.imported);
  if (!imported) return fail(context, imported.error());
  const auto plan = plan_of(imported->job, imported->configuration);
  if (!plan) return fail(context, plan.error());
  const auto result = simulate(imported->job, *plan);
  if (!result) return fail(context, result.error());
  std::vector<std::string> files;
  if (Status status = write_outputs(context, flags.output, imported->job, *result, files); !status.ok())
    return fail(context, status.error());
  if (!flags.output.folder.empty()) {
    files.push_back((std::filesystem::path(flags.output.folder) / "job.yaml").string());
    const auto job = job_file(imported->job, flags.imported, {});
    if (!job) return fail(context, job.error());
    if (Status status = report::write_file(files.back(), *job); !status.ok()) return fail(context, status.error());
  }
  return print_result(context, flags, *imported, *result, files);
}

/// Adds an import. `format` is the one that it reads; empty where a flag names it.
void add_one(Command& command, Context& context, const std::string& name, const std::string& help, const std::string& format) {
  Command* part = command.add_subcommand(name, help);
  auto flags = std::make_shared<ConfigurationImportFlags>();
  flags->imported.format = format;
  add_imported_flags(*part, format.empty() ? "--format,--from" : "", flags->imported);
  add_output_flags(*part, std::shared_ptr<OutputFlags>(flags, &flags->output));
  add_plan_schema_flag(*part, context);
  add_common_flags(*part, context);
  part->callback([&context, flags] { context.exit_code = run(context, *flags); });
}

}  // namespace

void add_import_configuration(Command& command, Context& context) {
  add_one(command, context, "config", "import a training framework's configuration as a job and a plan, and simulate it", "");
  for (const exchange::ConfigurationFormat& row : exchange::configuration_formats())
    add_one(command, context, row.name, base::cat("short for config --format ", row.name), row.name);
}

}  // namespace espalier::cli
