// SPDX-License-Identifier: Apache-2.0
// Fuzzes traces of spot instances with any bytes: an accepted trace becomes events that a cluster file accepts.
#include "espalier/exchange.h"
#include "exchange/spot_trace.h"
#include "fuzz_expect.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace espalier;
  const std::string text(fuzz::text_of(data, size));
  for (const auto read :
       {exchange::read_bamboo_trace, exchange::read_parcae_trace, exchange::read_sailor_trace, exchange::read_counts_trace}) {
    const auto trace = read({"trace.csv", text, 0, 2});
    if (!trace.ok()) {
      fuzz::expect_helpful(trace.error());
      continue;
    }
    fuzz::expect(trace->nodes > 0, "a trace has nodes");
    if (trace->events.size() > 2000) continue;  // the text of all events is slow to read
    std::string cluster = "nodes: " + std::to_string(trace->nodes) + "\ndevices_per_node: 1\ndevice: l4\nevents:\n";
    for (const ClusterEvent& event : trace->events)
      cluster += "  - {time_s: " + std::to_string(event.at.count()) + ", event: " + std::string(to_string(event.kind)) +
                 ", target: \"" + event.target + "\"}\n";
    if (trace->events.empty()) continue;
    const auto back = load_cluster(cluster, "cluster.yaml");
    fuzz::expect(back.ok(), "events of a trace are read", back.ok() ? "" : back.error().message());
  }
  return 0;
}
