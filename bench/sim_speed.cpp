// SPDX-License-Identifier: Apache-2.0
// Measures instructions per second of the simulation on one core: the clock alone (the search's inner loop), a whole
// run with breakdown and memory, and structure. Prints one JSON object a line. Each is the best of several
// repetitions, since other work on the machine can only slow them down.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "cost/by_chunk.h"
#include "plan/program.h"
#include "sim/simulator.h"

namespace {

using namespace espalier;

struct Case {
  std::string name;
  ProgramStructure structure;
  double slowdown;
};

ProgramStructure make(ScheduleKind kind, std::int32_t p, std::int32_t v, std::int32_t m, int buckets) {
  ProgramStructure low;
  low.schedule = {kind, p, v, m, 1};
  low.buckets.assign(static_cast<std::size_t>(p * v), static_cast<std::uint8_t>(buckets));
  low.reduce_gradients = low.gather_parameters = true;
  low.overlap_reduce = low.overlap_gather = buckets > 1;
  low.overlap_p2p = true;
  return low;
}

/// Returns costs of uneven chunks, so that no two stages behave alike.
cost::Costs costs_for(const ProgramStructure& structure, double slowdown) {
  cost::test::ByChunk timing = cost::test::empty_rows(structure.schedule);
  std::int64_t seed = 1;
  for (cost::test::ChunkRow& chunk : timing.chunks) {
    seed = seed * 48271 % 2147483647;
    const std::int64_t length = 1'000'000 + seed % 50'000;
    chunk.forward.compute_ns = length;
    chunk.backward.compute_ns = 2 * length;
    chunk.backward_input.compute_ns = chunk.backward_weight.compute_ns = length;
    chunk.send_forward_ns = chunk.send_backward_ns = 20'000;
    chunk.grad_reduce_ns = chunk.param_gather_ns = 150'000;
    chunk.saved_bytes = 1'000'000;
    chunk.saved_after_input_bytes = 500'000;
  }
  timing.slow_down({slowdown, slowdown});
  return cost::test::costs_of(timing, structure);
}

/// Returns the best seconds of one call.
template <class F>
double best_seconds(const F& call) {
  double best = 1e9;
  for (int round = 0; round < 30; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    call();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return best;
}

void measure(const Case& c) {
  const Program program = lower(c.structure);
  const cost::Costs costs = costs_for(c.structure, c.slowdown);
  const auto n = static_cast<double>(program.instructions.size());
  sim::Simulator simulator;
  std::int64_t iteration = 0;
  std::vector<std::int64_t> peaks;
  const double clock = best_seconds([&] { iteration = simulator.iteration_ns(program, costs); });
  const double memory = best_seconds([&] { simulator.peak_bytes(program, costs, peaks); });
  const double run = best_seconds([&] { iteration = simulator.run(program, costs).value().iteration_ns; });
  const double structure = best_seconds([&] { lower(c.structure); });
  std::printf(
      "{\"bench\": \"sim\", \"case\": \"%s\", \"instructions\": %.0f, \"iteration_ns\": %lld, "
      "\"clock_instructions_per_s\": %.3e, \"memory_instructions_per_s\": %.3e, \"run_instructions_per_s\": %.3e, "
      "\"lower_instructions_per_s\": %.3e}\n",
      c.name.c_str(), n, static_cast<long long>(iteration), n / clock, n / memory, n / run, n / structure);
}

}  // namespace

int main() {
  const std::vector<Case> cases = {
      {"1f1b p64 m256", make(ScheduleKind::one_f_one_b, 64, 1, 256, 1), 1.0},
      {"1f1b p64 m256, 16 buckets, slow-down 1.2", make(ScheduleKind::one_f_one_b, 64, 1, 256, 16), 1.2},
      {"1f1b p8 m8, 16 buckets, slow-down 1.2", make(ScheduleKind::one_f_one_b, 8, 1, 8, 16), 1.2},
      {"interleaved p16 v4 m256", make(ScheduleKind::interleaved, 16, 4, 256, 1), 1.0},
      {"zb-h1 p64 m256", make(ScheduleKind::zb_h1, 64, 1, 256, 1), 1.0},
      {"zb-v p32 m256", make(ScheduleKind::zb_v, 32, 2, 256, 1), 1.0},
  };
  for (const Case& c : cases) measure(c);
}
