// SPDX-License-Identifier: Apache-2.0
// Measures CPU seconds of the solver for stages on device groups. The nodes have eight devices of two or four kinds.
// The model has 80 blocks with embedding and head; simple formulas give the costs of layers of 0.86 billion
// parameters. The batch of 1,536 sequences is split into ten micro-batch sizes, each with the best bound so far as
// cutoff. Prints one JSON object a line.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <limits>
#include <string>
#include <vector>

#include "solve/device_group_chains.h"

namespace {

using namespace espalier::solve;

constexpr int kNode = 8, kBlocks = 80, kBatch = 1536;
constexpr double kSequence = 4096, kHidden = 8192, kBandwidth = 25e9;
// Indexed by layer type: embedding, block, head.
constexpr double kParameters[] = {0.26e9, 0.86e9, 0.26e9}, kFlops[] = {0, 1.72e9, 0.52e9}, kKept[] = {1, 34, 2};

/// Returns the CPU seconds of this thread, unaffected by other work on the machine.
double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

std::int64_t whole(double x) { return static_cast<std::int64_t>(x); }

struct Kind {
  std::int32_t nodes = 1;
  double teraflops = 1, gigabytes = 1;
};

struct Degrees {
  std::int32_t nodes = 1, tp = 1;
  bool recompute = false, sharded = false;
};

/// `samples` is the part of a micro-batch that one data rank of the stage processes.
StageOption option_of(const Kind& kind, const Degrees& degrees, double samples) {
  StageOption option;
  option.units = degrees.nodes;
  const double tp = degrees.tp, dp = kNode * degrees.nodes / tp, speed = kind.teraflops * 1e12 / (1 + 0.06 * std::log2(tp));
  for (int t = 0; t < 3; ++t) {
    const double forward = kFlops[t] * kSequence * samples / tp / speed;
    option.forward_ns.push_back(whole(forward * 1e9));
    option.backward_ns.push_back(whole((degrees.recompute ? 3 : 2) * forward * 1e9));
    option.static_bytes.push_back(whole(kParameters[t] / tp * (4 + 12 / (degrees.sharded ? dp : 1))));
    option.saved_bytes.push_back(whole((degrees.recompute ? 2 : kKept[t]) * kSequence * samples * kHidden / tp));
    option.end_ns.push_back(whole(4 * kParameters[t] / tp / kBandwidth * 1e9));
  }
  option.pass_forward_ns = option.pass_backward_ns = 20'000;
  option.fixed_bytes = 1'000'000'000;
  option.memory_bytes = whole(kind.gigabytes * 1e9);
  option.end_fixed_ns = 3'000'000;
  return option;
}

/// Builds the problem for micro-batches of `sequences`, with at least one for each data rank of a stage.
DeviceGroupsProblem problem_of(const std::vector<Kind>& kinds, int sequences) {
  DeviceGroupsProblem problem;
  problem.microbatches = kBatch / sequences;
  problem.layers.assign(kBlocks + 2, 1);
  problem.layers.front() = 0;
  problem.layers.back() = 2;
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    problem.units.push_back(kinds[k].nodes);
    for (const std::int32_t nodes : {1, 2, 4, 8}) {
      for (int choice = 0; choice < 16; ++choice) {
        const Degrees degrees{nodes, 1 << (choice / 4), choice % 2 == 1, choice / 2 % 2 == 1};
        const double samples = static_cast<double>(sequences) * degrees.tp / (kNode * nodes);
        if (samples < 1 || degrees.tp == 1) continue;
        problem.options.push_back(option_of(kinds[k], degrees, samples));
        problem.options.back().kind = static_cast<std::int32_t>(k);
      }
    }
  }
  const double send = sequences * kSequence * kHidden * 2 / kNode / kBandwidth * 1e9;
  problem.send_ns.assign(kinds.size(), std::vector<std::int64_t>(kinds.size(), whole(2 * send)));
  for (std::size_t k = 0; k < kinds.size(); ++k) problem.send_ns[k][k] = whole(send);
  return problem;
}

void run(const std::string& name, const std::vector<Kind>& kinds) {
  double seconds = 0, longest = 0;
  std::int64_t lower = std::numeric_limits<std::int64_t>::max(), best = lower, states = 0;
  int exact = 0;
  std::size_t options = 0;
  for (const int size : {4, 2, 1, 8, 12, 16, 24, 32, 48, 64}) {
    DeviceGroupsProblem problem = problem_of(kinds, size * kNode);
    problem.cutoff_ns = best;
    options = std::max(options, problem.options.size());
    const double begin = cpu_seconds();
    const DeviceGroupsOutcome found = plan_device_groups(problem);
    const double one = cpu_seconds() - begin;
    seconds += one;
    longest = std::max(longest, one);
    lower = std::min(lower, found.lower_bound_ns);
    if (!found.candidates.empty()) best = std::min(best, found.candidates.front().bound_ns);
    exact += found.exact ? 1 : 0;
    states += found.counters.states;
  }
  std::printf(
      "{\"cluster\": \"%s\", \"options\": %zu, \"calls\": 10, \"exact\": %d, \"cpu_s\": %.3f, \"longest_s\": %.3f, \"states\": "
      "%lld, "
      "\"best_s\": %.4f, \"gap\": %.4f}\n",
      name.c_str(), options, exact, seconds, longest, static_cast<long long>(states), static_cast<double>(best) * 1e-9,
      1 - static_cast<double>(std::min(lower, best)) / static_cast<double>(best));
}

}  // namespace

int main() {
  run("16 + 48 nodes", {{16, 312, 40}, {48, 125, 32}});
  run("16 + 48 nodes, more memory", {{16, 312, 80}, {48, 125, 32}});
  run("4 x 16 nodes", {{16, 990, 80}, {16, 312, 40}, {16, 181, 48}, {16, 125, 32}});
  run("4 x 32 nodes", {{32, 990, 80}, {32, 312, 40}, {32, 181, 48}, {32, 125, 32}});
  return 0;
}
