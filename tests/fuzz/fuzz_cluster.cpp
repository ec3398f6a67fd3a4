// SPDX-License-Identifier: Apache-2.0
// load_cluster on any bytes; an accepted cluster has devices, levels of growing span, and links faster than nothing.
#include <cmath>

#include "espalier/cluster.h"
#include "fuzz_expect.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace espalier;
  const auto cluster = load_cluster(fuzz::text_of(data, size), "cluster.yaml");
  if (!cluster.ok()) {
    fuzz::expect_helpful(cluster.error());
    return 0;
  }
  fuzz::expect(!cluster->groups.empty() && cluster->devices() > 0, "a cluster has devices");
  for (std::size_t group = 0; group < cluster->groups.size(); ++group) {
    fuzz::expect(cluster->usable_memory(group).count() >= 0, "usable memory is not negative");
  }
  std::int64_t span = 1;
  for (const FabricLevel& level : cluster->levels()) {
    fuzz::expect(level.span >= span && level.span % span == 0, "spans nest", level.name);
    fuzz::expect(std::isfinite(level.bandwidth.count()) && level.bandwidth.count() > 0, "links have bandwidth", level.name);
    fuzz::expect(std::isfinite(level.latency.count()) && level.latency.count() >= 0, "latency is not negative", level.name);
    span = level.span;
  }
  return 0;
}
