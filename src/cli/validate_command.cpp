// SPDX-License-Identifier: Apache-2.0
// Implements espalier validate RUNS.jsonl …: it predicts measured runs and prints the error, per source and in total.
#include "cli/command.h"
#include "espalier/validate.h"

namespace espalier::cli {
namespace {

int run_validate(Context& context, const std::vector<std::string>& paths, const std::string& calibration_path,
                 const ValidationOptions& flags) {
  ValidationOptions options = flags;
  options.interrupted = context.surroundings.interrupted;
  if (!calibration_path.empty()) {
    auto read = read_calibration_file(calibration_path);
    if (!read) return fail(context, read.error());
    options.calibration = std::move(*read);
  }
  RunFile all;
  for (const std::string& path : paths) {
    auto read = read_run_records_file(path);
    if (!read) return fail(context, read.error());
    all.records.insert(all.records.end(), std::make_move_iterator(read->records.begin()),
                       std::make_move_iterator(read->records.end()));
    all.unreadable.insert(all.unreadable.end(), read->unreadable.begin(), read->unreadable.end());
  }
  if (all.records.empty()) return fail(context, all.unreadable.front());
  const Validation validation = validate_runs(all, options);
  if (context.json)
    print_json(context, to_json(validation));
  else
    print_answer(context, to_text(validation, context.verbose > 0 ? 20 : 0, context.width()));
  return context.interrupted() ? kInterrupted : kOk;
}

}  // namespace

void add_validate_command(Command& app, Context& context) {
  Command* command = app.add_subcommand("validate", "predict measured runs and print the error, per source and overall");
  auto paths = std::make_shared<std::vector<std::string>>();
  auto calibration = std::make_shared<std::string>();
  auto options = std::make_shared<ValidationOptions>();
  command->add_option("runs", *paths, "measured runs, one JSON object per line")->required()->type_name("RUNS.jsonl …");
  command->add_option("--threads", options->threads, "threads; never changes the answer (0: all)")
      ->range(0, 4096)
      ->type_name("N");
  add_calibration_flag(*command, *calibration);
  add_common_flags(*command, context);
  command->callback(
      [&context, paths, calibration, options] { context.exit_code = run_validate(context, *paths, *calibration, *options); });
}

}  // namespace espalier::cli
