// SPDX-License-Identifier: Apache-2.0
// Delays frames between two network devices, for kernels without netem, as a line whose far end is
// some milliseconds away.
//
//   delay_line DELAYS.txt        a line "DEVICE DEVICE MILLISECONDS" for every pair. SIGHUP reads the file again:
//                                delays may change, pairs may not.
//
// Reads frames from one device (AF_PACKET, root) and sends them through the other when their delay is over. Their
// order never changes, so a shorter delay applies to later frames only. Segments that the kernel has not yet split
// stay whole (PACKET_VNET_HDR). Up to 64 MiB per direction are in transit; more is dropped, as by a switch. Prints
// "ready" on stdout when frames pass, and ends on SIGTERM.
#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <deque>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

namespace {

constexpr std::size_t kUnderWay = std::size_t{64} << 20;  // bytes per direction
constexpr std::size_t kLargestFrame = std::size_t{128} << 10;

volatile std::sig_atomic_t again = 0, ended = 0;  // set by signals

std::int64_t now_ns() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1'000'000'000LL + t.tv_nsec;
}

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "delay_line: %s: %s\n", what.c_str(), std::strerror(errno));
  std::exit(1);
}

/// Opens a socket that receives every frame that enters the device, with the kernel's data about its segments.
/// Written frames leave through it.
int socket_on(const std::string& device) {
  // Bound to a protocol below, so it reads nothing of other devices first.
  const int fd = socket(AF_PACKET, SOCK_RAW, 0);
  if (fd < 0) fail("a packet socket");
  const int on = 1, buffer = 16 << 20;
  if (setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof on) != 0) fail("PACKET_VNET_HDR");
  if (setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on) != 0) fail("PACKET_IGNORE_OUTGOING");
  setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof buffer);
  setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &buffer, sizeof buffer);
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(ETH_P_ALL);
  address.sll_ifindex = static_cast<int>(if_nametoindex(device.c_str()));
  if (address.sll_ifindex == 0 || bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) fail(device);
  return fd;
}

struct Frame {
  std::int64_t due = 0;
  std::vector<char> bytes;
};

/// Holds one direction of a pair.
struct Way {
  int from = -1, to = -1;
  std::int64_t delay_ns = 0;
  std::size_t held = 0;
  std::deque<Frame> frames;

  void read_all(std::vector<char>& room) {
    for (;;) {
      const ssize_t got = recv(from, room.data(), room.size(), MSG_DONTWAIT | MSG_TRUNC);
      if (got <= 0) return;
      const auto size = static_cast<std::size_t>(got);
      if (size > room.size() || held + size > kUnderWay) continue;
      const std::int64_t last = frames.empty() ? 0 : frames.back().due;
      frames.push_back({std::max(last, now_ns() + delay_ns), {room.begin(), room.begin() + got}});
      held += size;
    }
  }

  /// Sends the frames that are due. Returns the time of the next one, or the largest number if none waits.
  std::int64_t write_due() {
    while (!frames.empty()) {
      Frame& frame = frames.front();
      if (frame.due > now_ns()) return frame.due;
      if (send(to, frame.bytes.data(), frame.bytes.size(), MSG_DONTWAIT) < 0 && (errno == EAGAIN || errno == ENOBUFS))
        return now_ns() + 100'000;  // the device's queue is full
      held -= frame.bytes.size();
      frames.pop_front();
    }
    return std::numeric_limits<std::int64_t>::max();
  }
};

void read_delays(const char* path, std::vector<Way>& ways) {
  std::ifstream lines(path);
  std::string first, second;
  double milliseconds = 0;
  const bool opens = ways.empty();
  for (std::size_t k = 0; lines >> first >> second >> milliseconds; k += 2) {
    if (opens) {
      const int a = socket_on(first), b = socket_on(second);
      ways.push_back({a, b, 0, 0, {}});
      ways.push_back({b, a, 0, 0, {}});
    }
    if (k + 1 >= ways.size()) return;
    ways[k].delay_ns = ways[k + 1].delay_ns = static_cast<std::int64_t>(milliseconds * 1e6);
  }
}

void carry(const char* path) {
  std::vector<Way> ways;
  read_delays(path, ways);
  if (ways.empty()) fail(std::string("no pair in ") + path);
  std::vector<pollfd> waiting;
  waiting.reserve(ways.size());
  for (const Way& way : ways) waiting.push_back({way.from, POLLIN, 0});
  std::vector<char> room(kLargestFrame);
  std::puts("ready");
  std::fflush(stdout);
  while (ended == 0) {
    if (again != 0) {
      again = 0;
      read_delays(path, ways);
    }
    std::int64_t next = std::numeric_limits<std::int64_t>::max();
    for (Way& way : ways) next = std::min(next, way.write_due());
    const std::int64_t left = std::min<std::int64_t>(next - now_ns(), 1'000'000'000);
    const timespec wait{left > 0 ? left / 1'000'000'000 : 0, left > 0 ? left % 1'000'000'000 : 0};
    if (ppoll(waiting.data(), waiting.size(), &wait, nullptr) <= 0) continue;
    for (std::size_t k = 0; k < ways.size(); ++k)
      if ((waiting[k].revents & POLLIN) != 0) ways[k].read_all(room);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: delay_line DELAYS.txt\n");
    return 2;
  }
  std::signal(SIGHUP, [](int) { again = 1; });
  std::signal(SIGTERM, [](int) { ended = 1; });
  carry(argv[1]);
  return 0;
}
