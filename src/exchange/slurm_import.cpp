// SPDX-License-Identifier: Apache-2.0
// Reads Slurm's description of nodes: host lists (also as SLURM_JOB_NODELIST among other variables), and
// topology.conf.
//
//   node[01-16,20],gpu[1-2]-[0-3]                     names separated by commas; brackets hold numbers and ranges, zero
//                                                     padding is kept
//   SwitchName=s0 Nodes=tux[0-3] LinkSpeed=900        a tree: switches with nodes are leaves
//   BlockName=b0 Nodes=…  BlockSizes=18,36            blocks: nodes that share one NVLink domain
#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include "base/format.h"
#include "base/invariant.h"
#include "exchange/cluster_readers.h"
#include "runlog/lines.h"

namespace espalier::exchange {
namespace {

constexpr std::size_t kMostHosts = 131'072;  ///< a million devices on nodes of eight
constexpr std::size_t kMostLetters = 200;    ///< length of a name
constexpr double kMostOversubscription = 1000;

Error fault(const std::string& where, std::string found, std::string expected, std::string hint = "") {
  return {ErrorKind::bad_input, where, std::move(found), std::move(expected), std::move(hint)};
}

std::string shown(std::string_view text) { return cat("\"", text.substr(0, 60), text.size() > 60 ? "…" : "", "\""); }

bool sound_name(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
  });
}

/// Splits a text at commas outside brackets.
Result<std::vector<std::string_view>> parts_of(std::string_view list, const std::string& where) {
  std::vector<std::string_view> out;
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t i = 0; i <= list.size(); ++i) {
    const char c = i < list.size() ? list[i] : ',';
    if (c == '[') ++depth;
    if (c == ']') --depth;
    if (depth < 0 || depth > 1) return fault(where, cat("brackets that do not match in ", shown(list)), "node[01-16,20]");
    if (c == ',' && (depth == 0 || i == list.size())) {
      if (depth != 0) return fault(where, cat("an unclosed bracket in ", shown(list)), "node[01-16,20]");
      out.push_back(list.substr(begin, i - begin));
      begin = i + 1;
    }
  }
  return out;
}

/// Adds the numbers of "01-16" or "20" as text, padded as the first of them.
Status add_range(std::string_view range, const std::string& where, std::vector<std::string>& out) {
  const std::size_t dash = range.find('-');
  const std::string_view first = range.substr(0, dash), last = dash == std::string_view::npos ? first : range.substr(dash + 1);
  std::int64_t low = 0, high = 0;
  const auto number = [](std::string_view text, std::int64_t& value) {
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
    return !text.empty() && text.size() < 12 && code == std::errc() && end == text.data() + text.size() && value >= 0;
  };
  if (!number(first, low) || !number(last, high) || high < low)
    return fault(where, cat("the range ", shown(range)), "increasing numbers, 01-16");
  if (static_cast<std::size_t>(high - low) >= kMostHosts - std::min(kMostHosts, out.size()))
    return fault(where, cat("the range ", shown(range)), cat("at most ", static_cast<std::int64_t>(kMostHosts), " hosts"));
  for (std::int64_t i = low; i <= high; ++i) {
    std::string text = std::to_string(i);
    if (text.size() < first.size()) text.insert(0, first.size() - text.size(), '0');
    out.push_back(std::move(text));
  }
  return {};
}

/// Adds the names of one part, "gpu[1-2]-[0-3]".
Status add_part(std::string_view part, const std::string& where, std::vector<std::string>& out) {
  std::vector<std::string> names{""};
  for (std::size_t i = 0; i < part.size();) {
    std::vector<std::string> pieces;
    const std::size_t open = std::min(part.find('[', i), part.size());
    if (open > i) {
      pieces.emplace_back(part.substr(i, open - i));
      // Names are checked before they are multiplied, so that a bad name does not expand to a million hosts first.
      if (!sound_name(pieces.back())) return fault(where, cat("the host ", shown(part)), "letters, digits, '-', '_' and '.'");
      i = open;
    } else {
      const std::size_t close = part.find(']', i);
      const auto ranges = parts_of(part.substr(i + 1, close - i - 1), where);
      if (!ranges) return ranges.error();
      for (const std::string_view range : *ranges)
        if (Status status = add_range(range, where, pieces); !status.ok()) return status;
      i = close + 1;
    }
    if (names.size() * pieces.size() > kMostHosts || names.front().size() + pieces.front().size() > kMostLetters)
      return fault(where, cat("the hosts ", shown(part)),
                   cat("at most ", static_cast<std::int64_t>(kMostHosts), ", of at most ",
                       static_cast<std::int64_t>(kMostLetters), " letters"));
    std::vector<std::string> longer;
    for (const std::string& name : names)
      for (const std::string& piece : pieces) longer.push_back(name + piece);
    names = std::move(longer);
  }
  if (out.size() + names.size() > kMostHosts)
    return fault(where, cat("more than ", static_cast<std::int64_t>(kMostHosts), " hosts"), "fewer");
  for (std::string& name : names) {
    if (!sound_name(name)) return fault(where, cat("the host ", shown(name)), "letters, digits, '-', '_' and '.'");
    out.push_back(std::move(name));
  }
  return {};
}

