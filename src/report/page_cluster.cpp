// SPDX-License-Identifier: Apache-2.0
// Writes the cluster: devices, levels of the fabric, and the traffic of a step on the links.
#include "base/format.h"
#include "report/page_parts.h"

namespace espalier::report {
namespace {

std::string gigabytes(BytesPerSecond rate) { return cat(fixed(rate.count() * 1e-9, 1), " GB/s"); }

void add_level(PageTable& t, const std::string& where, const FabricLevel& level) {
  t.rows.push_back({level.name, where, std::string(to_string(level.kind)), grouped(level.span), gigabytes(level.bandwidth),
                    base::seconds(round_ns(level.latency).count()), percent(level.efficiency)});
}

/// Returns "170.5 TB", decimal as links are rated.
std::string moved(double bytes) {
  if (bytes >= 1e12) return cat(fixed(bytes * 1e-12, 1), " TB");
  return bytes >= 1e9 ? cat(fixed(bytes * 1e-9, 1), " GB") : cat(fixed(bytes * 1e-6, 1), " MB");
}

void add_links(PageTable& t, const NetworkPrediction& network) {
  for (const LinkUse& use : network.links)
    t.rows.push_back({use.link,
                      grouped(use.links),
                      moved(use.bytes),
                      {percent(use.busy), use.busy},
                      {percent(use.highest_load), use.highest_load}});
  t.note = cat("per step, over all links of one name; all messages in flight share the links; without sharing, the step takes ",
               base::seconds(network.closed_iteration_ns));
}

}  // namespace

PageTable device_table(const Job& job) {
  PageTable t{
      "devices", "Devices",
      "",        {"group", "device", "nodes", "devices per node", "peak", "memory", "memory bandwidth", "source of the peak"},
      {1, 7},    {}};
  const Precision precision = job.training.precision;
  t.note = cat("peak: dense ", to_string(precision));
  for (const NodeGroup& group : job.cluster.groups) {
    t.rows.push_back({group.name.empty() ? "a" : group.name, group.device.name, grouped(group.nodes),
                      grouped(group.devices_per_node), cat(fixed(group.device.peak_of(precision).count() * 1e-12, 1), " TFLOP/s"),
                      gib(static_cast<std::int64_t>(group.device.memory.count())), gigabytes(group.device.memory_bandwidth),
                      source_of(group.device, "peak_tflops")});
  }
  return t;
}

PageTable fabric_table(const Cluster& cluster) {
  PageTable t{"fabric",
              "Fabric",
              "bandwidth of one device in one direction while all devices of the domain communicate",
              {"level", "where", "kind", "devices per domain", "bandwidth", "latency", "share reached by large messages"},
              {1, 2},
              {}};
  for (const NodeGroup& group : cluster.groups) {
    const std::string name = cluster.groups.size() > 1 ? cat(" of ", group.name) : "";
    for (const FabricLevel& level : group.intra) add_level(t, cat("inside nodes", name), level);
    for (const FabricLevel& level : group.inter) add_level(t, cat("between nodes", name), level);
  }
  for (const FabricLevel& level : cluster.inter)
    add_level(t, cluster.groups.size() > 1 ? "between groups" : "between nodes", level);
  for (const GroupLink& link : cluster.links)
    t.rows.push_back({link.name(), "between groups", std::string(to_string(link.sharing)), "–", gigabytes(link.bandwidth),
                      base::seconds(round_ns(link.latency).count()), "–"});
  return t;
}

PageTable link_table(const Job& job, const PlannerResult& r) {
  PageTable t{"links", "Traffic on the links", "", {"link", "links", "moved", "use of the busiest", "highest load"}, {}, {}};
  if (r.prediction.network) {
    add_links(t, *r.prediction.network);
    return t;
  }
  if (job.cluster.devices() > kMostFlowDevices) {
    t.note = cat("not simulated: the flow-level network supports at most ", grouped(kMostFlowDevices),
                 " devices, the cluster has ", grouped(job.cluster.devices()));
    return t;
  }
  Job flow = job;
  flow.network = NetworkKind::flow;
  const auto again = simulate(flow, r.plan);
  if (!again)
    t.note = cat("not simulated: ", again.error().message());
  else if (again->prediction.network)
    add_links(t, *again->prediction.network);
  return t;
}

}  // namespace espalier::report
