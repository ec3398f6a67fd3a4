// SPDX-License-Identifier: Apache-2.0
#include "base/document.h"
#include "cli/command.h"

#ifndef ESPALIER_VERSION
#define ESPALIER_VERSION "unknown"
#endif

namespace espalier::cli {

void add_version_command(Command& app, Context& context) {
  app.set_version_flag("--version", "espalier " ESPALIER_VERSION);
  Command* command = app.add_subcommand("version", "print the version");
  add_common_flags(*command, context);
  command->callback([&context] {
    if (!context.json) {
      context.out << "espalier " ESPALIER_VERSION "\n";
      return;
    }
    base::JsonWriter w;
    w.begin_object();
    w.key("schema").value("espalier.version/1");
    w.key("version").value(ESPALIER_VERSION);
    w.end_object();
    print_json(context, w.text());
  });
}

}  // namespace espalier::cli