Status repeated(const std::vector<std::string>& hosts, const std::string& where) {
  std::set<std::string_view> seen;
  for (const std::string& host : hosts)
    if (!seen.insert(host).second) return fault(where, cat("the host ", shown(host), " twice"), "every host once");
  return {};
}

/// Returns 8 for "8" and "h100:8".
Result<std::int64_t> devices_in(std::string_view value, const std::string& where) {
  const std::size_t colon = value.rfind(':');
  const auto number = runlog::whole_integer(colon == std::string_view::npos ? value : value.substr(colon + 1));
  if (number && *number > 0 && *number <= 1024) return *number;
  return fault(where, cat("SLURM_GPUS_PER_NODE=", value.substr(0, 40)), "8, or h100:8");
}

Status device_missing(const ClusterRequest& request) {
  if (!request.device.empty()) return {};
  return Error{ErrorKind::usage, "--device", "no device", "the kind of its GPUs, which Slurm does not state",
               "--device h100-sxm-80gb"};
}

std::string first_and_last(const std::vector<std::string>& hosts) {
  return hosts.size() == 1 ? hosts.front() : cat(hosts.front(), " … ", hosts.back());
}

Result<ImportedCluster> of_hosts(const ClusterRequest& request, std::size_t hosts,
                                 const std::optional<std::int64_t>& devices_per_node) {
  auto cluster = usual_cluster(request.device, static_cast<std::int64_t>(hosts), devices_per_node);
  if (!cluster) return cluster.error();
  ImportedCluster out{std::move(*cluster), {}};
  if (!devices_per_node)
    out.notes.push_back(cat(out.cluster.devices() / out.cluster.nodes(), " devices per node, the usual number of ",
                            request.device, ": --devices-per-node sets another"));
  out.notes.push_back(cat("links and network are those of a usual node of ", request.device));
  return out;
}

// ---- host lists ---------------------------------------------------------------------------------------------------

struct HostFile {
  std::vector<std::string> hosts;
  std::int64_t nodes = 0, devices = 0, line = 0;
};

Result<HostFile> host_file(const ClusterRequest& request) {
  HostFile out;
  Status status;
  runlog::each_line(request.text, [&](std::int64_t number, std::string_view line) {
    std::string_view text = runlog::trimmed(line);
    if (!status.ok() || text.empty() || text.starts_with('#')) return;
    const std::string where = cat(request.name, ":", number);
    if (text.starts_with("export ")) text = runlog::trimmed(text.substr(7));
    const std::size_t equals = text.find('=');
    const std::string_view key = equals == std::string_view::npos ? "" : text.substr(0, equals);
    std::string_view value = equals == std::string_view::npos ? text : text.substr(equals + 1);
    if (value.size() > 1 && (value.front() == '"' || value.front() == '\'') && value.back() == value.front())
      value = value.substr(1, value.size() - 2);
    if (key == "SLURM_GPUS_PER_NODE" || key == "SLURM_GPUS_ON_NODE") {
      const auto devices = devices_in(value, where);
      if (devices)
        out.devices = *devices;
      else
        status = devices.error();
    } else if (key == "SLURM_NNODES" || key == "SLURM_JOB_NUM_NODES") {
      const auto nodes = runlog::whole_integer(value);
      if (!nodes || *nodes < 1 || *nodes > static_cast<std::int64_t>(kMostHosts))
        status =
            fault(where, cat(key, "=", value.substr(0, 40)), cat("a number from 1 to ", static_cast<std::int64_t>(kMostHosts)));
      out.nodes = nodes.value_or(0);
      out.line = number;
    } else if (key.empty() || key == "SLURM_JOB_NODELIST" || key == "SLURM_NODELIST") {
      if (!key.empty() && !out.hosts.empty()) return;  // both names of one list
      auto hosts = expand_hosts(value, where);
      if (!hosts)
        status = hosts.error();
      else if (out.hosts.size() + hosts->size() > kMostHosts)  // checked here, because every line may have as many
        status = fault(where, "too many hosts", cat("at most ", static_cast<std::int64_t>(kMostHosts)));
      else
        out.hosts.insert(out.hosts.end(), hosts->begin(), hosts->end());
    }
  });
  if (!status.ok()) return status.error();
  if (out.hosts.empty()) return fault(request.name, "no host", "a host list, node[01-16,20], or SLURM_JOB_NODELIST=…");
  if (Status twice = repeated(out.hosts, request.name); !twice.ok()) return twice.error();
  if (out.nodes > 0 && out.nodes != static_cast<std::int64_t>(out.hosts.size()))
    return fault(cat(request.name, ":", out.line), cat(out.nodes, " nodes"),
                 cat(static_cast<std::int64_t>(out.hosts.size()), ", as in the list"));
  return out;
}

