// SPDX-License-Identifier: Apache-2.0
// Implements espalier engines, which prints the catalogue of data/engines.yaml.
#include "cli/command.h"
#include "plan/engine.h"
#include "report/engines_text.h"

namespace espalier::cli {

void add_engines_command(Command& app, Context& context) {
  Command* command = app.add_subcommand("engines", "what each framework can run, and what its layers may differ in");
  add_common_flags(*command, context);
  command->callback([&context] {
    if (context.json)
      print_json(context, report::engines_json(engine_catalogue()));
    else
      print_answer(context, report::engines_text(engine_catalogue()));
  });
}

}  // namespace espalier::cli
