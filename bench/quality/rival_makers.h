// SPDX-License-Identifier: Apache-2.0
// Makes random rivals of an answer, and small changes of rivals that were fast.
#pragma once

#include <array>
#include <map>
#include <string_view>

#include "random.h"
#include "rival_field.h"

namespace espalier::bench {

using property::Random;

enum class RivalKind : std::uint8_t { whole, alone, pipelines, chain, replicas, fewer, edited };
inline constexpr std::array<std::string_view, 7> kRivalKinds = {"whole",    "alone", "pipelines", "chain",
                                                                "replicas", "fewer", "edited"};

class Makers {
 public:
  Makers(Field& field, Random& random) : field_(field), random_(random) {}

  /// Makes a random rival; empty if a few tries found none.
  Rival make(RivalKind kind);
  /// Makes a legal neighbour; empty if none was found.
  Rival change(const Rival& from);

 private:
  static constexpr int kTries = 60;

  std::int64_t divisor_of(std::int64_t n, std::int64_t most);
  bool draw(std::int64_t devices, std::int64_t samples, Strategy& s, Schedule& schedule);
  void draw_schedule(Schedule& schedule);
  void draw_states(Strategy& s, const Schedule& schedule);
  void draw_recompute(Strategy& s, const Schedule& schedule);
  void repair(Strategy& s, const Schedule& schedule);

  Rival one(std::vector<std::int64_t> region);
  Rival whole() { return one(run_of(0, field_.cluster().devices())); }
  Rival alone();
  Rival fewer();
  Rival pipelines();
  Rival balanced_pipelines();
  Rival chain();
  Rival replicas();
  std::vector<std::size_t> some_groups(std::size_t least);
  std::vector<DeviceRange> tiles(std::size_t g);
  Strategy stage_strategy(std::int64_t devices, std::int64_t node, std::int64_t samples);
  std::vector<std::int64_t> deal(const std::vector<double>& paces, std::int64_t samples, std::int64_t least);

  bool change_uniform(Part& part);
  bool change_stages(Part& part);
  bool move_boundary(Part& part);
  bool change_stage(Part& part);
  bool swap_stages(Part& part);
  bool change_samples_at_once(Part& part);
  bool change_replicas(Part& part);
  bool move_samples(Rival& rival);
  bool divide(Part& part);
  void set_blocks(LayerRange& range);

  /// Holds a pipeline on a group that was fast for its samples.
  struct Known {
    Part part;
    std::int64_t ns = 0;
  };
  /// Returns the fastest pipeline that some tries find for this many samples on a group; null if none fits.
  std::optional<Known> known(std::size_t g, std::int64_t samples);
  void try_part(std::size_t g, std::int64_t samples, Known& best);
  [[nodiscard]] double pace_of(std::size_t g);

