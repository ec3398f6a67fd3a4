// SPDX-License-Identifier: Apache-2.0
// Compares with Galvatron version 1 on its authors' constants, for the 64 rows of space "full" of the published
// tables (8 and 16 GPUs). The published loop must give the printed samples per second; free division of the layers
// must not give less. Prints one JSON object a line: both throughputs, the gain of per-stage memory and of free
// division, the plan, its slowest stage over the mean, and median milliseconds. Exit code 1 on any difference. These
// are predictions of a cost model, not measurements. Run it in the repository root.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <string>
#include <vector>

#include "base/document.h"
#include "reference/v1_planner.h"

namespace {

using namespace espalier;
using namespace espalier::reference;
using Clock = std::chrono::steady_clock;

constexpr int kRepetitions = 9;

struct Row {
  std::string model;
  std::int64_t memory_gb = 0;
  double samples_per_s = 0;  ///< as printed; 0: nothing fits
};

std::vector<Row> published_rows(const std::string& path) {
  std::vector<Row> rows;
  const auto text = base::read_file(path);
  const auto document = text ? base::read_json(*text, path) : Result<base::Document>(text.error());
  if (!document) {
    std::fprintf(stderr, "%s\n", document.error().message().c_str());
    return rows;
  }
  for (const base::Node& row : document->root.items) {
    if (row.items.size() < 6 || row.items[2].text != "full") continue;
    rows.push_back({row.items[0].text, row.items[3].integer, row.items[5].real});
  }
  return rows;
}

struct Timed {
  std::optional<V1Plan> plan;
  double median_ms = 0;
};
Timed timed(const V1Workload& workload, std::int64_t memory_gb, const V1Options& options) {
  Timed out;
  std::vector<double> ms;
  for (int i = 0; i < kRepetitions; ++i) {
    const auto start = Clock::now();
    out.plan = plan_v1(workload, memory_gb * 1024, options);
    ms.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
  }
  std::nth_element(ms.begin(), ms.begin() + kRepetitions / 2, ms.end());
  out.median_ms = ms[kRepetitions / 2];
  return out;
}

double rate(const std::optional<V1Plan>& plan) { return plan ? plan->samples_per_s : 0; }
double percent(double now, double before) { return before > 0 ? 100 * (now / before - 1) : 0; }

double slowest_over_mean(const V1Plan& plan) {
  const double sum = std::accumulate(plan.stage_seconds.begin(), plan.stage_seconds.end(), 0.0);
  return *std::max_element(plan.stage_seconds.begin(), plan.stage_seconds.end()) *
         static_cast<double>(plan.stage_seconds.size()) / sum;
}

bool compare(const V1Workload& workload, const Row& row, std::vector<double>& all_ms) {
  const Timed published = timed(workload, row.memory_gb, kPublishedV1);
  const auto even = plan_v1(workload, row.memory_gb * 1024, {V1Division::published, V1Capacity::per_stage});
  const Timed free = timed(workload, row.memory_gb, {});
  all_ms.push_back(free.median_ms);
  const bool reproduced = std::round(rate(published.plan) * 100) == std::round(row.samples_per_s * 100);
  const bool no_worse = rate(free.plan) >= rate(published.plan) * (1 - 1e-12);
  std::printf(
      "{\"bench\": \"galvatron\", \"model\": \"%s\", \"gpus\": %d, \"gb\": %lld, \"printed\": %.2f, \"published\": %.4f, "
      "\"per_stage_memory\": %.4f, \"free\": %.4f, \"gain_percent\": %.2f, \"batch\": %d, \"stages\": %d, \"slowest_over_mean\": "
      "%.2f, "
      "\"plan\": \"%s\", \"published_plan\": \"%s\", \"evaluated\": %lld, \"published_ms\": %.2f, \"free_ms\": %.2f, "
      "\"reproduced\": %s, \"no_worse\": "
      "%s}\n",
      workload.name.c_str(), workload.profile->devices, static_cast<long long>(row.memory_gb), row.samples_per_s,
      rate(published.plan), rate(even), rate(free.plan), percent(rate(free.plan), rate(published.plan)),
      free.plan ? free.plan->batch : 0, free.plan ? free.plan->pp : 0, free.plan ? slowest_over_mean(*free.plan) : 0,
      free.plan ? to_string(*free.plan).c_str() : "none fits", published.plan ? to_string(*published.plan).c_str() : "none fits",
      free.plan ? static_cast<long long>(free.plan->evaluated) : 0LL, published.median_ms, free.median_ms,
      reproduced ? "true" : "false", no_worse ? "true" : "false");
  return reproduced && no_worse;
}

/// Compares one table; returns false on any difference, or when there is nothing to compare.
bool compare_table(const std::map<std::string, V1Profile>& profiles, std::int32_t devices) {
  const auto workloads = v1_workloads(profiles, devices);
  const std::vector<Row> rows = published_rows("tests/golden/galvatron_v1_grid" + std::to_string(devices) + ".json");
  if (!workloads) return false;
  std::vector<double> ms;
  std::size_t equal = 0;
  for (const Row& row : rows) {
    for (const V1Workload& workload : *workloads) {
      if (workload.name == row.model) equal += compare(workload, row, ms);
    }
  }
  if (ms.empty()) return false;
  std::sort(ms.begin(), ms.end());
  std::printf(
      "{\"bench\": \"galvatron\", \"gpus\": %d, \"rows\": %zu, \"equal\": %zu, \"free_ms_median\": %.2f, \"free_ms_most\": "
      "%.2f}\n",
      devices, ms.size(), equal, ms[ms.size() / 2], ms.back());
  return equal == ms.size();
}

}  // namespace

int main() {
  const std::string path = "data/galvatron/galvatron_v1_profile.json";
  const auto text = base::read_file(path);
  const auto profiles = text ? read_v1_profiles(*text, path) : Result<std::map<std::string, V1Profile>>(text.error());
  if (!profiles) {
    std::fprintf(stderr, "%s\n(run it in the repository root)\n", profiles.error().message().c_str());
    return 1;
  }
  const bool one_node = compare_table(*profiles, 8), two_nodes = compare_table(*profiles, 16);
  return one_node && two_nodes ? 0 : 1;
}
