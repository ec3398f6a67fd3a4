// SPDX-License-Identifier: Apache-2.0
#include "cluster/traits_reader.h"

#include <algorithm>
#include <map>
#include <optional>

#include "base/format.h"
#include "base/text.h"
#include "cluster/numbered.h"

namespace espalier::cluster {
namespace {

constexpr double kSlowest = 1e-6;
constexpr double kFastest = 100.0;
constexpr double kDearest = 1e6;  ///< per device and hour

bool is_name(std::string_view text) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-';
  };
  return !text.empty() && text.size() <= kLongestGroupName && text.front() != '-' && text.back() != '-' &&
         std::all_of(text.begin(), text.end(), allowed);
}

std::string read_name(base::Reader& reader, std::string_view key) {
  std::string name = reader.required_string(key);
  if (reader.has(key) && reader.sink().ok() && !is_name(name))
    reader.fail(key, base::in_quotes(name), "a name of letters, digits, '-', '_' and '.', at most 64 long",
                "links are named after their two ends, as in a-b");
  return name;
}

void read_nics(base::Reader& reader, NodeGroup& group) {
  const Node* node = reader.find("nic");
  if (node == nullptr || node->kind == NodeKind::null) return;
  std::vector<const Node*> words;
  if (node->kind == NodeKind::sequence)
    for (const Node& item : node->items) words.push_back(&item);
  else
    words.push_back(node);
  for (const Node* word : words) {
    const std::string kind = word->kind == NodeKind::string ? base::lower(word->text) : "";
    if (!is_name(kind)) {
      reader.fail("nic", "", "a kind of network interface or a list of them: infiniband, roce, ethernet, efa, …");
      return;
    }
    if (std::find(group.nics.begin(), group.nics.end(), kind) == group.nics.end()) group.nics.push_back(kind);
  }
  if (group.nics.empty()) reader.fail("nic", "an empty list", "at least one kind of network interface, e.g. infiniband");
}

std::string range_text(const char* word, std::int64_t first, std::int64_t count) {
  return count == 1 ? cat(word, ":", first) : cat(word, ":", first, " to ", word, ":", first + count - 1);
}

void read_speed(base::Reader& reader, std::int64_t first_node, std::int64_t first_device, NodeGroup& group) {
  if (!reader.has("speed")) return;
  base::Reader speed = reader.child("speed", false);
  if (!speed.sink().ok()) return;
  const std::int64_t devices = group.nodes * group.devices_per_node;
  std::map<std::int64_t, double> of_node, of_device;
  for (const auto& [key, value] : speed.node().members) {
    const auto node = numbered("node", key);
    const auto rank = numbered("rank", key);
    const bool known = (node && *node >= first_node && *node < first_node + group.nodes) ||
                       (rank && *rank >= first_device && *rank < first_device + devices);
    if (!known) {
      speed.fail(key, base::in_quotes(key),
                 cat("a node or device of this group: ", range_text("node", first_node, group.nodes), ", ",
                     range_text("rank", first_device, devices)),
                 "nodes and devices are numbered across the whole cluster, group by group");
      return;
    }
    const double factor = speed.required_real(key, kSlowest, kFastest);
    if (rank)
      of_device[*rank] = factor;
    else
      for (std::int64_t i = 0; i < group.devices_per_node; ++i)
        of_node[first_device + (*node - first_node) * group.devices_per_node + i] = factor;
  }
  of_device.merge(of_node);  // keeps existing entries: a device's own factor
  for (const auto& [device, factor] : of_device)
    if (factor != 1.0) group.speed.push_back({device, factor});
}

}  // namespace

std::string usual_group_name(std::size_t place) {
  return place < 26 ? std::string(1, static_cast<char>('a' + place)) : cat("g", place);
}

void read_group_name(base::Reader& reader, std::size_t place, NodeGroup& group) {
  group.name = reader.has("name") ? read_name(reader, "name") : usual_group_name(place);
}

void read_traits(base::Reader& reader, std::int64_t first_node, std::int64_t first_device, NodeGroup& group) {
  if (reader.has("site")) group.site = read_name(reader, "site");
  if (reader.has("price_per_device_hour"))
    group.price_per_device_hour = reader.required_real("price_per_device_hour", 0.0, kDearest);
  read_nics(reader, group);
  if (reader.sink().ok()) read_speed(reader, first_node, first_device, group);
}

std::vector<std::string> names_of_ends(const Cluster& cluster) {
  std::vector<std::string> names;
  for (const NodeGroup& group : cluster.groups) names.push_back(group.name);
  for (const std::string& site : cluster.sites()) names.push_back(site);
  return names;
}

void check_names(base::Reader& reader, const Cluster& cluster) {
  std::map<std::string, std::size_t> seen;
  const std::vector<std::string> names = names_of_ends(cluster);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto [before, fresh] = seen.emplace(names[i], i);
    if (fresh) continue;
    const bool site = i >= cluster.groups.size();
    reader.fail("groups", cat(site ? "a site" : "a second group", " called ", base::in_quotes(names[i])),
                site ? "a name that no group has" : "a name for each group",
                cat("groups without a name are called a, b, …; here groups[", before->second, "] has it"));
    return;
  }
}

}  // namespace espalier::cluster
