// SPDX-License-Identifier: Apache-2.0
#include "cli/mcp_messages.h"

#include <algorithm>
#include <utility>

#include "base/format.h"
#include "base/text.h"

namespace espalier::cli {
namespace {

/// A message has few values: its long parts are strings.
constexpr base::Limits kMessageLimits{kLongestLine, 64, 100'000, kLongestLine};

/// Returns the id as JSON, if a request may have it.
std::optional<std::string> id_of(const Node& id) {
  if (id.kind != NodeKind::string && id.kind != NodeKind::integer) return std::nullopt;
  return base::to_json(id);
}

RpcMessage refused_message(RpcMessage message, std::string why) {
  message.kind = RpcMessage::Kind::request;
  message.wrong = RpcError{kInvalidRequest, std::move(why)};
  return message;
}

/// Reads method and parameters, once the envelope is known to be sound.
RpcMessage with_method(RpcMessage message, const Node& value, const Node& method) {
  if (method.kind != NodeKind::string) return refused_message(std::move(message), "method must be a string");
  message.method = method.text;
  const Node* params = value.find("params");
  if (params == nullptr) return message;
  if (params->kind != NodeKind::mapping) {
    message.wrong = RpcError{kInvalidParams, "params must be an object"};
    return message;
  }
  message.params = *params;
  return message;
}

RpcMessage read_message(const Node& value) {
  RpcMessage message;
  if (value.kind != NodeKind::mapping) return refused_message(std::move(message), "a message must be an object");
  const Node *id = value.find("id"), *method = value.find("method"), *version = value.find("jsonrpc");
  if (id != nullptr) {
    const auto readable = id_of(*id);
    const bool error_without_id = method == nullptr && id->kind == NodeKind::null && value.find("error") != nullptr;
    if (!readable && !error_without_id) return refused_message(std::move(message), "id must be a string or an integer");
    message.id = readable.value_or("null");
  }
  if (version == nullptr || version->kind != NodeKind::string || version->text != "2.0")
    return refused_message(std::move(message), "jsonrpc must be \"2.0\"");
  if (method == nullptr) {
    if (value.find("result") == nullptr && value.find("error") == nullptr)
      return refused_message(std::move(message), "method is missing");
    message.kind = RpcMessage::Kind::response;
    return message;
  }
  for (const auto& [name, ignored] : value.members)
    if (name != "jsonrpc" && name != "id" && name != "method" && name != "params")
      return refused_message(std::move(message), cat("unknown member ", base::in_quotes(name)));
  message.kind = id == nullptr ? RpcMessage::Kind::notification : RpcMessage::Kind::request;
  return with_method(std::move(message), value, *method);
}

}  // namespace

RpcPacket read_packet(std::string_view line) {
  RpcPacket packet;
  packet.bytes = line.size();
  const auto document = base::read_json(line, "message", kMessageLimits);
  if (!document) {
    packet.wrong = RpcError{kParseError, document.error().message()};
    return packet;
  }
  const Node& root = document->root;
  packet.batch = root.kind == NodeKind::sequence;
  if (packet.batch && root.items.empty()) {
    packet.wrong = RpcError{kInvalidRequest, "a batch must hold a message"};
    return packet;
  }
  if (!packet.batch) packet.messages.push_back(read_message(root));
  for (const Node& item : root.items) packet.messages.push_back(read_message(item));
  return packet;
}

std::optional<RpcError> unknown_member(const Node& params, const std::vector<std::string>& known, const std::string& where) {
  for (const auto& [name, ignored] : params.members) {
    if (name == "_meta" || std::find(known.begin(), known.end(), name) != known.end()) continue;
    const std::string hint = base::suggestion(name, known);
    return RpcError{kInvalidParams,
                    cat(where, ": unknown ", base::in_quotes(name),
                        hint.empty() ? cat("; expected ", known.empty() ? "none" : base::joined(known)) : cat("; ", hint))};
  }
  return std::nullopt;
}

std::string one_line(std::string_view json) {
  std::string out;
  out.reserve(json.size());
  bool inside = false, escaped = false;
  for (const char c : json) {
    if (!inside && (c == ' ' || c == '\n' || c == '\r' || c == '\t')) continue;
    out += c;
    if (escaped) {
      escaped = false;
    } else if (inside && c == '\\') {
      escaped = true;
    } else if (c == '"') {
      inside = !inside;
    }
  }
  return out;
}

std::string result_line(const std::string& id, const std::string& result) {
  return cat("{\"jsonrpc\":\"2.0\",\"id\":", id, ",\"result\":", one_line(result), "}");
}

std::string error_line(const std::string& id, const RpcError& error) {
  JsonWriter w(0);
  w.begin_object().key("jsonrpc").value("2.0").key("id").raw(id).key("error").begin_object();
  w.key("code").value(error.code).key("message").value(error.message);
  if (!error.data.empty()) w.key("data").raw(error.data);
  w.end_object().end_object();
  return one_line(w.text());
}

}  // namespace espalier::cli
