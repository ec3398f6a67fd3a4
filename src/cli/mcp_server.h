// SPDX-License-Identifier: Apache-2.0
// Methods of the Model Context Protocol, as this server answers them. Two eras are served on one connection: protocol
// versions that begin with `initialize` (up to 2025-11-25), and those that state their version in each request
// (`_meta` of 2026-07-28). Specification: https://modelcontextprotocol.io/specification
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "cli/mcp_call.h"
#include "cli/mcp_messages.h"

namespace espalier::cli {

class McpServer {
 public:
  explicit McpServer(std::string version) : program_version_(std::move(version)), tools_(all_tools()) {}

  /// Returns the line that answers a packet, without the line end; empty: nothing is answered. `cancelled` tells by its
  /// id whether a request needs no answer any longer.
  std::string answer(const RpcPacket& packet, const std::function<bool(const std::string& id)>& cancelled);

 private:
  /// Holds a result as JSON, or an error.
  struct Reply {
    std::string result;
    std::optional<RpcError> error{};
  };
  /// Names the protocol version of one request.
  struct Version {
    std::string name;
    bool per_request = false;  ///< stated in `_meta`: results carry the members of that era
  };

  std::string answer_message(const RpcMessage& message, const std::function<bool(const std::string&)>& cancelled);
  Reply reply(const RpcMessage& message, const std::function<bool()>& cancelled);
  Reply initialize(const Node* params);
  Reply discover() const;
  Reply list_tools(const Node* params, const Version& version) const;
  Reply call(const Node* params, const Version& version, const std::function<bool()>& cancelled) const;
  void write_identity(JsonWriter& w) const;
  void write_era(JsonWriter& w, const Version& version) const;
  [[nodiscard]] std::string answer_result(const ToolAnswer& answer, const Version& version) const;

  std::string program_version_;
  std::vector<Tool> tools_;
  std::string negotiated_;  ///< by `initialize`; empty: not yet
};

}  // namespace espalier::cli
