// SPDX-License-Identifier: Apache-2.0
// Packets of the client, read by a thread of their own, so that a cancellation is seen while a tool runs.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <istream>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "cli/mcp_messages.h"

namespace espalier::cli {

/// Reads a line of at most kLongestLine bytes into `line`; the rest of a longer one is skipped and `too_long` set.
/// Returns false at the end of the input.
bool read_line(std::istream& in, std::string& line, bool& too_long);

class Inbox {
 public:
  /// `at_once` sees each packet first, in the reading thread, and returns true for those that it has answered.
  explicit Inbox(std::istream& in, std::function<bool(const RpcPacket&)> at_once = {});
  ~Inbox();  ///< waits for the end of the input
  Inbox(const Inbox&) = delete;
  Inbox& operator=(const Inbox&) = delete;

  /// Waits for the next packet; none: the input has ended. Cancellations are not among them.
  std::optional<RpcPacket> next();
  /// Returns true if the client has cancelled this request, which waits or runs.
  [[nodiscard]] bool cancelled(const std::string& id) const;
  /// The request is answered: its id may return.
  void forget(const std::string& id);

 private:
  void read_all();
  void take(RpcPacket packet);
  bool cancels(const RpcPacket& packet);

  std::istream& in_;
  std::function<bool(const RpcPacket&)> at_once_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<RpcPacket> packets_;
  std::size_t bytes_ = 0;            ///< sum over the packets that wait
  std::set<std::string> open_;       ///< ids of requests that wait or run
  std::set<std::string> cancelled_;  ///< the cancelled ones of these
  bool ended_ = false;
  std::thread reader_;  ///< last, so that it starts when the rest is there
};

}  // namespace espalier::cli
