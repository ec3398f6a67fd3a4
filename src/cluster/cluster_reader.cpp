// SPDX-License-Identifier: Apache-2.0
// Cluster files. read_cluster is the table of contents; each form has one builder; defaults leave a note.
#include "cluster/cluster_reader.h"

#include <algorithm>
#include <filesystem>

#include "base/document_kind.h"
#include "base/format.h"
#include "cluster/catalogue.h"
#include "cluster/device_reader.h"
#include "cluster/network.h"
#include "cluster/segment.h"

namespace espalier::cluster {
namespace {

/// One run of equal nodes while it is being read: the group, and what fills its gaps.
struct GroupDraft {
  NodeGroup group;
  const UsualNode* usual = nullptr;  ///< nullptr for a device without a base
  NetworkSpec network;               ///< for inter_group's share per device
  [[nodiscard]] std::int64_t devices() const { return group.nodes * group.devices_per_node; }
};

std::vector<std::string> device_names() {
  std::vector<std::string> names;
  for (const DeviceKind& device : catalogue().devices) names.push_back(device.name);
  return names;
}

constexpr std::size_t kLongestName = 80;

/// By edit distance, or the names that begin with what was written ("h100", "NVIDIA A100").
std::string nearest_device(std::string_view name) {
  const std::vector<std::string> names = device_names();
  const std::string wanted = bare_name(name.substr(0, kLongestName));
  std::vector<std::string> begins;
  for (const std::string& candidate : names)
    if (!wanted.empty() && bare_name(candidate).starts_with(wanted)) begins.push_back(candidate);
  if (!begins.empty()) return "did you mean " + base::joined(begins) + "?";
  if (auto close = base::did_you_mean(name, names)) return "did you mean " + *close + "?";
  return "a device that is not in the catalogue can be described: device: {name, peak_tflops, memory, memory_bandwidth}";
}

const DeviceKind* catalogued(base::Reader& reader, std::string_view key, const std::string& name) {
  const DeviceKind* found = device_called(name);
  if (found == nullptr)
    reader.fail(key, "\"" + name + "\"", "a device of the catalogue: " + base::joined(device_names()), nearest_device(name));
  return found;
}

DeviceKind read_described_device(base::Reader reader, GroupDraft& draft) {
  DeviceKind device;
  std::string base_name;
  if (reader.has("base")) {
    base_name = reader.required_string("base");
    if (const DeviceKind* found = catalogued(reader, "base", base_name)) device = *found;
    if (!device.name.empty()) base_name = device.name;
    draft.usual = catalogue().usual_node(base_name);
  }
  device.name = base_name.empty() ? reader.required_string("name") : reader.optional_string("name", base_name + "-modified");
  read_device_fields(reader, device);
  if (reader.sink().ok()) check_device(reader, device);
  reader.finish();
  return device;
}

DeviceKind read_device(base::Reader& reader, GroupDraft& draft, std::vector<std::string>& notes) {
  const base::Node* node = reader.find("device");
  if (node != nullptr && node->kind == base::NodeKind::mapping) return read_described_device(reader.child("device", true), draft);
  const std::string name = reader.required_string("device");
  if (name.empty() && !reader.sink().ok()) return {};
  const DeviceKind* found = catalogued(reader, "device", name);
  if (found == nullptr) return {};
  draft.usual = catalogue().usual_node(found->name);
  if (found->name != name) notes.push_back(reader.path() + ".device = " + found->name + " (\"" + name + "\")");
  return *found;
}

std::string source_of(const DeviceKind& device, std::string_view field) {
  for (const auto& [name, text] : device.sources)
    if (name == field) return text;
  return "default";
}

void read_size(base::Reader& reader, GroupDraft& draft, std::vector<std::string>& notes) {
  NodeGroup& group = draft.group;
  group.nodes = std::clamp<std::int64_t>(reader.required_int("nodes", 1, kMaxNodes), 1, kMaxNodes);
  // Slurm, torchrun and most launchers count GPUs.
  const bool gpus = reader.has("gpus_per_node");
  if (gpus && reader.has("devices_per_node"))
    reader.fail("gpus_per_node", "gpus_per_node beside devices_per_node", "one of them", "they mean the same; take one out");
  const std::string_view key = gpus ? "gpus_per_node" : "devices_per_node";
  if (!reader.has(key) && draft.usual != nullptr) {
    group.devices_per_node = draft.usual->devices;
    notes.push_back(reader.path() + ".devices_per_node = " + std::to_string(group.devices_per_node) + " (" +
                    source_of(group.device, "node") + ")");
  } else {
    group.devices_per_node = std::clamp<std::int64_t>(reader.required_int(key, 1, kMaxDevicesPerNode), 1, kMaxDevicesPerNode);
  }
  if (draft.devices() > kMaxDevices)
    reader.fail("nodes", std::to_string(draft.devices()) + " devices",
                "at most " + std::to_string(kMaxDevices) + " devices in all");
}

const FabricTemplate* named_fabric(base::Reader& reader, std::string_view key, const std::string& name) {
  const FabricTemplate* found = catalogue().fabric(name);
  if (found != nullptr) return found;
  std::vector<std::string> names;
  for (const FabricTemplate& fabric : catalogue().fabrics) names.push_back(fabric.name);
  const auto close = base::did_you_mean(name, names);
  reader.fail(key, "\"" + name + "\"", "a fabric of the catalogue: " + base::joined(names),
              close ? "did you mean " + *close + "?" : "");
  return nullptr;
}

/// `intra_node: {bandwidth, …}`: one level over the node. Without a bandwidth the given fields replace those of each level.
void override_intra(base::Reader r, FabricTemplate& fabric, std::vector<std::string>& notes) {
  if (r.has("fabric")) {
    if (const FabricTemplate* found = named_fabric(r, "fabric", r.required_string("fabric"))) fabric = *found;
  }
  if (r.has("bandwidth") || fabric.levels.empty()) {
    const FabricKind kind = fabric.levels.empty() ? FabricKind::other : fabric.levels.back().level.kind;
    LevelSpec spec = fabric.levels.empty() ? LevelSpec{} : fabric.levels.front();
    spec.level.kind = read_kind(r, kind);
    if (spec.level.kind != kind || fabric.levels.empty()) spec.level.name = to_string(spec.level.kind);
    spec.level.per_peer = {};
    spec.level.trace.clear();
    spec.span = {};
    spec.link = BytesPerSecond(read_bandwidth(r, "bandwidth", 0.0));
    spec.uplink = spec.alone = {};
    if (spec.link.count() <= 0) r.fail("bandwidth", "nothing", "the bandwidth of one device inside the node, e.g. 300GB/s");
    if (fabric.levels.empty()) {
      spec.level.latency = Seconds(5e-6);
      notes.push_back(r.path() + ": latency 5 us, efficiency 0.8 unless given (default)");
    }
    fabric.levels = {spec};
    fabric.domain.reset();
  } else if (r.has("kind")) {
    r.fail("kind", "a kind without a bandwidth", "kind together with bandwidth, or fabric: a name of the catalogue");
  }
  for (LevelSpec& spec : fabric.levels) {
    spec.level.name = r.optional_string("name", spec.level.name);
    spec.level.latency = Seconds(read_latency(r, "latency", spec.level.latency.count()));
    spec.level.efficiency = read_efficiency(r, "efficiency", spec.level.efficiency);
    read_shape(r, spec.level);
    spec.level.per_peer = BytesPerSecond(read_bandwidth(r, "per_peer", spec.level.per_peer.count()));
    spec.level.in_network_reduction = r.optional_bool("in_network_reduction", spec.level.in_network_reduction);
    if (r.has("trace")) spec.level.trace = read_trace(r);
  }
  r.finish();
}

FabricTemplate read_intra(base::Reader& reader, const GroupDraft& draft, std::vector<std::string>& notes) {
  FabricTemplate fabric;
  if (draft.usual != nullptr) fabric = *catalogue().fabric(draft.usual->fabric);
  const base::Node* node = reader.find("intra_node");
  const bool several = draft.group.devices_per_node > 1;
  if (node != nullptr && node->kind == base::NodeKind::string) {
    if (const FabricTemplate* found = named_fabric(reader, "intra_node", node->text)) fabric = *found;
  } else if (reader.has("intra_node")) {
    override_intra(reader.child("intra_node", true), fabric, notes);
  } else if (several && fabric.levels.empty()) {
    reader.fail("intra_node", "nothing", "intra_node: {bandwidth: …}, since the device has no usual node");
  } else if (several) {
    const LevelSpec& level = fabric.levels.front();
    notes.push_back(reader.path() + ".intra_node = " + level.level.name + ", " + format_bandwidth(level.link) +
                    " a device and direction (" + fabric.source + ")");
  }
  return fabric;
}

/// The usual node's network; a node with fewer devices than usual has its share of the NICs.
NetworkSpec usual_network(const GroupDraft& draft) {
  if (draft.usual == nullptr) return {};
  NetworkSpec network = draft.usual->network;
  if (draft.group.devices_per_node < draft.usual->devices)
    network.nics = std::max<std::int64_t>(1, network.nics * draft.group.devices_per_node / draft.usual->devices);
  return network;
}

std::string describe(const NetworkSpec& network) {
  return std::to_string(network.nics) + (network.nics == 1 ? " NIC of " : " NICs of ") + format_bandwidth(network.bandwidth) +
         " a node, " + std::string(to_string(network.kind)) + ", latency " + format_latency(network.latency);
}

void read_network_of(base::Reader& reader, GroupDraft& draft, std::vector<std::string>& notes) {
  draft.network = usual_network(draft);
  const bool needed = draft.group.nodes > 1;
  if (reader.has("inter_node")) {
    base::Reader given = reader.child("inter_node", true);
    read_network(given, draft.network, "nics_per_node");
    std::string filled;
    for (std::string_view key : {"kind", "nics_per_node", "bandwidth", "latency"})
      if (!given.has(key)) filled += (filled.empty() ? "" : ", ") + std::string(key);
    if (!filled.empty() && needed) notes.push_back(given.path() + " = " + describe(draft.network) + " (default: " + filled + ")");
    if (draft.network.oversubscription > 1.0 && draft.network.pod_nodes == 0)
      notes.push_back(given.path() + ": no pod_nodes, so the oversubscription counts between any two nodes");
    if (draft.network.oversubscription == 1.0 && draft.network.pod_nodes > 0)
      notes.push_back(given.path() + ".pod_nodes makes no difference without oversubscription");
    given.finish();
  } else if (needed && draft.usual != nullptr) {
    notes.push_back(reader.path() + ".inter_node = " + describe(draft.network) + " (" + source_of(draft.group.device, "node") +
                    ")");
  }
  if (needed && draft.network.bandwidth.count() <= 0)
    reader.fail("inter_node", "nothing", "inter_node: {bandwidth: …} of one NIC, since the device has no usual node");
}

/// The NVLink domain above the node, with as many of its nodes as the job occupies; the devices below the network.
std::int64_t add_domain(base::Reader& reader, const LevelSpec& spec, std::optional<std::int64_t> wanted, GroupDraft& draft,
                        std::vector<std::string>& notes) {
  NodeGroup& group = draft.group;
  group.domain_nodes = spec.span.devices / group.devices_per_node;
  group.segment = choose_segment(reader, group, spec.level.name, wanted, notes);
  FabricLevel domain = spec.level;
  domain.span = group.segment * group.devices_per_node;
  domain.bandwidth = domain.bandwidth_alone = spec.link;
  if (group.segment > 1) group.inter.push_back(domain);
  if (group.segment > 1 && draft.devices() <= domain.span && reader.has("inter_node"))
    notes.push_back(reader.path() + ".inter_node is not used: " + domain.name + " joins all devices");
  return domain.span;
}

/// Short form: the usual fabric with overrides.
void build_short_form(base::Reader& reader, GroupDraft& draft, std::optional<std::int64_t> segment,
                      std::vector<std::string>& notes) {
  NodeGroup& group = draft.group;
  const FabricTemplate fabric = read_intra(reader, draft, notes);
  read_network_of(reader, draft, notes);
  if (!reader.sink().ok()) return;
  group.intra = resolve_node_levels(fabric.levels, group.devices_per_node);
  std::int64_t below = group.devices_per_node;
  if (fabric.domain && fabric.domain->span.devices % below == 0 && fabric.domain->span.devices > below)
    below = add_domain(reader, *fabric.domain, segment, draft, notes);
  const auto network = network_levels(draft.network, group.nodes, group.devices_per_node, below);
  group.inter.insert(group.inter.end(), network.begin(), network.end());
}

void check_nesting(base::Reader& reader, const std::vector<FabricLevel>& levels, std::int64_t devices_per_node,
                   std::int64_t total) {
  std::int64_t below = 1;
  bool node_boundary = devices_per_node == 1;
  for (const FabricLevel& level : levels) {
    if (level.span <= below || level.span % below != 0)
      reader.fail("fabric", "level '" + level.name + "' of span " + std::to_string(level.span),
                  "a multiple of the level below (" + std::to_string(below) + ") that is larger");
    node_boundary = node_boundary || level.span == devices_per_node;
    below = std::max(below, level.span);
  }
  if (!node_boundary)
    reader.fail("fabric", "no level that ends at the node",
                "a level with span: " + std::to_string(devices_per_node) + " (or span: node)");
  if (below < total)
    reader.fail("fabric", "an outermost span of " + std::to_string(below),
                "at least " + std::to_string(total) + " devices (or span: cluster)");
}

/// Full form: every level listed.
void build_full_form(base::Reader& reader, GroupDraft& draft, std::vector<std::string>& notes) {
  for (std::string_view key : {"intra_node", "inter_node"})
    if (reader.has(key)) reader.fail(key, "fabric and " + std::string(key), "either fabric or intra_node/inter_node");
  draft.network = usual_network(draft);
  std::vector<LevelSpec> specs;
  reader.each("fabric", true, [&](base::Reader& level) { specs.push_back(read_level(level, notes)); });
  if (!reader.sink().ok()) return;
  if (specs.size() > kMaxFabricLevels) {
    reader.fail("fabric", std::to_string(specs.size()) + " levels", "at most " + std::to_string(kMaxFabricLevels));
    return;
  }
  NodeGroup& group = draft.group;
  const auto levels = resolve_all_levels(specs, group.devices_per_node, draft.devices());
  check_nesting(reader, levels, group.devices_per_node, draft.devices());
  for (const FabricLevel& level : levels) {
    if (level.span <= group.devices_per_node)
      group.intra.push_back(level);
    else if (group.nodes > 1)
      group.inter.push_back(level);
  }
}

GroupDraft read_group(base::Reader& reader, std::optional<std::int64_t> segment, std::vector<std::string>& notes) {
  GroupDraft draft;
  draft.group.device = read_device(reader, draft, notes);
  read_size(reader, draft, notes);
  if (!reader.sink().ok()) return draft;
  if (reader.has("fabric"))
    build_full_form(reader, draft, notes);
  else
    build_short_form(reader, draft, segment, notes);
  if (draft.group.device.efficiency.measured_overlap)
    notes.push_back(reader.path() + ".device: overlap factors are taken as measured; they may make overlapping worse than not");
  return draft;
}

/// The level that joins unlike groups: the group with the smallest share per device sets the pace.
FabricLevel read_inter_group(base::Reader& reader, const std::vector<GroupDraft>& drafts, std::vector<std::string>& notes) {
  NetworkSpec slowest;
  double least = 0;
  std::int64_t total = 0;
  for (const GroupDraft& draft : drafts) total += draft.devices();
  const bool given = reader.has("inter_group");
  base::Reader child = reader.child("inter_group", false);
  for (const GroupDraft& draft : drafts) {
    NetworkSpec network = draft.network;
    if (given) {
      network.nics = 1;
      network.kind = FabricKind::fat_tree;
      network.name = "inter-group";
    }
    if (given) read_network(child, network, "nics_per_node");
    const double share = network.bandwidth.count() * static_cast<double>(network.nics) /
                         static_cast<double>(draft.group.devices_per_node) / network.oversubscription;
    if (least == 0 || share < least) {
      least = share;
      slowest = network;
    }
  }
  if (given)
    child.finish();
  else
    notes.push_back(reader.path() + ".inter_group = the slowest of the groups' networks (default)");
  if (least <= 0 && reader.sink().ok())
    reader.fail("inter_group", "nothing", "inter_group: {bandwidth: …}, since a group has no usual network");
  FabricLevel level = slowest.shape;
  level.name = slowest.name.empty() ? "inter-group" : slowest.name;
  level.kind = slowest.kind;
  level.span = total;
  level.bandwidth = BytesPerSecond(least);
  level.bandwidth_alone = std::max(level.bandwidth, slowest.bandwidth);
  level.latency = slowest.latency;
  level.efficiency = slowest.efficiency;
  level.in_network_reduction = slowest.in_network_reduction;
  level.trace = slowest.trace;
  return level;
}

void read_groups(base::Reader& reader, std::optional<std::int64_t> segment, Cluster& cluster) {
  std::vector<GroupDraft> drafts;
  reader.each("groups", true, [&](base::Reader& group) {
    if (drafts.size() == kMaxGroups) group.fail("nodes", "more than 256 groups", "at most 256 groups of nodes");
    if (!reader.sink().ok()) return;
    drafts.push_back(read_group(group, segment, cluster.notes));
    group.finish();
  });
  if (drafts.empty() && reader.sink().ok()) reader.fail("groups", "an empty list", "at least one group of nodes");
  if (!reader.sink().ok()) return;
  std::int64_t total = 0;
  for (const GroupDraft& draft : drafts) total += draft.devices();
  if (total > kMaxDevices)
    reader.fail("groups", std::to_string(total) + " devices", "at most " + std::to_string(kMaxDevices) + " devices in all");
  for (const GroupDraft& draft : drafts) cluster.groups.push_back(draft.group);
  if (cluster.homogeneous()) {
    cluster.inter = std::move(cluster.groups.front().inter);
    cluster.groups.front().inter.clear();
    if (reader.has("inter_group")) reader.fail("inter_group", "inter_group with one group", "inter_node inside the group");
  } else {
    cluster.inter.push_back(read_inter_group(reader, drafts, cluster.notes));
  }
}

void read_single(base::Reader& reader, std::optional<std::int64_t> segment, Cluster& cluster) {
  GroupDraft draft = read_group(reader, segment, cluster.notes);
  cluster.inter = std::move(draft.group.inter);
  draft.group.inter.clear();
  cluster.groups.push_back(std::move(draft.group));
}

void read_memory_limit(base::Reader& reader, Cluster& cluster) {
  if (!reader.has("memory_limit")) return;
  const std::int64_t limit = reader.optional_bytes("memory_limit", 0);
  if (limit <= 0) {
    reader.fail("memory_limit", std::to_string(limit) + " bytes", "a size above 0, e.g. 36GiB");
    return;
  }
  cluster.memory_limit = Bytes(limit);
  for (const NodeGroup& group : cluster.groups)
    if (group.device.memory - group.device.context_reserve < *cluster.memory_limit)
      cluster.notes.push_back(reader.path() + ".memory_limit is above what " + group.device.name +
                              " has to give; the device decides");
}

}  // namespace

Cluster read_cluster(base::Reader& reader) {
  Cluster result;
  result.name = reader.optional_string("name", "");
  const std::optional<std::int64_t> segment = read_segment(reader);
  if (reader.has("groups"))
    read_groups(reader, segment, result);
  else
    read_single(reader, segment, result);
  if (segment) check_segment(reader, result);
  read_memory_limit(reader, result);
  reader.finish();
  return result;
}

}  // namespace espalier::cluster

namespace espalier {

Result<Cluster> load_cluster(std::string_view text, const std::string& where) {
  auto document = base::read_yaml(text, where);
  if (!document.ok()) return document.error();
  const base::Node& root = document->root;
  if (root.kind != base::NodeKind::mapping)
    return Error{ErrorKind::bad_input, where + ":" + std::to_string(root.line) + ":" + std::to_string(root.column),
                 std::string(base::to_string(root.kind)), "a mapping with nodes, devices_per_node and device, or with groups",
                 "examples/clusters holds some"};
  base::ErrorSink sink;
  base::Reader reader = base::Reader::root(document.value(), sink);
  Cluster result = cluster::read_cluster(reader);
  if (!sink.ok()) return base::wrong_kind_of(text, where, "a cluster file", *sink.first());
  return result;
}

Result<Cluster> load_cluster_file(const std::string& path) {
  auto text = base::read_file(path);
  if (!text.ok()) return text.error();
  auto result = load_cluster(text.value(), path);
  if (result.ok() && result->name.empty()) result.value().name = std::filesystem::path(path).stem().string();
  return result;
}

}  // namespace espalier
