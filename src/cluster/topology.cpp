// SPDX-License-Identifier: Apache-2.0
#include "cluster/topology.h"

#include <algorithm>
#include <numeric>

#include "base/invariant.h"

namespace espalier::cluster {
namespace {

std::string ranks(std::int64_t first, std::int64_t last) {
  std::string text = "rank:" + std::to_string(first);
  if (last > first) text += "-" + std::to_string(last);
  return text;
}

}  // namespace

const LinkRange& Topology::range_of(LinkId link) const {
  ESPALIER_CHECK(link >= 0 && link < links_);
  const auto after =
      std::upper_bound(ranges_.begin(), ranges_.end(), link, [](LinkId id, const LinkRange& range) { return id < range.first; });
  return *(after - 1);
}

std::string Topology::link_name(LinkId link) const {
  const LinkRange& range = range_of(link);
  const std::int64_t index = link - range.first;
  if (range.names == LinkRange::Names::single) return range.name;
  if (range.names == LinkRange::Names::nodes_from) return range.name + " from node " + std::to_string(index);
  if (range.names == LinkRange::Names::nodes_to) return range.name + " to node " + std::to_string(index);
  if (range.names == LinkRange::Names::node_pairs)
    return range.name + " node " + std::to_string(index / range.columns) + " to " + std::to_string(index % range.columns);
  if (range.names == LinkRange::Names::devices) {
    const std::int64_t first = range.first_device + index * range.devices;
    return ranks(first, std::min(first + range.devices - 1, range.last_device)) + " " + range.name;
  }
  const std::int64_t pairs = range.devices * (range.devices - 1);
  const std::int64_t base = range.first_device + index / pairs * range.devices;
  const std::int64_t from = index % pairs / (range.devices - 1);
  const std::int64_t other = index % pairs % (range.devices - 1);
  return ranks(base + from, base + from) + "-" + ranks(base + other + (other >= from), base + other + (other >= from));
}

const Topology::Run& Topology::run_of(std::int64_t device) const {
  ESPALIER_CHECK(device >= 0 && device < devices_);
  if (runs_.size() == 1) return runs_.front();
  const auto after =
      std::upper_bound(runs_.begin(), runs_.end(), device, [](std::int64_t id, const Run& run) { return id < run.first; });
  return *(after - 1);
}

LinkId Topology::link_at(std::int32_t range, std::int64_t index) const {
  return ranges_[static_cast<std::size_t>(range)].first + static_cast<LinkId>(index);
}

std::int64_t Topology::network_domain(std::int64_t device) const {
  const Run& run = run_of(device);
  if (run.site_step == 1) return device;
  if (!run.through_network) return run.first;
  const std::int64_t below = run.levels[static_cast<std::size_t>(run.media.back().lowest)].below;
  return run.first + (device - run.first) / below * below;
}

/// Appends the links from the device up to the switch that joins the domains of `level`.
void Topology::leave(const Run& run, std::int64_t device, std::size_t level, std::vector<LinkId>& links) const {
  const Medium& medium = run.media[static_cast<std::size_t>(run.levels[level].medium)];
  const std::int64_t place = device - run.first;
  links.push_back(link_at(medium.out, place / medium.share));
  for (auto k = static_cast<std::size_t>(medium.lowest); k <= level; ++k)
    if (run.levels[k].trunk != kNone) links.push_back(link_at(run.levels[k].trunk, place / run.levels[k].below));
}

/// Appends the path of leave() backwards, over the links of the opposite direction.
void Topology::enter(const Run& run, std::int64_t device, std::size_t level, std::vector<LinkId>& links) const {
  const Medium& medium = run.media[static_cast<std::size_t>(run.levels[level].medium)];
  const std::int64_t place = device - run.first;
  for (std::size_t k = level + 1; k-- > static_cast<std::size_t>(medium.lowest);)
    if (run.levels[k].trunk != kNone) links.push_back(link_at(run.levels[k].trunk + 1, place / run.levels[k].below));
  links.push_back(link_at(medium.out + 1, place / medium.share));
}

/// Returns the index of the device's node among those at `site`: in its own group, or behind a router with several
/// groups. At an intermediate site it is the node that forwards: the i-th for the i-th, starting over if there are
/// fewer.
std::int64_t Topology::node_at(const Run& run, std::int64_t device, std::int64_t site, std::int64_t nodes) const {
  const std::int64_t in_run = (device - run.first) / run.devices_per_node;
  const bool router = site >= static_cast<std::int64_t>(runs_.size());
  return (router ? run.first_at_router + in_run : in_run) % std::max<std::int64_t>(1, nodes);
}

void Topology::between_sites(const Run& from, std::int64_t a, const Run& to, std::int64_t b, std::vector<LinkId>& links) const {
  std::int64_t at = from.site + (a - from.first) * from.site_step;
  const std::int64_t end = to.site + (b - to.first) * to.site_step;
  while (at != end) {
    const LinkId next = next_link_[static_cast<std::size_t>(at * sites_ + end)];
    ESPALIER_CHECK(next >= 0);  // builders refuse sites that do not reach each other
    const Way& way = ways_[static_cast<std::size_t>(next)];
    at = way.to;
    if (way.sharing == LinkSharing::line) {
      links.push_back(way.first);
      continue;
    }
    const auto i = static_cast<LinkId>(node_at(from, a, way.from, way.from_nodes));
    const auto j = static_cast<LinkId>(node_at(to, b, way.to, way.to_nodes));
    if (way.sharing == LinkSharing::node_pair) {
      links.push_back(way.first + i * static_cast<LinkId>(way.to_nodes) + j);
    } else {
      links.push_back(way.first + i);
      links.push_back(way.first + static_cast<LinkId>(way.from_nodes) + j);
    }
  }
}

std::vector<LinkId> Topology::links_of_way(std::size_t way_id) const {
  ESPALIER_CHECK(way_id < ways_.size());
  const Way& way = ways_[way_id];
  std::int64_t count = 1;
  if (way.sharing == LinkSharing::node) count = way.from_nodes + way.to_nodes;
  if (way.sharing == LinkSharing::node_pair) count = way.from_nodes * way.to_nodes;
  std::vector<LinkId> links(static_cast<std::size_t>(count));
  std::iota(links.begin(), links.end(), way.first);
  return links;
}

std::vector<LinkId> Topology::network_ports(std::int64_t device) const {
  const Run& run = run_of(device);
  if (!run.through_network) return {};
  const Medium& medium = run.media.back();
  const std::int64_t place = (device - run.first) / medium.share;
  return {link_at(medium.out, place), link_at(medium.out + 1, place)};
}

void Topology::route(std::int64_t a, std::int64_t b, std::vector<LinkId>& links) const {
  const Run& from = run_of(a);
  const Run& to = run_of(b);
  if (a == b) return;
  if (&from == &to && from.site_step == 0) {
    const std::int64_t i = a - from.first, j = b - from.first;
    std::size_t level = 0;
    while (level < from.levels.size() && i / from.levels[level].span != j / from.levels[level].span) ++level;
    ESPALIER_CHECK(level < from.levels.size());
    const Level& joined = from.levels[level];
    leave(from, a, level, links);
    if (joined.pairs != kNone) {
      const std::int64_t span = joined.span, x = i % span, y = j % span;
      links.push_back(link_at(joined.pairs, i / span * span * (span - 1) + x * (span - 1) + y - (y > x)));
    }
    enter(from, b, level, links);
    return;
  }
  if (from.through_network) leave(from, a, from.levels.size() - 1, links);
  between_sites(from, a, to, b, links);
  if (to.through_network) enter(to, b, to.levels.size() - 1, links);
}

std::vector<LinkId> Topology::route(std::int64_t a, std::int64_t b) const {
  std::vector<LinkId> links;
  route(a, b, links);
  return links;
}

double route_bandwidth(const Topology& topology, std::int64_t a, std::int64_t b) {
  const std::vector<LinkId> links = topology.route(a, b);
  if (links.empty()) return 0.0;
  double narrowest = topology.range_of(links.front()).capacity;
  for (const LinkId link : links) narrowest = std::min(narrowest, topology.range_of(link).capacity);
  return narrowest;
}

double route_latency(const Topology& topology, std::int64_t a, std::int64_t b) {
  double sum = 0.0;
  for (const LinkId link : topology.route(a, b)) sum += topology.range_of(link).latency_s;
  return sum;
}

}  // namespace espalier::cluster
