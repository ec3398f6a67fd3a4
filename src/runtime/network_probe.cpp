// SPDX-License-Identifier: Apache-2.0
#include "runtime/network_probe.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <exception>
#include <fstream>
#include <functional>
#include <memory>
#include <numeric>
#include <vector>

#include "base/format.h"
#include "base/statistics.h"

namespace espalier::runtime {
namespace {

using at::Tensor;

constexpr std::int64_t kSmallest = std::int64_t{1} << 14, kLargest = std::int64_t{1} << 24;
constexpr double kSecondsOfRow = 0.6;
constexpr int kFewest = 3, kMost = 15;

enum class Test { all_reduce, all_gather, reduce_scatter, all_to_all, send_receive };
struct ProbeName {
  Test test;
  const char *program, *operation;
};
constexpr std::array<ProbeName, 5> kTests = {{{Test::all_reduce, "all_reduce_perf", "sum"},
                                              {Test::all_gather, "all_gather_perf", "none"},
                                              {Test::reduce_scatter, "reduce_scatter_perf", "sum"},
                                              {Test::all_to_all, "alltoall_perf", "none"},
                                              {Test::send_receive, "sendrecv_perf", "none"}}};

/// Returns the traffic of one repetition over `bytes` of the whole tensor.
std::function<void()> traffic(Test test, Communicator& group, std::int64_t bytes) {
  const std::int64_t n = group.size(), elements = bytes / 4 / n * n;
  const Tensor whole = at::ones({elements}), part = at::zeros({elements / n});
  switch (test) {
    case Test::all_reduce: return [&group, whole] { group.all_reduce(whole); };
    case Test::all_gather: return [&group, whole, part] { group.all_gather(whole, part); };
    case Test::reduce_scatter: return [&group, whole, part] { group.reduce_scatter(part, whole); };
    case Test::all_to_all: return [&group, whole, out = at::zeros({elements})] { group.all_to_all(out, whole); };
    case Test::send_receive: break;
  }
  return [&group, whole, out = at::zeros({elements})] {
    const int here = group.rank(), all = group.size();
    Message arrives = group.receive(out, (here + all - 1) % all, 1), leaves = group.send(whole, (here + 1) % all, 1);
    arrives.wait();
    leaves.wait();
  };
}

double timed(Communicator& world, const std::function<void()>& once) {
  world.barrier();
  const auto begin = std::chrono::steady_clock::now();
  once();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Returns the median over repetitions. All ranks repeat equally often.
double seconds_of(Communicator& world, const std::function<void()>& once) {
  timed(world, once);  // warms up connections and buffers
  Tensor longest = at::zeros({1}, at::kDouble);
  longest[0] = timed(world, once);
  world.all_reduce_maximum(longest);
  const double wanted = kSecondsOfRow / std::max(longest[0].item<double>(), 1e-6);
  const int count = std::clamp(static_cast<int>(std::min(wanted, 1000.0)), kFewest, kMost);
  std::vector<double> seconds;
  for (int i = 0; i < count; ++i) seconds.push_back(timed(world, once));
  return base::median(std::move(seconds));
}

std::string header(const ProbeName& name, const std::vector<int>& groups, int per_node) {
  std::string out = cat("# Collective test starting: ", name.program, "\n# Using devices\n");
  for (int r = 0; r < static_cast<int>(groups.size()); ++r)
    out += cat("#  Rank ", r, " Group ", groups[static_cast<std::size_t>(r)], " Pid ", 0, " on host", r / per_node, " device ",
               r % per_node, " [0] CPU\n");
  return out + "#       size         count      type   redop    root     time   algbw   busbw  #wrong\n";
}

std::string row(const ProbeName& name, std::int64_t bytes, int ranks, double seconds) {
  const double algorithm = static_cast<double>(bytes) / seconds / 1e9, ring = (ranks - 1.0) / ranks;
  const double bus = algorithm * (name.test == Test::all_reduce ? 2 * ring : name.test == Test::send_receive ? 1 : ring);
  return cat(base::pad_left(std::to_string(bytes), 12), " ", base::pad_left(std::to_string(bytes / 4), 12), " float ",
             name.operation, " -1 ", base::fixed(seconds * 1e6, 1), " ", base::fixed(algorithm, 3), " ", base::fixed(bus, 3),
             " 0\n");
}

/// Partitions all ranks into groups of equal size. Rank r is in group `of[r]`.
struct Grouping {
  int size = 1;
  std::vector<int> of;
};

/// Returns the groupings that plans can ask for. For 2^n ranks, the ranks of a group differ in a set of their n bits,
/// as tensor and data groups and the group indicators of PrimePar do. These are all sets of up to three bits in
/// total, and beyond that the sets of neighbouring bits. Otherwise groups hold neighbours, or ranks at equal
/// distances.
std::vector<Grouping> groupings_of(int world) {
  std::vector<Grouping> out;
  const auto add = [&](const std::function<int(int)>& group_of_rank) {
    Grouping next;
    for (int r = 0; r < world; ++r) next.of.push_back(group_of_rank(r));
    next.size = static_cast<int>(std::count(next.of.begin(), next.of.end(), next.of.front()));
    out.push_back(std::move(next));
  };
  if ((world & (world - 1)) == 0) {
    constexpr int kSmall = 8;
    for (int bits = 1; bits < world; ++bits) {
      const int low = bits & -bits;
      if (world <= kSmall || ((bits + low) & bits) == 0) add([bits](int r) { return r & ~bits; });
    }
  } else {
    for (int size = 2; size <= world; size *= 2) {
      if (world % size != 0) continue;
      add([size](int r) { return r / size; });
      add([distance = world / size](int r) { return r % distance; });
    }
    add([](int) { return 0; });
  }
  std::stable_sort(out.begin(), out.end(), [](const Grouping& a, const Grouping& b) { return a.size < b.size; });
  return out;
}

/// Returns the size up to which collectives go from everyone to everyone. A ring of n ranks waits for n − 2 more
/// latencies; messages from everyone to everyone arrive at once and queue. The limit therefore grows with the
/// latency: 64 KiB for each half of a millisecond of round-trip time, rounded to a power of two.
std::int64_t direct_limit(Communicator& all) {
  constexpr double kNear = 5e-4;
  constexpr int kTries = 9, kMostDoublings = 4;
  const Tensor word = at::zeros({1});
  std::vector<double> seconds;
  for (int i = 0; i < kTries; ++i) seconds.push_back(timed(all, [&] { all.all_gather(at::zeros({all.size()}), word); }));
  Tensor longest = at::zeros({1}, at::kDouble);
  longest[0] = base::median(std::move(seconds));
  all.all_reduce_maximum(longest);
  const double doublings = std::round(std::log2(longest[0].item<double>() / kNear));
  return kDirectBytes << static_cast<int>(std::clamp(doublings, 0.0, static_cast<double>(kMostDoublings)));
}

std::string measured(const Probe& probe, Meeting& meeting) {
  const int world = meeting.world();
  std::vector<int> everyone(static_cast<std::size_t>(world));
  std::iota(everyone.begin(), everyone.end(), 0);
  const auto all = meeting.group("probe", everyone);
  meeting.set_direct_bytes(direct_limit(*all));
  std::string text = cat("# Espalier: from everyone to everyone up to ", meeting.direct_bytes(), " bytes, rings beyond\n");
  int number = 0;
  for (const auto& [size, groups] : groupings_of(world)) {
    const int own = groups[static_cast<std::size_t>(meeting.rank())];
    std::vector<int> members;
    for (int r = 0; r < world; ++r)
      if (groups[static_cast<std::size_t>(r)] == own) members.push_back(r);
    const auto group = meeting.group(cat("probe ", number++, " ", own), members);
    for (const ProbeName& name : kTests) {
      text += header(name, groups, probe.per_node);
      for (std::int64_t bytes = kSmallest; bytes <= kLargest; bytes *= 4)
        text += row(name, bytes, size, seconds_of(*all, traffic(name.test, *group, bytes)));
      text += "# Avg bus bandwidth    : 0\n";
    }
  }
  return text;
}

}  // namespace

Status probe_network(const Probe& probe, Meeting& meeting) {
  if (meeting.world() < 2)
    return Error{ErrorKind::usage, "profile --network", "one rank", "two or more",
                 "start it on every host: torchrun, srun or mpirun"};
  try {
    const std::string text = measured(probe, meeting);
    if (meeting.rank() != 0) return {};
    std::ofstream file(probe.out);
    file << text << std::flush;
    if (!file)
      return Error{ErrorKind::bad_input, probe.out, "a file that cannot be written", "a writable path for the measurements", ""};
    return {};
  } catch (const std::exception& error) {
    return Error{ErrorKind::limit, "profile --network", error.what(), "all ranks to run to the end", ""};
  }
}

}  // namespace espalier::runtime
