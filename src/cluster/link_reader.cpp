// SPDX-License-Identifier: Apache-2.0
#include "cluster/link_reader.h"

#include <algorithm>
#include <array>
#include <set>

#include "base/format.h"
#include "base/text.h"
#include "cluster/catalogue.h"
#include "cluster/hardware_facts.h"
#include "cluster/level_reader.h"
#include "cluster/names.h"
#include "cluster/traits_reader.h"

namespace espalier::cluster {
namespace {

LinkSharing read_sharing(base::Reader& reader, LinkSharing usual) {
  static const std::vector<std::string_view> words(kLinkSharingNames.begin(), kLinkSharingNames.end());
  return static_cast<LinkSharing>(reader.optional_choice("sharing", words, static_cast<std::size_t>(usual)));
}

/// Collects links of known ends, each ordered pair once.
class LinkList {
 public:
  explicit LinkList(Cluster& cluster) : cluster_(&cluster), names_(names_of_ends(cluster)) {}

  /// Reads the name of a group or site at `key`; records an error otherwise.
  std::string end(base::Reader& reader, std::string_view key) const {
    std::string name = reader.required_string(key);
    if (!reader.sink().ok() || std::find(names_.begin(), names_.end(), name) != names_.end()) return name;
    reader.fail(key, base::in_quotes(name), "a group or site: " + base::listed(names_), base::suggestion(name, names_));
    return name;
  }

  void add(base::Reader& reader, GroupLink link) {
    if (!reader.sink().ok()) return;
    if (!pairs_.emplace(link.from, link.to).second)
      reader.fail("to", cat("a second link ", link.name()), "one link for each direction between two groups or sites",
                  "both: true adds the opposite direction");
    else if (cluster_->links.size() == kMaxLinks)
      reader.fail("to", cat("more than ", kMaxLinks, " links"), "fewer links");
    else
      cluster_->links.push_back(std::move(link));
  }

