// SPDX-License-Identifier: Apache-2.0
// Fuzzes load_observation with any bytes, and its diagnosis of a small cluster.
#include "espalier/observation.h"
#include "fuzz_expect.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace espalier;
  const auto seen = adapt::load_observation(fuzz::text_of(data, size), "obs.json");
  if (!seen.ok()) {
    fuzz::expect_helpful(seen.error());
    return 0;
  }
  static const Job job = [] {
    Job small;
    small.cluster = load_cluster("{nodes: 2, devices_per_node: 2, device: a100-sxm-80gb}", "fuzz").value();
    small.training.global_batch = 4;
    small.training.sequence.main = 128;
    return small;
  }();
  Plan plan;
  plan.pipelines.front().stages.resize(2);
  plan.pipelines.front().stages[0].devices = {{0, 2, 1}};
  plan.pipelines.front().stages[1].devices = {{2, 2, 1}};
  adapt::Observation any_plan = *seen;
  any_plan.plan.clear();  // a random hash never matches
  const auto read_off = adapt::diagnose(job, plan, any_plan);
  if (!read_off.ok()) {
    fuzz::expect_helpful(read_off.error());
    return 0;
  }
  for (const auto& [name, factor] : read_off->what.slow) fuzz::expect(factor >= 1.05, "a slow rank is slow");
  for (const auto& [name, factor] : read_off->what.links) fuzz::expect(factor > 0 && factor < 1, "a narrow link is narrow");
  return 0;
}
