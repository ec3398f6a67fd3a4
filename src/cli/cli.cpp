// SPDX-License-Identifier: Apache-2.0
// Holds the table of commands, and translates exceptions of C++ into exit codes.
#include "cli/cli.h"

#include <algorithm>
#include <exception>
#include <new>
#include <ostream>
#include <string>

#include "cli/command.h"

namespace espalier::cli {
namespace {

void add_commands(Command& app, Context& context) {
  add_plan_command(app, context);
  add_estimate_command(app, context);
  add_simulate_command(app, context);
  add_check_command(app, context);
  add_explain_command(app, context);
  add_compare_command(app, context);
  add_validate_command(app, context);
  add_calibrate_command(app, context);
  add_inspect_command(app, context);
  add_improve_command(app, context);
  add_import_command(app, context);
  add_export_command(app, context);
  add_report_command(app, context);
  add_engines_command(app, context);
  add_what_if_command(app, context);
  add_replan_command(app, context);
  add_run_command(app, context);
  add_profile_command(app, context);
  add_mcp_command(app, context);
  add_completion_commands(app, context);
  add_version_command(app, context);
}

}  // namespace

int run(int argc, const char* const* argv, std::ostream& out, std::ostream& err, const Surroundings& surroundings) {
  Context context{out, err, surroundings};
  Command app("Espalier plans how a transformer is trained across a cluster, predicts the cost, and proves the plan.",
              "espalier");
  app.require_subcommand();
  add_commands(app, context);
  try {
    const std::optional<int> ended = app.parse(argc, argv, out, [&](const Error& error) {
      context.json = std::find(argv, argv + argc, std::string("--json")) != argv + argc;
      return fail(context, error);
    });
    return ended ? *ended : context.exit_code;
  } catch (const std::bad_alloc&) {
    err << "espalier: internal error: out of memory\n";
  } catch (const std::exception& error) {
    err << "espalier: internal error: " << error.what()
        << "\nThis is a bug in Espalier; please report it with the input that triggers it.\n";
  }
  return kInternal;
}

}  // namespace espalier::cli
