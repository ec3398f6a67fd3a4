// SPDX-License-Identifier: Apache-2.0
// Measures processor seconds of a plan on one thread and of another plan after the cluster changed. The second plan
// runs with and without the PlannerMemory (espalier/planner.h) that the first call filled. All times of a line are
// taken in turn on one machine, each the median of five. Prints one JSON object a line.
#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <string>
#include <vector>

#include "espalier/planner.h"

namespace {

using namespace espalier;

constexpr std::size_t kTurns = 5;

struct Change {
  const char* name;
  double bandwidth;  ///< factor on the levels between nodes
  double memory;     ///< share of the usable memory
  std::int64_t nodes_divisor;
};

constexpr std::array<Change, 6> kChanges = {{{"half the bandwidth between nodes", 0.5, 1, 1},
                                             {"0.8 of the bandwidth between nodes", 0.8, 1, 1},
                                             {"1.25 of the bandwidth between nodes", 1.25, 1, 1},
                                             {"twice the bandwidth between nodes", 2, 1, 1},
                                             {"0.9 of the memory", 1, 0.9, 1},
                                             {"half the nodes", 1, 1, 2}}};

Job changed(const Job& job, const Change& change) {
  Job out = job;
  for (FabricLevel& level : out.cluster.inter) {
    level.bandwidth = BytesPerSecond(level.bandwidth.count() * change.bandwidth);
    level.bandwidth_alone = BytesPerSecond(level.bandwidth_alone.count() * change.bandwidth);
    level.span /= change.nodes_divisor;
  }
  out.cluster.groups.front().nodes /= change.nodes_divisor;
  if (change.memory < 1)
    out.cluster.memory_limit =
        Bytes(static_cast<std::int64_t>(change.memory * static_cast<double>(job.cluster.usable_memory().count())));
  return out;
}

/// Returns the seconds of a plan; negative on failure.
double seconds_of(const Job& job, PlannerMemory* memory, std::int64_t& bounded) {
  PlannerOptions options;
  options.threads = 1;
  options.memory = memory;
  const std::clock_t before = std::clock();
  const auto result = plan(job, options);
  const double seconds = static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
  if (!result) {
    std::fprintf(stderr, "%s\n", result.error().message().c_str());
    return -1;
  }
  bounded = result->search.bounded;
  return seconds;
}

double median(std::array<double, kTurns> seconds) {
  std::sort(seconds.begin(), seconds.end());
  return seconds[kTurns / 2];
}

bool measure(const std::string& name, const Job& job, const Change& change) {
  const Job after = changed(job, change);
  std::array<double, kTurns> first{}, cold{}, warm{}, back{};
  std::int64_t bounded = 0, bounded_warm = 0, bounded_back = 0;
  for (std::size_t turn = 0; turn < kTurns; ++turn) {
    PlannerMemory memory;
    cold[turn] = seconds_of(after, nullptr, bounded);
    first[turn] = seconds_of(job, &memory, bounded);
    warm[turn] = seconds_of(after, &memory, bounded_warm);
    back[turn] = seconds_of(job, &memory, bounded_back);
    if (first[turn] < 0 || cold[turn] < 0 || warm[turn] < 0 || back[turn] < 0) return false;
  }
  std::printf(
      "{\"bench\": \"replan\", \"job\": \"%s\", \"change\": \"%s\", \"first_s\": %.3f, \"cold_s\": %.3f, \"warm_s\": %.3f, "
      "\"back_s\": %.3f, \"warm_over_first\": %.3f, \"back_over_first\": %.3f, \"bounded\": %lld, \"bounded_warm\": %lld, "
      "\"bounded_back\": %lld}\n",
      name.c_str(), change.name, median(first), median(cold), median(warm), median(back), median(warm) / median(first),
      median(back) / median(first), static_cast<long long>(bounded), static_cast<long long>(bounded_warm),
      static_cast<long long>(bounded_back));
  std::fflush(stdout);
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> names = {"llama3.1-405b-on-16384xh100", "llama3-70b-on-64xh100"};
  if (argc > 1) names.assign(argv + 1, argv + argc);
  bool good = true;
  for (const std::string& name : names) {
    const auto job = load_job_file("examples/" + name + ".yaml", {});
    if (!job) {
      std::fprintf(stderr, "%s\n(run it in the repository root: ./dev bench speed)\n", job.error().message().c_str());
      return 2;
    }
    for (const Change& change : kChanges) good = measure(name, *job, change) && good;
  }
  return good ? 0 : 1;
}
