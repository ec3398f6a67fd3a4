// SPDX-License-Identifier: Apache-2.0
// Measures seconds of a certified search on two threads, from one node to 16,384 devices. Also measures microseconds
// of the analytic cost of one configuration: its layer costs, its timing and its bounds of time and memory, without
// caches. Prints one JSON object a line. `--against BEFORE [--now BINARY]` instead runs the same commands with two
// `espalier` binaries in turn (against.h).
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <string>
#include <vector>

#include "against.h"
#include "cost/bound.h"
#include "espalier/planner.h"
#include "planner/prediction.h"
#include "search/cost_book.h"
#include "search/space.h"

namespace {

using namespace espalier;
using Clock = std::chrono::steady_clock;

constexpr int kThreads = 2, kRounds = 3;

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// Measures the best of a few rounds, since other work on the machine can only slow them down.
bool measure_search(const std::string& name, const Job& job) {
  PlannerOptions options;
  options.threads = kThreads;
  double search_s = 1e9, total_s = 1e9, cpu_s = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    const std::clock_t before = std::clock();
    const auto result = plan(job, options);
    cpu_s = std::min(cpu_s, static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC);
    if (!result) {
      std::fprintf(stderr, "%s: %s\n", name.c_str(), result.error().message().c_str());
      return false;
    }
    search_s = std::min(search_s, result->search_s);
    total_s = std::min(total_s, result->total_s);
    if (round + 1 < kRounds) continue;
    std::printf(
        "{\"bench\": \"search\", \"job\": \"%s\", \"devices\": %lld, \"threads\": %d, \"space_size\": %.0f, \"bounded\": %lld, "
        "\"simulated\": %lld, \"lowered\": %lld, \"optimal\": %s, \"iteration_s\": %.9f, \"search_s\": %.4f, \"total_s\": %.4f, "
        "\"cpu_s\": %.4f, "
        "\"plan\": \"%s\"}\n",
        name.c_str(), static_cast<long long>(job.cluster.devices()), kThreads, result->search.space_size,
        static_cast<long long>(result->search.bounded), static_cast<long long>(result->search.simulated),
        static_cast<long long>(result->search.lowered), result->search.optimal ? "true" : "false",
        static_cast<double>(result->prediction.iteration_ns) * 1e-9, search_s, total_s, cpu_s, result->plan.label().c_str());
    for (const auto& [pp, n] : result->search.by_dimension.at("pp"))
      std::printf("{\"bench\": \"search\", \"job\": \"%s\", \"pp\": %lld, \"candidates\": %.0f}\n", name.c_str(),
                  static_cast<long long>(pp), n);
  }
  std::fflush(stdout);
  return true;
}

/// Returns configurations spread over the space: every n-th choice of the layer group, and below it one of every
/// later group in turn.
std::vector<search::Configuration> spread(const search::Space& space, std::size_t wanted) {
  std::vector<search::Configuration> nodes, out;
  space.layer_group([&](const search::Configuration& c) { nodes.push_back(c); });
  using Group = void (search::Space::*)(const search::Configuration&, const search::Space::Visit&) const;
  for (std::size_t i = 0; i < wanted && !nodes.empty(); ++i) {
    search::Configuration c = nodes[i * 7919 % nodes.size()];
    bool legal = true;
    for (const Group group : {&search::Space::schedule_group, &search::Space::shard_group, &search::Space::overlap_group,
                              &search::Space::recompute_group}) {
      std::vector<search::Configuration> choices;
      (space.*group)(c, [&](const search::Configuration& x) { choices.push_back(x); });
      legal = legal && !choices.empty();
      if (legal) c = choices[i * 31 % choices.size()];
    }
    if (legal) out.push_back(c);
  }
  return out;
}

void measure_cost(const std::string& name, const Job& job) {
  const search::Problem problem{&job.model, &job.cluster, job.training, *planner::engine_of(job), job.search};
  const search::Space space(job.model, job.cluster, job.training, *problem.engine, job.search);
  search::CostBook book(problem);
  search::Workspace w;
  const std::vector<search::Configuration> sample = spread(space, 4000);
  for (const auto& c : sample) book.prepare(c.schedule.stages);
  double layers_s = 1e9, rest_s = 1e9;
  std::int64_t checksum = 0;
  for (int round = 0; round < kRounds; ++round) {
    double layers = 0, rest = 0;
    for (const auto& c : sample) {
      const auto start = Clock::now();
      cost::layer_costs(book.context(), c.strategy, c.schedule.stages, c.schedule.micro_batch, w.layers);
      layers += since(start);
      const auto middle = Clock::now();
      assemble(book, c, w);
      checksum += cost::iteration_lower_bound_ns(w.costs, w.structure) + peak_bound_bytes(w);
      rest += since(middle);
    }
    layers_s = std::min(layers_s, layers);
    rest_s = std::min(rest_s, rest);
  }
  const double us = 1e6 / static_cast<double>(std::max<std::size_t>(1, sample.size()));
  std::printf(
      "{\"bench\": \"cost\", \"job\": \"%s\", \"sample\": %zu, \"layer_costs_us\": %.3f, \"timing_and_bounds_us\": %.3f, "
      "\"candidate_us\": %.3f, \"checksum\": %lld}\n",
      name.c_str(), sample.size(), layers_s * us, rest_s * us, (layers_s + rest_s) * us, static_cast<long long>(checksum));
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  if (const int code = espalier::bench::compared(argc, argv); code >= 0) return code;
  std::vector<std::string> names = {"llama3-8b-on-8xh100", "llama3-70b-on-64xh100", "mixtral-8x7b-on-32xa100",
                                    "deepseek-v3-on-2048xh100", "llama3.1-405b-on-16384xh100"};
  if (argc > 1) names.assign(argv + 1, argv + argc);
  bool good = true;
  for (const std::string& name : names) {
    const auto job = load_job_file("examples/" + name + ".yaml", {"engine=generic"});
    if (!job) {
      std::fprintf(stderr, "%s\n(run it in the repository root: ./dev bench speed)\n", job.error().message().c_str());
      return 2;
    }
    good = measure_search(name, *job) && good;
    measure_cost(name, *job);
  }
  return good ? 0 : 1;
}