 private:
  Cluster* cluster_;
  std::vector<std::string> names_;
  std::set<std::pair<std::string, std::string>> pairs_;
};

void read_link(base::Reader& item, LinkSharing usual, LinkList& list, std::vector<std::string>& notes) {
  GroupLink link;
  link.from = list.end(item, "from");
  link.to = list.end(item, "to");
  link.bandwidth = BytesPerSecond(read_bandwidth(item, "bandwidth", 0.0));
  if (!item.has("bandwidth")) item.fail("bandwidth", "nothing", "the bandwidth of the link, e.g. 100Gb/s");
  link.latency = Seconds(read_latency(item, "latency", hardware_facts().unstated_link_latency));
  if (!item.has("latency")) notes.push_back(item.path() + ".latency = " + format_latency(link.latency) + " (default)");
  link.sharing = read_sharing(item, usual);
  const bool both = item.optional_bool("both", false);
  item.finish();
  if (item.sink().ok() && link.from == link.to)
    item.fail("to", base::in_quotes(link.to), "a group or site other than " + base::in_quotes(link.from));
  list.add(item, link);
  std::swap(link.from, link.to);
  if (both) list.add(item, link);
}

/// Reads one figure of the matrix. Rows from a group or site to itself are not links.
void read_entry(base::Reader& row, LinkSharing sharing, LinkList& list, std::set<std::string>& own) {
  GroupLink link;
  link.from = list.end(row, "from");
  link.to = list.end(row, "to");
  link.bandwidth = BytesPerSecond(row.required_real("gbps", 0.0, kMaxBandwidth * 8 / 1e9) * 1e9 / 8);
  link.latency = Seconds(row.required_real("delay_ms", 0.0, kMaxLatency * 1e3) / 1e3);
  link.sharing = sharing;
  row.finish();
  if (!row.sink().ok()) return;
  if (link.from == link.to)
    own.insert(link.from);
  else if (link.bandwidth.count() > 0)
    list.add(row, link);
}

bool nics_meet(const NodeGroup& a, const NodeGroup& b) {
  if (a.nics.empty() || b.nics.empty()) return true;
  return std::any_of(a.nics.begin(), a.nics.end(),
                     [&](const std::string& nic) { return std::find(b.nics.begin(), b.nics.end(), nic) != b.nics.end(); });
}

}  // namespace

void read_links(base::Reader& reader, Cluster& cluster) {
  const LinkSharing usual = read_sharing(reader, LinkSharing::line);
  LinkList list(cluster);
  reader.each("links", true, [&](base::Reader& item) { read_link(item, usual, list, cluster.notes); });
}

void read_matrix(base::Reader& reader, const ClusterFiles& files, Cluster& cluster) {
  const LinkSharing sharing = read_sharing(reader, LinkSharing::node_pair);
  if (!reader.has("sharing"))
    cluster.notes.push_back(reader.path() +
                            ".sharing = node_pair: the figures of the matrix hold for each pair of nodes (default)");
  LinkList list(cluster);
  std::set<std::string> own;
  const auto read_row = [&](base::Reader& row) { read_entry(row, sharing, list, own); };
  const base::Node* node = reader.find("matrix");
  if (const auto file = files.find("matrix"); file != files.end()) {
    base::Reader::root(file->second, reader.sink()).each("matrix", true, read_row);
  } else if (node != nullptr && node->kind == base::NodeKind::string) {
    reader.fail("matrix", "", "rows of {from, to, gbps, delay_ms}",
                "files can be opened only for a cluster file, not for text without a folder");
  } else {
    reader.each("matrix", true, read_row);
  }
  if (!own.empty())
    cluster.notes.push_back(reader.path() + ".matrix: rows from " + base::joined(own) +
                            " to itself are not used; inside a group, its own network applies");
}

bool all_nics_meet(const Cluster& cluster) {
  for (const NodeGroup& a : cluster.groups)
    for (const NodeGroup& b : cluster.groups)
      if (!nics_meet(a, b)) return false;
  return true;
}

void link_by_nics(base::Reader& reader, Cluster& cluster) {
  const NetworkSpec& fallback = catalogue().fallback;
  const BytesPerSecond slow = fallback.bandwidth * static_cast<double>(fallback.nics) * fallback.efficiency;
  for (std::size_t i = 0; i < cluster.groups.size(); ++i)
    for (std::size_t j = 0; j < cluster.groups.size(); ++j) {
      const NodeGroup& from = cluster.groups[i];
      const NodeGroup& to = cluster.groups[j];
      if (i == j) continue;
      GroupLink link{from.name, to.name, slow, fallback.latency, LinkSharing::node};
      if (nics_meet(from, to)) {
        if (from.node_bandwidth.count() <= 0 || to.node_bandwidth.count() <= 0) {
          reader.fail("links", "nothing", "links between all groups, since the network of a group is unknown");
          return;
        }
        link.bandwidth = std::min(from.node_bandwidth, to.node_bandwidth);
        link.latency = std::max(from.network_latency, to.network_latency);
      } else if (i < j) {
        cluster.notes.push_back(cat(
            reader.path(), ".links: ", from.name, " (", base::joined(from.nics), ") and ", to.name, " (", base::joined(to.nics),
            ") have no kind of network interface in common: they communicate over ", fallback.name, ", ", format_bandwidth(slow),
            " per node, latency ", format_latency(fallback.latency), " (default: ", catalogue().fallback_source, ")"));
      }
      cluster.links.push_back(std::move(link));
    }
}

std::optional<std::pair<std::string, std::string>> pair_of(std::string_view text, const std::vector<std::string>& names) {
  const auto known = [&](std::string_view name) { return std::find(names.begin(), names.end(), name) != names.end(); };
  std::optional<std::pair<std::string, std::string>> found;
  for (std::size_t dash = text.find('-'); dash != std::string_view::npos; dash = text.find('-', dash + 1)) {
    const std::string_view from = text.substr(0, dash);
    const std::string_view to = text.substr(dash + 1);
    if (!known(from) || !known(to)) continue;
    if (found) return std::nullopt;
    found = {std::string(from), std::string(to)};
  }
  return found;
}

}  // namespace espalier::cluster
