// SPDX-License-Identifier: Apache-2.0
#include "solve/device_group_prices.h"

#include <cmath>
#include <optional>

namespace espalier::solve::device_groups {

PricedChains::PricedChains(const StageTables& tables, const StageRanges& ranges, StageCount count,
                           const std::vector<std::int64_t>& prices)
    : tables_(&tables), count_(count), of_unit_(prices) {
  const auto cells = static_cast<std::size_t>(cell(tables.depth() + 1, 0, 0));
  least_.assign(cells, kNever);
  ending_.assign(cells, {});
  before_.assign(cells, 0);
  for (std::int32_t behind = tables.depth(); behind >= 0; --behind) fill(ranges, behind);
  whole_ = best_whole().cost;
  if (whole_ >= kNever) return;
  for (std::int32_t kind = 0; kind < tables.kinds(); ++kind) whole_ -= of_unit_[kind] * tables.units()[kind];
}

/// Whether the number of stages may be `behind`, which stands for more in the deepest level.
bool PricedChains::may_end(std::int32_t behind) const {
  return behind == tables_->depth() ? count_.most >= behind : count_.least <= behind && behind <= count_.most;
}

void PricedChains::fill(const StageRanges& ranges, std::int32_t behind) {
  if (may_end(behind))
    for (std::int32_t kind = 0; kind < tables_->kinds(); ++kind) least_[cell(behind, 0, kind)] = 0;
  if (behind >= count_.most) return;
  for (std::int32_t a = 0; a < tables_->layers(); ++a) {
    if (a > 0) reach(behind, a);
    for (std::size_t s = 0; s < tables_->shapes().size(); ++s) push(ranges, behind, a, s);
  }
}

/// Stages from a on, behind the cheapest chain over [0, a).
void PricedChains::push(const StageRanges& ranges, std::int32_t behind, std::int32_t a, std::size_t s) {
  const Shape& shape = tables_->shapes()[s];
  const std::int64_t cost = least(behind + 1, a, shape.kind) + shape.units * of_unit_[shape.kind];
  if (cost >= kNever) return;
  const std::int64_t* work = tables_->least_work(behind, s, a);
  const Range ends = ranges.ends(behind, s, a);
  for (std::int32_t e = ends.first; e <= ends.last; ++e) {
    Stage& stage = ending_[cell(behind, e, shape.kind)];
    if (cost + work[e] < stage.cost) stage = {cost + work[e], a, static_cast<std::int32_t>(s)};
  }
}

void PricedChains::reach(std::int32_t behind, std::int32_t a) {
  for (std::int32_t next = 0; next < tables_->kinds(); ++next) {
    for (std::int32_t kind = 0; kind < tables_->kinds(); ++kind) {
      const std::int64_t cost = ending_[cell(behind, a, kind)].cost + tables_->send(kind, next) + tables_->send(next, kind);
      if (cost >= least_[cell(behind, a, next)]) continue;
      least_[cell(behind, a, next)] = cost;
      before_[cell(behind, a, next)] = kind;
    }
  }
}

void PricedChains::look_behind(const StageRanges& ranges) {
  least_behind_.assign(least_.size(), kNever);
  for (std::int32_t kind = 0; kind < tables_->kinds(); ++kind) least_behind_[cell(0, tables_->layers(), kind)] = 0;
  for (std::int32_t behind = 0; behind <= tables_->depth(); ++behind)
    for (std::int32_t e = tables_->layers(); e-- > 0;) look_behind(ranges, behind, e);
}

/// The foremost of the `behind` stages begins with layer e; with `depth` of them, as many or more may be behind that one.
void PricedChains::look_behind(const StageRanges& ranges, std::int32_t behind, std::int32_t e) {
  for (std::size_t s = 0; s < tables_->shapes().size(); ++s) {
    const Shape& shape = tables_->shapes()[s];
    std::int64_t best = kNever;
    for (std::int32_t rest = std::max(behind - 1, 0); rest <= behind; ++rest) {
      if (rest == behind && behind < tables_->depth()) continue;
      const std::int64_t* work = tables_->least_work(rest, s, e);
      const Range ends = ranges.ends(rest, s, e);
      for (std::int32_t end = ends.first; end <= ends.last; ++end)
        best = std::min(best, work[end] + least_behind_[cell(rest, end, shape.kind)]);
    }
    if (best >= kNever) continue;
    best += shape.units * of_unit_[shape.kind];
    for (std::int32_t kind = 0; kind < tables_->kinds(); ++kind) {
      std::int64_t& least = least_behind_[cell(behind, e, kind)];
      least = std::min(least, best + tables_->send(kind, shape.kind) + tables_->send(shape.kind, kind));
    }
  }
}

PricedChains::Stage PricedChains::best_whole() const {
  Stage best;
  for (std::int32_t kind = 0; kind < tables_->kinds(); ++kind) {
    const Stage& stage = ending_[cell(0, tables_->layers(), kind)];
    if (stage.cost < best.cost) best = stage;
  }
  return best;
}

std::vector<double> PricedChains::excess() const {
  std::vector<double> result;
  for (const std::int32_t units : tables_->units()) result.push_back(-units);
  Stage stage = best_whole();
  for (std::int32_t behind = 1; stage.shape >= 0; ++behind) {
    const Shape& shape = tables_->shapes()[static_cast<std::size_t>(stage.shape)];
    result[shape.kind] += shape.units;
    if (stage.first == 0) break;
    const std::int32_t level = std::min(behind, tables_->depth());
    stage = ending_[cell(level, stage.first, before_[cell(level, stage.first, shape.kind)])];
  }
  return result;
}

PricedChains raised_prices(const StageTables& tables, const StageRanges& ranges, StageCount count, std::int64_t target,
                           const std::vector<std::int64_t>& begin) {
  std::vector<std::int64_t> at = begin;
  const bool known = std::any_of(at.begin(), at.end(), [](std::int64_t price) { return price > 0; });
  const int steps = known ? 16 : 24;
  std::optional<PricedChains> best;
  for (int step = 0; step < steps; ++step) {
    PricedChains chain(tables, ranges, count, at);
    const std::int64_t whole = chain.whole();
    const std::vector<double> excess = chain.excess();
    if (!best || whole > best->whole()) best = std::move(chain);
    if (best->whole() > target) break;
    double square = 0;
    for (std::size_t k = 0; k < at.size(); ++k)
      if (excess[k] > 0 || at[k] > 0) square += excess[k] * excess[k];
    if (square == 0) break;
    const std::int64_t aim =
        std::min(target, 2 * std::max<std::int64_t>(best->whole(), 0) + 1);  // prices stay small without a limit
    const double length = static_cast<double>(aim - whole) / square / (1 + step / 4);
    for (std::size_t k = 0; k < at.size(); ++k) at[k] = std::max<std::int64_t>(0, at[k] + std::llround(length * excess[k]));
  }
  return *best;
}

}  // namespace espalier::solve::device_groups
