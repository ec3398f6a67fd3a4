// SPDX-License-Identifier: Apache-2.0
#include "cli/mcp_server.h"

#include <algorithm>
#include <array>
#include <exception>

#include "base/format.h"
#include "base/text.h"

namespace espalier::cli {
namespace {

/// Newest first. The first one is stated by each request; the others are agreed on by `initialize`.
constexpr std::array<std::string_view, 5> kVersions = {"2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"};
constexpr std::string_view kPerRequest = kVersions[0];
constexpr std::string_view kNewestWithHandshake = kVersions[1];
constexpr std::string_view kWithBatches = "2025-03-26";         ///< the only version that has them
constexpr std::string_view kFirstWithStructure = "2025-06-18";  ///< from here on results have structuredContent
/// From this version on, wrong arguments are results, so that a model sees them and corrects itself.
constexpr std::string_view kFirstWithToolErrors = "2025-11-25";

constexpr const char* kVersionKey = "io.modelcontextprotocol/protocolVersion";
constexpr const char* kCapabilitiesKey = "io.modelcontextprotocol/clientCapabilities";
constexpr const char* kServerKey = "io.modelcontextprotocol/serverInfo";

constexpr const char* kInstructions =
    "Plans and predicts distributed training of transformers. Start with `plan`, or with `improve` where a configuration exists. "
    "Documents are in structuredContent; pass one on as text to `check` or `explain`. Ask the user before you change precision, "
    "global batch, packing or other knobs that change training.";

void write_versions(JsonWriter& w) {
  w.begin_array();
  for (const std::string_view version : kVersions) w.value(version);
  w.end_array();
}

RpcError invalid_params(std::string message) { return {kInvalidParams, std::move(message)}; }

const Node* meta_of(const RpcMessage& message) {
  const Node* meta = message.params ? message.params->find("_meta") : nullptr;
  return meta != nullptr && meta->kind == NodeKind::mapping ? meta : nullptr;
}

/// Checks the members that a request of the newer era carries.
std::optional<RpcError> wrong_envelope(const Node& meta) {
  const Node *version = meta.find(kVersionKey), *capabilities = meta.find(kCapabilitiesKey);
  if (version->kind != NodeKind::string) return invalid_params(cat("_meta: ", kVersionKey, " must be a string"));
  if (version->text != kPerRequest) {
    JsonWriter data(0);
    data.begin_object().key("supported");
    write_versions(data);
    data.key("requested").value(version->text).end_object();
    return RpcError{kUnsupportedVersion, "Unsupported protocol version", data.text()};
  }
  if (capabilities == nullptr || capabilities->kind != NodeKind::mapping)
    return invalid_params(cat("_meta: ", kCapabilitiesKey, " must be an object"));
  return std::nullopt;
}

void write_text_block(JsonWriter& w, const std::string& text) {
  w.begin_object().key("type").value("text").key("text").value(text).end_object();
}

/// Makes a result that reports an error to the model.
ToolAnswer error_answer(const Error& error) {
  ToolAnswer answer;
  answer.exit_code = 2;
  answer.notes = error.message();
  answer.error = true;
  return answer;
}

}  // namespace

std::string McpServer::answer(const RpcPacket& packet, const std::function<bool(const std::string&)>& cancelled) {
  if (packet.wrong) return error_line("null", *packet.wrong);
  if (!packet.batch) return answer_message(packet.messages.front(), cancelled);
  if (negotiated_ != kWithBatches)
    return error_line("null", {kInvalidRequest, cat("batches exist in protocol version ", kWithBatches, " alone")});
  std::vector<std::string> lines;
  for (const RpcMessage& message : packet.messages) {
    std::string line = message.method == "initialize" && message.kind == RpcMessage::Kind::request
                           ? error_line(message.id, {kInvalidRequest, "initialize must not be part of a batch"})
                           : answer_message(message, cancelled);
    if (!line.empty()) lines.push_back(std::move(line));
  }
  return lines.empty() ? std::string() : cat("[", base::joined(lines, ","), "]");
}

std::string McpServer::answer_message(const RpcMessage& message, const std::function<bool(const std::string&)>& cancelled) {
  if (message.kind != RpcMessage::Kind::request) return {};
  const auto gone = [&] { return cancelled(message.id); };
  Reply done;
  try {
    done = message.wrong ? Reply{{}, message.wrong} : gone() ? Reply{} : reply(message, gone);
  } catch (const std::exception& error) {
    done = {{}, RpcError{kInternalError, error.what()}};
  }
  if (gone()) return {};
  return done.error ? error_line(message.id, *done.error) : result_line(message.id, done.result);
}

McpServer::Reply McpServer::reply(const RpcMessage& message, const std::function<bool()>& cancelled) {
  const Node* params = message.params ? &*message.params : nullptr;
  if (message.method == "initialize") return initialize(params);
  const Node* meta = meta_of(message);
  const bool per_request = meta != nullptr && meta->find(kVersionKey) != nullptr;
  if (per_request)
    if (auto wrong = wrong_envelope(*meta)) return {{}, std::move(wrong)};
  const Version version{per_request ? std::string(kPerRequest) : negotiated_, per_request};
  if (message.method == "ping" && !per_request) return {"{}"};
  const bool known = message.method == "tools/list" || message.method == "tools/call" ||
                     (message.method == "server/discover" && (per_request || negotiated_.empty()));
  if (!known) return {{}, RpcError{kMethodNotFound, cat("no method ", base::in_quotes(message.method))}};
  if (version.name.empty())
    return {{}, invalid_params(cat("send initialize first, or state ", kVersionKey, " and ", kCapabilitiesKey, " in _meta"))};
  if (message.method == "server/discover") return discover();
  return message.method == "tools/list" ? list_tools(params, version) : call(params, version, cancelled);
}

void McpServer::write_identity(JsonWriter& w) const {
  w.begin_object()
      .key("name")
      .value("espalier")
      .key("title")
      .value("Espalier")
      .key("version")
      .value(program_version_)
      .end_object();
}

/// Writes the members that each result of the newer era carries.
void McpServer::write_era(JsonWriter& w, const Version& version) const {
  if (!version.per_request) return;
  w.key("resultType").value("complete").key("_meta").begin_object().key(kServerKey);
  write_identity(w);
  w.end_object();
}

/// Unknown members are ignored here: a client that is newer than this server must still get its answer.
McpServer::Reply McpServer::initialize(const Node* params) {
  const Node* asked = params == nullptr ? nullptr : params->find("protocolVersion");
  if (asked == nullptr || asked->kind != NodeKind::string) return {{}, invalid_params("protocolVersion must be a string")};
  const bool known = asked->text != kPerRequest && std::find(kVersions.begin(), kVersions.end(), asked->text) != kVersions.end();
  negotiated_ = known ? asked->text : std::string(kNewestWithHandshake);
  JsonWriter w(0);
  w.begin_object().key("protocolVersion").value(negotiated_);
  w.key("capabilities").begin_object().key("tools").begin_object().end_object().end_object();
  w.key("serverInfo");
  write_identity(w);
  w.key("instructions").value(kInstructions).end_object();
  return {w.text()};
}

McpServer::Reply McpServer::discover() const {
  JsonWriter w(0);
  w.begin_object().key("supportedVersions");
  write_versions(w);
  w.key("capabilities").begin_object().key("tools").begin_object().end_object().end_object();
  w.key("instructions").value(kInstructions).key("ttlMs").value(0).key("cacheScope").value("private");
  write_era(w, {std::string(kPerRequest), true});
  w.end_object();
  return {w.text()};
}

McpServer::Reply McpServer::list_tools(const Node* params, const Version& version) const {
  if (params != nullptr) {
    if (auto wrong = unknown_member(*params, {"cursor"}, "tools/list")) return {{}, std::move(wrong)};
    if (params->find("cursor") != nullptr) return {{}, invalid_params("cursor: there is one page only")};
  }
  JsonWriter w(0);
  w.begin_object().key("tools").begin_array();
  for (const Tool& tool : tools_) write_tool(w, tool);
  w.end_array();
  if (version.per_request) w.key("ttlMs").value(0).key("cacheScope").value("private");
  write_era(w, version);
  w.end_object();
  return {w.text()};
}

McpServer::Reply McpServer::call(const Node* params, const Version& version, const std::function<bool()>& cancelled) const {
  if (params == nullptr) return {{}, invalid_params("tools/call: name is missing")};
  if (auto wrong = unknown_member(*params, {"name", "arguments", "task"}, "tools/call")) return {{}, std::move(wrong)};
  const Node *name = params->find("name"), *arguments = params->find("arguments");
  if (name == nullptr || name->kind != NodeKind::string) return {{}, invalid_params("tools/call: name must be a string")};
  if (arguments != nullptr && arguments->kind != NodeKind::mapping)
    return {{}, invalid_params("tools/call: arguments must be an object")};
  const auto tool = std::find_if(tools_.begin(), tools_.end(), [&](const Tool& t) { return t.name == name->text; });
  if (tool == tools_.end()) return {{}, invalid_params(cat("Unknown tool: ", base::in_quotes(name->text)))};
  const auto answer = call_tool(*tool, arguments, cancelled);
  if (answer) return {answer_result(*answer, version)};
  if (answer.error().kind != ErrorKind::usage) return {{}, RpcError{kInternalError, answer.error().message()}};
  if (version.name < kFirstWithToolErrors) return {{}, invalid_params(answer.error().message())};
  return {answer_result(error_answer(answer.error()), version)};
}

std::string McpServer::answer_result(const ToolAnswer& answer, const Version& version) const {
  const bool structure = version.name >= kFirstWithStructure;
  JsonWriter w(0);
  w.begin_object().key("content").begin_array();
  if (!answer.text.empty()) write_text_block(w, answer.text);
  if (!answer.notes.empty()) write_text_block(w, answer.notes);
  if (!structure && !answer.json.empty()) write_text_block(w, answer.json);
  w.end_array();
  if (structure && !answer.json.empty()) w.key("structuredContent").raw(answer.json);
  w.key("isError").value(answer.error);
  w.key("_meta").begin_object().key("espalier/exit_code").value(answer.exit_code);
  if (version.per_request) {
    w.key(kServerKey);
    write_identity(w);
  }
  w.end_object();
  if (version.per_request) w.key("resultType").value("complete");
  w.end_object();
  return w.text();
}

}  // namespace espalier::cli
