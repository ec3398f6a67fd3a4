// SPDX-License-Identifier: Apache-2.0
#include "solve/device_group_ranges.h"

#include <algorithm>

#include "solve/device_group_counts.h"
#include "solve/device_group_prices.h"

namespace espalier::solve::device_groups {
namespace {

/// Computes the bound of the header on X_0 of a plan with this stage.
class StageBound {
 public:
  StageBound(const StageTables& tables, const std::vector<PricedChains>& prices, const CountedWork& counts, std::int32_t behind,
             std::size_t s)
      : tables_(tables),
        prices_(prices),
        counts_(counts),
        behind_(behind),
        kind_(tables.shapes()[s].kind),
        shape_(s),
        m_(tables.microbatches()) {
    const Shape& shape = tables.shapes()[s];
    known_ = behind < tables.depth() || tables.depth() + 1 >= tables.in_flight(tables.most_stages());
    k_ = known_ ? tables.in_flight(behind + 1) : m_;
    for (const PricedChains& chains : prices) {
      std::int64_t worth = -chains.of_unit()[shape.kind] * shape.units;
      for (std::size_t kind = 0; kind < tables.units().size(); ++kind) worth += chains.of_unit()[kind] * tables.units()[kind];
      worth_.push_back(worth);
    }
  }
  /// Returns the bound; `more` adds the times at the beginning and the end of the step.
  [[nodiscard]] std::int64_t of(std::int32_t a, std::int32_t e, std::int64_t w, const StageTables::Least& more) const {
    std::int64_t before = 0, after = 0, both = counts_.others(shape_, a, e);
    if (both >= kNever) return kNever;
    for (std::size_t i = 0; i < prices_.size(); ++i) {
      const std::int64_t v = a == 0 ? 0 : prices_[i].least(behind_ + 1, a, kind_), c = prices_[i].least_behind(behind_, e, kind_);
      // no chain before it, or behind it, is within the limit
      if (v >= kNever || c >= kNever || w >= kNever) return kNever;
      before = std::max(before, v - worth_[i]);
      after = std::max(after, c - worth_[i]);
      both = std::max(both, v + c - worth_[i]);
    }
    both = std::max({both, before, after});
    const std::int64_t alone = span(0, after, after, w), least_end = tables_.least_end();
    const std::int64_t led = before / 1000 * tables_.forward_permille(), followed = before / 1000 * tables_.backward_permille();
    return std::max({span(before, both, after, w) + least_end, alone + more.begin + followed + least_end, led + alone + more.end,
                     alone + more.both});
  }

 private:
  /// Returns G(before, both).
  [[nodiscard]] std::int64_t span(std::int64_t before, std::int64_t both, std::int64_t after, std::int64_t w) const {
    std::int64_t bound = std::max(before + m_ * w, both + (m_ - k_ + 1) * w + (k_ - 1) * (w / 1000 * tables_.longer_permille()));
    if (!known_ || k_ >= m_) return bound;
    const std::int64_t trips = (m_ - 1) / k_;
    bound = std::max(bound, both + after + (m_ - k_ + 1) * w);
    return std::max(bound, both + trips * after + (m_ + trips - trips * k_) * w);
  }

