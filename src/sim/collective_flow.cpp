// SPDX-License-Identifier: Apache-2.0
#include "sim/collective_flow.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/invariant.h"

namespace espalier::sim {
namespace {

using Loads = std::map<cluster::LinkId, double>;
using Members = std::vector<std::int64_t>;

std::vector<Members> by_domain(const cluster::Topology& topology, const Members& members) {
  std::vector<Members> domains;
  std::int64_t last = -1;
  for (const std::int64_t device : members) {
    const std::int64_t domain = topology.network_domain(device);
    if (domain != last) domains.emplace_back();
    domains.back().push_back(device);
    last = domain;
  }
  return domains;
}

void add_hop(const cluster::Topology& topology, std::int64_t from, std::int64_t to, double bytes, bool pairs, Loads& loads) {
  for (const cluster::LinkId link : topology.route(from, to))
    if (pairs || topology.range_of(link).names != cluster::LinkRange::Names::pairs) loads[link] += bytes;
}

/// Returns the loads as weights of one flow, relative to the load of `unit`.
Flow flow_of(const Loads& loads, cluster::LinkId unit) {
  const auto found = loads.find(unit);
  ESPALIER_CHECK(found != loads.end() && found->second >= 0.0);
  Flow flow;
  flow.bytes = std::llround(found->second);
  if (flow.bytes == 0) return flow;
  for (const auto& [link, bytes] : loads) flow.uses.push_back({link, bytes / found->second});
  return flow;
}

/// Returns the first link from the first member to another domain, or to the next member.
cluster::LinkId unit_link(const cluster::Topology& topology, const std::vector<Members>& domains) {
  const std::int64_t other = domains.size() > 1 ? domains[1].front() : domains.front()[1];
  const std::vector<cluster::LinkId> route = topology.route(domains.front().front(), other);
  ESPALIER_CHECK(!route.empty());
  return route.front();
}

}  // namespace

Flow ring_flow(const cluster::Topology& topology, const Members& members, double passed_on) {
  if (members.size() < 2) return {};
  const std::vector<Members> domains = by_domain(topology, members);
  std::size_t rings = 1;
  for (const Members& domain : domains) rings = std::max(rings, domain.size());
  const double bytes = passed_on / static_cast<double>(rings);
  Loads loads;
  for (std::size_t r = 0; r < rings; ++r)
    for (std::size_t d = 0; d < domains.size(); ++d) {
      const Members& here = domains[d];
      const Members& next = domains[(d + 1) % domains.size()];
      for (std::size_t i = 0; i + 1 < here.size(); ++i)
        add_hop(topology, here[(r + i) % here.size()], here[(r + i + 1) % here.size()], bytes, false, loads);
      add_hop(topology, here[(r + here.size() - 1) % here.size()], next[r % next.size()], bytes, false, loads);
    }
  return flow_of(loads, unit_link(topology, domains));
}

Flow exchange_flow(const cluster::Topology& topology, const Members& members, double bytes) {
  if (members.size() < 2) return {};
  Loads loads;
  for (const std::int64_t from : members)
    for (const std::int64_t to : members)
      if (from != to) add_hop(topology, from, to, bytes / static_cast<double>(members.size()), true, loads);
  return flow_of(loads, unit_link(topology, by_domain(topology, members)));
}

}  // namespace espalier::sim
