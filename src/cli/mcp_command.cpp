// SPDX-License-Identifier: Apache-2.0
// espalier mcp: a server of the Model Context Protocol on stdin and stdout, for agents (docs/how-to/agents.md).
#include "cli/command.h"
#include "cli/mcp_inbox.h"
#include "cli/mcp_server.h"

namespace espalier::cli {
namespace {

int serve(Context& context) {
  if (context.surroundings.input == nullptr)
    return fail(context,
                {ErrorKind::usage, "mcp", "no standard input", "messages of a client", "an MCP client starts this command"});
  if (context.surroundings.terminal) note(context, "waiting for messages of an MCP client on stdin; Ctrl-D ends");
  Inbox inbox(*context.surroundings.input);
  McpServer server(ESPALIER_VERSION);
  const auto cancelled = [&](const std::string& id) { return inbox.cancelled(id) || context.interrupted(); };
  while (const auto packet = inbox.next()) {
    const std::string line = server.answer(*packet, cancelled);
    for (const RpcMessage& message : packet->messages) inbox.forget(message.id);
    if (!line.empty()) context.out << line << "\n" << std::flush;
  }
  return context.out ? kOk : kInternal;
}

}  // namespace

void add_mcp_command(Command& app, Context& context) {
  Command* command =
      app.add_subcommand("mcp", "serve plan, estimate, improve, check, explain and inspect to agents (MCP, stdio)");
  command->footer(
      "Reads JSON-RPC messages from stdin, one a line, and answers on stdout. The server ends when its input is closed. "
      "SKILL.md and docs/how-to/agents.md describe the tools.");
  command->callback([&context] { context.exit_code = serve(context); });
}

}  // namespace espalier::cli
