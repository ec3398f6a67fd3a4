// SPDX-License-Identifier: Apache-2.0
// Reads the catalogue from the embedded text. It is checked as strictly as a user's file, and sorted by name.
#include "cluster/catalogue.h"

#include <algorithm>

#include "base/format.h"
#include "base/invariant.h"
#include "base/shipped.h"
#include "cluster/calibration.h"
#include "cluster/device_reader.h"
#include "cluster/fabric_calibration.h"
#include "data/device_calibration_yaml.h"
#include "data/devices_yaml.h"
#include "data/fabric_calibration_yaml.h"
#include "data/training_calibration_yaml.h"

namespace espalier::cluster {
namespace {

FabricTemplate read_fabric_template(base::Reader& reader, std::string name) {
  FabricTemplate fabric;
  fabric.name = std::move(name);
  std::vector<std::string> notes;
  reader.each("levels", true, [&](base::Reader& level) { fabric.levels.push_back(read_level(level, notes)); });
  if (reader.has("domain")) {
    base::Reader domain = reader.child("domain", true);
    fabric.domain = read_level(domain, notes);
  }
  fabric.source = reader.required_string("source");
  reader.finish();
  return fabric;
}

UsualNode read_usual_node(base::Reader& reader) {
  UsualNode node;
  node.devices = reader.required_int("devices", 1, 1024);
  node.fabric = reader.required_string("fabric");
  base::Reader network = reader.child("network", true);
  read_network(network, node.network, "nics");
  network.finish();
  if (reader.has("host")) read_host(reader.child("host", true), node.host);
  if (node.host.kernel_launch.count() > 0)
    reader.fail("host", "kernel_launch", "kernel_launch under efficiency, because the usual host is that of the device");
  reader.finish();
  return node;
}

NamedHost read_named_host(base::Reader reader, std::string name) {
  NamedHost named{std::move(name), reader.required_string("source"), reader.required_int("devices", 1, 1024), {}};
  read_host(reader, named.host);
  if (!named.host.known()) reader.fail("memory", "nothing", "the host's memory, its bandwidth and the bandwidth of a link to it");
  return named;
}

void read_fallback(base::Reader reader, Catalogue& c) {
  base::Reader network = reader.child("network", true);
  read_network(network, c.fallback, "nics");
  network.finish();
  c.fallback_source = reader.required_string("source");
  reader.finish();
}

std::vector<std::string> read_other_names(base::Reader& reader) {
  std::vector<std::string> names;
  const base::Node* node = reader.find("also");
  if (node == nullptr) return names;
  for (const base::Node& item : node->items) names.push_back(item.text);
  if (names.empty()) reader.fail("also", "no names", "a list of names");
  return names;
}

void sort_by_name(Catalogue& c) {
  std::vector<std::size_t> order(c.devices.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return c.devices[a].name < c.devices[b].name; });
  Catalogue sorted;
  for (std::size_t i : order) {
    sorted.devices.push_back(c.devices[i]);
    sorted.nodes.push_back(c.nodes[i]);
  }
  c.devices = std::move(sorted.devices);
  c.nodes = std::move(sorted.nodes);
}

}  // namespace

std::string bare_name(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (c == ' ' || c == '-' || c == '_') continue;
    out += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  for (const std::string_view maker : {"nvidia", "amd", "huawei", "tesla", "geforce", "instinct"}) {
    if (out.starts_with(maker)) out.erase(0, maker.size());
  }
  return out;
}

const FabricTemplate* Catalogue::fabric(std::string_view name) const {
  const auto found = std::find_if(fabrics.begin(), fabrics.end(), [&](const FabricTemplate& f) { return f.name == name; });
  return found == fabrics.end() ? nullptr : &*found;
}

const UsualNode* Catalogue::usual_node(std::string_view device) const {
  for (std::size_t i = 0; i < devices.size(); ++i)
    if (devices[i].name == device) return &nodes[i];
  return nullptr;
}

void read_host(base::Reader reader, Host& host) {
  host.memory = Bytes(reader.optional_bytes("memory", host.memory.count()));
  host.memory_bandwidth = BytesPerSecond(read_bandwidth(reader, "memory_bandwidth", host.memory_bandwidth.count()));
  host.link = BytesPerSecond(read_bandwidth(reader, "bandwidth", host.link.count()));
  host.kernel_launch = Seconds(read_latency(reader, "kernel_launch", host.kernel_launch.count()));
  const bool memory = host.memory.count() > 0 || host.memory_bandwidth.count() > 0 || host.link.count() > 0;
  const auto missing = [&](const char* key, bool absent, const char* expected) {
    if (absent && (memory || host.kernel_launch.count() <= 0)) reader.fail(key, "nothing", expected);
  };
  // A slower rate is a wrong unit, and its times exceed what nanoseconds can count.
  constexpr double kLeast = 1e6;
  const auto slow = [&](const char* key, BytesPerSecond rate) {
    if (rate.count() > 0 && rate.count() < kLeast)
      reader.fail(key, base::cat(base::fixed(rate.count(), 0), " bytes/s"), "at least 1MB/s");
  };
  slow("memory_bandwidth", host.memory_bandwidth);
  slow("bandwidth", host.link);
  missing("memory", host.memory.count() <= 0, "the memory of the host of one node, e.g. 2TB");
  missing("memory_bandwidth", host.memory_bandwidth.count() <= 0, "the total of its memory channels, e.g. 600GB/s");
  missing("bandwidth", host.link.count() <= 0,
          "the bandwidth of one device to host memory with all devices active, per direction, e.g. 50GB/s");
  reader.finish();
}

