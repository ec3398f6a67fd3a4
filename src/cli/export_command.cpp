// SPDX-License-Identifier: Apache-2.0
// espalier export FORMAT PLAN.json: the plan in each format of the registry; what a format cannot say is an error that names it.
#include "cli/command.h"
#include "espalier/check.h"
#include "espalier/exchange.h"

namespace espalier::cli {
namespace {

/// The rules of the format's engine that the plan breaks, all of them in one error.
Status rules_broken(const Job& job, const Plan& plan, const Exporter& format) {
  if (format.engine.empty()) return {};
  CheckOptions options;
  options.engine = format.engine;
  const auto report = check_plan(job, plan, options);
  if (!report) return report.error();
  std::string broken;
  for (const Finding& finding : report->findings)
    if (!finding.ok) broken += (broken.empty() ? "" : "; ") + finding.name + ": " + finding.text;
  if (broken.empty()) return {};
  return Error{ErrorKind::check_failed, "$", broken, "a plan that " + format.engine + " can run",
               "espalier plan --set engine=" + format.engine + " finds one"};
}

int run_export(Context& context, const Exporter& format, const std::string& path, const std::string& out) {
  const auto loaded = load_plan_file(context, path);
  if (!loaded) return fail(context, loaded.error());
  const auto job = job_of_plan(loaded->plan);
  if (!job) return fail(context, in_file(path, job.error()));
  if (Status broken = rules_broken(*job, loaded->plan, format)) return fail(context, in_file(path, *broken));
  const bool as_plan = format.name == "plan";
  if (Status refused = as_plan ? unwritable(loaded->plan, plan_schema_of(context)) : Status()) {
    return fail(context, in_file(path, *refused));
  }
  const auto text =
      as_plan ? Result<std::string>(to_json(loaded->plan, plan_schema_of(context)) + "\n") : format.write(*job, loaded->plan);
  if (!text) return fail(context, in_file(path, text.error()));
  if (out.empty()) {
    context.out << *text;
    return kOk;
  }
  if (Status error = write_file(out, *text)) return fail(context, *error);
  note(context, "wrote " + out);
  return kOk;
}

}  // namespace

void add_export_command(Command& app, Context& context) {
  Command* command = app.add_subcommand("export", "a plan in another format");
  command->require_subcommand();
  for (const Exporter& format : exporters()) {
    Command* part = command->add_subcommand(format.name, format.writes);
    auto path = std::make_shared<std::string>();
    auto out = std::make_shared<std::string>();
    part->add_option("plan", *path, "plan.json or result.json; - for stdin")->required()->type_name("PLAN.json");
    part->add_option("-o,--out", *out, "write here instead of to stdout")->type_name("FILE");
    if (format.name == "plan") add_plan_schema_flag(*part, context);
    add_common_flags(*part, context);
    part->callback([&context, &format, path, out] { context.exit_code = run_export(context, format, *path, *out); });
  }
}

}  // namespace espalier::cli
