// SPDX-License-Identifier: Apache-2.0
// Messages of the Model Context Protocol: JSON-RPC 2.0, one message a line. A line becomes a packet of messages, and
// results and errors become lines. Nothing here depends on what the methods do.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/document.h"

namespace espalier::cli {

inline constexpr int kParseError = -32700;          ///< the line is no JSON, too deep or too long
inline constexpr int kInvalidRequest = -32600;      ///< JSON, but no message of the protocol
inline constexpr int kMethodNotFound = -32601;      ///< a method that this server lacks
inline constexpr int kInvalidParams = -32602;       ///< parameters of a wrong type, unknown or missing
inline constexpr int kInternalError = -32603;       ///< the server failed, not the request
inline constexpr int kUnsupportedVersion = -32022;  ///< a request states a protocol version that this server lacks

struct RpcError {
  int code = kInternalError;
  std::string message;
  std::string data{};  ///< JSON; empty: none
};

struct RpcMessage {
  enum class Kind : std::uint8_t { request, notification, response };
  Kind kind = Kind::request;
  std::string id = "null";  ///< as JSON: 7 or "a"; null where the message has none that can be read
  std::string method;
  std::optional<Node> params{};
  std::optional<RpcError> wrong{};  ///< why this is no message; it is then answered with the error
};

/// Holds a line of the client: one message, or a batch of them.
struct RpcPacket {
  bool batch = false;
  std::vector<RpcMessage> messages;
  std::size_t bytes = 0;            ///< length of the line
  std::optional<RpcError> wrong{};  ///< the line as a whole cannot be read
};

/// Lines may be this long. A job with its model inside takes a thousandth of it.
inline constexpr std::size_t kLongestLine = std::size_t{16} << 20;

RpcPacket read_packet(std::string_view line);

/// Reports the first member of `params` that `known` does not list; `_meta` is always known.
std::optional<RpcError> unknown_member(const Node& params, const std::vector<std::string>& known, const std::string& where);

/// Removes the white space between tokens, so that a document fits into a line. Numbers and strings stay as written.
std::string one_line(std::string_view json);

/// Returns a response with this result, without the line end.
std::string result_line(const std::string& id, const std::string& result);
std::string error_line(const std::string& id, const RpcError& error);

}  // namespace espalier::cli