  const StageTables& tables_;
  const std::vector<PricedChains>& prices_;
  const CountedWork& counts_;
  std::int32_t behind_, kind_;
  std::size_t shape_;
  std::int64_t m_, k_ = 1;
  bool known_ = true;
  std::vector<std::int64_t> worth_;
};

}  // namespace

StageRanges::StageRanges(const StageTables& tables, StageCount count, std::int64_t limit)
    : tables_(&tables), count_(count), limit_(limit) {
  const std::int64_t cap = (limit - tables.least_end()) / tables.microbatches();
  ends_.resize(place(tables.depth(), tables.shapes().size(), 0));
  for (std::int32_t behind = 0; behind < levels(); ++behind) {
    for (std::size_t s = 0; s < tables.shapes().size(); ++s) {
      const std::int64_t* work = tables.least_work(behind, s);
      for (std::int32_t a = 0; a < tables.layers(); ++a) {
        std::int32_t e = a;
        while (e < tables.layers() && work[tables.runs().of(a, e + 1)] <= cap) ++e;
        while (e > a && tables.least(s, a, e).step > limit)
          --e;  // not always more with more layers, as these are gathered in more parts
        ends_[place(behind, s, a)] = {static_cast<std::int16_t>(a + 1), static_cast<std::int16_t>(e)};
      }
    }
  }
  fill_begins();
  fill_bands();
}

void StageRanges::narrow(const std::vector<PricedChains>& prices, const CountedWork& counts) {
  for (std::int32_t behind = 0; behind < levels(); ++behind) {
    for (std::size_t s = 0; s < tables_->shapes().size(); ++s) {
      const StageBound bound(*tables_, prices, counts, behind, s);
      const std::int64_t* work = tables_->least_work(behind, s);
      for (std::int32_t a = 0; a < tables_->layers(); ++a) {
        Range& range = ends_[place(behind, s, a)];
        const auto refused = [&](std::int32_t e) {
          return bound.of(a, e, work[tables_->runs().of(a, e)], tables_->least(s, a, e)) > limit_;
        };
        while (range.first <= range.last && refused(range.first)) ++range.first;
        while (range.first <= range.last && refused(range.last)) --range.last;
      }
    }
  }
  fill_begins();
  fill_bands();
}

void StageRanges::fill_bands() {
  bands_.resize(static_cast<std::size_t>(levels()) * tables_->shapes().size());
  for (std::int32_t behind = 0; behind < levels(); ++behind)
    for (std::size_t s = 0; s < tables_->shapes().size(); ++s) fill_band(behind, s);
}

void StageRanges::fill_band(std::int32_t behind, std::size_t shape) {
  OwnedBand& owned = bands_[static_cast<std::size_t>(behind) * tables_->shapes().size() + shape];
  Band& band = owned.band;
  band.least = tables_->layers() + 1;
  band.most = 0;
  for (std::int32_t a = 0; a < tables_->layers(); ++a) {
    const Range range = ends(behind, shape, a);
    if (range.first > range.last) continue;
    band.least = std::min(band.least, range.first - a);
    band.most = std::max(band.most, range.last - a);
  }
  const std::size_t side = static_cast<std::size_t>(tables_->layers()) + 1;
  owned.work.assign(band.least > band.most ? 0 : static_cast<std::size_t>(band.most - band.least + 1) * side, kNever);
  band.work = owned.work.data();
  const std::int64_t* work = tables_->least_work(behind, shape);
  for (std::int32_t a = 0; a < tables_->layers(); ++a) {
    const Range range = ends(behind, shape, a);
    for (std::int32_t e = range.first; e <= range.last; ++e)
      owned.work[static_cast<std::size_t>(e - a - band.least) * side + static_cast<std::size_t>(a)] =
          work[tables_->runs().of(a, e)];
  }
}

void StageRanges::fill_begins() {
  begins_.assign(ends_.size(), {static_cast<std::int16_t>(tables_->layers()), -1});
  for (std::int32_t behind = 0; behind < levels(); ++behind) {
    for (std::size_t s = 0; s < tables_->shapes().size(); ++s) {
      for (std::int32_t a = 0; a < tables_->layers(); ++a) {
        const Range range = ends(behind, s, a);
        for (std::int32_t e = range.first; e <= range.last; ++e) {
          Range& begins = begins_[place(behind, s, e)];
          begins.first = std::min(begins.first, static_cast<std::int16_t>(a));
          begins.last = std::max(begins.last, static_cast<std::int16_t>(a));
        }
      }
    }
  }
}

}  // namespace espalier::solve::device_groups
