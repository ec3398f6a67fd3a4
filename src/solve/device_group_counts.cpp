// SPDX-License-Identifier: Apache-2.0
#include "solve/device_group_counts.h"

#include <algorithm>

#include "solve/min_plus.h"

namespace espalier::solve::device_groups {
namespace {

constexpr std::int64_t kMostCells = 4'000'000;  // cells that `before` holds for each half of the kinds
constexpr std::size_t kFirst = 1, kLast = 2;

/// Returns the sum of two figures, each of which may be impossible.
std::int64_t sum(std::int64_t a, std::int64_t b) { return std::min(kNever, a + b); }

}  // namespace

CountedWork::CountedWork(const StageTables& tables, const StageRanges& ranges, StageCount count)
    : tables_(&tables), side_(static_cast<std::size_t>(tables.layers()) + 1) {
  for (std::int32_t kind = 0; kind < tables.kinds(); ++kind) {
    way_.push_back(kNever);
    for (std::int32_t other = 0; other < tables.kinds(); ++other)
      if (tables.units()[static_cast<std::size_t>(other)] > 0)
        way_.back() = std::min(way_.back(), tables.send(kind, other) + tables.send(other, kind));
  }
  fill_stages(ranges, count, Part::work);
  for (std::int32_t kind = 0; kind < tables.kinds(); ++kind) kinds_.push_back(rows_of(kind));
  fill_others();
}

/// Returns the row without stages.
CountedWork::Row CountedWork::nothing() const {
  Row row(kSorts * side_, kNever);
  row[0] = 0;
  return row;
}

void CountedWork::fill_stages(const StageRanges& ranges, StageCount count, Part part) {
  stages_.assign(tables_->shapes().size() * kSorts * side_, kNever);
  for (std::size_t s = 0; s < tables_->shapes().size(); ++s)
    for (std::int32_t behind = 0; behind < ranges.levels(); ++behind) fill_stages(ranges, behind, s, count, part);
}

/// Fills stages with `behind` stages behind; the deepest level covers all larger numbers. The last layer is in the
/// last stage, the first in the first.
void CountedWork::fill_stages(const StageRanges& ranges, std::int32_t behind, std::size_t s, StageCount count, Part part) {
  const Band band = ranges.band(behind, s);
  const std::int32_t layers = tables_->layers();
  const bool deepest = behind == tables_->depth();
  const bool may_be_first = (deepest || behind + 1 >= count.least) && behind + 1 <= count.most;
  const std::int64_t way = behind == 0 ? 0 : way_[static_cast<std::size_t>(tables_->shapes()[s].kind)];
  std::int64_t* of_shape = &stages_[s * kSorts * side_];
  for (std::int32_t n = band.least; n <= band.most; ++n) {
    const std::int64_t* work = band.work + (n - band.least) * (layers + 1);
    for (std::int32_t a = behind == 0 ? layers - n : 0; a <= layers - n; ++a) {
      if ((a == 0 && !may_be_first) || (a + n == layers) != (behind == 0) || work[a] >= kNever) continue;
      std::int64_t& least = of_shape[sort_of(a, a + n) * side_ + static_cast<std::size_t>(n)];
      const StageTables::Least& more = tables_->least(s, a, a + n);
      const std::int64_t time = part == Part::work ? work[a] : std::max(work[a], a == 0 ? more.alone : more.late);
      least = std::min(least, time + way);
    }
  }
}

/// Adds stages of the shape behind those of `front` to `out`.
void CountedWork::add_stage(std::size_t s, const Row& front, Row& out) const {
  for (std::size_t sort = 0; sort < kSorts; ++sort) {
    const std::int64_t* stage = &stages_[(s * kSorts + sort) * side_];
    for (std::size_t n = 1; n < side_; ++n) {
      if (stage[n] >= kNever) continue;
      for (std::size_t sorts = 0; sorts < kSorts; ++sorts) {
        if ((sorts & sort) != sort) continue;
        least_sums(&out[sorts * side_ + n], &front[(sorts ^ sort) * side_], stage[n], side_ - n);
      }
    }
  }
}

std::vector<CountedWork::Row> CountedWork::rows_of(std::int32_t kind) const {
  std::vector<Row> rows;
  for (std::int32_t units = 0; units <= tables_->units()[static_cast<std::size_t>(kind)]; ++units) {
    rows.push_back(units == 0 ? nothing() : rows.back());
    for (std::size_t s = 0; s < tables_->shapes().size(); ++s) {
      const Shape& shape = tables_->shapes()[s];
      if (shape.kind != kind || shape.units > units) continue;
      add_stage(s, rows[static_cast<std::size_t>(units - shape.units)], rows.back());
    }
  }
  return rows;
}

CountedWork::Row CountedWork::both(const Row& a, const Row& b, std::size_t most_sorts) const {
  Row out(kSorts * side_, kNever);
  for (std::size_t sorts = 0; sorts <= most_sorts; ++sorts) {
    std::int64_t* sums = &out[sorts * side_];
    for (std::size_t of_a = 0; of_a <= sorts; ++of_a) {
      if ((sorts & of_a) != of_a) continue;
      const std::int64_t *left = &a[of_a * side_], *right = &b[(sorts ^ of_a) * side_];
      for (std::size_t n = 0; n < side_; ++n) {
        if (left[n] >= kNever) continue;
        least_sums(sums + n, right, left[n], side_ - n);
      }
    }
  }
  return out;
}

void CountedWork::fill_others() {
  const std::size_t kinds = kinds_.size(), all = kFirst | kLast;
  std::vector<Row> earlier{nothing()}, later(kinds + 1, nothing());
  for (std::size_t k = 0; k < kinds; ++k) earlier.push_back(both(earlier.back(), kinds_[k].back(), all));
  for (std::size_t k = kinds; k-- > 0;) later[k] = both(kinds_[k].back(), later[k + 1], all);
  const auto last = [&](const Row& row, std::size_t sorts, std::size_t n) { return row[sorts * side_ + n]; };
  whole_ = last(earlier.back(), all, side_ - 1);
  others_.assign(stages_.size(), kNever);
  std::vector<Row> of_others;  // all kinds except each one
  for (std::size_t k = 0; k < kinds; ++k) of_others.push_back(both(earlier[k], later[k + 1], all));
  for (std::size_t s = 0; s < tables_->shapes().size(); ++s) {
    const Shape& shape = tables_->shapes()[s];
    const auto kind = static_cast<std::size_t>(shape.kind);
    const std::vector<Row>& own = kinds_[kind];
    const Row rest = both(of_others[kind], own[own.size() - 1 - static_cast<std::size_t>(shape.units)], all);
    for (std::size_t sort = 0; sort < kSorts; ++sort)
      for (std::size_t n = 1; n < side_; ++n)
        others_[(s * kSorts + sort) * side_ + n] =
            sum(last(rest, all ^ sort, side_ - 1 - n), (sort & kLast) != 0 ? 0 : way_[kind]);
  }
}

/// Encodes kinds one after the other: number = Σ free·(product of the numbers before).
CountedWork::Group CountedWork::group_of(std::int32_t first, std::int32_t end) const {
  Group group{first, end, first < end ? tables_->strides()[static_cast<std::size_t>(first)] : 1, 1, {nothing()}};
  for (std::int32_t k = first; k < end; ++k) {
    const std::vector<Row>& kind = kinds_[static_cast<std::size_t>(k)];
    std::vector<Row> with;
    for (const Row& own : kind)
      for (const Row& known : group.of) with.push_back(both(known, own, kFirst));
    group.of = std::move(with);
    group.counts *= static_cast<std::int64_t>(kind.size());
  }
  return group;
}

void CountedWork::look_before(const StageRanges& ranges, StageCount count) {
  const auto cells = [&](std::int32_t first, std::int32_t end) {
    std::int64_t product = static_cast<std::int64_t>(kSorts * side_);
    for (std::int32_t k = first; k < end; ++k) product *= tables_->units()[static_cast<std::size_t>(k)] + 1;
    return product;
  };
  const std::int32_t kinds = tables_->kinds(), half = (kinds + 1) / 2;
  before_.clear();
  if (cells(0, half) > kMostCells || cells(half, kinds) > kMostCells) return;
  fill_stages(ranges, count, Part::all);
  for (std::int32_t kind = 0; kind < kinds; ++kind) kinds_[static_cast<std::size_t>(kind)] = rows_of(kind);
  before_.push_back(group_of(0, half));
  before_.push_back(group_of(half, kinds));
}

std::vector<std::int64_t> CountedWork::before(std::int64_t code) const {
  std::vector<std::int64_t> result(side_, 0);
  if (before_.empty()) return result;
  const auto row = [&](const Group& group) {
    return group.of[static_cast<std::size_t>(code / group.stride % group.counts)].data();
  };
  const std::int64_t *one = row(before_[0]), *other = row(before_[1]);
  std::fill(result.begin() + 1, result.end(), kNever);
  for (std::size_t n = 0; n < side_; ++n) {
    const std::size_t l = n == 0 ? 1 : 0;
    least_sums(&result[n + l], other + side_ + l, one[n], side_ - n - l);
    least_sums(&result[n + l], other + l, one[side_ + n], side_ - n - l);
  }
  return result;
}

}  // namespace espalier::solve::device_groups
