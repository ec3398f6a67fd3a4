// SPDX-License-Identifier: Apache-2.0
// Lists the formats of clusters, and writes clusters as files: in the short form where the links are the usual ones,
// else in the full form.
#include <algorithm>

#include "base/document.h"
#include "base/format.h"
#include "base/invariant.h"
#include "cluster/catalogue.h"
#include "exchange/cluster_readers.h"

namespace espalier::exchange {
namespace {

std::string rate(BytesPerSecond b) { return cat(base::six_digits(b.count() / 1e9), "GB/s"); }

std::string level_line(const FabricLevel& level) {
  std::string out = cat("  - {name: \"", level.name, "\", kind: ", to_string(level.kind), ", span: ", level.span,
                        ", bandwidth: ", rate(level.bandwidth));
  if (level.bandwidth_alone.count() > level.bandwidth.count()) out += cat(", bandwidth_alone: ", rate(level.bandwidth_alone));
  if (level.per_peer.count() > 0) out += cat(", per_peer: ", rate(level.per_peer));
  out +=
      cat(", latency: ", base::six_digits(level.latency.count() * 1e6), "us, efficiency: ", base::six_digits(level.efficiency));
  if (level.start.count() > 0) out += cat(", start: ", base::six_digits(level.start.count() * 1e6), "us");
  const auto number = [&](const char* name, double value) {
    if (value > 0) out += cat(", ", name, ": ", base::six_digits(value));
  };
  number("ramp", level.ramp);
  number("small_group", level.small_group);
  number("congestion", level.congestion);
  if (level.in_network_reduction) out += ", in_network_reduction: true";
  return out + "}\n";
}

}  // namespace

const std::vector<ClusterFormat>& cluster_formats() {
  static const std::vector<ClusterFormat> rows{nvidia_smi_topo(), nccl_topology(), slurm_hosts(), slurm_topology(),
                                               rocm_smi_topo()};
  return rows;
}

const ClusterFormat* find_cluster_format(std::string_view name) {
  const auto& rows = cluster_formats();
  const auto at = std::find_if(rows.begin(), rows.end(), [&](const ClusterFormat& row) { return row.name == name; });
  return at == rows.end() ? nullptr : &*at;
}

Result<Cluster> usual_cluster(const std::string& device, std::int64_t nodes, std::optional<std::int64_t> devices_per_node) {
  base::JsonWriter w;
  w.begin_object();
  w.key("nodes").value(nodes);
  if (devices_per_node) w.key("devices_per_node").value(*devices_per_node);
  w.key("device").value(device);
  w.end_object();
  auto cluster = load_cluster(w.text(), "--device");
  if (!cluster) {
    Error error = cluster.error();
    if (error.where.find("$.device") != std::string::npos) error.where = "--device";
    return error;
  }
  return cluster;
}

Result<std::string> cluster_file(const Cluster& cluster, const std::vector<std::string>& notes) {
  if (!cluster.homogeneous()) return Error{ErrorKind::bad_input, "cluster", "several groups of nodes", "equal nodes", ""};
  const NodeGroup& group = cluster.groups.front();
  ESPALIER_CHECK(group.nodes > 0 && group.devices_per_node > 0 && !group.device.name.empty());
  std::string out;
  for (const std::string& text : notes) out += cat("# ", text, "\n");
  out += cat("nodes: ", group.nodes, "\ndevices_per_node: ", group.devices_per_node, "\ndevice: ", group.device.name, "\n");
  const auto usual = usual_cluster(group.device.name, group.nodes, group.devices_per_node);
  if (usual && usual->groups.front().intra == group.intra && usual->inter == cluster.inter) return out;
  if (group.domain_nodes > 0)
    return Error{ErrorKind::bad_input, "cluster", "links that differ from the usual ones in a domain of several nodes",
                 "the usual ones", ""};
  out += "fabric:\n";
  for (const FabricLevel& level : group.intra) out += level_line(level);
  for (const FabricLevel& level : cluster.inter) out += level_line(level);
  return out;
}

}  // namespace espalier::exchange
