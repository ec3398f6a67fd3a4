// SPDX-License-Identifier: Apache-2.0
#include "cli/mcp_inbox.h"

#include <exception>
#include <streambuf>
#include <utility>

#include "base/format.h"

namespace espalier::cli {
namespace {

/// The reader pauses when this much waits, so that a client that never listens does not fill the memory.
/// A parsed message takes up to 250 times the bytes of its line.
constexpr std::size_t kMostWaitingBytes = std::size_t{1} << 20, kMostWaitingPackets = 1000;

RpcPacket unreadable(std::string why) {
  RpcPacket packet;
  packet.wrong = RpcError{kParseError, std::move(why)};
  return packet;
}

RpcPacket packet_of(const std::string& line, bool too_long) {
  if (too_long) return unreadable(cat("message: more than ", kLongestLine, " bytes"));
  try {
    return read_packet(line);
  } catch (const std::exception& error) {
    return unreadable(cat("message: ", error.what()));
  }
}

}  // namespace

bool read_line(std::istream& in, std::string& line, bool& too_long) {
  line.clear();
  too_long = false;
  std::streambuf& bytes = *in.rdbuf();
  constexpr int kEnd = std::char_traits<char>::eof();
  int byte = bytes.sbumpc();
  if (byte == kEnd) return false;
  for (; byte != kEnd && byte != '\n'; byte = bytes.sbumpc()) {
    if (line.size() < kLongestLine)
      line += static_cast<char>(byte);
    else
      too_long = true;
  }
  return true;
}

Inbox::Inbox(std::istream& in, std::function<bool(const RpcPacket&)> at_once)
    : in_(in), at_once_(std::move(at_once)), reader_([this] { read_all(); }) {}

Inbox::~Inbox() { reader_.join(); }

void Inbox::read_all() {
  std::string line;
  bool too_long = false;
  while (read_line(in_, line, too_long))
    if (line.find_first_not_of(" \t\r") != std::string::npos) take(packet_of(line, too_long));
  const std::lock_guard<std::mutex> lock(mutex_);
  ended_ = true;
  changed_.notify_all();
}

/// Whether the packet is a cancellation; it is noted if its request waits or runs.
bool Inbox::cancels(const RpcPacket& packet) {
  if (packet.wrong || packet.batch || packet.messages.front().kind != RpcMessage::Kind::notification ||
      packet.messages.front().method != "notifications/cancelled")
    return false;
  const auto& params = packet.messages.front().params;
  const Node* id = params ? params->find("requestId") : nullptr;
  if (id == nullptr) return true;
  if (const std::string name = base::to_json(*id); open_.contains(name)) cancelled_.insert(name);
  return true;
}

void Inbox::take(RpcPacket packet) {
  if (at_once_ && at_once_(packet)) return;
  std::unique_lock<std::mutex> lock(mutex_);
  if (cancels(packet)) return;
  changed_.wait(lock, [&] { return packets_.empty() || (bytes_ < kMostWaitingBytes && packets_.size() < kMostWaitingPackets); });
  for (const RpcMessage& message : packet.messages)
    if (message.kind == RpcMessage::Kind::request && message.method == "tools/call") open_.insert(message.id);
  bytes_ += packet.bytes;
  packets_.push_back(std::move(packet));
  changed_.notify_all();
}

std::optional<RpcPacket> Inbox::next() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [&] { return ended_ || !packets_.empty(); });
  if (packets_.empty()) return std::nullopt;
  RpcPacket packet = std::move(packets_.front());
  packets_.pop_front();
  bytes_ -= packet.bytes;
  changed_.notify_all();
  return packet;
}

bool Inbox::cancelled(const std::string& id) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return cancelled_.contains(id);
}

void Inbox::forget(const std::string& id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  open_.erase(id);
  cancelled_.erase(id);
}

}  // namespace espalier::cli
