// SPDX-License-Identifier: Apache-2.0
// The methods of the server, called in memory: versions, errors, and answers that are those of the command line.
#include "cli/mcp_server.h"

#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/format.h"
#include "base/text.h"
#include "cli/cli.h"
#include "data/source_dir.h"

namespace espalier::cli::mcp_server_test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::string job_text() {
  return cat(
      "model: " ESPALIER_SOURCE_DIR "/models/gpt2/config.json\n",
      "cluster: {nodes: 1, devices_per_node: 2, device: a100-sxm-80gb}\ntraining: {sequence_length: 128, global_batch: 4}\n");
}

bool never(const std::string& id) { return id.empty(); }

/// Opens a session of `version`.
class Session {
 public:
  explicit Session(const std::string& version = "2025-11-25") : server_("1.2.3") {
    if (!version.empty())
      initialized_ = send(cat(R"({"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":")", version, "\"}}"));
  }
  std::string send(const std::string& line) { return server_.answer(read_packet(line), never); }
  std::string request(const std::string& method, const std::string& params) {
    return send(cat(R"({"jsonrpc":"2.0","id":1,"method":")", method, R"(","params":)", params, "}"));
  }
  std::string call(const std::string& tool, const std::string& arguments) {
    return request("tools/call", cat(R"({"name":")", tool, R"(","arguments":)", arguments, "}"));
  }
  McpServer server_;
  std::string initialized_;
};

std::string command_line(const std::vector<std::string>& words, const std::string& input) {
  std::vector<const char*> argv{"espalier"};
  for (const std::string& word : words) argv.push_back(word.c_str());
  std::istringstream in(input);
  std::ostringstream out, err;
  Surroundings surroundings;
  surroundings.input = &in;
  run(static_cast<int>(argv.size()), argv.data(), out, err, surroundings);
  return out.str();
}

std::string job_argument(const std::string& more = "") { return cat("{\"job\":", base::json_string(job_text()), more, "}"); }

TEST(McpServer, AgreesOnAVersionThatBothKnow) {
  for (const char* known : {"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"})
    EXPECT_THAT(Session(known).initialized_, HasSubstr(cat(R"("protocolVersion":")", known, "\"")));
  for (const char* unknown : {"2026-07-28", "1.0", "", "2099-01-01"}) {
    Session session("");
    EXPECT_THAT(session.request("initialize", cat(R"({"protocolVersion":")", unknown, R"(","future":1})")),
                HasSubstr(R"("protocolVersion":"2025-11-25")"))
        << unknown;
  }
  EXPECT_THAT(Session().initialized_, HasSubstr(R"("serverInfo":{"name":"espalier","title":"Espalier","version":"1.2.3"})"));
  EXPECT_THAT(Session("").request("initialize", "{}"), HasSubstr("-32602"));
}

TEST(McpServer, OnlyPingIsAnsweredBeforeInitialize) {
  Session session("");
  EXPECT_EQ(session.request("ping", "{}"), R"({"jsonrpc":"2.0","id":1,"result":{}})");
  EXPECT_THAT(session.request("tools/list", "{}"), HasSubstr("-32602"));
  EXPECT_THAT(session.request("resources/list", "{}"), HasSubstr("-32601"));
}

TEST(McpServer, RequestsMayStateTheirVersionInstead) {
  Session session("");
  const std::string meta =
      R"("_meta":{"io.modelcontextprotocol/protocolVersion":"VERSION","io.modelcontextprotocol/clientCapabilities":{}})";
  const auto with = [&](const std::string& version) {
    std::string text = meta;
    return text.replace(text.find("VERSION"), 7, version);
  };
  const std::string now = cat("{", with("2026-07-28"), "}");
  EXPECT_THAT(session.request("server/discover", now), HasSubstr(R"("supportedVersions":["2026-07-28","2025-11-25")"));
  EXPECT_THAT(session.request("tools/list", now), HasSubstr(R"("resultType":"complete")"));
  EXPECT_THAT(session.request("ping", now), HasSubstr("-32601"));
  const std::string old = session.request("tools/list", cat("{", with("1900-01-01"), "}"));
  EXPECT_THAT(old, HasSubstr(R"("code":-32022)"));
  EXPECT_THAT(old, HasSubstr(R"("requested":"1900-01-01")"));
  EXPECT_THAT(session.request("tools/list", R"({"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}})"),
              HasSubstr("-32602"));
  EXPECT_THAT(session.request("tools/list", R"({"_meta":{"io.modelcontextprotocol/protocolVersion":1}})"), HasSubstr("-32602"));
  const std::string answer =
      session.request("tools/call", cat(R"({"name":"estimate",)", with("2026-07-28"), R"(,"arguments":)", job_argument(), "}"));
  EXPECT_THAT(answer, HasSubstr(R"("io.modelcontextprotocol/serverInfo")"));
  EXPECT_THAT(answer, HasSubstr(R"("structuredContent":{"schema":"espalier.result/2")"));
}

