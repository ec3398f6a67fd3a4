// SPDX-License-Identifier: Apache-2.0
// espalier export galvatron PLAN.json: the plan as Galvatron's strategy file; what the file cannot say is an error that names it.
#include "cli/command.h"
#include "galvatron/plan_conversion.h"
#include "report/output_files.h"

namespace espalier::cli {
namespace {

int run_export(Context& context, const std::string& path, const std::string& out) {
  const auto loaded = load_plan_file(context, path);
  if (!loaded) return fail(context, loaded.error());
  const auto document = galvatron::document_of(loaded->plan);
  if (!document) {
    Error error = document.error();
    error.where = path + ": " + error.where;
    return fail(context, error);
  }
  const std::string text = galvatron::to_json(*document);
  if (out.empty()) {
    context.out << text;
    return kOk;
  }
  if (Status error = report::write_file(out, text)) return fail(context, *error);
  note(context, "wrote " + out);
  return kOk;
}

}  // namespace

void add_export_command(Command& app, Context& context) {
  Command* command = app.add_subcommand("export", "a plan in the format of another tool");
  command->require_subcommand();
  Command* part = command->add_subcommand("galvatron", "Galvatron's strategy file (galvatron_config_*.json)");
  auto path = std::make_shared<std::string>();
  auto out = std::make_shared<std::string>();
  part->add_option("plan", *path, "plan.json or result.json; - for stdin")->required()->type_name("PLAN.json");
  part->add_option("-o,--out", *out, "write here instead of to stdout")->type_name("FILE");
  add_common_flags(*part, context);
  part->callback([&context, path, out] { context.exit_code = run_export(context, *path, *out); });
}

}  // namespace espalier::cli