void read_network(base::Reader& reader, NetworkSpec& network, std::string_view nics_key) {
  const FabricKind before = network.kind;
  network.kind = read_kind(reader, network.kind);
  network.name = reader.optional_string("name", network.kind == before ? network.name : "");
  network.nics = std::max<std::int64_t>(1, reader.optional_int(nics_key, 1, 1024, network.nics));
  network.bandwidth = BytesPerSecond(read_bandwidth(reader, "bandwidth", network.bandwidth.count()));
  network.latency = Seconds(read_latency(reader, "latency", network.latency.count()));
  network.efficiency = read_efficiency(reader, "efficiency", network.efficiency);
  read_shape(reader, network.shape);
  network.oversubscription = reader.optional_real("oversubscription", 1.0, 1e4, network.oversubscription);
  network.pod_nodes = reader.optional_int("pod_nodes", 1, 1'000'000, network.pod_nodes);
  network.in_network_reduction = reader.optional_bool("in_network_reduction", network.in_network_reduction);
  if (reader.has("trace")) network.trace = read_trace(reader);
}

Result<Catalogue> read_catalogue(std::string_view text, const std::string& where) {
  auto document = base::read_yaml(text, where);
  if (!document.ok()) return document.error();
  base::ErrorSink sink;
  base::Reader root = base::Reader::root(document.value(), sink);
  Catalogue c;
  base::Reader fabrics = root.child("fabrics", true);
  for (const auto& [name, node] : fabrics.node().members) {
    base::Reader fabric = fabrics.child(name, true);
    c.fabrics.push_back(read_fabric_template(fabric, name));
  }
  base::Reader hosts = root.child("hosts", false);
  for (const auto& [name, node] : hosts.node().members) c.hosts.push_back(read_named_host(hosts.child(name, true), name));
  read_fallback(root.child("fallback", true), c);
  root.each("devices", true, [&](base::Reader& r) {
    DeviceKind device;
    device.name = r.required_string("name");
    for (const std::string& other : read_other_names(r)) c.other_names.emplace_back(bare_name(other), device.name);
    read_device_fields(r, device);
    check_device(r, device);
    base::Reader node = r.child("node", true);
    c.devices.push_back(device);
    c.nodes.push_back(read_usual_node(node));
    const bool sourced =
        std::any_of(device.sources.begin(), device.sources.end(), [](const auto& s) { return s.first == "host"; });
    if (c.nodes.back().host.known() != sourced) r.fail("sources", "host and its source not given together", "both or neither");
    if (c.fabric(c.nodes.back().fabric) == nullptr) r.fail("node", c.nodes.back().fabric, "a name under fabrics");
    r.finish();
  });
  root.finish();
  if (!sink.ok()) return sink.first().error();
  sort_by_name(c);
  return c;
}

const FabricCalibrations& fabric_calibrations() {
  constexpr const char* kFabrics = "data/calibration/fabrics.yaml";
  static const FabricCalibrations embedded =
      base::shipped(read_fabric_calibration(embedded::fabric_calibration_yaml, kFabrics), kFabrics);
  return embedded;
}

const Catalogue& catalogue() {
  // This is read-only after construction: a constant that is written as text.
  static const Catalogue embedded = [] {
    constexpr const char *kDevices = "data/devices.yaml", *kCalibrations = "data/calibration/devices.yaml",
                         *kTraining = "data/calibration/training.yaml";
    Catalogue c = base::shipped(read_catalogue(embedded::devices_yaml, kDevices), kDevices);
    apply(fabric_calibrations(), c);
    const auto calibrations =
        base::shipped(read_device_calibration(embedded::device_calibration_yaml, kCalibrations), kCalibrations);
    for (const DeviceCalibration& calibration : calibrations)
      for (DeviceKind& device : c.devices)
        if (device.name == calibration.device) apply(calibration, device);
    const auto training = base::shipped(read_device_calibration(embedded::training_calibration_yaml, kTraining), kTraining);
    for (const DeviceCalibration& calibration : training)
      for (DeviceKind& device : c.devices)
        if (device.name == calibration.device) apply_training(calibration, device);
    return c;
  }();
  return embedded;
}

const DeviceEfficiency& prior_efficiency(std::string_view device) {
  // This is read-only after construction: a constant that is written as text.
  static const Catalogue priors = base::shipped(read_catalogue(embedded::devices_yaml, "data/devices.yaml"), "data/devices.yaml");
  const auto found =
      std::find_if(priors.devices.begin(), priors.devices.end(), [&](const DeviceKind& d) { return d.name == device; });
  ESPALIER_CHECK(found != priors.devices.end());
  return found->efficiency;
}

}  // namespace espalier::cluster

namespace espalier {

const std::vector<DeviceKind>& device_catalogue() { return cluster::catalogue().devices; }

const DeviceKind* find_device(std::string_view name) {
  const auto& all = device_catalogue();
  const auto found = std::find_if(all.begin(), all.end(), [&](const DeviceKind& d) { return d.name == name; });
  return found == all.end() ? nullptr : &*found;
}

const DeviceKind* device_called(std::string_view name) {
  constexpr std::size_t kLongest = 80;
  if (const DeviceKind* exact = find_device(name)) return exact;
  if (name.size() > kLongest) return nullptr;
  const std::string wanted = cluster::bare_name(name);
  for (const DeviceKind& device : device_catalogue()) {
    if (cluster::bare_name(device.name) == wanted) return &device;
  }
  for (const auto& [other, device] : cluster::catalogue().other_names) {
    if (other == wanted) return find_device(device);
  }
  return nullptr;
}

}  // namespace espalier
