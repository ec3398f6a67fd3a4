// SPDX-License-Identifier: Apache-2.0
#include "cluster/segment.h"

#include <algorithm>

#include "cluster/cluster_reader.h"

namespace espalier::cluster {
namespace {

std::string domain_of(const std::string& name, const NodeGroup& group) {
  return name + " domain of " + std::to_string(group.domain_nodes) + " nodes";
}

/// Returns a note on how the segment fills the last domain.
std::string fill_note(const std::string& path, const std::string& domain, const NodeGroup& group, std::int64_t segment) {
  const std::int64_t rest = group.nodes % segment;
  return path + ".segment = " + std::to_string(segment) + " nodes of each " + domain_of(domain, group) +
         ": they are filled in order, the last one holds " + std::to_string(rest) +
         " nodes, and groups of devices may span two domains";
}

}  // namespace

std::int64_t default_segment(std::int64_t nodes, std::int64_t domain_nodes) {
  if (nodes <= domain_nodes) return nodes;
  for (std::int64_t s = domain_nodes; 2 * s >= domain_nodes; --s)
    if (nodes % s == 0) return s;
  return domain_nodes;
}

std::optional<std::int64_t> read_segment(base::Reader& reader) {
  if (!reader.has("segment")) return std::nullopt;
  return reader.required_int("segment", 1, kMaxNodes);
}

std::int64_t choose_segment(base::Reader& reader, const NodeGroup& group, const std::string& domain,
                            std::optional<std::int64_t> wanted, std::vector<std::string>& notes) {
  if (wanted && *wanted > group.domain_nodes) {
    reader.fail("segment", std::to_string(*wanted) + " nodes",
                "at most " + std::to_string(group.domain_nodes) + ", the nodes of one " + domain + " domain");
    return group.domain_nodes;
  }
  const std::int64_t segment = wanted ? std::min(*wanted, group.nodes) : default_segment(group.nodes, group.domain_nodes);
  if (group.nodes % segment != 0)
    notes.push_back(fill_note(reader.path(), domain, group, segment) +
                    (wanted ? "" : " (default, because no divisor of the nodes lies between half a domain and a whole one)"));
  else if (!wanted && group.nodes > segment)
    notes.push_back(reader.path() + ".segment = " + std::to_string(segment) + " nodes of each " + domain_of(domain, group) +
                    " (default: the largest divisor of " + std::to_string(group.nodes) +
                    " between half a domain and a whole one)");
  return segment;
}

void check_segment(base::Reader& reader, const Cluster& cluster) {
  const auto joined = [](const NodeGroup& group) { return group.segment > 0; };
  if (!reader.sink().ok() || std::any_of(cluster.groups.begin(), cluster.groups.end(), joined)) return;
  reader.fail("segment", "a segment on nodes without a common domain", "no segment",
              "it is for fabrics whose domain joins several nodes (gb200-nvl72); a fabric that lists its levels states it by "
              "their spans");
}

}  // namespace espalier::cluster
