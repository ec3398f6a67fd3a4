// SPDX-License-Identifier: Apache-2.0
// Maps the devices of a run and the links between them.
#include <algorithm>
#include <cmath>

#include "base/format.h"
#include "base/invariant.h"
#include "cluster/fabric_calibration.h"
#include "runs/mapper.h"
#include "runs/record_words.h"

namespace espalier::runs {

namespace {

/// Returns the first entry for the source; null where there is none.
const job::ClusterDefault* of_source(const std::vector<job::ClusterDefault>& all, const std::string& source) {
  const auto speaks = [&](const job::ClusterDefault& d) { return job::mentions(source, d.sources); };
  const auto found = std::find_if(all.begin(), all.end(), speaks);
  return found == all.end() ? nullptr : &*found;
}

}  // namespace

const job::DeviceDefault* Mapper::choose_device(const std::string& type, const std::optional<double>& memory_gb) {
  const bool pcie = job::mentions(cat(type, " ", r_.intra), {"pcie"});
  const auto named = [&type](const std::string& word) { return names_device(type, word); };
  for (const job::DeviceDefault& d : all_.devices) {
    if (std::none_of(d.match.begin(), d.match.end(), named) || (d.pcie && !pcie)) continue;
    if (memory_gb ? d.memory_gb == 0 || std::fabs(*memory_gb - d.memory_gb) < 1 : d.silent) return &d;
  }
  return nullptr;
}

std::int64_t Mapper::devices_per_node(const job::DeviceDefault& device) {
  if (r_.gpu.per_node) return count(r_.gpu.per_node, "gpu.per_node");
  auto usual = load_cluster(cat("{\"nodes\": 1, \"device\": \"", device.device, "\"}"), "device");
  const std::int64_t n = usual ? usual->groups.front().devices_per_node : 8;
  used("gpu.per_node", std::to_string(n), cat("usual node of ", device.device));
  return n;
}

void Mapper::map_cluster() {
  if (r_.mixture.network.stated() && !r_.mixture.groups.empty()) return map_mixed_cluster();
  const job::DeviceDefault* device = choose_device();
  if (!device) {
    const std::string size = r_.gpu.mem_gb ? cat(" of ", base::fixed(*r_.gpu.mem_gb, 0), " GB") : "";
    return skip(r_.gpu.type.empty() ? "gpu.type missing" : "device not in the catalogue", cat(r_.gpu.type, size));
  }
  used("device", device->device, device->source);
  run_.memory_known = (r_.gpu.mem_gb.has_value() || device->memory_gb == 0) && !device->other_memory;
  const std::int64_t devices = device_count();
  const std::int64_t usual = devices_per_node(*device);
  if (skip_) return;
  const std::int64_t per_node = std::min(usual, devices);
  if (devices % per_node != 0)
    return skip("gpu.count is not a multiple of gpu.per_node",
                cat(std::to_string(devices), " on nodes of ", std::to_string(per_node)));
  base::JsonWriter w;
  w.compact_next().begin_object();
  w.key("nodes").value(devices / per_node);
  w.key("devices_per_node").value(per_node);
  w.key("device").value(device->device);
  if (!device->intra_bandwidth.empty() && per_node > 1)
    w.key("intra_node").compact_next().begin_object().key("bandwidth").value(device->intra_bandwidth).end_object();
  if (devices > per_node) write_network(w, per_node);
  write_host(w);
  if (skip_) return;
  w.end_object();
  auto cluster = load_cluster(w.text(), r_.id);
  if (!cluster) return skip("cluster cannot be built", cluster.error().message());
  run_.job.cluster = std::move(cluster).value();
  run_.job.cluster_source = w.text();
  check_links();
}

void Mapper::check_links() {
  const std::string words = cat(r_.gpu.type, " ", r_.intra);
  const std::vector<FabricLevel>& intra = run_.job.cluster.groups.front().intra;
  const auto nvlink = [](const FabricLevel& l) {
    return l.kind == FabricKind::nvswitch || l.kind == FabricKind::nvlink_mesh || l.kind == FabricKind::nvl72;
  };
  if (job::mentions(words, {"pcie"}) && !job::mentions(words, {"nvlink", "nvswitch", "sxm", "nvl72"}) &&
      std::any_of(intra.begin(), intra.end(), nvlink))
    skip("device not in the catalogue", cat(r_.gpu.type, " on PCIe"));
}

void Mapper::write_network(base::JsonWriter& w, std::int64_t per_node) {
  const NetworkReading words = read_network_words(r_.inter, per_node);
  if (!words.unknown.empty()) return skip("interconnect.inter unknown", words.unknown);
  if (!words.network && write_measured_network(w)) return;
  if (!words.network) {
    used("interconnect.inter", "usual network", "usual node of the device (data/devices.yaml)");
    return;
  }
  w.key("inter_node").compact_next().begin_object();
  w.key("bandwidth").value(cat(base::fixed(words.network->gbits, 3), "Gb/s"));
  if (words.network->nics) w.key("nics_per_node").value(*words.network->nics);
  w.end_object();
  if (!words.network->nics) used("interconnect.inter", "NICs of the usual node", "the record names the rate of one port");
}

bool Mapper::write_measured_network(base::JsonWriter& w) {
  const job::ClusterDefault* d = of_source(all_.networks, r_.source);
  if (d == nullptr) return false;
  const auto& clusters = cluster::fabric_calibrations().clusters;
  const auto known = std::find_if(clusters.begin(), clusters.end(), [&](const auto& c) { return c.fabric == d->name; });
  ESPALIER_CHECK(known != clusters.end());
  w.key("inter_node").compact_next().begin_object();
  cluster::write_level(w, *known);
  w.end_object();
  used("interconnect.inter", cat("network of ", d->name), d->source);
  return true;
}

void Mapper::write_host(base::JsonWriter& w) {
  const job::ClusterDefault* d = of_source(all_.hosts, r_.source);
  if (d == nullptr) return;
  w.key("host").value(d->name);
  used("host", d->name, d->source);
}

std::int64_t Mapper::device_count() {
  if (r_.gpu.count) return count(r_.gpu.count, "gpu.count");
  if (!r_.dp && arguments_ && !arguments_->distributed_optimizer && r_.zero_stage.value_or(0) == 0) {
    // Without sharding, a rank's memory does not depend on the number of replicas; its step time does.
    const std::int64_t model = r_.tp.value_or(1) * r_.pp.value_or(1) * r_.cp.value_or(1);
    const std::int64_t n = model >= 1 && model < 8 && 8 % model == 0 ? 8 : model;
    if (n < 1 || n > (1 << 20)) skip("gpu.count missing and degrees out of range");
    used("gpu.count", std::to_string(n), "for memory only: one node, or tp · pp · cp; nothing is sharded over replicas");
    run_.time_known = false;
    return std::max<std::int64_t>(1, n);
  }
  if (!r_.dp) {
    skip("gpu.count and dp missing");
    return 1;
  }
  const std::int64_t n = r_.tp.value_or(1) * r_.pp.value_or(1) * r_.dp.value_or(1) * r_.cp.value_or(1);
  if (n < 1 || n > (1 << 20)) skip("gpu.count missing and degrees out of range");
  used("gpu.count", std::to_string(n), "tp · pp · dp · cp of the record");
  return std::max<std::int64_t>(1, n);
}

}  // namespace espalier::runs