  Field& field_;
  Random& random_;
  std::map<std::pair<std::size_t, std::int64_t>, Known> known_;
};

inline std::int64_t Makers::divisor_of(std::int64_t n, std::int64_t most) {
  std::vector<std::int64_t> all;
  for (std::int64_t d = 1; d <= std::min(n, most); ++d)
    if (n % d == 0) all.push_back(d);
  return random_.of(all);
}

inline void Makers::draw_schedule(Schedule& schedule) {
  schedule.kind = ScheduleKind::one_f_one_b;
  schedule.virtual_stages = 1;
  if (schedule.stages == 1) return;
  schedule.kind = static_cast<ScheduleKind>(random_.below(5));
  const std::int64_t most = field_.layers() / schedule.stages;
  if (schedule.kind == ScheduleKind::zb_v) schedule.virtual_stages = 2;
  if (schedule.kind == ScheduleKind::interleaved)
    schedule.virtual_stages = static_cast<std::int32_t>(random_.between(2, std::max<std::int64_t>(2, most)));
}

inline void Makers::draw_recompute(Strategy& s, const Schedule& schedule) {
  const std::int64_t roll = random_.below(6);
  s.recompute.kind = roll < 3 ? RecomputeKind::none : roll < 4 ? RecomputeKind::selective : RecomputeKind::full;
  s.recompute.layers = 0;
  if (s.recompute.kind != RecomputeKind::full) return;
  const std::int32_t chunks = schedule.chunks();
  if (chunks > field_.layers()) return;
  const std::int32_t most = largest_chunk_blocks(field_.model(), field_.split(chunks));
  s.recompute.layers = random_.one_in(2) ? most : static_cast<std::int32_t>(random_.between(1, std::max(1, most)));
}

inline void Makers::draw_states(Strategy& s, const Schedule& schedule) {
  s.zero = static_cast<ZeroStage>(random_.below(4));
  s.shard = 1;
  if (s.shards_optimizer())
    s.shard = static_cast<std::int32_t>(random_.one_in(3) ? divisor_of(s.data_ranks(), s.data_ranks()) : s.data_ranks());
  if (s.data_ranks() == 1) s.zero = ZeroStage::none;
  if (s.zero == ZeroStage::none) s.shard = 1;
  s.overlap.grad_reduce = replicates_weights(!field_.facts().experts.empty(), s) && !random_.one_in(4);
  s.overlap.param_gather = s.shards_optimizer() && !random_.one_in(4);
  s.overlap.p2p = schedule.stages > 1 && !random_.one_in(4);
}

/// Sets fields that follow from others, and gives fields without a meaning their canonical value.
inline void Makers::repair(Strategy& s, const Schedule& schedule) {
  if (s.tp == 1 && s.sp != SequenceParallel::none) s.sp = SequenceParallel::none;
  if (s.cp == 1) s.cp_kind = ContextParallelKind::ring;
  if (s.data_ranks() == 1) s.zero = ZeroStage::none;
  if (!s.shards_optimizer()) s.shard = 1;
  if (s.shards_optimizer() && s.data_ranks() % s.shard != 0) s.shard = static_cast<std::int32_t>(s.data_ranks());
  s.overlap.grad_reduce = s.overlap.grad_reduce && replicates_weights(!field_.facts().experts.empty(), s);
  s.overlap.param_gather = s.overlap.param_gather && s.shards_optimizer();
  s.overlap.p2p = s.overlap.p2p && schedule.stages > 1;
}

inline bool Makers::draw(std::int64_t devices, std::int64_t samples, Strategy& s, Schedule& schedule) {
  const bool experts = !field_.facts().experts.empty();
  for (int i = 0; i < kTries; ++i) {
    s = Strategy{};
    s.tp = static_cast<std::int32_t>(divisor_of(devices, 16));
    std::int64_t left = devices / s.tp;
    s.cp = random_.one_in(5) ? static_cast<std::int32_t>(divisor_of(left, 8)) : 1;
    left /= s.cp;
    schedule.stages = static_cast<std::int32_t>(random_.one_in(3) ? 1 : divisor_of(left, field_.layers()));
    s.dp = static_cast<std::int32_t>(left / schedule.stages);
    if (samples % s.dp != 0) continue;
    draw_schedule(schedule);
    if (std::int64_t{schedule.stages} * schedule.virtual_stages > field_.layers()) continue;
    s.sp = s.tp > 1 ? static_cast<SequenceParallel>(random_.below(3)) : SequenceParallel::none;
    if (s.cp > 1) s.cp_kind = static_cast<ContextParallelKind>(random_.below(2));
    if (experts) s.ep = static_cast<std::int32_t>(divisor_of(8, 8));
    if (experts && random_.one_in(3)) s.etp = s.tp;
    s.order = static_cast<RankOrder>(random_.below(3));
    schedule.micro_batch = static_cast<std::int32_t>(divisor_of(samples / s.dp, samples));
    schedule.microbatches = static_cast<std::int32_t>(samples / s.dp / schedule.micro_batch);
    draw_states(s, schedule);
    draw_recompute(s, schedule);
    if (field_.legal(s, schedule, devices, samples)) return true;
  }
  return false;
}

inline Rival Makers::one(std::vector<std::int64_t> region) {
  Part part;
  part.samples = field_.batch();
  if (!draw(static_cast<std::int64_t>(region.size()), part.samples, part.strategy, part.schedule)) return {};
  part.region = std::move(region);
  return {part};
}

inline Rival Makers::alone() {
  const auto g = static_cast<std::size_t>(random_.below(static_cast<std::int64_t>(field_.cluster().groups.size())));
  return one(run_of(field_.cluster().first_device(g), field_.group_size(g)));
}

inline std::vector<std::size_t> Makers::some_groups(std::size_t least) {
  std::vector<std::size_t> all(field_.cluster().groups.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  random_.shuffle(all);
  all.resize(static_cast<std::size_t>(random_.between(static_cast<std::int64_t>(least), static_cast<std::int64_t>(all.size()))));
  return all;
}

/// Makes a uniform plan on some groups in any order, or on the first nodes of each.
inline Rival Makers::fewer() {
  std::vector<std::int64_t> region;
  const bool cut = random_.one_in(2);
  for (const std::size_t g : some_groups(1)) {
    const NodeGroup& group = field_.cluster().groups[g];
    const std::int64_t nodes = cut ? random_.between(1, group.nodes) : group.nodes;
    const auto own = run_of(field_.cluster().first_device(g), nodes * group.devices_per_node);
    region.insert(region.end(), own.begin(), own.end());
  }
  return one(std::move(region));
}

/// Returns whole numbers near the proportions with some randomness, each at least `least`; empty if there are
/// too few samples.
inline std::vector<std::int64_t> Makers::deal(const std::vector<double>& paces, std::int64_t samples, std::int64_t least) {
  if (samples < least * static_cast<std::int64_t>(paces.size())) return {};
  double sum = 0;
  std::vector<double> wish;
  for (const double pace : paces) wish.push_back(pace * static_cast<double>(random_.between(70, 130)));
  for (const double w : wish) sum += w;
  std::vector<std::int64_t> out;
  std::int64_t left = samples;
  for (const double w : wish) {
    out.push_back(std::max(least, static_cast<std::int64_t>(static_cast<double>(samples) * w / sum)));
    left -= out.back();
  }
  for (std::size_t i = 0; left != 0; i = (i + 1) % out.size()) {
    const std::int64_t step = left > 0 ? 1 : out[i] > least ? -1 : 0;
    out[i] += step;
    left -= step;
  }
  return out;
}

inline Rival Makers::pipelines() {
  const std::vector<std::size_t> groups = some_groups(2);
  std::vector<double> paces;
  for (const std::size_t g : groups)
    paces.push_back(field_.pace(field_.cluster().first_device(g)) * static_cast<double>(field_.group_size(g)));
  for (int i = 0; i < 12; ++i) {
    const std::vector<std::int64_t> samples = deal(paces, field_.batch(), 1);
    if (samples.empty()) return {};
    Rival out;
    for (std::size_t k = 0; k < groups.size(); ++k) {
      const std::int64_t first = field_.cluster().first_device(groups[k]);
      Part part;
      part.region = run_of(first, field_.group_size(groups[k]));
      part.samples = samples[k];
      if (!draw(field_.group_size(groups[k]), part.samples, part.strategy, part.schedule)) break;
      out.push_back(std::move(part));
    }
    if (out.size() == groups.size()) return out;
  }
  return {};
}

/// Tries a random pipeline, one that was fast for other samples, or a change of the best so far.
inline void Makers::try_part(std::size_t g, std::int64_t samples, Known& best) {
  Part part;
  part.region = run_of(field_.cluster().first_device(g), field_.group_size(g));
  part.samples = samples;
  const std::int64_t roll = random_.below(3);
  if (roll == 0 && best.ns > 0) {
    part = best.part;
    if (!change_uniform(part)) return;
  } else if (roll == 1 && !known_.empty()) {
    auto at = known_.lower_bound({g, random_.between(1, field_.batch())});
    if (at == known_.end() || at->first.first != g || at->second.ns == 0) return;
    part = at->second.part;
    part.samples = samples;
    if (!divide(part) || !field_.legal(part.strategy, part.schedule, field_.group_size(g), samples)) return;
  } else if (!draw(field_.group_size(g), samples, part.strategy, part.schedule)) {
    return;
  }
  const auto judged = field_.judge_alone(part);
  if (judged && judged->fits && (best.ns == 0 || judged->ns < best.ns)) best = {part, judged->ns};
}

inline std::optional<Makers::Known> Makers::known(std::size_t g, std::int64_t samples) {
  Known best = known_[{g, samples}];
  const int tries = best.ns == 0 ? 40 : random_.one_in(2) ? 12 : 0;
  for (int i = 0; i < tries; ++i) try_part(g, samples, best);
  known_[{g, samples}] = best;
  return best.ns > 0 ? std::optional(best) : std::nullopt;
}

/// Returns the samples per second that a group has reached so far.
inline double Makers::pace_of(std::size_t g) {
  double most = 0;
  const auto half = std::max<std::int64_t>(1, field_.batch() / 2);
  if (!known_.contains({g, half})) known(g, half);
  for (const auto& [key, value] : known_)
    if (key.first == g && value.ns > 0) most = std::max(most, static_cast<double>(key.second) / static_cast<double>(value.ns));
  return most;
}

/// Makes pipelines on groups that end at about the same time, each fast by itself.
inline Rival Makers::balanced_pipelines() {
  const std::vector<std::size_t> groups = some_groups(2);
  std::vector<double> paces;
  for (const std::size_t g : groups) paces.push_back(pace_of(g));
  if (std::any_of(paces.begin(), paces.end(), [](double p) { return p <= 0; })) return {};
  std::vector<std::int64_t> samples = deal(paces, field_.batch(), 1);
  if (samples.empty()) return {};
  const std::int64_t grain = random_.of<std::int64_t>({1, 2, 2, 4, 8});
  for (std::size_t k = 1; k < samples.size(); ++k) {
    const std::int64_t moved = samples[k] % grain;
    if (samples[k] == moved) continue;
    samples[k] -= moved;
    samples[0] += moved;
  }
  Rival out;
  for (std::size_t k = 0; k < groups.size(); ++k) {
    auto own = known(groups[k], samples[k]);
    if (!own) return {};
    out.push_back(std::move(own->part));
  }
  return out;
}

/// Returns a group's devices as equal stages: a power of two inside a node, or whole nodes. Sometimes
/// leaves devices out.
inline std::vector<DeviceRange> Makers::tiles(std::size_t g) {
  const NodeGroup& group = field_.cluster().groups[g];
  const std::int64_t first = field_.cluster().first_device(g), all = field_.group_size(g);
  std::int64_t size = group.devices_per_node * divisor_of(group.nodes, group.nodes);
  if (random_.one_in(2) && group.devices_per_node > 1) size = divisor_of(group.devices_per_node, group.devices_per_node);
  std::vector<DeviceRange> out;
  for (std::int64_t at = 0; at + size <= all; at += size) out.push_back({first + at, size, 1});
  if (random_.one_in(4)) out.resize(static_cast<std::size_t>(random_.between(1, static_cast<std::int64_t>(out.size()))));
  return out;
}

inline Strategy Makers::stage_strategy(std::int64_t devices, std::int64_t node, std::int64_t samples) {
  Strategy s;
  do s.tp = static_cast<std::int32_t>(std::int64_t{1} << random_.below(4));
  while (s.tp > node || devices % s.tp != 0);
  s.dp = static_cast<std::int32_t>(devices / s.tp);
  if (samples % s.dp != 0) s.dp = 0;
  if (s.tp > 1 && random_.one_in(2)) s.sp = SequenceParallel::megatron;
  s.zero = static_cast<ZeroStage>(random_.below(4));
  if (s.dp <= 1) s.zero = ZeroStage::none;
  s.shard = s.shards_optimizer() ? s.dp : 1;
  if (!field_.facts().experts.empty() && devices > 0) s.ep = static_cast<std::int32_t>(std::int64_t{1} << random_.below(4));
  const std::int64_t roll = random_.below(5);
  s.recompute.kind = roll < 3 ? RecomputeKind::none : roll < 4 ? RecomputeKind::selective : RecomputeKind::full;
  if (s.dp > 0) {
    s.overlap.grad_reduce = replicates_weights(!field_.facts().experts.empty(), s);
    s.overlap.param_gather = s.shards_optimizer();
  }
  return s;
}

/// Sets full recomputation to all blocks of a stage.
inline void Makers::set_blocks(LayerRange& range) {
  Strategy& s = range.strategy;
  if (s.recompute.kind != RecomputeKind::full) return;
  s.recompute.layers = field_.blocks(range.first, range.last);
  if (s.recompute.layers == 0) s.recompute.kind = RecomputeKind::none;
}

inline Rival Makers::chain() {
  std::vector<DeviceRange> places;
  for (const std::size_t g : some_groups(1)) {
    const auto own = tiles(g);
    places.insert(places.end(), own.begin(), own.end());
  }
  if (random_.one_in(3)) random_.shuffle(places);
  const auto p = static_cast<std::int64_t>(places.size());
  if (p > std::min<std::int64_t>(field_.layers(), 24)) return {};
  std::vector<double> paces;
  for (const DeviceRange& at : places) paces.push_back(field_.pace(at.first) * static_cast<double>(at.count));
  const std::vector<std::int64_t> counts = deal(paces, field_.layers(), 1);
  Part part;
  part.uniform = false;
  part.samples = field_.batch();
  const std::int64_t at_once = divisor_of(field_.batch(), field_.batch());
  const Strategy common = stage_strategy(places.front().count, places.front().count, at_once);
  std::int32_t first = 0;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const NodeGroup& group = field_.cluster().groups[field_.cluster().group_of(places[i].first)];
    Strategy s = common;
    if (std::int64_t{s.tp} * s.dp != places[i].count || s.dp == 0 || random_.one_in(3))
      s = stage_strategy(places[i].count, std::min(group.devices_per_node, places[i].count), at_once);
    if (s.dp == 0) return {};
    s.overlap.p2p = p > 1;
    const auto end = static_cast<std::int32_t>(first + counts[i]);
    Stage stage;
    stage.devices = {places[i]};
    stage.chunks = {{{{first, end - 1, s}}}};
    set_blocks(stage.chunks.front().ranges.front());
    part.stages.push_back(std::move(stage));
    first = end;
  }
  part.schedule.stages = static_cast<std::int32_t>(p);
  part.schedule.microbatches = static_cast<std::int32_t>(field_.batch() / at_once);
  part.schedule.micro_batch = static_cast<std::int32_t>(at_once / part.stages.front().chunks.front().ranges.front().strategy.dp);
  Rival out = {part};
  return field_.legal(out) ? out : Rival{};
}

inline Rival Makers::replicas() {
  std::vector<std::size_t> groups = some_groups(2);
  std::sort(groups.begin(), groups.end());
  std::int64_t common = 0;
  std::vector<std::int64_t> region;
  for (const std::size_t g : groups) {
    common = std::gcd(common, field_.cluster().groups[g].devices_per_node);
    const auto own = run_of(field_.cluster().first_device(g), field_.group_size(g));
    region.insert(region.end(), own.begin(), own.end());
  }
  const std::int64_t at_once = divisor_of(field_.batch(), field_.batch());
  Strategy s = stage_strategy(static_cast<std::int64_t>(region.size()), common, at_once);
  s.ep = 1;
  if (s.dp <= 1) return {};
  Stage stage;
  stage.devices = ranges_of(region);
  std::vector<double> paces, room;
  for (std::int64_t r = 0; r < s.dp; ++r) {
    const std::int64_t device = region[static_cast<std::size_t>(r * s.tp)];
    paces.push_back(field_.pace(device));
    room.push_back(static_cast<double>(field_.cluster().usable_memory(field_.cluster().group_of(device)).count()));
  }
  const bool equal_only = field_.job().network == NetworkKind::flow;
  if (!random_.one_in(4) && !equal_only) {
    stage.samples_per_replica = deal(paces, at_once, 1);
    const auto& dealt = stage.samples_per_replica;
    if (dealt.empty()) return {};
    if (std::all_of(dealt.begin(), dealt.end(), [&](std::int64_t n) { return n == dealt.front(); }))
      stage.samples_per_replica.clear();
  }
  if (s.shards_optimizer() && random_.one_in(3) && !equal_only) {
    for (const double bytes : room)
      stage.state_shares.push_back(std::max<std::int64_t>(1, static_cast<std::int64_t>(bytes * 1e-9)));
    const auto& parts = stage.state_shares;
    if (std::all_of(parts.begin(), parts.end(), [&](std::int64_t n) { return n == parts.front(); })) stage.state_shares.clear();
  }
  stage.chunks = {{{{0, field_.layers() - 1, s}}}};
  set_blocks(stage.chunks.front().ranges.front());
  Part part;
  part.uniform = false;
  part.samples = field_.batch();
  part.schedule.micro_batch = static_cast<std::int32_t>(at_once / s.dp);
  part.schedule.microbatches = static_cast<std::int32_t>(field_.batch() / at_once);
  part.stages = {stage};
  Rival out = {part};
  return field_.legal(out) ? out : Rival{};
}

inline Rival Makers::make(RivalKind kind) {
  switch (kind) {
    case RivalKind::whole: return whole();
    case RivalKind::alone: return alone();
    case RivalKind::pipelines: return random_.one_in(3) ? pipelines() : balanced_pipelines();
    case RivalKind::chain: return chain();
    case RivalKind::replicas: return replicas();
    case RivalKind::fewer: return fewer();
    case RivalKind::edited: break;
  }
  return {};
}

// ---- changes ------------------------------------------------------------------------------------------------------

/// Divides the part's samples into micro-batches again.
inline bool Makers::divide(Part& part) {
  const std::int32_t dp = part.uniform ? part.strategy.dp : part.stages.front().chunks.front().ranges.front().strategy.dp;
  if (part.samples < dp || part.samples % dp != 0) return false;
  const std::int64_t before = part.schedule.micro_batch, each = part.samples / dp;
  part.schedule.micro_batch =
      static_cast<std::int32_t>(each % before == 0 && !random_.one_in(3) ? before : divisor_of(each, each));
  part.schedule.microbatches = static_cast<std::int32_t>(each / part.schedule.micro_batch);
  return true;
}

inline bool Makers::change_uniform(Part& part) {
  Strategy& s = part.strategy;
  Schedule& schedule = part.schedule;
  const auto devices = static_cast<std::int64_t>(part.region.size());
  const auto degrees = [&](std::int32_t& from, std::int32_t& to) {
    const std::int64_t factor = random_.of<std::int64_t>({2, 2, 3, 5});
    if (from % factor != 0) return false;
    from = static_cast<std::int32_t>(from / factor);
    to = static_cast<std::int32_t>(to * factor);
    return true;
  };
  switch (random_.below(14)) {
    case 0: degrees(s.tp, s.dp); break;
    case 1: degrees(s.dp, s.tp); break;
    case 2:
      degrees(s.dp, schedule.stages);
      draw_schedule(schedule);
      break;
    case 3:
      degrees(schedule.stages, s.dp);
      draw_schedule(schedule);
      break;
    case 4:
      degrees(schedule.stages, s.tp);
      draw_schedule(schedule);
      break;
    case 5: s.sp = static_cast<SequenceParallel>(random_.below(3)); break;
    case 6: s.order = static_cast<RankOrder>(random_.below(3)); break;
    case 7:
    case 8: draw_schedule(schedule); break;
    case 9: draw_states(s, schedule); break;
    case 10: draw_recompute(s, schedule); break;
    case 11: s.ep = static_cast<std::int32_t>(divisor_of(8, 8)); break;
    case 12: degrees(s.dp, s.cp); break;
    default:
      schedule.micro_batch = 1;
      part.samples % s.dp == 0 ? schedule.micro_batch = static_cast<std::int32_t>(divisor_of(part.samples / s.dp, part.samples))
                               : 1;
  }
  repair(s, schedule);
  if (part.samples % s.dp != 0) return false;
  const std::int64_t each = part.samples / s.dp;
  if (each % schedule.micro_batch != 0) schedule.micro_batch = static_cast<std::int32_t>(divisor_of(each, each));
  schedule.microbatches = static_cast<std::int32_t>(each / schedule.micro_batch);
  if (std::int64_t{schedule.stages} * schedule.virtual_stages > field_.layers()) return false;
  if (s.recompute.kind == RecomputeKind::full) {
    const std::int32_t most = largest_chunk_blocks(field_.model(), field_.split(schedule.chunks()));
    s.recompute.layers = std::clamp(s.recompute.layers, 1, std::max(1, most));
  }
  return field_.legal(s, schedule, devices, part.samples);
}

/// Moves a layer across a border between consecutive chunks.
inline bool Makers::move_boundary(Part& part) {
  const std::int32_t chunks = part.schedule.chunks();
  if (chunks < 2) return false;
  const auto c = static_cast<std::int32_t>(random_.below(chunks - 1));
  const ChunkPlace a = place_of_chunk(part.schedule, c), b = place_of_chunk(part.schedule, c + 1);
  const auto chunk = [&](const ChunkPlace& at) -> Chunk& {
    return part.stages[static_cast<std::size_t>(at.stage)].chunks[static_cast<std::size_t>(at.local_chunk)];
  };
  LayerRange& left = chunk(a).ranges.back();
  LayerRange& right = chunk(b).ranges.front();
  const bool all_left = left.strategy.recompute.layers == field_.blocks(left.first, left.last);
  const bool all_right = right.strategy.recompute.layers == field_.blocks(right.first, right.last);
  const auto by = static_cast<std::int32_t>(random_.of<std::int64_t>({1, 1, 1, 2, 3}) * (random_.one_in(2) ? 1 : -1));
  left.last += by;
  right.first += by;
  if (left.first > left.last || right.first > right.last) return false;
  if (all_left) set_blocks(left);
  if (all_right) set_blocks(right);
  return true;
}

inline bool Makers::change_stage(Part& part) {
  const std::int64_t at_once =
      std::int64_t{part.schedule.micro_batch} * part.stages.front().chunks.front().ranges.front().strategy.dp;
  Stage& stage = random_.of(part.stages) == part.stages.front()
                     ? part.stages.front()
                     : part.stages[static_cast<std::size_t>(random_.below(static_cast<std::int64_t>(part.stages.size())))];
  const auto devices = static_cast<std::int64_t>(devices_in(stage.devices).size());
  const std::int64_t node = field_.cluster().groups[field_.cluster().group_of(stage.devices.front().first)].devices_per_node;
  Strategy s = stage.chunks.front().ranges.front().strategy;
  const Strategy fresh = stage_strategy(devices, std::min(node, devices), at_once);
  if (fresh.dp == 0) return false;
  switch (random_.below(5)) {
    case 0: s.recompute = fresh.recompute; break;
    case 1:
      s.zero = fresh.dp == s.dp ? fresh.zero : s.zero;
      s.shard = s.shards_optimizer() ? static_cast<std::int32_t>(s.data_ranks()) : 1;
      break;
    case 2:
      s.sp = s.tp > 1 ? (s.sp == SequenceParallel::none ? SequenceParallel::megatron : SequenceParallel::none) : s.sp;
      break;
    default: {
      const Overlap before = s.overlap;
      s = fresh;
      s.overlap.p2p = before.p2p;
    }
  }
  if (stage.samples_per_replica.size() > 1 && s.dp != static_cast<std::int32_t>(stage.samples_per_replica.size())) return false;
  if (!stage.state_shares.empty() && s.shard != static_cast<std::int32_t>(stage.state_shares.size())) stage.state_shares.clear();
  s.overlap.grad_reduce = replicates_weights(!field_.facts().experts.empty(), s);
  s.overlap.param_gather = s.shards_optimizer();
  if (uneven_replicas(stage)) s.ep = 1;
  for (Chunk& chunk : stage.chunks)
    for (LayerRange& range : chunk.ranges) {
      range.strategy = s;
      set_blocks(range);
    }
  const std::int32_t dp = part.stages.front().chunks.front().ranges.front().strategy.dp;
  if (at_once % dp != 0) return false;
  part.schedule.micro_batch = static_cast<std::int32_t>(at_once / dp);
  return true;
}

/// Swaps the layers of two stages, and thereby their devices.
inline bool Makers::swap_stages(Part& part) {
  const auto p = static_cast<std::int64_t>(part.stages.size());
  if (p < 2 || part.schedule.virtual_stages != 1) return false;
  const auto i = static_cast<std::size_t>(random_.below(p)), j = static_cast<std::size_t>(random_.below(p));
  if (i == j || part.stages[i].chunks.front().ranges.size() != 1 || part.stages[j].chunks.front().ranges.size() != 1)
    return false;
  const std::int64_t at_once =
      std::int64_t{part.schedule.micro_batch} * part.stages.front().chunks.front().ranges.front().strategy.dp;
  std::swap(part.stages[i].devices, part.stages[j].devices);
  std::swap(part.stages[i].chunks.front().ranges.front().strategy, part.stages[j].chunks.front().ranges.front().strategy);
  set_blocks(part.stages[i].chunks.front().ranges.front());
  set_blocks(part.stages[j].chunks.front().ranges.front());
  const std::int32_t dp = part.stages.front().chunks.front().ranges.front().strategy.dp;
  if (at_once % dp != 0) return false;
  part.schedule.micro_batch = static_cast<std::int32_t>(at_once / dp);
  return true;
}

inline bool Makers::change_samples_at_once(Part& part) {
  const std::int32_t dp = part.stages.front().chunks.front().ranges.front().strategy.dp;
  if (uneven_replicas(part.stages.front()) || part.samples % dp != 0) return false;
  part.schedule.micro_batch = static_cast<std::int32_t>(divisor_of(part.samples / dp, part.samples));
  part.schedule.microbatches = static_cast<std::int32_t>(part.samples / dp / part.schedule.micro_batch);
  return true;
}

inline bool Makers::change_replicas(Part& part) {
  for (Stage& stage : part.stages) {
    std::vector<std::int64_t>& shares =
        !stage.state_shares.empty() && random_.one_in(2) ? stage.state_shares : stage.samples_per_replica;
    if (shares.size() < 2) return false;
    const auto n = static_cast<std::int64_t>(shares.size());
    std::int64_t& from = shares[static_cast<std::size_t>(random_.below(n))];
    std::int64_t& to = shares[static_cast<std::size_t>(random_.below(n))];
    if (&from == &to || from < 2) return false;
    --from;
    ++to;
    if (std::all_of(shares.begin(), shares.end(), [&](std::int64_t x) { return x == shares.front(); })) shares.clear();
  }
  return true;
}

inline bool Makers::change_stages(Part& part) {
  switch (random_.below(8)) {
    case 0:
    case 1: return move_boundary(part);
    case 2:
    case 3: return change_stage(part);
    case 4: return swap_stages(part);
    case 5: return change_samples_at_once(part);
    case 6: return change_replicas(part);
    default: part.schedule.kind = static_cast<ScheduleKind>(random_.below(5)); return part.schedule.stages > 1;
  }
}

inline bool Makers::move_samples(Rival& rival) {
  if (rival.size() < 2) return false;
  const auto n = static_cast<std::int64_t>(rival.size());
  Part& from = rival[static_cast<std::size_t>(random_.below(n))];
  Part& to = rival[static_cast<std::size_t>(random_.below(n))];
  if (&from == &to) return false;
  const std::int64_t some = random_.one_in(2) ? random_.between(1, 4) : random_.of<std::int64_t>({2, 4, 8});
  if (from.samples <= some) return false;
  from.samples -= some;
  to.samples += some;
  return divide(from) && divide(to);
}

inline Rival Makers::change(const Rival& from) {
  for (int i = 0; i < 20; ++i) {
    Rival rival = from;
    const std::int64_t steps = random_.one_in(3) ? 2 : 1;
    bool good = true;
    for (std::int64_t k = 0; k < steps && good; ++k) {
      if (k > 0 && !field_.legal(rival)) {  // a step needs a legal starting point
        good = false;
        break;
      }
      Part& part = rival[static_cast<std::size_t>(random_.below(static_cast<std::int64_t>(rival.size())))];
      if (rival.size() > 1 && random_.one_in(3)) {
        good = move_samples(rival);
      } else if (part.uniform && random_.one_in(12)) {
        part.stages = field_.pipeline(part, 0).stages;
        part.uniform = false;
        part.region.clear();
        good = move_boundary(part);
      } else {
        good = part.uniform ? change_uniform(part) : change_stages(part);
      }
    }
    if (good && field_.legal(rival)) return rival;
  }
  return {};
}

}  // namespace espalier::bench
