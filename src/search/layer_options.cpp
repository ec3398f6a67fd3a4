// SPDX-License-Identifier: Apache-2.0
#include "search/layer_options.h"
#include "plan/engine.h"
#include "plan/engine_rules.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>

namespace espalier::search {
namespace {

constexpr std::size_t kPolled = 16;  // options between two polls of `stop`

/// Returns whether `a` is nowhere worse than `b`.
bool covers(const cost::LayerShare& a, const cost::LayerShare& b) {
  return a.forward_ns + a.backward_ns <= b.forward_ns + b.backward_ns &&
         a.forward_ns + a.split_backward_ns <= b.forward_ns + b.split_backward_ns && a.reduce_ns <= b.reduce_ns &&
         a.hidden_ns <= b.hidden_ns && a.gather_ns <= b.gather_ns && a.update_bytes <= b.update_bytes &&
         a.state_bytes <= b.state_bytes && a.saved_bytes <= b.saved_bytes && a.transient_bytes <= b.transient_bytes &&
         a.buffer_bytes <= b.buffer_bytes;
}

}  // namespace

OptionTable::OptionTable(const Problem& problem, const Space& space, const CostBook& book,
                         const std::vector<Configuration>& bases, const LayerClass& shared, const std::function<bool()>& stop)
    : context_(&book.context()),
      shared_(shared),
      every_strategy_(is_unrestricted(problem.engine->layers)),
      kinds_(problem.model->kinds.size()),
      tied_(tied_table(*problem.model) || problem.engine->layers.embedding_as_head),
      embedding_(problem.model->layers.front()),
      head_(problem.model->layers.back()) {
  // Bytes that a kind sends per micro-batch, over all ranks; they do not depend on the strategy.
  std::vector<double> whole(kinds_.size(), 0.0);
  for (const Configuration& base : bases) {
    if (stop && stop()) return;
    stages_ = base.schedule.stages;
    price(problem, space, book, base);
  }
  for (std::size_t k = 0; k < kinds_.size() && !bases.empty(); ++k) {
    const cost::ActivationLayout l = cost::layout_of(bases.front().strategy);
    whole[k] = static_cast<double>(costs_.front()[k].boundary_bytes) * l.dp * l.cp * l.sequence_parts;
  }
  reduce(stop);
  fill_transitions(book, whole, stop);
}

void OptionTable::price(const Problem& problem, const Space& space, const CostBook& book, const Configuration& base) {
  const auto index = static_cast<std::int32_t>(costs_.size());
  costs_.emplace_back();
  cost::layer_costs(book.context(), base.strategy, base.schedule.stages, base.schedule.micro_batch, costs_.back());
  space.shard_group(base, [&](const Configuration& shard) {
    std::optional<Configuration> last;  // it has every possible overlap
    space.overlap_group(shard, [&](const Configuration& c) { last = c; });
    if (last) add(book, problem, space, *last, index);
  });
}

/// Returns whether the engine allows a layer the strategy, in a plan of this class.
bool OptionTable::allowed(const Problem& problem, const Space& space, Configuration own, const Strategy& s, bool block) const {
  if (every_strategy_) return true;
  if (!admits(problem.engine->layers, shared_, s, block)) return false;
  own.strategy = s;
  return engine_allows(*problem.engine, space.facts(), own.strategy, own.schedule);
}

void OptionTable::add(const CostBook& book, const Problem& problem, const Space& space, const Configuration& c,
                      std::int32_t base) {
  const cost::ActivationLayout layout = cost::layout_of(c.strategy);
  const auto at = std::find(layouts_.begin(), layouts_.end(), layout);
  const auto layout_index = static_cast<std::int32_t>(at - layouts_.begin());
  if (at == layouts_.end()) layouts_.push_back(layout);
  const TableLayout table = table_layout(c.strategy);
  const auto table_index = static_cast<std::int32_t>(std::find(tables_.begin(), tables_.end(), table) - tables_.begin());
  if (tied_ && table_index == static_cast<std::int32_t>(tables_.size())) tables_.push_back(table);
  std::vector<cost::LayerShare> shares;
  for (const Recompute& how : space.layer_recomputes()) {
    if (how.modules != c.strategy.recompute.modules) continue;                            // another base has them
    if (how.kind == RecomputeKind::selective && !c.strategy.partition.empty()) continue;  // rule operator-partition
    Strategy s = c.strategy;
    s.recompute = how;
    if (!allowed(problem, space, c, s, false)) continue;
    const bool for_blocks = allowed(problem, space, c, s, true);
    cost::layer_shares(book.context(), s, c.schedule.stages, costs_[static_cast<std::size_t>(base)], shares);
    const auto index = static_cast<std::int32_t>(strategies_.size());
    strategies_.push_back(s);
    base_.push_back(base);
    for (std::size_t k = 0; k < kinds_.size(); ++k) {
      ++priced_;
      if (how.kind != RecomputeKind::none && problem.model->kinds[k].role != LayerRole::block &&
          problem.space.admits(Dimension::recompute, 0))
        continue;  // only blocks are recomputed
      if (!for_blocks && problem.model->kinds[k].role == LayerRole::block) continue;
      kinds_[k].push_back({index, layout_index, table_kind(k) ? table_index : kAnyTable, shares[k]});
    }
  }
}

/// Records the least forward times and shares. Options that reduce() drops may have a shorter forward pass and a
/// longer backward pass.
void OptionTable::note_shares() {
  least_forward_.assign(kinds_.size(), std::numeric_limits<double>::infinity());
  forward_share_.assign(kinds_.size(), {});
  two_part_share_.assign(kinds_.size(), {});
  const auto take = [](ForwardShare& share, std::int64_t forward, std::int64_t backward) {
    const double whole = static_cast<double>(forward + backward), part = whole > 0 ? static_cast<double>(forward) / whole : 0;
    share.least = std::min(share.least, part);
    share.most = std::max(share.most, part);
  };
  for (std::size_t k = 0; k < kinds_.size(); ++k) {
    for (const PricedOption& o : kinds_[k]) {
      least_forward_[k] = std::min(least_forward_[k], static_cast<double>(o.share.forward_ns));
      take(forward_share_[k], o.share.forward_ns, o.share.backward_ns);
      if (!whole_backward(strategy(o.strategy))) take(two_part_share_[k], o.share.forward_ns, o.share.split_backward_ns);
    }
  }
}

void OptionTable::reduce(const std::function<bool()>& stop) {
  note_shares();
  dropped_ = kinds_;
  for (auto& options : kinds_) {
    std::vector<PricedOption> kept;
    for (std::size_t i = 0; i < options.size(); ++i) {
      if (i % kPolled == 0 && stop && stop()) return;
      const PricedOption& o = options[i];
      bool beaten = false;
      for (std::size_t j = 0; j < options.size() && !beaten; ++j) {
        const PricedOption& other = options[j];
        if (i == j || other.table != o.table || !beats(other, o)) continue;
        beaten = j < i || !covers(o.share, other.share);  // among equal options the first stays
      }
      if (!beaten) kept.push_back(o);
    }
    options = std::move(kept);
  }
  if (tied_) reduce_tables();
  for (std::size_t k = 0; k < kinds_.size(); ++k) {
    kept_ += static_cast<double>(kinds_[k].size());
    std::set<std::int32_t> kept;
    for (const PricedOption& o : kinds_[k]) kept.insert(o.strategy);
    std::erase_if(dropped_[k], [&](const PricedOption& o) { return kept.count(o.strategy) > 0; });
  }
}

/// Returns whether `a` can replace `b` everywhere. Zero-bubble schedules use no strategy with whole backward passes.
bool OptionTable::beats(const PricedOption& a, const PricedOption& b) const {
  if (a.layout != b.layout || !covers(a.share, b.share)) return false;
  return !whole_backward(strategy(a.strategy)) || whole_backward(strategy(b.strategy));
}

/// Returns whether every option of embedding and head with table layout `b` is beaten by one with `a`.
bool OptionTable::beats_table(std::int32_t a, std::int32_t b) const {
  for (const std::int32_t kind : {embedding_, head_}) {
    const std::vector<PricedOption>& options = of_kind(kind);
    for (const PricedOption& o : options) {
      if (o.table != b) continue;
      const auto stands_for = [&](const PricedOption& other) { return other.table == a && beats(other, o); };
      if (std::none_of(options.begin(), options.end(), stands_for)) return false;
    }
  }
  return true;
}

void OptionTable::reduce_tables() {
  const auto n = static_cast<std::int32_t>(tables_.size());
  std::vector<bool> beaten(tables_.size(), false);
  for (std::int32_t b = 0; b < n; ++b)
    for (std::int32_t a = 0; a < n && !beaten[static_cast<std::size_t>(b)]; ++a)
      beaten[static_cast<std::size_t>(b)] =
          a != b && !beaten[static_cast<std::size_t>(a)] && beats_table(a, b) && (a < b || !beats_table(b, a));
  for (const std::int32_t kind : {embedding_, head_}) {
    auto& options = kinds_[static_cast<std::size_t>(kind)];
    std::erase_if(options, [&](const PricedOption& o) { return beaten[static_cast<std::size_t>(o.table)]; });
  }
}

std::int32_t OptionTable::best_table(const std::vector<double>& embedding, const std::vector<double>& head) const {
  std::vector<double> least(tables_.size(), 0.0);
  const auto add = [&](std::int32_t kind, const std::vector<double>& costs) {
    std::vector<double> own(tables_.size(), std::numeric_limits<double>::infinity());
    for (std::size_t i = 0; i < costs.size(); ++i) {
      double& best = own[static_cast<std::size_t>(of_kind(kind)[i].table)];
      best = std::min(best, costs[i]);
    }
    for (std::size_t t = 0; t < own.size(); ++t) least[t] += own[t];
  };
  add(embedding_, embedding);
  add(head_, head);
  return static_cast<std::int32_t>(std::min_element(least.begin(), least.end()) - least.begin());
}

std::int32_t OptionTable::table_of(std::int32_t strategy_index) const {
  const auto at = std::find(tables_.begin(), tables_.end(), table_layout(strategy(strategy_index)));
  return at == tables_.end() ? kAnyTable : static_cast<std::int32_t>(at - tables_.begin());
}

void OptionTable::fill_transitions(const CostBook& book, const std::vector<double>& whole_bytes,
                                   const std::function<bool()>& stop) {
  // This lower bound holds between all neighbours: it takes the kind that sends the fewest bytes.
  double least = 0;
  for (const double bytes : whole_bytes)
    if (bytes > 0) least = least > 0 ? std::min(least, bytes) : bytes;
  const std::size_t n = layouts_.size();
  transition_.assign(n, std::vector<double>(n, 0.0));
  for (std::size_t i = 0; i < n && !(stop && stop()); ++i) {
    for (std::size_t j = i + 1; j < n; ++j) {
      const double there = cost::redistribution_s(book.context().fabric, cost::redistribution(layouts_[i], layouts_[j]), least);
      const double back = cost::redistribution_s(book.context().fabric, cost::redistribution(layouts_[j], layouts_[i]), least);
      // Activations go one way and gradients the other.
      transition_[i][j] = transition_[j][i] = std::max(0.0, (there + back) * 1e9 - 2);
    }
  }
}

std::optional<std::int32_t> OptionTable::find(Strategy s, const Recompute& how) const {
  s.recompute = how;
  s.recompute.layers = how.kind == RecomputeKind::full ? 1 : 0;
  for (std::size_t i = 0; i < strategies_.size(); ++i) {
    Strategy other = strategies_[i];
    other.overlap = s.overlap;
    if (other == s) return static_cast<std::int32_t>(i);
  }
  return std::nullopt;
}

solve::LayerProblem OptionTable::program(const std::vector<std::int32_t>& kinds, std::int32_t in_flight, double lambda,
                                         bool zero_bubble, std::int32_t table) const {
  solve::LayerProblem p;
  p.layers = kinds;
  p.transition = transition_;
  p.in_flight = in_flight;
  p.options.resize(kinds_.size());
  for (const std::int32_t kind : kinds) {
    auto& options = p.options[static_cast<std::size_t>(kind)];
    if (!options.empty()) continue;
    for (const PricedOption& o : kinds_[static_cast<std::size_t>(kind)]) {
      solve::LayerOption x;
      x.steady = static_cast<double>(o.share.forward_ns + (zero_bubble ? o.share.split_backward_ns : o.share.backward_ns));
      if (zero_bubble && whole_backward(strategy(o.strategy))) x.steady = std::numeric_limits<double>::infinity();
      if (table != kAnyTable && o.table != kAnyTable && o.table != table) x.steady = std::numeric_limits<double>::infinity();
      x.sync = cost::update_s(context_->device, o.share.update_bytes) * 1e9 +
               (1 - lambda) * static_cast<double>(o.share.reduce_ns) +
               lambda * static_cast<double>(o.share.hidden_ns + (stages_ == 1 ? o.share.gather_ns : 0));
      x.states = o.share.state_bytes;
      x.saved = o.share.saved_bytes;
      // The maximum of sums is at most the sum of the maxima.
      x.transient = o.share.transient_bytes + o.share.buffer_bytes;
      x.layout = o.layout;
      options.push_back(x);
    }
  }
  return p;
}

}  // namespace espalier::search