TEST(McpServer, ListsToolsWithClosedSchemas) {
  const std::string line = Session().request("tools/list", "{}");
  const auto document = base::read_json(line, "line");
  ASSERT_TRUE(document);
  const Node& tools = *document->root.find("result")->find("tools");
  std::vector<std::string> names;
  for (const Node& tool : tools.items) {
    names.push_back(tool.find("name")->text);
    const Node& schema = *tool.find("inputSchema");
    EXPECT_EQ(schema.find("type")->text, "object");
    EXPECT_FALSE(schema.find("additionalProperties")->boolean);
    EXPECT_EQ(schema.find("oneOf"), nullptr);
  }
  EXPECT_THAT(names, testing::ElementsAre("plan", "estimate", "improve", "check", "explain", "inspect"));
  EXPECT_THAT(Session().request("tools/list", R"({"cursor":"x"})"), HasSubstr("-32602"));
  EXPECT_THAT(Session().request("tools/list", R"({"page":1})"), HasSubstr("-32602"));
}

TEST(McpServer, AnswersAreThoseOfTheCommandLine) {
  const std::string printed = command_line({"estimate", "-", "--json", "--tp", "2", "--micro-batch", "2"}, job_text());
  const std::string answer = Session().call("estimate", job_argument(R"(,"configuration":["--tp","2","--micro-batch=2"])"));
  const std::string untimed = one_line(printed.substr(0, printed.find("\"timing\"")));
  EXPECT_THAT(answer, HasSubstr(cat("\"structuredContent\":", untimed)));
  EXPECT_THAT(answer, HasSubstr("TP2 CP1 PP1 DP1"));
}

TEST(McpServer, EarlierVersionsGetTheDocumentAsText) {
  const std::string cluster = "{nodes: 1, devices_per_node: 2, device: t4}";
  const std::string printed = command_line({"inspect", "cluster", "-", "--json"}, cluster);
  const std::string arguments = cat(R"({"what":"cluster","text":")", cluster, "\"}");
  EXPECT_THAT(Session().call("inspect", arguments), HasSubstr(cat("\"structuredContent\":", one_line(printed), ",")));
  const std::string earlier = Session("2025-03-26").call("inspect", arguments);
  EXPECT_THAT(earlier, HasSubstr(base::json_string(printed)));
  EXPECT_THAT(earlier, Not(HasSubstr("structuredContent")));
}

TEST(McpServer, ThePlanLabelsItsKnobs) {
  const std::string answer = Session().call("plan", job_argument(R"(,"engine":"megatron-core+bf16-gradients")"));
  EXPECT_THAT(answer, HasSubstr("execution only: parallel degrees, micro-batch split"));
  EXPECT_THAT(answer, HasSubstr("changes training: precision bf16, global batch 4, sequence length 128"));
  EXPECT_THAT(answer, HasSubstr("engine option bf16-gradients (in force): changes training"));
}

