// SPDX-License-Identifier: Apache-2.0
// Implements espalier engines, which prints the catalogue of data/engines.yaml.
#include "cli/command.h"
#include "plan/engine.h"
#include "report/engines_text.h"

namespace espalier::cli {

void add_engines_command(Command& app, Context& context) {
  Command* command = app.add_subcommand("engines", "list what each framework can run, and in what its layers may differ");
  add_common_flags(*command, context);
  command->callback([&context] {
    if (context.json)
      print_json(context, report::engines_json(engine_catalogue()));
    else
      print_answer(context, report::engines_text(engine_catalogue()));
  });
}

}  // namespace espalier::cli
