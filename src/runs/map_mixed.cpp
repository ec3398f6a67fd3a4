// SPDX-License-Identifier: Apache-2.0
// Maps the cluster of a record that states its nodes and their network as figures: `device_groups` and `network`.
//
// Rates of `network` are those of one node and one direction, shared by its devices, over TCP on Ethernet. There is
// one interface of that rate per node (the fabric's coefficients are those of the catalogue). NCCL's sockets move as
// much of it as they can. A delay is the time of a hop. Devices inside a node are joined by their usual fabric:
// `intra_gbps` of such records is an assumption of a scheduler, not a measurement.
//
// The ramp ρ·√(L·V) of collectives over TCP (cost/collective.h) was measured on nodes of 100 Gb/s with the hop of TCP
// itself. It is time that hosts need, and a slower or longer wire does not add to it. The ramp keeps its value at 100
// Gb/s and that hop where ρ(rate, hop) = ρ · √(rate / 100 Gb/s) · √(hop of TCP / hop).
#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/facts.h"
#include "base/format.h"
#include "cluster/fabric_calibration.h"
#include "runs/mapper.h"
#include "runs/record_words.h"

namespace espalier::runs {

namespace {

constexpr std::int64_t kMostNodes = 1 << 16;

/// Returns a level with the coefficients that were fitted to collectives over TCP (data/calibration/fabrics.yaml).
FabricLevel tcp_level() {
  FabricLevel level;
  for (const cluster::FabricCalibration& network : cluster::fabric_calibrations().networks)
    if (network.kind == FabricKind::ethernet)
      for (const auto& [field, value] : network.values) field->set(level, value);
  return level;
}

/// Returns the microseconds of a hop: the stated delay, but never less than TCP takes.
double hop_us(double delay_ms) { return std::max(delay_ms * 1e3, tcp_level().latency.count() * 1e6); }

double ramp_of(double gbits, double delay_ms) {
  const FabricLevel tcp = tcp_level();
  const double fitted_at = base::shipped_facts().value("tcp_ramp_rate");
  return tcp.ramp * std::sqrt(std::min(1.0, gbits / fitted_at) * tcp.latency.count() * 1e6 / hop_us(delay_ms));
}

/// Returns the memory size in a name: "V100-16GB" gives 16.
std::optional<double> size_named(const std::string& kind) {
  const std::string text = base::lower(kind);
  const std::size_t unit = text.rfind("gb");
  if (unit == std::string::npos) return std::nullopt;
  std::size_t from = unit;
  while (from > 0 && text[from - 1] >= '0' && text[from - 1] <= '9') --from;
  double value = 0;
  const auto [end, code] = std::from_chars(text.data() + from, text.data() + unit, value);
  return code == std::errc{} && end == text.data() + unit && from < unit ? std::optional(value) : std::nullopt;
}

}  // namespace

const job::DeviceDefault* Mapper::choose_kind(const std::string& kind) {
  if (kind.empty()) return choose_device();
  return choose_device(kind, size_named(kind));
}

void Mapper::write_rates(base::JsonWriter& w, double gbits, double delay_ms) {
  w.compact_next().begin_object();
  w.key("kind").value("ethernet");
  w.key("bandwidth").value(cat(base::fixed(gbits, 4), "Gb/s"));
  w.key("nics_per_node").value(std::int64_t{1});
  if (delay_ms > 0) w.key("latency").value(cat(base::fixed(hop_us(delay_ms), 1), "us"));
  w.key("ramp").value(ramp_of(gbits, delay_ms));
  const double sockets = base::shipped_facts().value("nccl_socket_bandwidth") / gbits;
  w.key("efficiency").value(std::min(tcp_level().efficiency, sockets));
  w.end_object();
}

void Mapper::write_group(base::JsonWriter& w, const RunDeviceGroup& group, const std::string& site) {
  const job::DeviceDefault* device = choose_kind(group.kind);
  if (!device) return skip("device not in the catalogue", group.kind);
  const std::int64_t per_node = group.per_node.value_or(1);
  const std::int64_t nodes = group.nodes ? *group.nodes : group.count.value_or(0) / std::max<std::int64_t>(1, per_node);
  if (nodes < 1 || per_node < 1 || nodes > kMostNodes || per_node > kMostNodes)
    return skip("device_groups out of range", cat(nodes, " × ", per_node, " ", group.kind));
  run_.memory_known = (size_named(group.kind).has_value() || device->memory_gb == 0) && !device->other_memory;
  used("device", device->device, device->source);
  w.key("nodes").value(nodes);
  w.key("devices_per_node").value(per_node);
  w.key("device").value(device->device);
  if (!site.empty()) w.key("site").value(site);
  const RunNetwork& network = r_.mixture.network;
  if (nodes > 1 && network.inter_gbps) {
    w.key("inter_node");
    write_rates(w, *network.inter_gbps, network.delay_ms.value_or(0));
  }
}

void Mapper::write_groups(base::JsonWriter& w) {
  const RunNetwork& network = r_.mixture.network;
  const std::vector<RunDeviceGroup>& groups = r_.mixture.groups;
  w.begin_object();
  if (groups.size() == 1) {
    write_group(w, groups.front(), "");
  } else {
    w.key("groups").begin_array();
    for (const RunDeviceGroup& group : groups) {
      w.begin_object();
      write_group(w, group, "");
      w.end_object();
      if (skip_) return;
    }
    w.end_array();
    w.key("inter_group");
    write_rates(w, *network.inter_gbps, network.delay_ms.value_or(0));
  }
  w.end_object();
}

void Mapper::read_case() {
  const RunNetwork& network = r_.mixture.network;
  if (network.matrix.empty() || !network.matrix_case) return;
  if (*network.matrix_case > 1'000'000) return skip("network case out of range", cat(*network.matrix_case));
  auto read = read_network_case_file(network.matrix, *network.matrix_case + 1);
  if (read) {
    case_ = std::move(read).value();
    return;
  }
  // The record's own rates are enough for the cluster.
  if (!network.inter_gbps) skip("matrix cannot be read", read.error().message());
}

void Mapper::write_regions(base::JsonWriter& w) {
  std::vector<std::string> names;
  std::vector<std::int64_t> counts;
  for (const std::string& region : case_->regions) {
    if (names.empty() || names.back() != region) {
      if (std::find(names.begin(), names.end(), region) != names.end()) return skip("regions out of order", region);
      names.push_back(region);
      counts.push_back(0);
    }
    ++counts.back();
  }
  const std::string kind = r_.mixture.groups.front().kind;
  const job::DeviceDefault* device = choose_kind(kind);
  if (!device) return skip("device not in the catalogue", kind);
  used("device", device->device, device->source);
  w.begin_object();
  w.key("groups").begin_array();
  for (std::size_t i = 0; i < names.size(); ++i) {
    w.begin_object();
    w.key("name").value(names[i]);
    w.key("nodes").value(counts[i]);
    w.key("devices_per_node").value(std::int64_t{1});
    w.key("device").value(device->device);
    w.key("inter_node");
    write_rates(w, case_->within.gbps, case_->within.delay_ms);
    w.end_object();
  }
  w.end_array();
  w.key("links").begin_array();
  for (std::size_t a = 0; a < names.size(); ++a)
    for (std::size_t b = a + 1; b < names.size(); ++b) {
      const LinkRate rate = case_->between(names[a], names[b]);
      w.compact_next().begin_object();
      w.key("from").value(names[a]);
      w.key("to").value(names[b]);
      w.key("bandwidth").value(cat(base::fixed(rate.gbps, 4), "Gb/s"));
      w.key("latency").value(cat(base::fixed(hop_us(rate.delay_ms), 1), "us"));
      w.key("sharing").value("node_pair");
      w.key("both").value(true);
      w.end_object();
    }
  w.end_array();
  w.end_object();
}

void Mapper::map_mixed_cluster() {
  const RunNetwork& network = r_.mixture.network;
  read_case();
  if (skip_) return;
  const bool regions = case_ && !case_->regions.empty();
  if (!network.inter_gbps && !regions) return skip("network without rates", network.matrix);
  if (!regions && (*network.inter_gbps <= 0 || *network.inter_gbps > 1e6)) return skip("network out of range", "inter_gbps");
  base::JsonWriter w;
  if (regions)
    write_regions(w);
  else
    write_groups(w);
  if (skip_) return;
  auto cluster = load_cluster(w.text(), r_.id);
  if (!cluster) return skip("cluster cannot be built", cluster.error().message());
  if (cluster->devices() > kMostNodes) return skip("device_groups out of range", cat(cluster->devices(), " devices"));
  run_.job.cluster = std::move(cluster).value();
  run_.job.cluster_source = w.text();
  used("network",
       regions ? cat(run_.job.cluster.groups.size(), " regions") : cat(base::fixed(*network.inter_gbps, 1), " Gb/s per node"),
       "network of the record, TCP over Ethernet");
  if (r_.gpu.count && *r_.gpu.count != run_.job.cluster.devices())
    skip("gpu.count differs from device_groups", cat(*r_.gpu.count, " and ", run_.job.cluster.devices()));
}

}  // namespace espalier::runs
