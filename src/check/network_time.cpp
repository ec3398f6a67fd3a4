// SPDX-License-Identifier: Apache-2.0
#include "check/network_time.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>

namespace espalier::check {
namespace {

constexpr std::int64_t kListed = 4096;  // larger groups are not listed but counted by their extent

/// Returns the device of rank n of a stage.
std::int64_t device_of(const View& view, std::int64_t stage, std::int64_t n) {
  const Strategy& s = view.strategy;
  const std::int64_t inner = std::int64_t{s.tp} * s.cp;
  if (s.order == RankOrder::tp_cp_pp_dp) return n % inner + inner * (stage + view.stages * (n / inner));
  return n + inner * s.dp * stage;
}

bool divides(std::int64_t a, std::int64_t b) { return a % b == 0 || b % a == 0; }

/// Returns whether `extent` ranks of a stage end where domains of `span` devices end.
bool fits(const View& view, std::int64_t extent, std::int64_t span) {
  const Strategy& s = view.strategy;
  if (s.order != RankOrder::tp_cp_pp_dp) return divides(extent, span);
  const std::int64_t inner = std::int64_t{s.tp} * s.cp, block = inner * view.stages;
  return divides(std::min(extent, inner), span) && divides(block, span) && divides(inner, span) && divides(extent, inner) &&
         divides(std::max<std::int64_t>(1, extent / inner) * block, span);
}

double log2_ceil(std::int64_t n) { return n <= 1 ? 0 : std::ceil(std::log2(static_cast<double>(n)) - 1e-12); }

double rate(const FabricLevel& level, std::int64_t peers) {
  double bandwidth = level.bandwidth.count();
  if (level.per_peer.count() > 0) bandwidth = std::min(bandwidth, static_cast<double>(peers) * level.per_peer.count());
  return bandwidth * level.efficiency;
}

double congestion(const FabricLevel& level, std::int64_t joined) {
  return 1.0 + level.congestion * std::log2(static_cast<double>(joined));
}

double ramped(double latency, double volume, double ramp) { return latency + volume + ramp * std::sqrt(latency * volume); }

/// Describes one level that a group crosses.
struct Crossing {
  const FabricLevel* level;
  std::int64_t below, here, joined;
  [[nodiscard]] double per_byte() const {
    return congestion(*level, joined) / (static_cast<double>(below) * rate(*level, joined - 1));
  }
};

std::vector<Crossing> crossings(const std::vector<FabricLevel>& levels, const RankGroup& g) {
  std::vector<Crossing> all;
  std::int64_t below = 1;
  for (std::size_t k = 0; k < levels.size(); ++k) {
    const std::int64_t here = g.members[k];
    if (here <= below) continue;
    all.push_back({&levels[k], below, here, (here + below - 1) / below});
    below = here;
  }
  return all;
}

struct CrossingSums {
  double volume = 0, ramp = 0, start = 0, ring = 0, tree = 0, exchange = 0, longest = 0;
};

/// Sums over the crossed levels. `loss` scales λ.
CrossingSums path_of(const std::vector<Crossing>& all, std::int64_t size, double loss) {
  CrossingSums path;
  const auto g = static_cast<double>(size);
  const auto volume_of = [&](const Crossing& c) { return c.per_byte() * (1 + loss * c.level->small_group / (g - 1)); };
  for (const Crossing& c : all) {
    const double alpha = c.level->latency.count();
    path.volume = std::max(path.volume, volume_of(c));
    path.start = std::max(path.start, c.level->start.count());
    path.ring += (g / static_cast<double>(c.below) - g / static_cast<double>(c.here)) * alpha;
    const FabricKind kind = c.level->kind;
    const bool network = kind == FabricKind::rail_optimized || kind == FabricKind::fat_tree || kind == FabricKind::ethernet;
    path.tree += (network ? log2_ceil(c.joined) : static_cast<double>(c.joined - 1)) * alpha;
    path.exchange += log2_ceil(c.joined) * alpha;
    path.longest = std::max(path.longest, alpha);
  }
  for (const Crossing& c : all) path.ramp = std::max(path.ramp, c.level->ramp * std::sqrt(volume_of(c) / path.volume));
  return path;
}

/// Returns the bytes up to which collectives over these levels use direct exchanges; 0: never.
double direct_limit(const std::vector<Crossing>& all) {
  double limit = all.empty() ? 0 : all.front().level->direct_bytes;
  for (const Crossing& c : all) limit = std::min(limit, c.level->direct_bytes);
  return limit;
}

/// Holds one algorithm of a collective: latency and bytes in seconds, and the ramp of the dominant level.
struct CollectiveAlgorithm {
  double latency = 0, volume = 0, ramp = 0;
  [[nodiscard]] double time() const { return ramped(latency, volume, ramp); }
};

/// Returns `times` direct exchanges of `bytes` a rank.
CollectiveAlgorithm everyone_to_everyone(const std::vector<Crossing>& all, std::int64_t size, double bytes, double times) {
  const CrossingSums path = path_of(all, size, 1.0);
  CollectiveAlgorithm way{path.start + times * path.longest, 0, 0};
  const auto volume_of = [&](const Crossing& c) {
    const double leaving = bytes * static_cast<double>(size - c.below) / static_cast<double>(size);
    const double own = 1 + c.level->small_group / static_cast<double>(size - 1);
    return times * leaving * own * congestion(*c.level, c.joined) / rate(*c.level, c.here - 1);
  };
  for (const Crossing& c : all) way.volume = std::max(way.volume, volume_of(c));
  for (const Crossing& c : all)
    if (way.volume > 0) way.ramp = std::max(way.ramp, c.level->ramp * std::sqrt(volume_of(c) / way.volume));
  return way;
}

/// Returns the time with the least, or the most, latency, bytes and ramp of all algorithms.
double of_any(std::initializer_list<CollectiveAlgorithm> ways, End end) {
  CollectiveAlgorithm out = *ways.begin();
  const auto pick = [end](double a, double b) { return end == End::least ? std::min(a, b) : std::max(a, b); };
  for (const CollectiveAlgorithm& way : ways)
    out = {pick(out.latency, way.latency), pick(out.volume, way.volume), pick(out.ramp, way.ramp)};
  return out.time();
}

}  // namespace

FabricTimes::FabricTimes(const View& view, double scale, End end)
    : end_(end), tree_(view.figures.tree_all_reduce), in_network_(view.figures.in_network_all_reduce), free_(view.free_network) {
  const NodeGroup& nodes = nodes_of(view);
  const std::vector<FabricLevel>& network = view.cluster->groups.size() > 1 ? nodes.inter : view.cluster->inter;
  levels_ = nodes.intra;
  levels_.insert(levels_.end(), network.begin(), network.end());
  for (FabricLevel& level : levels_) {
    level.efficiency /= scale;
    level.latency = Seconds(level.latency.count() * scale);
  }
}

RankGroup FabricTimes::listed_group(const Listed& stages, std::int64_t count, std::int64_t stride) const {
  RankGroup g;
  g.size = std::max<std::int64_t>(1, count);
  g.members.assign(levels_.size(), g.size);
  each_listed_group(stages, g.size, stride, [&](const std::vector<std::int64_t>& group) {
    for (std::size_t k = 0; k + 1 < levels_.size(); ++k) {
      const std::vector<std::int64_t> here = fall(group, levels_[k].span);
      const bool first = group.front() == stages.front().front();
      g.aligned = g.aligned && here.front() == here.back() && (first || g.members[k] == here.front());
      g.members[k] = std::min(g.members[k], here.front());
    }
  });
  return g;
}

RankGroup FabricTimes::group(const View& view, std::int64_t count, std::int64_t stride) const {
  if (view.listed != nullptr && count > 1) return listed_group(*view.listed, count, stride);
  RankGroup g;
  g.size = std::max<std::int64_t>(1, count);
  g.members.assign(levels_.size(), 1);
  const std::int64_t listed = std::min(g.size, kListed);
  for (std::size_t k = 0; k < levels_.size(); ++k) {
    const std::int64_t span = levels_[k].span;
    std::int64_t here = 0, most = 0, fewest = listed, domain = 0;
    for (std::int64_t n = 0; n < listed; ++n) {
      const std::int64_t at = device_of(view, 0, n * stride) / span;
      if (n > 0 && at != domain) {
        most = std::max(most, here);
        fewest = std::min(fewest, here);
        here = 0;
      }
      domain = at;
      ++here;
    }
    most = std::max(most, here);
    fewest = std::min(fewest, here);
    const bool aligned = most == fewest && fits(view, g.size * stride, span);
    g.aligned = g.aligned && aligned;
    g.members[k] = most;
    g.members[k] = std::clamp<std::int64_t>(g.members[k], 1, g.size);
  }
  if (!g.members.empty()) g.members.back() = g.size;
  return g;
}

RankGroup FabricTimes::context(const View& view) const {
  const Strategy& s = view.strategy;
  return group(view, s.cp, s.order == RankOrder::tp_dp_cp_pp ? std::int64_t{s.tp} * s.dp : s.tp);
}

RankGroup FabricTimes::shard(const View& view) const {
  const Strategy& s = view.strategy;
  return group(view, s.shards_optimizer() ? s.shard : s.data_ranks(), s.sp == SequenceParallel::ulysses ? 1 : s.tp);
}

RankGroup FabricTimes::replicas(const View& view) const {
  const Strategy& s = view.strategy;
  if (!s.shards_optimizer()) return group(view, 1, 1);
  return group(view, s.data_ranks() / s.shard, (s.sp == SequenceParallel::ulysses ? 1 : std::int64_t{s.tp}) * s.shard);
}

RankGroup FabricTimes::expert_replicas(const View& view) const {
  return group(view, view.strategy.expert_data_ranks(), std::int64_t{view.strategy.ep} * view.strategy.etp);
}

double FabricTimes::bytes_alone(const RankGroup& g, double bytes) const {
  double least = std::numeric_limits<double>::infinity();
  for (const FabricLevel& level : levels_) least = std::min(least, bytes / (static_cast<double>(g.size) * rate(level, g.size)));
  return std::isfinite(least) ? least : 0;
}

double FabricTimes::alone_on_slowest(const RankGroup& g, double bytes) const {
  double most = 0;
  const auto size = static_cast<double>(g.size);
  for (const FabricLevel& level : levels_) {
    const double latency = level.start.count() + 2 * size * level.latency.count();
    const double volume = bytes * congestion(level, g.size) * (1 + level.small_group) / rate(level, 1);
    most = std::max(most, ramped(latency, volume, level.ramp));
  }
  return most;
}

double FabricTimes::gather(const RankGroup& g, double bytes, Sizes sizes) const {
  if (free_ || g.size <= 1 || bytes <= 0) return 0;
  const double moved = bytes * static_cast<double>(g.size - 1) / static_cast<double>(g.size);
  if (!g.aligned) return unplaced(g, moved);
  const std::vector<Crossing> all = crossings(levels_, g);
  const CrossingSums path = path_of(all, g.size, 1.0);
  const CollectiveAlgorithm ring{path.start + path.ring, moved * path.volume, path.ramp};
  const double limit = direct_limit(all);
  if (limit <= 0) return ring.time();
  const CollectiveAlgorithm direct = everyone_to_everyone(all, g.size, bytes, 1);
  if (sizes == Sizes::any) return of_any({direct, ring}, end_);
  return bytes <= limit ? direct.time() : ring.time();
}

double FabricTimes::reduce(const RankGroup& g, double bytes, Sizes sizes) const {
  if (free_ || g.size <= 1 || bytes <= 0) return 0;
  if (!g.aligned) return unplaced(g, end_ == End::least ? bytes : 2 * bytes);
  const std::vector<Crossing> all = crossings(levels_, g);
  const CrossingSums path = path_of(all, g.size, 0.5);
  const double moved = bytes * static_cast<double>(g.size - 1) / static_cast<double>(g.size);
  const CollectiveAlgorithm ring{path.start + 2 * path.ring, 2 * moved * path.volume, path.ramp};
  if (const double limit = direct_limit(all); limit > 0) {
    const double copies = bytes * static_cast<double>(g.size);
    const CollectiveAlgorithm twice = everyone_to_everyone(all, g.size, bytes, 2);
    const CollectiveAlgorithm once = everyone_to_everyone(all, g.size, sizes == Sizes::any ? std::min(copies, limit) : copies, 1);
    if (sizes == Sizes::any && end_ == End::least) return of_any({{once.latency, twice.volume, once.ramp}, twice, ring}, end_);
    if (sizes == Sizes::any) return of_any({once, twice, ring}, end_);
    return copies <= limit ? once.time() : bytes <= limit ? twice.time() : ring.time();
  }
  double best = ring.time();
  if (path.tree < path.ring) best = std::min(best, ramped(path.start + 2 * path.tree, ring.volume / tree_, path.ramp));
  if (all.size() == 1 && all.front().level->in_network_reduction) {
    const double inside = bytes * all.front().per_byte() / in_network_;
    best = std::min(best, ramped(path.start + 2 * all.front().level->latency.count(), inside, path.ramp));
  }
  return best;
}

double FabricTimes::exchange(const RankGroup& g, double bytes) const {
  if (free_ || g.size <= 1 || bytes <= 0) return 0;
  if (!g.aligned) return end_ == End::least ? 0 : alone_on_slowest(g, bytes);
  const std::vector<Crossing> all = crossings(levels_, g);
  const CrossingSums path = path_of(all, g.size, 1.0);
  const CollectiveAlgorithm direct = everyone_to_everyone(all, g.size, bytes, 1);
  if (direct_limit(all) <= 0) return ramped(path.start + path.exchange, direct.volume, direct.ramp);
  const CollectiveAlgorithm rounds{path.start + static_cast<double>(g.size - 1) * path.longest, direct.volume, direct.ramp};
  return of_any({direct, rounds}, end_);
}

std::int64_t FabricTimes::by_nvlink(const RankGroup& g) const {
  std::size_t level = 0;
  while (level + 1 < levels_.size() && levels_[level + 1].kind == FabricKind::nvl72) ++level;
  return g.members.empty() ? 1 : g.members[std::min(level, g.members.size() - 1)];
}

double FabricTimes::link(std::size_t level, double bytes) const {
  const FabricLevel& l = levels_[level];
  return l.start.count() + l.latency.count() + bytes / rate(l, 1);
}

double FabricTimes::ring_step(const RankGroup& g, double bytes) const {
  if (free_ || g.size <= 1) return 0;
  if (!g.aligned) return end_ == End::least ? 0 : alone_on_slowest(g, bytes);
  const std::vector<Crossing> all = crossings(levels_, g);
  const FabricLevel& top = *all.back().level;
  return top.start.count() + top.latency.count() + bytes / rate(top, 1);
}

double FabricTimes::message(const View& view, std::int32_t from, std::int32_t to, double bytes) const {
  if (free_ || levels_.empty() || from == to) return 0;
  const std::int64_t size = std::int64_t{view.strategy.tp} * view.strategy.cp * view.strategy.dp;
  std::size_t level = 0;
  if (view.listed != nullptr) {
    const auto &a = view.listed->at(static_cast<std::size_t>(from)), &b = view.listed->at(static_cast<std::size_t>(to));
    for (std::size_t n = 0; n < a.size(); ++n)
      while (level + 1 < levels_.size() && a[n] / levels_[level].span != b[n] / levels_[level].span) ++level;
    return link(level, bytes);
  }
  bool aligned = true;
  for (const FabricLevel& l : levels_) aligned = aligned && fits(view, size, l.span);
  for (const std::int64_t n : {std::int64_t{0}, size - 1}) {
    const std::int64_t a = device_of(view, from, n), b = device_of(view, to, n);
    while (level + 1 < levels_.size() && a / levels_[level].span != b / levels_[level].span) ++level;
  }
  double time = link(level, bytes);
  if (aligned) return time;
  for (std::size_t k = 0; k < levels_.size(); ++k)
    time = end_ == End::most ? std::max(time, link(k, bytes)) : std::min(time, link(k, bytes));
  return time;
}

namespace {

/// Returns the seconds of a message over named links between groups. All devices of the smaller stage move their
/// bytes together, at the rate of the links and of the nodes' interfaces.
double named_message(const View& view, const Stage& from, const Stage& to, std::size_t a, std::size_t b, double bytes) {
  const auto nodes = [&](const Stage& stage, std::size_t group) {
    const DeviceRange& range = stage.devices.front();
    const std::int64_t base = first_device_of(*view.cluster, group), node = view.cluster->groups[group].devices_per_node;
    return static_cast<double>((range.first + range.count - 1 - base) / node - (range.first - base) / node + 1);
  };
  const double n = nodes(from, a), m = nodes(to, b);
  const GroupPath way = view.cluster->path(a, b);
  double rate = way.links.empty() ? way.bandwidth.count() * std::min(n, m) : std::numeric_limits<double>::infinity();
  for (const std::size_t link : way.links) {
    const GroupLink& l = view.cluster->links[link];
    const double ways = l.sharing == LinkSharing::line ? 1 : l.sharing == LinkSharing::node ? std::min(n, m) : n * m;
    rate = std::min(rate, ways * l.bandwidth.count());
  }
  const double out = view.cluster->groups[a].node_bandwidth.count() * n, in = view.cluster->groups[b].node_bandwidth.count() * m;
  if (out > 0) rate = std::min(rate, out);
  if (in > 0) rate = std::min(rate, in);
  const auto devices = static_cast<double>(std::min(from.devices.front().count, to.devices.front().count));
  return way.latency.count() + bytes * devices / rate;
}

}  // namespace

double unlike_message(const View& view, std::int32_t from, std::int32_t to, double bytes) {
  const std::vector<Stage>& stages = view.pipeline->stages;
  return stage_message(view, stages[static_cast<std::size_t>(from)], stages[static_cast<std::size_t>(to)], bytes);
}

double stage_message(const View& view, const Stage& from, const Stage& to, double bytes) {
  if (view.free_network) return 0;
  const std::size_t a = group_of_device(*view.cluster, from.devices.front().first),
                    b = group_of_device(*view.cluster, to.devices.front().first);
  if (a != b && !view.cluster->links.empty()) return named_message(view, from, to, a, b, bytes);
  if (a != b) {
    double time = 0;
    // These levels are on the path: the level that joins the groups, and the network of each.
    std::vector<FabricLevel> way = {view.cluster->inter.back()};
    double slowest = std::numeric_limits<double>::infinity(), latency = 0;
    for (const std::size_t g : {a, b}) {
      const NodeGroup& end = view.cluster->groups[g];
      if (!end.inter.empty())
        way.push_back(end.inter.back());
      else if (end.node_bandwidth.count() > 0)  // the interfaces of its only node, shared by all devices
        slowest = std::min(slowest, end.node_bandwidth.count() / static_cast<double>(end.devices_per_node));
    }
    for (const FabricLevel& level : way) {
      slowest = std::min(slowest, rate(level, 1));
      latency = std::max(latency, level.latency.count());
      time = std::max(time, level.start.count());
    }
    return time + latency + bytes / slowest;
  }
  std::vector<FabricLevel> levels = view.cluster->groups[a].intra;
  const std::vector<FabricLevel>& network = view.cluster->groups.size() > 1 ? view.cluster->groups[a].inter : view.cluster->inter;
  levels.insert(levels.end(), network.begin(), network.end());
  const std::int64_t base = first_device_of(*view.cluster, a);
  std::int64_t low = std::numeric_limits<std::int64_t>::max(), high = 0;
  for (const Stage* end : {&from, &to})
    for (const DeviceRange& range : end->devices) {
      low = std::min(low, range.first - base);
      high = std::max(high, range.first - base + (range.count - 1) * range.stride);
    }
  std::size_t level = 0;
  while (level + 1 < levels.size() && low / levels[level].span != high / levels[level].span) ++level;
  return levels[level].start.count() + levels[level].latency.count() + bytes / rate(levels[level], 1);
}

}  // namespace espalier::check
