// SPDX-License-Identifier: Apache-2.0
// Lines of a client: what is a message, what is answered with which code, and how lines are bounded.
#include "cli/mcp_messages.h"

#include <chrono>
#include <sstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/mcp_inbox.h"

namespace espalier::cli::mcp_messages_test {
namespace {

using testing::HasSubstr;

/// The code with which the only message, or the whole line, is wrong; 0: it is not.
int code_of(const std::string& line) {
  const RpcPacket packet = read_packet(line);
  if (packet.wrong) return packet.wrong->code;
  return packet.messages.front().wrong ? packet.messages.front().wrong->code : 0;
}

TEST(McpMessages, ARequestHasIdMethodAndParams) {
  const RpcPacket packet = read_packet(R"({"jsonrpc": "2.0", "id": 7, "method": "tools/list", "params": {"cursor": "a"}})");
  ASSERT_EQ(packet.messages.size(), 1U);
  const RpcMessage& message = packet.messages.front();
  EXPECT_EQ(message.kind, RpcMessage::Kind::request);
  EXPECT_EQ(message.id, "7");
  EXPECT_EQ(message.method, "tools/list");
  ASSERT_TRUE(message.params);
  EXPECT_EQ(message.params->find("cursor")->text, "a");
}

TEST(McpMessages, KindsAndIds) {
  EXPECT_EQ(read_packet(R"({"jsonrpc": "2.0", "method": "x"})").messages.front().kind, RpcMessage::Kind::notification);
  EXPECT_EQ(read_packet(R"({"jsonrpc": "2.0", "id": 1, "result": {}})").messages.front().kind, RpcMessage::Kind::response);
  EXPECT_EQ(read_packet(R"({"jsonrpc": "2.0", "id": null, "error": {}})").messages.front().kind, RpcMessage::Kind::response);
  EXPECT_EQ(read_packet("{\"jsonrpc\": \"2.0\", \"id\": \"a\\nb\", \"method\": \"x\"}").messages.front().id, "\"a\\nb\"");
}

TEST(McpMessages, WrongLinesHaveTheCodeOfTheirKind) {
  for (const char* line : {"", "{", "nonsense", "{\"a\": 1, \"a\": 2}", "\"\xff\"", "{} {}", "NaN"})
    EXPECT_EQ(code_of(line), kParseError) << line;
  EXPECT_EQ(code_of(std::string(100, '[') + std::string(100, ']')), kParseError);
  for (const char* line : {"7", "null", "[]", "[7]", "{}", R"({"jsonrpc": "1.0", "id": 1, "method": "x"})",
                           R"({"jsonrpc": 2.0, "id": 1, "method": "x"})", R"({"jsonrpc": "2.0", "id": 1})",
                           R"({"jsonrpc": "2.0", "id": 1.5, "method": "x"})", R"({"jsonrpc": "2.0", "id": null, "method": "x"})",
                           R"({"jsonrpc": "2.0", "id": [1], "method": "x"})", R"({"jsonrpc": "2.0", "id": 1, "method": 2})",
                           R"({"jsonrpc": "2.0", "id": 1, "method": "x", "extra": 1})"})
    EXPECT_EQ(code_of(line), kInvalidRequest) << line;
  EXPECT_EQ(code_of(R"({"jsonrpc": "2.0", "id": 1, "method": "x", "params": [1]})"), kInvalidParams);
}

TEST(McpMessages, AWrongMessageKeepsItsId) {
  EXPECT_EQ(read_packet(R"({"jsonrpc": "1.0", "id": 5, "method": "x"})").messages.front().id, "5");
  EXPECT_EQ(read_packet(R"({"jsonrpc": "2.0", "id": {}, "method": "x"})").messages.front().id, "null");
}

TEST(McpMessages, LinesKeepNumbersAndStringsAsWritten) {
  EXPECT_EQ(one_line("{\n  \"a b\": 5.120000000,\r\n\t\"c\": [\"x \\\" y\", true]\n}"),
            R"({"a b":5.120000000,"c":["x \" y",true]})");
  EXPECT_EQ(result_line("7", "{\n}"), R"({"jsonrpc":"2.0","id":7,"result":{}})");
  EXPECT_EQ(error_line("null", {kParseError, "a\nb", "[1]"}),
            R"({"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"a\nb","data":[1]}})");
}

TEST(McpMessages, AnUnknownMemberIsNamedWithTheOneMeant) {
  const RpcPacket packet = read_packet(R"({"jsonrpc": "2.0", "id": 1, "method": "x", "params": {"_meta": {}, "nam": 1}})");
  const auto wrong = unknown_member(*packet.messages.front().params, {"name", "arguments"}, "tools/call");
  ASSERT_TRUE(wrong);
  EXPECT_EQ(wrong->code, kInvalidParams);
  EXPECT_THAT(wrong->message, HasSubstr("did you mean \"name\"?"));
  EXPECT_FALSE(unknown_member(*packet.messages.front().params, {"nam"}, "x"));
}

TEST(McpInbox, ALineThatIsTooLongIsSkippedAndTheNextOneRead) {
  std::istringstream in("a\n" + std::string(kLongestLine + 1, 'x') + "\nlast");
  std::string line;
  bool too_long = false;
  ASSERT_TRUE(read_line(in, line, too_long));
  EXPECT_EQ(line, "a");
  ASSERT_TRUE(read_line(in, line, too_long));
  EXPECT_TRUE(too_long);
  EXPECT_EQ(line.size(), kLongestLine);
  ASSERT_TRUE(read_line(in, line, too_long));
  EXPECT_EQ(line, "last");
  EXPECT_FALSE(too_long);
  EXPECT_FALSE(read_line(in, line, too_long));
}

TEST(McpInbox, PacketsComeInOrderAndBlankLinesAreSkipped) {
  std::istringstream in("\r\n{}\n   \n[]\nx");
  Inbox inbox(in);
  std::vector<int> codes;
  while (const auto packet = inbox.next())
    codes.push_back(packet->wrong ? packet->wrong->code : packet->messages.front().wrong->code);
  EXPECT_EQ(codes, (std::vector<int>{kInvalidRequest, kInvalidRequest, kParseError}));
}

TEST(McpInbox, ACancellationReachesTheRequestThatIsOpen) {
  const std::string call = R"({"jsonrpc": "2.0", "id": ID, "method": "tools/call", "params": {"name": "plan"}})";
  const std::string cancel = R"({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": ID}})";
  const auto with = [](std::string text, const std::string& id) { return text.replace(text.find("ID"), 2, id) + "\n"; };
  std::istringstream in(with(cancel, "1") + with(call, "1") + with(call, "2") + with(cancel, "2") + with(cancel, "9") +
                        "{\"jsonrpc\": \"2.0\", \"method\": \"notifications/cancelled\"}\n");
  Inbox inbox(in);
  for (int i = 0; i < 500 && !inbox.cancelled("2"); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_TRUE(inbox.cancelled("2"));
  EXPECT_FALSE(inbox.cancelled("1")) << "cancelled before it was asked";
  EXPECT_FALSE(inbox.cancelled("9"));
  inbox.forget("2");
  EXPECT_FALSE(inbox.cancelled("2"));
  int packets = 0;
  while (inbox.next()) ++packets;
  EXPECT_EQ(packets, 2) << "cancellations are not among the packets";
}

}  // namespace
}  // namespace espalier::cli::mcp_messages_test
