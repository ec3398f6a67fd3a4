// SPDX-License-Identifier: Apache-2.0
// Implements espalier completion SHELL and espalier man, generated from the definition of the command line.
#include "cli/command.h"
#include "cli/completion.h"

namespace espalier::cli {

void add_completion_commands(Command& app, Context& context) {
  Command* completion = app.add_subcommand("completion", "print a completion script for a shell");
  auto shell = std::make_shared<std::string>();
  completion->add_option("shell", *shell, "bash, zsh or fish")->required()->one_of({"bash", "zsh", "fish"})->type_name("SHELL");
  completion->callback([&app, &context, shell] {
    const DescribedCommand program = app.described();
    context.out << (*shell == "bash"  ? bash_completion(program)
                    : *shell == "zsh" ? zsh_completion(program)
                                      : fish_completion(program));
  });
  Command* man = app.add_subcommand("man", "print the manual page (roff)");
  man->callback([&app, &context] { context.out << manual_page(app.described(), ESPALIER_VERSION); });
}

}  // namespace espalier::cli
