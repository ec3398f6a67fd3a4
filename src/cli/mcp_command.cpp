// SPDX-License-Identifier: Apache-2.0
// espalier mcp: a server of the Model Context Protocol on stdin and stdout, for agents (docs/how-to/agents.md).
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <iostream>
#include <mutex>
#include <streambuf>
#include <vector>

#include "cli/command.h"
#include "cli/mcp_inbox.h"
#include "cli/mcp_server.h"

namespace espalier::cli {
namespace {

/// Reads a file descriptor, which it closes.
class DescriptorBuffer : public std::streambuf {
 public:
  explicit DescriptorBuffer(int descriptor) : descriptor_(descriptor) {}
  ~DescriptorBuffer() override { ::close(descriptor_); }
  DescriptorBuffer(const DescriptorBuffer&) = delete;
  DescriptorBuffer& operator=(const DescriptorBuffer&) = delete;

 protected:
  int_type underflow() override {
    const ssize_t n = ::read(descriptor_, bytes_.data(), bytes_.size());
    if (n <= 0) return traits_type::eof();
    setg(bytes_.data(), bytes_.data(), bytes_.data() + n);
    return traits_type::to_int_type(bytes_.front());
  }

 private:
  int descriptor_;
  std::vector<char> bytes_ = std::vector<char>(std::size_t{1} << 16);
};

/// Moves the standard input of the process to a descriptor of its own and leaves /dev/null in its place. Files that a
/// job names can then not be the connection to the client. Returns -1 on failure.
int private_input() {
  const int own = ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  const bool moved = own >= 0 && null >= 0 && ::dup2(null, STDIN_FILENO) >= 0;
  if (null >= 0) ::close(null);
  if (!moved && own >= 0) ::close(own);
  return moved ? own : -1;
}

/// Writes lines from the serving and the reading thread.
class Output {
 public:
  explicit Output(std::ostream& out) : out_(out) {}
  void write(const std::string& line) {
    if (line.empty()) return;
    const std::lock_guard<std::mutex> lock(mutex_);
    out_ << line << "\n" << std::flush;
  }

 private:
  std::ostream& out_;
  std::mutex mutex_;
};

/// Returns the answer to a ping that needs no state of the connection; empty for every other packet.
std::string pong(const RpcPacket& packet) {
  if (packet.wrong || packet.batch) return {};
  const RpcMessage& message = packet.messages.front();
  const bool ping = message.kind == RpcMessage::Kind::request && message.method == "ping" && !message.wrong;
  return ping && (!message.params || message.params->find("_meta") == nullptr) ? result_line(message.id, "{}") : std::string();
}

int serve_stream(Context& context, std::istream& in) {
  Output output(context.out);
  std::atomic<bool> busy{false};
  Inbox inbox(in, [&](const RpcPacket& packet) {
    const std::string line = busy ? pong(packet) : std::string();
    output.write(line);
    return !line.empty();
  });
  McpServer server(ESPALIER_VERSION);
  const auto cancelled = [&](const std::string& id) { return inbox.cancelled(id) || context.interrupted(); };
  while (const auto packet = inbox.next()) {
    busy = true;
    const std::string line = server.answer(*packet, cancelled);
    busy = false;
    for (const RpcMessage& message : packet->messages) inbox.forget(message.id);
    output.write(line);
  }
  return context.out ? kOk : kInternal;
}

int serve(Context& context) {
  if (context.surroundings.input == nullptr)
    return fail(context,
                {ErrorKind::usage, "mcp", "no standard input", "messages of a client", "an MCP client starts this command"});
  if (context.surroundings.terminal) note(context, "waiting for messages of an MCP client on stdin; Ctrl-D ends");
  if (context.surroundings.input != &std::cin) return serve_stream(context, *context.surroundings.input);
  const int descriptor = private_input();
  if (descriptor < 0)
    return fail(context, {ErrorKind::internal, "stdin", "it cannot be moved", "a descriptor that can be copied", ""});
  DescriptorBuffer bytes(descriptor);
  std::istream in(&bytes);
  return serve_stream(context, in);
}

}  // namespace

void add_mcp_command(Command& app, Context& context) {
  Command* command =
      app.add_subcommand("mcp", "serve plan, estimate, improve, check, explain and inspect to agents (MCP, stdio)");
  command->footer(
      "Reads JSON-RPC messages from stdin, one a line, and answers on stdout. The server ends when its input has ended and all "
      "requests are answered. "
      "SKILL.md and docs/how-to/agents.md describe the tools.");
  command->callback([&context] { context.exit_code = serve(context); });
}

}  // namespace espalier::cli
