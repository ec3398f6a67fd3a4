// SPDX-License-Identifier: Apache-2.0
#include "solve/device_group_prices.h"

#include <cmath>
#include <optional>

#include "solve/min_plus.h"

namespace espalier::solve::device_groups {

PricedChains::PricedChains(const StageTables& tables, const StageRanges& ranges, StageCount count,
                           const std::vector<std::int64_t>& prices)
    : tables_(&tables), count_(count), of_unit_(prices) {
  const auto cells = static_cast<std::size_t>(cell(tables.depth() + 1, 0, 0));
  least_.assign(cells, kNever);
  ending_.assign(cells, kNever);
  for (std::int32_t behind = tables.depth(); behind >= 0; --behind) fill(ranges, behind);
  whole_ = ending_[cell(0, last_kind(), tables.layers())];
  if (whole_ >= kNever) return;
  for (std::int32_t kind = 0; kind < tables.kinds(); ++kind) whole_ -= of_unit_[kind] * tables.units()[kind];
}

/// Returns whether the number of stages may be `behind`; the deepest level covers all larger numbers.
bool PricedChains::may_end(std::int32_t behind) const {
  return behind == tables_->depth() ? count_.most >= behind : count_.least <= behind && behind <= count_.most;
}

void PricedChains::fill(const StageRanges& ranges, std::int32_t behind) {
  if (may_end(behind))
    for (std::int32_t kind = 0; kind < tables_->kinds(); ++kind) least_[cell(behind, kind, 0)] = 0;
  if (behind >= count_.most) return;
  const bool deepest = behind == tables_->depth();
  for (std::size_t s = 0; s < tables_->shapes().size() && !deepest; ++s) add_stage(ranges, behind, s);
  if (!deepest) return reach(behind, 1, tables_->layers());
  for (std::int32_t a = 0; a <= tables_->layers(); ++a) {
    if (a > 0) reach(behind, a, a);
    for (std::size_t s = 0; s < tables_->shapes().size(); ++s) add_stage_from(ranges, behind, s, a);
  }
}

/// Adds stages of the shape behind the cheapest chains of the level in front, which are known, for every number of
/// layers at once.
void PricedChains::add_stage(const StageRanges& ranges, std::int32_t behind, std::size_t s) {
  const Shape& shape = tables_->shapes()[s];
  const Band band = ranges.band(behind, s);
  const std::int64_t price = shape.units * of_unit_[shape.kind];
  const std::int64_t* front = &least_[cell(behind + 1, shape.kind, 0)];
  for (std::int32_t n = band.least; n <= band.most; ++n) {
    const std::int64_t* work = band.work + (n - band.least) * (tables_->layers() + 1);
    least_sums(&ending_[cell(behind, shape.kind, n)], front, work, price, static_cast<std::size_t>(tables_->layers() - n + 1));
  }
}

/// Adds stages in the deepest level, which is in front of itself, for one first layer.
void PricedChains::add_stage_from(const StageRanges& ranges, std::int32_t behind, std::size_t s, std::int32_t a) {
  const Shape& shape = tables_->shapes()[s];
  const Band band = ranges.band(behind, s);
  const std::int64_t cost = least_[cell(behind, shape.kind, a)] + shape.units * of_unit_[shape.kind];
  for (std::int32_t n = band.least; n <= std::min(band.most, tables_->layers() - a); ++n) {
    std::int64_t& ending = ending_[cell(behind, shape.kind, a + n)];
    ending = std::min(ending, cost + band.work[(n - band.least) * (tables_->layers() + 1) + a]);
  }
}

/// Covers first layers [begin, end], both included.
void PricedChains::reach(std::int32_t behind, std::int32_t begin, std::int32_t end) {
  for (std::int32_t next = 0; next < tables_->kinds(); ++next)
    for (std::int32_t kind = 0; kind < tables_->kinds(); ++kind)
      least_sums(&least_[cell(behind, next, begin)], &ending_[cell(behind, kind, begin)], way(kind, next),
                 static_cast<std::size_t>(end - begin + 1));
}

void PricedChains::look_behind(const StageRanges& ranges) {
  least_behind_.assign(least_.size(), kNever);
  for (std::int32_t kind = 0; kind < tables_->kinds(); ++kind) least_behind_[cell(0, kind, tables_->layers())] = 0;
  for (std::int32_t behind = 1; behind < ranges.levels(); ++behind)
    for (std::size_t s = 0; s < tables_->shapes().size(); ++s) look_behind(ranges, behind, behind - 1, s);
  if (ranges.levels() > tables_->depth())
    for (std::int32_t e = tables_->layers(); e-- > 0;) look_behind_from(ranges, e);
}

/// Handles the case that the foremost of `behind` stages has the shape, with `rest` stages behind it.
void PricedChains::look_behind(const StageRanges& ranges, std::int32_t behind, std::int32_t rest, std::size_t s) {
  const Shape& shape = tables_->shapes()[s];
  const Band band = ranges.band(rest, s);
  const std::int64_t* after = &least_behind_[cell(rest, shape.kind, 0)];
  std::vector<std::int64_t> best(static_cast<std::size_t>(tables_->layers()) + 1, kNever);
  for (std::int32_t n = band.least; n <= band.most; ++n) {
    const std::int64_t* work = band.work + (n - band.least) * (tables_->layers() + 1);
    least_sums(best.data(), work, after + n, 0, static_cast<std::size_t>(tables_->layers() - n + 1));
  }
  for (std::int32_t kind = 0; kind < tables_->kinds(); ++kind) {
    const std::int64_t more = shape.units * of_unit_[shape.kind] + way(kind, shape.kind);
    least_sums(&least_behind_[cell(behind, kind, 0)], best.data(), more, best.size());
  }
}

/// Fills the deepest level, which covers all larger numbers: the foremost stage, from layer e, has as many behind.
void PricedChains::look_behind_from(const StageRanges& ranges, std::int32_t e) {
  const std::int32_t behind = tables_->depth();
  for (std::size_t s = 0; s < tables_->shapes().size(); ++s) {
    const Shape& shape = tables_->shapes()[s];
    const Band band = ranges.band(behind, s);
    std::int64_t best = kNever;
    for (std::int32_t n = band.least; n <= std::min(band.most, tables_->layers() - e); ++n) {
      const std::int64_t work = band.work[(n - band.least) * (tables_->layers() + 1) + e];
      best = std::min(best, work + least_behind_[cell(behind, shape.kind, e + n)]);
    }
    for (std::int32_t kind = 0; kind < tables_->kinds(); ++kind) {
      std::int64_t& least = least_behind_[cell(behind, kind, e)];
      least = std::min(least, best + shape.units * of_unit_[shape.kind] + way(kind, shape.kind));
    }
  }
}

std::int32_t PricedChains::last_kind() const {
  std::int32_t best = 0;
  for (std::int32_t kind = 1; kind < tables_->kinds(); ++kind)
    if (ending_[cell(0, kind, tables_->layers())] < ending_[cell(0, best, tables_->layers())]) best = kind;
  return best;
}

/// Finds again the choice that gave each least value.
std::vector<double> PricedChains::excess(const StageRanges& ranges) const {
  std::vector<double> result;
  for (const std::int32_t units : tables_->units()) result.push_back(-units);
  std::int32_t kind = last_kind(), e = tables_->layers();
  for (std::int32_t at = 0; e > 0 && ending_[cell(std::min(at, tables_->depth()), kind, e)] < kNever; ++at) {
    const std::int32_t behind = std::min(at, tables_->depth()), front = std::min(at + 1, tables_->depth());
    const std::int64_t wanted = ending_[cell(behind, kind, e)];
    std::int32_t a = -1;
    for (std::size_t s = 0; s < tables_->shapes().size() && a < 0; ++s) {
      const Shape& shape = tables_->shapes()[s];
      const Band band = ranges.band(behind, s);
      for (std::int32_t n = band.least; n <= std::min(band.most, e) && a < 0 && shape.kind == kind; ++n) {
        const std::int64_t work = band.work[(n - band.least) * (tables_->layers() + 1) + e - n];
        if (least_[cell(front, kind, e - n)] + work + shape.units * of_unit_[kind] != wanted) continue;
        a = e - n;
        result[kind] += shape.units;
      }
    }
    e = a;
    const std::int32_t next = kind;
    for (std::int32_t k = 0; k < tables_->kinds() && e > 0; ++k)
      if (ending_[cell(front, k, e)] + way(k, next) == least_[cell(front, next, e)]) kind = k;
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
    const std::vector<double> excess = chain.excess(ranges);
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
