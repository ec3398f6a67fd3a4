// SPDX-License-Identifier: Apache-2.0
// Resolves "a", "node:3", "rank:17" and "a-b" to targets in a cluster.
#include "base/document.h"
#include "base/format.h"
#include "base/text.h"
#include "cluster/numbered.h"
#include "espalier/cluster.h"

namespace espalier {
namespace {

std::string numbers(const char* word, std::int64_t count) {
  return count == 1 ? cat(word, ":0") : cat(word, ":0 to ", word, ":", count - 1);
}

Error unknown_target(const Cluster& cluster, std::string_view name, const std::string& where) {
  std::vector<std::string> groups, links, all;
  for (const NodeGroup& group : cluster.groups) groups.push_back(group.name);
  for (const GroupLink& link : cluster.links) links.push_back(link.name());
  all = groups;
  all.insert(all.end(), links.begin(), links.end());
  std::string expected = cat("a group (", base::listed(groups), "), a node (", numbers("node", cluster.nodes()), "), a device (",
                             numbers("rank", cluster.devices()), ")");
  expected += links.empty() ? "" : cat(" or a link (", base::listed(links), ")");
  std::string hint = base::suggestion(name, all);
  if (hint.empty() && links.empty() && name.find('-') != std::string_view::npos)
    hint = "only clusters with links or a matrix between their groups have named links";
  return {ErrorKind::bad_input, where, base::in_quotes(name), std::move(expected), std::move(hint)};
}

}  // namespace

Result<ClusterTarget> target_called(const Cluster& cluster, std::string_view name, const std::string& where) {
  using Kind = ClusterTarget::Kind;
  if (const auto node = cluster::numbered("node", name); node && *node < cluster.nodes()) return ClusterTarget{Kind::node, *node};
  if (const auto rank = cluster::numbered("rank", name); rank && *rank < cluster.devices())
    return ClusterTarget{Kind::device, *rank};
  if (const auto group = cluster.group_called(name)) return ClusterTarget{Kind::group, static_cast<std::int64_t>(*group)};
  if (const auto link = cluster.link_called(name)) return ClusterTarget{Kind::link, static_cast<std::int64_t>(*link)};
  return unknown_target(cluster, name, where);
}

}  // namespace espalier
