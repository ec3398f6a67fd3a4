// SPDX-License-Identifier: Apache-2.0
// Table of commands, and the translation of CLI11's and C++'s ways to fail into exit codes.
#include "cli/cli.h"

#include <algorithm>
#include <exception>
#include <new>
#include <ostream>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "cli/command.h"
#include "cli/usage.h"

namespace espalier::cli {
namespace {

void add_commands(CLI::App& app, Context& context) {
  add_plan_command(app, context);
  add_estimate_command(app, context);
  add_simulate_command(app, context);
  add_check_command(app, context);
  add_explain_command(app, context);
  add_compare_command(app, context);
  add_validate_command(app, context);
  add_calibrate_command(app, context);
  add_inspect_command(app, context);
  add_import_command(app, context);
  add_export_command(app, context);
  add_version_command(app, context);
}

int parse_and_run(CLI::App& app, Context& context, int argc, const char* const* argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // Help and version requests are "errors" with code 0; everything else is a usage error, whatever CLI11's own code.
    if (error.get_exit_code() == 0) return app.exit(error, context.out, context.err);
    const std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
    context.json = std::find(words.begin(), words.end(), "--json") != words.end();
    return fail(context, usage_error(app, error, words));
  }
  return context.exit_code;
}

}  // namespace

int run(int argc, const char* const* argv, std::ostream& out, std::ostream& err, const Surroundings& surroundings) {
  Context context{out, err, surroundings};
  CLI::App app("Espalier plans how a transformer is trained across a cluster, predicts the cost, and proves the plan.",
               "espalier");
  app.require_subcommand(1);
  add_commands(app, context);
  try {
    return parse_and_run(app, context, argc, argv);
  } catch (const std::bad_alloc&) {
    err << "espalier: internal error: out of memory\n";
  } catch (const std::exception& error) {
    err << "espalier: internal error: " << error.what()
        << "\nThis is a bug in Espalier; please report it with the input that shows it.\n";
  }
  return kInternal;
}

}  // namespace espalier::cli
