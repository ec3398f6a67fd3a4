// SPDX-License-Identifier: Apache-2.0
#include "search/space.h"

#include <algorithm>
#include <array>

#include "base/invariant.h"
#include "plan/engine.h"
#include "plan/engine_rules.h"
#include "plan/recompute_modules.h"
#include "search/search.h"

namespace espalier::search {
namespace {

/// Lists the order in which dimensions are chosen, and where each group ends.
constexpr std::array kOrder = {
    Dimension::tp,           Dimension::cp,
    Dimension::pp,           Dimension::dp,
    Dimension::sp,           Dimension::cp_kind,
    Dimension::ep,           Dimension::etp,
    Dimension::order,        Dimension::overlap_tp,
    Dimension::offload,      Dimension::micro_batch,  // layer group: 12
    Dimension::schedule,     Dimension::vpp,          // 14
    Dimension::zero,         Dimension::shard,        // 16
    Dimension::overlap_grad, Dimension::overlap_param,
    Dimension::overlap_p2p,                                // 19
    Dimension::recompute,    Dimension::recompute_layers,  // 21
};
static_assert(kOrder.size() == kDimensions);
constexpr std::size_t kLayer = 12, kSchedule = 14, kShard = 16, kOverlap = 19, kRecompute = 21;

void divisors(std::int64_t n, std::vector<std::int64_t>& out) {
  out.clear();
  for (std::int64_t d = 1; d * d <= n; ++d) {
    if (n % d != 0) continue;
    out.push_back(d);
    if (d != n / d) out.push_back(n / d);
  }
  std::sort(out.begin(), out.end());
}

void first_integers(std::int64_t from, std::int64_t to, std::vector<std::int64_t>& out) {
  out.clear();
  for (std::int64_t v = from; v <= to; ++v) out.push_back(v);
}

/// Returns whether the values of a dimension depend on those before it; for the others each word or flag is tried.
bool listed(Dimension d) {
  constexpr DimensionSet kListed = bit(Dimension::tp) | bit(Dimension::cp) | bit(Dimension::pp) | bit(Dimension::dp) |
                                   bit(Dimension::ep) | bit(Dimension::etp) | bit(Dimension::micro_batch) | bit(Dimension::vpp) |
                                   bit(Dimension::zero) | bit(Dimension::shard) | bit(Dimension::recompute_layers);
  return (kListed & bit(d)) != 0;
}

std::vector<Recompute> recomputes_in(const SearchSpace& space, const Model& model, const EngineModel& engine) {
  std::vector<Recompute> out;
  for (const RecomputeKind kind : {RecomputeKind::none, RecomputeKind::selective, RecomputeKind::full})
    if (space.admits(Dimension::recompute, kind)) out.push_back({kind, kind == RecomputeKind::full ? 1 : 0});
  if (!space.admits(Dimension::recompute, kModuleSets)) return out;
  for (const RecomputeModules set : module_sets(engine, model)) {
    const bool listed = space.admits(Dimension::recompute, RecomputeKind::selective) && set == selective_modules(engine, model);
    if (!listed) out.push_back({RecomputeKind::selective, 0, set});
  }
  return out;
}

bool contains_value(const std::vector<std::int64_t>& values, std::int64_t v) {
  return std::find(values.begin(), values.end(), v) != values.end();
}

}  // namespace

std::vector<Recompute> layer_recomputes(const Problem& problem) {
  return recomputes_in(problem.space, *problem.model, *problem.engine);
}

bool takes_partition(const Strategy& s) {
  return s.tp > 1 && (s.tp & (s.tp - 1)) == 0 && s.sp == SequenceParallel::none && s.cp == 1 && s.ep == 1 && s.etp == 1 &&
         !s.overlap.tp;
}

const std::vector<BlockPartition>* PartitionChoices::of(const Configuration& c) const {
  if (!takes_partition(c.strategy)) return nullptr;
  const auto found = offers.find({c.strategy.tp, c.schedule.micro_batch});
  return found == offers.end() ? nullptr : &found->second.partitions;
}

bool Space::Admitted::operator()(std::int64_t v) const {
  return v <= limit && (!restricted || contains_value(allow, v)) && !contains_value(forbid, v);
}

Space::Space(const Model& model, const Cluster& cluster, const Training& training, const EngineModel& engine,
             const SearchSpace& space, const PartitionChoices* partitions, bool at_least)
    : engine_(&engine),
      partitions_(partitions),
      facts_(rule_facts(model, cluster, training, engine.split)),
      layer_recomputes_(recomputes_in(space, model, engine)),
      selective_(selective_modules(engine, model)),
      admitted_(kDimensions),
      rules_at_(kDimensions),
      engine_rules_at_(kDimensions) {
  facts_.at_least = at_least;
  const auto slot = [&](Dimension d) -> Admitted& { return admitted_[static_cast<std::size_t>(d)]; };
  for (const Dimension off_unless_named : {Dimension::overlap_tp, Dimension::offload}) {
    if (space.allowed.contains(off_unless_named) || space.forbidden.contains(off_unless_named)) continue;
    Admitted& admitted = slot(off_unless_named);
    admitted.allow = {0};
    admitted.restricted = true;
  }
  for (const auto& [dimension, values] : space.allowed) {
    slot(dimension).allow = values;
    slot(dimension).restricted = true;
  }
  for (const auto& [dimension, values] : space.forbidden) slot(dimension).forbid = values;
  if (!space.allowed.contains(Dimension::schedule))
    for (const ScheduleKind kind : kScheduleKinds)
      if (only_where_allowed(kind)) slot(Dimension::schedule).forbid.push_back(static_cast<std::int64_t>(kind));
  for (const auto& [dimension, most] : space.limits) slot(dimension).limit = most;
  DimensionSet known = 0, before = 0;
  for (std::size_t i = 0; i < kOrder.size(); ++i, before = known) {
    known |= bit(kOrder[i]);
    const auto decided_here = [&](DimensionSet reads) { return (reads & ~known) == 0 && (i == 0 || (reads & ~before) != 0); };
    for (const Rule& rule : rules())
      if (decided_here(rule.reads)) rules_at_[i].push_back(&rule);
    for (const EngineRule& rule : engine_rules())
      if (rule.applies(engine) && decided_here(rule.reads)) engine_rules_at_[i].push_back(&rule);
  }
  expert_divisors_ = {1};
  for (const std::int32_t experts : facts_.experts) {
    std::vector<std::int64_t> more;
    divisors(experts, more);
    expert_divisors_.insert(expert_divisors_.end(), more.begin(), more.end());
  }
  std::sort(expert_divisors_.begin(), expert_divisors_.end());
  expert_divisors_.erase(std::unique(expert_divisors_.begin(), expert_divisors_.end()), expert_divisors_.end());
}

void Space::values(Dimension d, const Configuration& c, std::vector<std::int64_t>& out) const {
  const Strategy& s = c.strategy;
  const std::int64_t world = facts_.devices;
  switch (d) {
    case Dimension::tp: divisors(world, out); break;
    case Dimension::cp: divisors(world / s.tp, out); break;
    case Dimension::pp: divisors(world / (std::int64_t{s.tp} * s.cp), out); break;
    case Dimension::dp: out = {world / (std::int64_t{s.tp} * s.cp * c.schedule.stages)}; break;
    case Dimension::ep: out = expert_divisors_; break;
    case Dimension::etp:
      out = {1};
      if (s.tp > 1) out.push_back(s.tp);
      break;
    case Dimension::micro_batch:
      if (facts_.at_least) {
        out.clear();
        for (std::int64_t v = 1; v <= (facts_.global_batch + s.dp - 1) / s.dp; v = rung_end(v) + 1) out.push_back(v);
      } else if (facts_.global_batch % s.dp == 0)
        divisors(facts_.global_batch / s.dp, out);
      else
        out.clear();
      break;
    case Dimension::vpp:
      first_integers(1, c.schedule.kind == ScheduleKind::interleaved ? facts_.layers / c.schedule.stages : 2, out);
      break;
    case Dimension::zero: first_integers(0, value_count(d) - 1, out); break;
    case Dimension::shard: divisors(s.shards_optimizer() ? s.data_ranks() : 1, out); break;
    case Dimension::recompute_layers: {
      const auto chunks = static_cast<std::size_t>(c.schedule.stages) * static_cast<std::size_t>(c.schedule.virtual_stages);
      const std::int32_t most = chunks < facts_.largest_chunk.size() ? facts_.largest_chunk[chunks] : 0;
      first_integers(s.recompute.kind == RecomputeKind::full ? 1 : 0, s.recompute.kind == RecomputeKind::full ? most : 0, out);
      break;
    }
    default: ESPALIER_CHECK(!listed(d));
  }
}

bool Space::decided_rules_hold(std::size_t depth, const Configuration& c) const {
  for (const Rule* rule : rules_at_[depth])
    if (!rule->holds(facts_, c.strategy, c.schedule)) return false;
  for (const EngineRule* rule : engine_rules_at_[depth])
    if (!rule->holds(*engine_, facts_, c.strategy, c.schedule)) return false;
  return true;
}

void Space::descend(std::size_t depth, std::size_t end, Configuration& c, const Visit& visit) const {
  if (depth == end) {
    visit(c);
    return;
  }
  const Dimension d = kOrder[depth];
  if (d == Dimension::recompute && c.strategy.recompute.modules.any()) {  // chosen in the layer group
    if (decided_rules_hold(depth, c)) descend(depth + 1, end, c, visit);
    return;
  }
  const std::int64_t before = get(d, c.strategy, c.schedule);
  const auto choose = [&](std::int64_t v) {
    if (!admitted_[static_cast<std::size_t>(d)](v)) return;
    set(d, v, c.strategy, c.schedule);
    if (d == Dimension::micro_batch || (facts_.at_least && d == Dimension::schedule))
      c.schedule.microbatches = static_cast<std::int32_t>(microbatches_of(facts_, c.strategy, c.schedule));
    if (decided_rules_hold(depth, c)) descend(depth + 1, end, c, visit);
  };
  if (listed(d)) {
    std::vector<std::int64_t> candidates;
    values(d, c, candidates);
    for (const std::int64_t v : candidates) choose(v);
  } else {
    for (std::int64_t v = 0; v < enum_size(d); ++v) choose(v);
  }
  set(d, before, c.strategy, c.schedule);
  if (facts_.at_least && d == Dimension::schedule)
    c.schedule.microbatches = static_cast<std::int32_t>(microbatches_of(facts_, c.strategy, c.schedule));
}

void Space::layer_group(const Visit& visit) const {
  Configuration c;
  descend(0, kLayer, c, [&](const Configuration& plain) {
    visit(plain);
    for (const Recompute& how : layer_recomputes_) {
      if (!how.modules.any()) continue;
      Configuration with = plain;
      with.strategy.recompute = how;
      visit(with);
    }
    if (partitions_ == nullptr) return;
    const std::vector<BlockPartition>* partitions = partitions_->of(plain);
    if (partitions == nullptr) return;
    Configuration with = plain;
    for (const BlockPartition& partition : *partitions) {
      with.strategy.partition = partition;
      visit(with);
    }
  });
}
void Space::schedule_group(const Configuration& base, const Visit& visit) const {
  Configuration c = base;
  descend(kLayer, kSchedule, c, visit);
}
void Space::shard_group(const Configuration& base, const Visit& visit) const {
  Configuration c = base;
  descend(kSchedule, kShard, c, visit);
}
void Space::overlap_group(const Configuration& base, const Visit& visit) const {
  Configuration c = base;
  descend(kShard, kOverlap, c, visit);
}
void Space::recompute_group(const Configuration& base, const Visit& visit) const {
  Configuration c = base;
  descend(kOverlap, kRecompute, c, visit);
}
void Space::for_each(const Visit& visit) const {
  layer_group([&](const Configuration& a) {
    Configuration c = a;
    descend(kLayer, kRecompute, c, visit);
  });
}

Space::Key Space::shard_key(const Configuration& c) const {
  const Strategy& s = c.strategy;
  // The rules of the space only test whether the schedule is a zero-bubble one.
  const std::int64_t kind = splits_backward(c.schedule.kind) ? 1 : 0;
  const std::int64_t reduces = replicates_weights(!facts_.experts.empty(), s) ? 1 : 0;
  const auto offload = static_cast<std::int64_t>(s.offload);
  if (engine_->family == EngineFamily::generic)
    return {c.schedule.stages, s.data_ranks(), kind, !s.partition.empty(), reduces, offload};
  return {c.schedule.stages,
          s.data_ranks(),
          static_cast<std::int64_t>(c.schedule.kind),
          s.tp,
          s.cp,
          static_cast<std::int64_t>(s.sp),
          s.ep,
          c.schedule.virtual_stages,
          reduces,
          offload};
}

Space::Shards Space::shards_below(const Configuration& b) const {
  Shards out;
  shard_group(b, [&](const Configuration& s) {
    ShardChoice choice{s.strategy.zero, s.strategy.shard, {}};
    overlap_group(s, [&](const Configuration& o) {
      choice.overlaps.push_back(o.strategy.overlap);
      choice.overlaps.back().tp = false;
    });
    out.leaves += static_cast<double>(choice.overlaps.size());
    out.choices.push_back(std::move(choice));
  });
  return out;
}

Space::RecomputeKey Space::recompute_key(const Configuration& b) {
  return {b.schedule.stages, b.schedule.virtual_stages, !b.strategy.partition.empty(),
          static_cast<std::int32_t>(b.strategy.offload), b.strategy.recompute.modules.bits()};
}

Space::ProductKey Space::product_key(const Configuration& a) const {
  return {shard_key(a), a.schedule.microbatches, a.strategy.recompute.modules};
}

double Space::leaves(const Configuration& a) {
  const ProductKey key = product_key(a);
  if (const auto found = products_.find(key); found != products_.end()) return found->second.leaves;
  Schedules all;
  schedule_group(a, [&](const Configuration& b) {
    all.choices.push_back({b.schedule.kind, b.schedule.virtual_stages, b.schedule.microbatches});
    const auto [shards, is_first] = shards_.try_emplace(shard_key(b));
    if (is_first) shards->second = shards_below(b);
    const auto [entry, is_new] = recomputes_.try_emplace(recompute_key(b));
    auto& recomputations = entry->second;  // not a structured binding: closures in clang 14 cannot capture one
    if (is_new) recompute_group(b, [&](const Configuration& r) { recomputations.push_back(r.strategy.recompute); });
    all.leaves += shards->second.leaves * static_cast<double>(recomputations.size());
  });
  const double leaves = all.leaves;
  products_[key] = std::move(all);
  return leaves;
}

double Space::leaves_of_schedule(const Configuration& b) const {
  const auto shards = shards_.find(shard_key(b));
  ESPALIER_CHECK(shards != shards_.end());
  return shards->second.leaves * static_cast<double>(recomputes(b).size());
}

const std::vector<Recompute>& Space::recomputes(const Configuration& b) const {
  const auto found = recomputes_.find(recompute_key(b));
  ESPALIER_CHECK(found != recomputes_.end());
  return found->second;
}

const std::vector<Space::ScheduleChoice>& Space::schedules(const Configuration& a) const {
  const auto found = products_.find(product_key(a));
  ESPALIER_CHECK(found != products_.end());
  return found->second.choices;
}

const std::vector<Space::ShardChoice>& Space::shards(const Configuration& b) const {
  const auto found = shards_.find(shard_key(b));
  ESPALIER_CHECK(found != shards_.end());
  return found->second.choices;
}

bool Space::contains(const Configuration& c) const {
  if (!is_legal(facts_, c.strategy, c.schedule) || !engine_allows(*engine_, facts_, c.strategy, c.schedule)) return false;
  if (!c.strategy.partition.empty()) {
    const std::vector<BlockPartition>* partitions = partitions_ != nullptr ? partitions_->of(c) : nullptr;
    if (partitions == nullptr || std::find(partitions->begin(), partitions->end(), c.strategy.partition) == partitions->end())
      return false;
  }
  const Recompute& own = c.strategy.recompute;
  const bool chosen =
      own.modules.any() && std::find(layer_recomputes_.begin(), layer_recomputes_.end(), own) != layer_recomputes_.end();
  const bool meant = own.kind == RecomputeKind::selective && own.modules == selective_;
  if (own.modules.any() && !chosen && !meant) return false;
  return std::all_of(kOrder.begin(), kOrder.end(), [&](Dimension d) {
    return (d == Dimension::recompute && chosen) || admitted_[static_cast<std::size_t>(d)](get(d, c.strategy, c.schedule));
  });
}

}  // namespace espalier::search
