// SPDX-License-Identifier: Apache-2.0
// Implements espalier inspect model|cluster|run FILE: it prints how the file was read, with every default marked.
#include <algorithm>
#include <filesystem>

#include "cli/command.h"
#include "espalier/inspect.h"

namespace espalier::cli {
namespace {

int run_inspect_model(Context& context, const std::string& path) {
  const auto text = path == "-" ? read_input(context, path) : Result<std::string>(std::string());
  if (!text) return fail(context, text.error());
  auto model = path == "-" ? load_model(*text, input_name(path)) : load_model_file(path);
  if (!model) return fail(context, model.error());
  print_either(
      context, [&] { return report::inspect_model_json(*model); },
      [&] { return report::inspect_model(*model, context.width()); });
  return kOk;
}

int run_inspect_cluster(Context& context, const std::string& path) {
  const auto text = path == "-" ? read_input(context, path) : Result<std::string>(std::string());
  if (!text) return fail(context, text.error());
  auto cluster = path == "-" ? load_cluster(*text, input_name(path), ".") : load_cluster_file(path);
  if (!cluster) return fail(context, cluster.error());
  print_either(
      context, [&] { return report::inspect_cluster_json(*cluster); },
      [&] { return report::inspect_cluster(*cluster, context.width()); });
  return kOk;
}

/// Prints one record in full: the one called `id`, or the first.
int run_inspect_run(Context& context, const std::string& path, const std::string& id) {
  const auto text = path == "-" ? read_input(context, path) : Result<std::string>(std::string());
  if (!text) return fail(context, text.error());
  const auto records = path == "-" ? read_run_records(*text, input_name(path)) : read_run_records_file(path);
  if (!records) return fail(context, records.error());
  for (const RunRecord& record : records->records) {
    if (!id.empty() && record.id != id) continue;
    const RunMapping mapping = map_run(record);
    print_either(
        context, [&] { return report::inspect_run_json(record, mapping); },
        [&] { return report::inspect_run(record, mapping, context.width()); });
    return kOk;
  }
  if (!records->unreadable.empty()) return fail(context, records->unreadable.front());
  constexpr std::size_t kMost = 8;
  std::string ids;
  for (std::size_t i = 0; i < std::min(kMost, records->records.size()); ++i)
    ids += (i == 0 ? "" : ", ") + ("\"" + records->records[i].id + "\"");
  if (records->records.size() > kMost) ids += ", …";
  return fail(context, Error{ErrorKind::bad_input, path, "no record \"" + id + "\"", "the id of a record in the file",
                             "the file holds " + ids});
}

}  // namespace

void add_inspect_command(Command& app, Context& context) {
  Command* command = app.add_subcommand("inspect", "show how a file was understood, with every default marked");
  command->require_subcommand();
  const auto add = [&](const char* name, const char* help, int (*inspect)(Context&, const std::string&)) {
    Command* part = command->add_subcommand(name, help);
    auto path = std::make_shared<std::string>();
    part->add_option("file", *path, "the file")->required()->type_name("FILE");
    add_common_flags(*part, context);
    part->callback([&context, path, inspect] { context.exit_code = inspect(context, *path); });
  };
  add("model", "a Hugging Face config.json or its folder: layers, operators, parameters", run_inspect_model);
  add("cluster", "a cluster file: devices, memory, fabric", run_inspect_cluster);
  Command* run = command->add_subcommand("run", "a measured run: the job and configuration it is predicted with");
  auto path = std::make_shared<std::string>();
  auto id = std::make_shared<std::string>();
  run->add_option("file", *path, "measured runs, one JSON object per line")->required()->type_name("RUN.json");
  run->add_option("--id", *id, "which record (default: the first)");
  add_common_flags(*run, context);
  run->callback([&context, path, id] { context.exit_code = run_inspect_run(context, *path, *id); });
}

}  // namespace espalier::cli
