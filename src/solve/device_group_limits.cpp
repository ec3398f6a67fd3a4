// SPDX-License-Identifier: Apache-2.0
#include "solve/device_group_limits.h"

#include <utility>

namespace espalier::solve::device_groups {
namespace {

constexpr std::int64_t kFewCodes = 100'000;  // with so few codes, a table over all of them is cheap

}  // namespace

void StageCountLimits::fill_room() {
  if (tables_->codes() > tables_->table_cells()) return;
  room_depth_ =
      static_cast<std::int32_t>(std::min<std::int64_t>(tables_->depth(), tables_->table_cells() / tables_->codes() - 1));
  room_.assign(static_cast<std::size_t>((room_depth_ + 1) * tables_->codes()), 0);
  for (std::int32_t behind = room_depth_; behind >= 0; --behind)
    if (behind < count_.most) fill_room(behind);
}

/// Returns [shape][a] with `behind` stages behind. At the largest number that the table distinguishes, it covers all
/// larger ones.
std::vector<std::int16_t> StageCountLimits::reach(std::int32_t behind) const {
  const std::size_t side = static_cast<std::size_t>(tables_->layers()) + 1, shapes = tables_->shapes().size();
  const std::int32_t deepest = behind == room_depth_ ? ranges_.levels() - 1 : behind;
  std::vector<std::int16_t> reach(shapes * side);
  for (std::size_t s = 0; s < shapes; ++s) {
    std::int16_t furthest = 0;
    for (std::int32_t a = 0; a <= tables_->layers(); ++a) {
      for (std::int32_t level = behind; level <= deepest && a < tables_->layers(); ++level) {
        const Range ends = ranges_.ends(level, s, a);
        if (ends.first <= ends.last) furthest = std::max(furthest, ends.last);
      }
      reach[s * side + static_cast<std::size_t>(a)] = furthest;
    }
  }
  return reach;
}

/// Fills one level. Codes with equal free units of a kind are runs of consecutive numbers.
void StageCountLimits::fill_room(std::int32_t behind) {
  const std::size_t side = static_cast<std::size_t>(tables_->layers()) + 1;
  const std::vector<std::int16_t> reach = this->reach(behind);
  std::int16_t* level = &room_[static_cast<std::size_t>(behind * tables_->codes())];
  const std::int16_t* front = &room_[static_cast<std::size_t>(std::min(behind + 1, room_depth_) * tables_->codes())];
  if (front == level) return tables_->codes() <= kFewCodes ? fill_deepest_room(reach) : fill_deepest_room();
  for (std::size_t s = 0; s < tables_->shapes().size(); ++s) {
    const Shape& shape = tables_->shapes()[s];
    const std::int16_t* far = &reach[s * side];
    const std::int64_t period = tables_->strides()[shape.kind] * (tables_->units()[shape.kind] + 1);
    for (std::int64_t begin = 0; begin < tables_->codes(); begin += period)
      for (std::int64_t code = begin + shape.code; code < begin + period; ++code)
        level[code] = std::max(level[code], far[front[code - shape.code]]);
  }
}

/// Fills the deepest level, which covers all deeper ones. It allows each kind as many layers as its free units hold
/// at the most layers per unit of any stage.
void StageCountLimits::fill_deepest_room() {
  std::vector<double> by_unit(tables_->units().size(), 0.0);
  for (std::size_t s = 0; s < tables_->shapes().size(); ++s) {
    const Shape& shape = tables_->shapes()[s];
    for (std::int32_t level = room_depth_; level < std::max(ranges_.levels(), room_depth_ + 1); ++level)
      by_unit[shape.kind] = std::max(by_unit[shape.kind], static_cast<double>(ranges_.band(level, s).most) / shape.units);
  }
  std::int16_t* level = &room_[static_cast<std::size_t>(room_depth_ * tables_->codes())];
  std::vector<std::int32_t> digits(tables_->units().size(), 0);
  for (std::int64_t code = 1; code < tables_->codes(); ++code) {
    for (std::size_t k = 0; ++digits[k] > tables_->units()[k]; ++k) digits[k] = 0;
    double room = 0;
    for (std::size_t k = 0; k < digits.size(); ++k) room += by_unit[k] * digits[k];
    level[code] = static_cast<std::int16_t>(std::min<double>(tables_->layers(), room + 1e-6));
  }
}

/// Fills the deepest level by the table where that is cheap: the level is in front of itself, by rising code.
void StageCountLimits::fill_deepest_room(const std::vector<std::int16_t>& reach) {
  const std::size_t side = static_cast<std::size_t>(tables_->layers()) + 1;
  std::int16_t* level = &room_[static_cast<std::size_t>(room_depth_ * tables_->codes())];
  std::vector<std::int32_t> digits(tables_->units().size(), 0);
  for (std::int64_t code = 1; code < tables_->codes(); ++code) {
    for (std::size_t k = 0; ++digits[k] > tables_->units()[k]; ++k) digits[k] = 0;
    for (std::size_t s = 0; s < tables_->shapes().size(); ++s) {
      const Shape& shape = tables_->shapes()[s];
      if (shape.units > digits[shape.kind]) continue;
      level[code] = std::max(level[code], reach[s * side + static_cast<std::size_t>(level[code - shape.code])]);
    }
  }
}

/// Narrows the ranges by the chains at some prices and at none. Returns false if there is no plan.
bool StageCountLimits::narrow(std::int64_t left, PricedChains priced) {
  if (priced.whole() > left) return false;
  PricedChains free(*tables_, ranges_, count_, std::vector<std::int64_t>(priced.of_unit().size(), 0));
  if (free.whole() > left) return false;
  prices_.clear();
  prices_.push_back(std::move(priced));
  prices_.push_back(std::move(free));
  for (PricedChains& chains : prices_) chains.look_behind(ranges_);
  counts_.emplace(*tables_, ranges_, count_);
  if (counts_->whole() > left) return false;
  ranges_.narrow(prices_, *counts_);
  return true;
}

std::optional<StageCountLimits> StageCountLimits::make(const StageTables& tables, StageCount count, std::int64_t limit,
                                                       std::vector<std::int64_t>& prices, bool rooms) {
  constexpr int kRounds = 2;
  const std::int64_t left = std::min(limit, kNever - 1) - tables.least_end();
  if (left < 0 || tables.shapes().empty()) return std::nullopt;
  prices.resize(tables.units().size(), 0);
  StageCountLimits result(tables, count, left + tables.least_end());
  std::vector<std::int64_t> at = prices;
  for (int round = 0; round < kRounds; ++round) {
    PricedChains priced = raised_prices(tables, result.ranges_, count, left, at);
    at = priced.of_unit();
    if (!result.narrow(left, std::move(priced))) return std::nullopt;
  }
  if (rooms) result.fill_room();
  if (result.room(0, tables.codes() - 1) < tables.layers()) return std::nullopt;
  prices = at;
  return result;
}

}  // namespace espalier::solve::device_groups
