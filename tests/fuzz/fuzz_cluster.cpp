// SPDX-License-Identifier: Apache-2.0
// load_cluster on any bytes; an accepted cluster has devices, levels of growing span, and links faster than nothing.
#include <cmath>

#include "espalier/cluster.h"
#include "fuzz_expect.h"

namespace {

using namespace espalier;

void expect_sound(const std::vector<FabricLevel>& levels, bool nested) {
  std::int64_t span = 1;
  for (const FabricLevel& level : levels) {
    fuzz::expect(!nested || (level.span >= span && level.span % span == 0), "spans nest", level.name);
    fuzz::expect(std::isfinite(level.bandwidth.count()) && level.bandwidth.count() > 0, "links have bandwidth", level.name);
    fuzz::expect(level.bandwidth_alone >= level.bandwidth, "alone is at least as fast", level.name);
    fuzz::expect(std::isfinite(level.latency.count()) && level.latency.count() >= 0, "latency is not negative", level.name);
    span = level.span;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto cluster = load_cluster(fuzz::text_of(data, size), "cluster.yaml");
  if (!cluster.ok()) {
    fuzz::expect_helpful(cluster.error());
    return 0;
  }
  fuzz::expect(!cluster->groups.empty() && cluster->devices() > 0, "a cluster has devices");
  for (std::size_t group = 0; group < cluster->groups.size(); ++group) {
    fuzz::expect(cluster->usable_memory(group).count() >= 0, "usable memory is not negative");
    expect_sound(cluster->groups[group].intra, true);
  }
  // The level that joins unequal groups spans all of them: no multiple of a group's node.
  expect_sound(cluster->levels(), cluster->homogeneous());
  return 0;
}