Result<ImportedCluster> read_hosts(const ClusterRequest& request) {
  if (Status status = runlog::check_size(request.text, request.name); !status.ok()) return status.error();
  if (Status status = device_missing(request); !status.ok()) return status.error();
  const auto file = host_file(request);
  if (!file) return file.error();
  if (request.nodes && *request.nodes != static_cast<std::int64_t>(file->hosts.size()))
    return fault(request.name, cat(static_cast<std::int64_t>(file->hosts.size()), " hosts"),
                 cat(*request.nodes, ", as given by --nodes"));
  std::optional<std::int64_t> each = request.devices_per_node;
  if (!each && file->devices > 0) each = file->devices;
  auto out = of_hosts(request, file->hosts.size(), each);
  if (out) out->notes.insert(out->notes.begin(), cat("hosts: ", first_and_last(file->hosts)));
  return out;
}

// ---- topology.conf ------------------------------------------------------------------------------------------------

struct LeafSwitch {
  std::string name;
  std::int64_t line = 0;
  std::vector<std::string> hosts;
};

struct Tree {
  std::vector<LeafSwitch> leaves;
  bool blocks = false;
};

/// Splits "SwitchName=s0 Nodes=tux[0-3]" into lower-case keys and values.
std::map<std::string, std::string> fields_of(std::string_view line) {
  std::map<std::string, std::string> out;
  for (const std::string_view word : runlog::words_of(line)) {
    const std::size_t equals = word.find('=');
    if (equals != std::string_view::npos) out.emplace(base::lower(word.substr(0, equals)), std::string(word.substr(equals + 1)));
  }
  return out;
}

Result<Tree> tree_of(const ClusterRequest& request) {
  Tree out;
  Status status;
  std::set<std::string> names;
  std::size_t all = 0;
  runlog::each_line(request.text, [&](std::int64_t number, std::string_view line) {
    const std::string_view text = runlog::trimmed(line.substr(0, line.find('#')));
    if (!status.ok() || text.empty()) return;
    const std::string where = cat(request.name, ":", number);
    const auto fields = fields_of(text);
    const bool block = fields.contains("blockname");
    if (!block && !fields.contains("switchname")) {
      if (!fields.contains("blocksizes")) status = fault(where, shown(text), "SwitchName=… or BlockName=…");
      return;
    }
    const std::string& name = fields.at(block ? "blockname" : "switchname");
    if (!sound_name(name)) status = fault(where, cat("the name ", shown(name)), "letters, digits, '-', '_' and '.'");
    if (!status.ok()) return;
    if (!names.insert(name).second) status = fault(where, cat("a second ", shown(name)), "every switch once");
    if (!fields.contains("nodes")) {
      if (!fields.contains("switches")) status = fault(where, cat(shown(name), " without nodes"), "Nodes=… or Switches=…");
      return;
    }
    auto hosts = expand_hosts(fields.at("nodes"), where);
    if (!hosts) {
      status = hosts.error();
      return;
    }
    all += hosts->size();
    if (all > kMostHosts) status = fault(where, "too many hosts", cat("at most ", static_cast<std::int64_t>(kMostHosts)));
    out.blocks = out.blocks || block;
    out.leaves.push_back({name, number, std::move(*hosts)});
  });
  if (!status.ok()) return status.error();
  if (out.leaves.empty()) return fault(request.name, "no switch with nodes", "lines such as SwitchName=s0 Nodes=tux[0-3]");
  std::set<std::string_view> seen;
  for (const LeafSwitch& leaf : out.leaves)
    for (const std::string& host : leaf.hosts)
      if (!seen.insert(host).second)
        return fault(cat(request.name, ":", leaf.line), cat("the host ", shown(host), " below two switches"),
                     "every host below one");
  return out;
}