TEST(McpServer, MistakesOfTheDocumentsAreResults) {
  const std::string answer = Session().call("plan", R"({"job":"model: [\n"})");
  EXPECT_THAT(answer, HasSubstr(R"("isError":true)"));
  EXPECT_THAT(answer, HasSubstr(R"("schema":"espalier.error/1")"));
  EXPECT_THAT(answer, HasSubstr("<stdin>:"));
  EXPECT_THAT(answer, HasSubstr(R"("espalier/exit_code":3)"));
  const std::string small = Session().call("estimate", job_argument(R"(,"set":["cluster.memory_limit=1MiB"])"));
  EXPECT_THAT(small, HasSubstr(R"("isError":false)")) << "that a configuration does not fit is an answer";
  EXPECT_THAT(small, HasSubstr(R"("espalier/exit_code":4)"));
}

TEST(McpServer, WrongArgumentsAreResultsOrErrorsByVersion) {
  const std::vector<std::pair<std::string, std::string>> calls = {
      {"plan", "{}"},
      {"plan", R"({"job":1})"},
      {"plan", R"({"job":"a","job_file":"b"})"},
      {"plan", R"({"jobb":"a"})"},
      {"plan", R"({"job_file":"a","set":"x"})"},
      {"plan", R"({"job_file":"a","set":[1]})"},
      {"plan", R"({"job_file":"a","time_limit_s":"1"})"},
      {"plan", R"({"job_file":"a\u0000b"})"},
      {"plan", R"({"job_file":"/dev/null"})"},
      {"plan", R"({"job_file":""})"},
      {"estimate", R"({"job":"a","configuration":["--out","x"]})"},
      {"estimate", R"({"job":"a","configuration":["--tp"]})"},
      {"estimate", R"({"job":"a","configuration":["8"]})"},
      {"improve", R"({"configuration":"a","cluster":"b"})"},
      {"improve", R"({"configuration":"a","cluster":"b","from":"nothing"})"},
      {"improve", R"({"configuration":"a","cluster":"b","from":"deepspeed","global_batch":1.5})"},
      {"check", R"({"document":"a","search":1})"},
      {"inspect", R"({"what":"job","text":"a"})"}};
  for (const auto& [tool, arguments] : calls) {
    const std::string now = Session().call(tool, arguments), earlier = Session("2025-06-18").call(tool, arguments);
    EXPECT_THAT(now, HasSubstr(R"("isError":true)")) << tool << arguments;
    EXPECT_THAT(now, HasSubstr("arguments")) << tool << arguments;
    EXPECT_THAT(earlier, HasSubstr(R"("code":-32602)")) << tool << arguments;
  }
}

TEST(McpServer, UnknownToolsAndMethodsAreErrors) {
  Session session;
  EXPECT_THAT(session.call("run", "{}"), HasSubstr("-32602"));
  EXPECT_THAT(session.request("tools/call", "{}"), HasSubstr("-32602"));
  EXPECT_THAT(session.request("tools/call", R"({"name":"plan","arguments":[]})"), HasSubstr("-32602"));
  EXPECT_THAT(session.request("tools/call", R"({"name":"plan","extra":1})"), HasSubstr("-32602"));
  EXPECT_THAT(session.request("prompts/list", "{}"), HasSubstr("-32601"));
  EXPECT_THAT(session.request("server/discover", "{}"), HasSubstr("-32601"));
}

TEST(McpServer, NotificationsAndResponsesAreNotAnswered) {
  Session session;
  for (const char* line :
       {R"({"jsonrpc":"2.0","method":"notifications/initialized"})", R"({"jsonrpc":"2.0","method":"tools/list"})",
        R"({"jsonrpc":"2.0","method":"x","params":[]})", R"({"jsonrpc":"2.0","id":1,"result":{}})"})
    EXPECT_THAT(session.send(line), IsEmpty()) << line;
}

TEST(McpServer, BatchesExistInOneVersion) {
  const std::string batch =
      R"([{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"x"},7,{"jsonrpc":"2.0","id":2,"method":"initialize"}])";
  const std::string answer = Session("2025-03-26").send(batch);
  EXPECT_THAT(answer,
              testing::StartsWith(R"([{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","id":null,"error":{"code":-32600)"));
  EXPECT_THAT(answer, HasSubstr("initialize must not be part of a batch"));
  EXPECT_THAT(Session("2025-03-26").send(R"([{"jsonrpc":"2.0","method":"x"}])"), IsEmpty());
  for (const char* other : {"2025-11-25", "2025-06-18", "2024-11-05", ""})
    EXPECT_THAT(Session(other).send(batch), HasSubstr(R"("id":null,"error":{"code":-32600)")) << other;
}

TEST(McpServer, ACancelledRequestIsNotAnswered) {
  Session session;
  const auto packet = read_packet(R"({"jsonrpc":"2.0","id":1,"method":"ping"})");
  EXPECT_THAT(session.server_.answer(packet, [](const std::string&) { return true; }), IsEmpty());
}

}  // namespace
}  // namespace espalier::cli::mcp_server_test
