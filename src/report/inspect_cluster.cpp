// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "base/document.h"
#include "base/format.h"
#include "espalier/inspect.h"
#include "espalier/text.h"
#include "report/brief_text.h"
#include "report/inspect_mixed.h"

namespace espalier::report {
namespace {

/// Returns one decimal digit, or three for a slow link.
std::string gbps(BytesPerSecond rate) { return cat(fixed(rate.count() / 1e9, rate < GBps(0.1) ? 3 : 1), " GB/s"); }
std::string micro(Seconds s) { return cat(fixed(s.count() * 1e6, 1), " us"); }

std::string peaks(const DeviceKind& device) {
  std::string out;
  for (int i = 0; i < kPrecisions; ++i) {
    const auto p = static_cast<Precision>(i);
    if (device.peak_of(p).count() <= 0) continue;
    out.append(out.empty() ? "" : " · ").append(cat(to_string(p), " ", fixed(device.peak_of(p).count() / 1e12, 1)));
  }
  return cat(out, " TFLOP/s");
}

std::string group_section(const Cluster& cluster, std::size_t index) {
  const NodeGroup& group = cluster.groups[index];
  const DeviceKind& d = group.device;
  std::string out =
      cat("\n", group_prefix(cluster, group), std::to_string(group.nodes), " nodes × ", std::to_string(group.devices_per_node),
          " ", d.name, d.calibrated ? " (calibrated)" : " (uncalibrated: priors)", traits_of(cluster, index), "\n");
  out += cat("  peak       ", peaks(d), "\n");
  out += cat("  memory     ", gib(d.memory.count()), " reported, ", gib(d.context_reserve.count()), " reserved, ",
             gib(cluster.usable_memory(index).count()), " usable, ", gbps(d.memory_bandwidth), "\n");
  out +=
      cat("  overlap    compute ×", fixed(d.efficiency.overlap_compute_slowdown, 2), ", communication ×",
          fixed(d.efficiency.overlap_communication_slowdown, 2), d.efficiency.measured_overlap ? " (measured)\n" : " (prior)\n");
  if (group.segment > 0)
    out += cat("  segment    ", std::to_string(group.segment), " of the ", std::to_string(group.domain_nodes),
               " nodes of each domain\n");
  for (const auto& [field, source] : d.sources)
    out += cat("  source     ", pad_right(field, 20), wrap(source, 80, std::string(33, ' ')), "\n");
  return out;
}

std::string fabric_section(const Cluster& cluster) {
  std::vector<std::vector<std::string>> rows{{"level", "kind", "span", "bandwidth", "alone", "latency", "efficiency", "reduces"}};
  const auto add = [&](const std::string& group, const std::vector<FabricLevel>& levels) {
    for (const FabricLevel& l : levels)
      rows.push_back({cat(group, l.name, l.trace.empty() ? "" : " (varies)"), std::string(to_string(l.kind)),
                      std::to_string(l.span), gbps(l.bandwidth), gbps(l.bandwidth_alone), micro(l.latency), percent(l.efficiency),
                      l.in_network_reduction ? "in the network" : "–"});
  };
  for (const NodeGroup& group : cluster.groups) {
    const std::string name = group_prefix(cluster, group);
    add(name, group.intra);
    add(name, group.inter);
  }
  add("", cluster.inter);
  return cat("\nFabric, per device and direction\n", table(rows, {1}));
}

void write_level(base::JsonWriter& w, const FabricLevel& l) {
  w.compact_next().begin_object();
  w.key("name").value(l.name);
  w.key("kind").value(to_string(l.kind));
  w.key("span").value(l.span);
  w.key("bandwidth_gbps").value(l.bandwidth.count() * 8 / 1e9);
  w.key("bandwidth_alone_gbps").value(l.bandwidth_alone.count() * 8 / 1e9);
  w.key("latency_us").value(l.latency.count() * 1e6);
  w.key("efficiency").value(l.efficiency);
  w.key("in_network_reduction").value(l.in_network_reduction);
  w.end_object();
}

void write_group(base::JsonWriter& w, const Cluster& cluster, std::size_t index) {
  const NodeGroup& group = cluster.groups[index];
  w.begin_object();
  write_traits(w, cluster, index);
  w.key("nodes").value(group.nodes);
  w.key("devices_per_node").value(group.devices_per_node);
  w.key("device").value(group.device.name);
  if (group.segment > 0) w.key("segment").value(group.segment).key("domain_nodes").value(group.domain_nodes);
  w.key("calibrated").value(group.device.calibrated);
  w.key("peak_tflops").compact_next().begin_object();
  for (int i = 0; i < kPrecisions; ++i) {
    const auto p = static_cast<Precision>(i);
    w.key(to_string(p)).value(group.device.peak_of(p).count() / 1e12);
  }
  w.end_object();
  w.key("memory_bytes").value(group.device.memory.count());
  w.key("context_reserve_bytes").value(group.device.context_reserve.count());
  w.key("usable_memory_bytes").value(cluster.usable_memory(index).count());
  w.key("memory_bandwidth_gbytes_per_s").value(group.device.memory_bandwidth.count() / 1e9);
  w.key("intra").begin_array();
  for (const FabricLevel& level : group.intra) write_level(w, level);
  w.end_array();
  if (!group.inter.empty()) {
    w.key("inter").begin_array();
    for (const FabricLevel& level : group.inter) write_level(w, level);
    w.end_array();
  }
  w.key("sources").begin_object();
  for (const auto& [field, source] : group.device.sources) w.key(field).value(source);
  w.end_object();
  w.end_object();
}

}  // namespace

std::string inspect_cluster(const Cluster& cluster, std::size_t width) {
  std::string out = cat(cluster.name.empty() ? "cluster" : cluster.name, ": ", grouped(cluster.devices()), " devices\n");
  if (cluster.memory_limit) out += cat("  memory limit ", gib(cluster.memory_limit->count()), " per device\n");
  for (std::size_t i = 0; i < cluster.groups.size(); ++i) out += group_section(cluster, i);
  out += fabric_section(cluster);
  out += mixed_sections(cluster);
  if (!cluster.notes.empty()) out += "\nNotes\n";
  for (const std::string& note : cluster.notes) {
    const bool marked = note.find("default") != std::string::npos;
    out += cat("  - ", wrap(marked ? note : cat(note, " (default)"), 110, "    "), "\n");
  }
  return lay_out(out, width);
}

std::string inspect_cluster_json(const Cluster& cluster) {
  base::JsonWriter w;
  w.begin_object();
  w.key("schema").value("espalier.cluster-summary/1");
  w.key("name").value(cluster.name);
  w.key("devices").value(cluster.devices());
  if (cluster.memory_limit) w.key("memory_limit_bytes").value(cluster.memory_limit->count());
  w.key("groups").begin_array();
  for (std::size_t i = 0; i < cluster.groups.size(); ++i) write_group(w, cluster, i);
  w.end_array();
  w.key("inter").begin_array();
  for (const FabricLevel& level : cluster.inter) write_level(w, level);
  w.end_array();
  write_mixed(w, cluster);
  w.key("defaults").begin_array();
  for (const std::string& note : cluster.notes) w.value(note);
  w.end_array();
  w.end_object();
  return w.text();
}

}  // namespace espalier::report