/// Restricts the leaves to the job's hosts.
Status restrict(Tree& tree, const ClusterRequest& request) {
  if (request.hosts.empty()) return {};
  const auto wanted = expand_hosts(request.hosts, "--hosts");
  if (!wanted) return wanted.error();
  std::set<std::string> left(wanted->begin(), wanted->end());
  for (LeafSwitch& leaf : tree.leaves) std::erase_if(leaf.hosts, [&](const std::string& host) { return left.erase(host) == 0; });
  std::erase_if(tree.leaves, [](const LeafSwitch& leaf) { return leaf.hosts.empty(); });
  if (!left.empty()) return fault("--hosts", cat("the host ", shown(*left.begin())), cat("hosts of ", request.name));
  return {};
}

/// Adds the network above leaf switches of equal size as a separate level.
void add_leaf_level(const Tree& tree, double oversubscription, ImportedCluster& out) {
  const std::size_t size = tree.leaves.front().hosts.size();
  const bool equal =
      std::all_of(tree.leaves.begin(), tree.leaves.end(), [&](const LeafSwitch& leaf) { return leaf.hosts.size() == size; });
  if (tree.leaves.size() == 1) {
    out.notes.push_back(cat("all hosts are below ", tree.leaves.front().name));
    return;
  }
  if (!equal) {
    out.notes.push_back(cat(static_cast<std::int64_t>(tree.leaves.size()),
                            " leaf switches with unequal numbers of these hosts: counted as one network"));
    return;
  }
  FabricLevel top = out.cluster.inter.back();
  const std::int64_t span = static_cast<std::int64_t>(size) * (out.cluster.devices() / out.cluster.nodes());
  out.notes.push_back(cat(static_cast<std::int64_t>(tree.leaves.size()), " leaf switches of ", static_cast<std::int64_t>(size),
                          " hosts; ",
                          oversubscription == 1 ? "not oversubscribed, which the file does not state: --oversubscription 2"
                                                : cat("oversubscribed ", base::six_digits(oversubscription), " to 1")));
  ESPALIER_CHECK(size > 0 && span > 0);
  if (oversubscription == 1) return;
  FabricLevel leaf = top;
  leaf.name = "leaf switch";
  leaf.span = span;
  if (size > 1) out.cluster.inter.insert(out.cluster.inter.end() - 1, leaf);
  FabricLevel& above = out.cluster.inter.back();
  above.name = "above the leaf switches";
  above.bandwidth = above.bandwidth / oversubscription;
}

Result<ImportedCluster> read_topology(const ClusterRequest& request) {
  if (Status status = runlog::check_size(request.text, request.name); !status.ok()) return status.error();
  if (Status status = device_missing(request); !status.ok()) return status.error();
  auto tree = tree_of(request);
  if (!tree) return tree.error();
  if (!(request.oversubscription >= 1 && request.oversubscription <= kMostOversubscription))
    return Error{ErrorKind::usage, "--oversubscription", base::six_digits(request.oversubscription),
                 cat("a number from 1 to ", base::six_digits(kMostOversubscription)), "2 means 2:1"};
  if (Status status = restrict(*tree, request); !status.ok()) return status.error();
  std::size_t hosts = 0;
  for (const LeafSwitch& leaf : tree->leaves) hosts += leaf.hosts.size();
  auto out = of_hosts(request, hosts, request.devices_per_node);
  if (!out) return out;
  if (tree->blocks)
    out->notes.push_back(cat(static_cast<std::int64_t>(tree->leaves.size()),
                             " blocks: NVLink domains hold the nodes of the device's usual domain"));
  else if (hosts > 1)
    add_leaf_level(*tree, request.oversubscription, *out);
  return out;
}

}  // namespace

Result<std::vector<std::string>> expand_hosts(std::string_view list, const std::string& where) {
  list = runlog::trimmed(list);
  if (list.empty()) return fault(where, "no host", "a host list, node[01-16,20]");
  const auto parts = parts_of(list, where);
  if (!parts) return parts.error();
  std::vector<std::string> out;
  for (const std::string_view part : *parts)
    if (Status status = add_part(runlog::trimmed(part), where, out); !status.ok()) return status.error();
  ESPALIER_CHECK(!out.empty() && out.size() <= kMostHosts);
  return out;
}

ClusterFormat slurm_hosts() {
  return {"slurm-hosts", "a host list of Slurm, node[01-16,20], or its variables (SLURM_JOB_NODELIST=…); needs --device",
          read_hosts};
}
ClusterFormat slurm_topology() { return {"slurm-topology", "Slurm's topology.conf; needs --device", read_topology}; }

}  // namespace espalier::exchange
