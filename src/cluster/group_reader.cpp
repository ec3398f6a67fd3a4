// SPDX-License-Identifier: Apache-2.0
#include "cluster/group_reader.h"

#include <algorithm>
#include <utility>

#include "base/format.h"
#include "cluster/cluster_reader.h"
#include "cluster/device_choice.h"
#include "cluster/network.h"
#include "cluster/segment.h"

namespace espalier::cluster {
namespace {

void read_size(base::Reader& reader, GroupDraft& draft, std::vector<std::string>& notes) {
  NodeGroup& group = draft.group;
  group.nodes = std::clamp<std::int64_t>(reader.required_int("nodes", 1, kMaxNodes), 1, kMaxNodes);
  // Slurm, torchrun and most launchers count GPUs.
  const bool gpus = reader.has("gpus_per_node");
  if (gpus && reader.has("devices_per_node"))
    reader.fail("gpus_per_node", "gpus_per_node and devices_per_node", "one of them", "they mean the same; remove one");
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

/// Reads `intra_node: {bandwidth, …}`: one level over the node. Without a bandwidth the given fields replace those of
/// each level.
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
                    " per device and direction (" + fabric.source + ")");
  }
  return fabric;
}

/// Returns the usual node's network. A node with fewer devices than usual has its share of the NICs.
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
      notes.push_back(given.path() + ": no pod_nodes, so the oversubscription applies between any two nodes");
    if (draft.network.oversubscription == 1.0 && draft.network.pod_nodes > 0)
      notes.push_back(given.path() + ".pod_nodes has no effect without oversubscription");
    given.finish();
  } else if (needed && draft.usual != nullptr) {
    notes.push_back(reader.path() + ".inter_node = " + describe(draft.network) + " (" + source_of(draft.group.device, "node") +
                    ")");
  }
  if (needed && draft.network.bandwidth.count() <= 0)
    reader.fail("inter_node", "nothing", "inter_node: {bandwidth: …} of one NIC, since the device has no usual node");
}

/// Adds the NVLink domain above the node, with as many of its nodes as the job occupies. Returns the devices below
/// the network.
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

/// Builds the short form: the usual fabric with overrides.
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

/// Builds the full form: every level listed.
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

/// Sets the bandwidth of one node of the group over all its interfaces. It comes from the network, or from the first
/// level between nodes if all levels are listed.
void set_node_network(GroupDraft& draft, bool listed) {
  NodeGroup& group = draft.group;
  const NetworkSpec& network = draft.network;
  group.node_bandwidth = network.bandwidth * static_cast<double>(network.nics) * network.efficiency;
  group.network_latency = network.latency;
  if (!listed || group.inter.empty()) return;
  const FabricLevel& level = group.inter.front();
  group.node_bandwidth = level.bandwidth * static_cast<double>(group.devices_per_node) * level.efficiency;
  group.network_latency = level.latency;
}

const NamedHost* named_host(base::Reader& reader) {
  const std::string name = reader.required_string("host");
  std::vector<std::string> names;
  for (const NamedHost& known : catalogue().hosts) {
    if (known.name == name) return &known;
    names.push_back(known.name);
  }
  reader.fail("host", base::cat("\"", name, "\""), base::cat("a host of the catalogue: ", base::joined(names)),
              "or describe it: host: {memory, memory_bandwidth, bandwidth, kernel_launch}");
  return nullptr;
}

/// Returns a node's share of the host of a whole node with `of` devices.
Host share_of(Host host, std::int64_t of, const NodeGroup& group) {
  const double share = std::min(1.0, static_cast<double>(group.devices_per_node) / static_cast<double>(of));
  host.memory = Bytes(static_cast<std::int64_t>(static_cast<double>(host.memory.count()) * share));
  host.memory_bandwidth = host.memory_bandwidth * share;
  return host;
}

bool states_launch(const base::Reader& reader) {
  const base::Node* device = reader.node().find("device");
  const base::Node* efficiency = device != nullptr ? device->find("efficiency") : nullptr;
  return efficiency != nullptr && efficiency->find("kernel_launch") != nullptr;
}

/// Reads the usual node's host, or a named one, or figures that replace it. Figures apply to the node as it is.
void read_host_of(base::Reader& reader, GroupDraft& draft) {
  NodeGroup& group = draft.group;
  if (draft.usual != nullptr) group.host = share_of(draft.usual->host, draft.usual->devices, group);
  if (!reader.has("host")) return;
  std::string source = "given in " + reader.document().where;
  if (reader.find("host")->kind == base::NodeKind::mapping) {
    read_host(reader.child("host", true), group.host);
  } else {
    const NamedHost* named = named_host(reader);
    if (named == nullptr) return;
    group.host = share_of(named->host, named->devices, group);
    source = named->source;
  }
  std::erase_if(group.device.sources, [](const auto& s) { return s.first == "host"; });
  group.device.sources.emplace_back("host", std::move(source));
  if (group.host.kernel_launch.count() > 0 && !states_launch(reader))
    group.device.efficiency.kernel_launch = group.host.kernel_launch;
}

}  // namespace

GroupDraft read_group(base::Reader& reader, std::optional<std::int64_t> segment, std::vector<std::string>& notes) {
  GroupDraft draft;
  ChosenDevice chosen = read_device(reader, notes);
  draft.group.device = std::move(chosen.device);
  draft.usual = chosen.usual;
  read_size(reader, draft, notes);
  if (!reader.sink().ok()) return draft;
  if (reader.has("fabric"))
    build_full_form(reader, draft, notes);
  else
    build_short_form(reader, draft, segment, notes);
  set_node_network(draft, reader.has("fabric"));
  read_host_of(reader, draft);
  if (draft.group.device.efficiency.measured_overlap)
    notes.push_back(reader.path() +
                    ".device: overlap factors are used as measured; they may make overlapping slower than not overlapping");
  return draft;
}

}  // namespace espalier::cluster
