// SPDX-License-Identifier: Apache-2.0
#include "solve/device_group_limits.h"

namespace espalier::solve::device_groups {
namespace {

/// Cells of the table of room, over all numbers of stages behind; with more codes there is no table.
constexpr std::int64_t kMostCells = 6'000'000;

}  // namespace

void Limits::fill_room() {
  if (tables_->codes() > kMostCells) return;
  room_depth_ = static_cast<std::int32_t>(std::min<std::int64_t>(tables_->depth(), kMostCells / tables_->codes() - 1));
  room_.assign(static_cast<std::size_t>((room_depth_ + 1) * tables_->codes()), 0);
  for (std::int32_t behind = room_depth_; behind >= 0; --behind) fill_room(behind);
}

void Limits::fill_room(std::int32_t behind) {
  const std::size_t side = static_cast<std::size_t>(tables_->layers()) + 1, shapes = tables_->shapes().size();
  std::vector<std::int16_t> reach(shapes * side);  // [shape][a]
  for (std::size_t s = 0; s < shapes; ++s) {
    std::int32_t e = 0;
    for (std::int32_t a = 0; a <= tables_->layers(); ++a) {
      e = std::max(a, e);
      const std::int64_t* work = tables_->least_work(behind, s, a);
      while (e < tables_->layers() && work[e + 1] <= cap_) ++e;
      reach[s * side + static_cast<std::size_t>(a)] = static_cast<std::int16_t>(e);
    }
  }
  std::int16_t* level = &room_[static_cast<std::size_t>(behind * tables_->codes())];
  const std::int16_t* front = &room_[static_cast<std::size_t>(std::min(behind + 1, room_depth_) * tables_->codes())];
  std::vector<std::int32_t> digits(tables_->units().size(), 0);
  for (std::int64_t code = 1; code < tables_->codes(); ++code) {
    for (std::size_t k = 0; ++digits[k] > tables_->units()[k]; ++k) digits[k] = 0;
    std::int16_t most = 0;
    for (std::size_t s = 0; s < shapes; ++s) {
      const Shape& shape = tables_->shapes()[s];
      if (shape.units > digits[shape.kind]) continue;
      most = std::max(most, reach[s * side + static_cast<std::size_t>(front[code - shape.code])]);
    }
    level[code] = most;
  }
}

std::optional<Limits> Limits::make(const StageTables& tables, std::int64_t limit, std::vector<std::int64_t>& prices) {
  const std::int64_t m = tables.microbatches(), left = std::min(limit, kNever - 1) - tables.least_end();
  if (left < 0 || tables.shapes().empty()) return std::nullopt;
  Limits result(tables);
  prices.resize(tables.units().size(), 0);
  result.cap_ = left / m;
  const PricedChains found = raised_prices(tables, result.cap_, left, prices);
  if (found.whole() > left) return std::nullopt;
  prices = found.of_unit();
  const std::int64_t divisor = 2 * m - tables.in_flight(tables.most_stages()) - 1;
  if (divisor > 0) result.cap_ = std::min(result.cap_, 2 * (left - std::max<std::int64_t>(found.whole(), 0)) / divisor);
  for (const auto& at : {prices, std::vector<std::int64_t>(prices.size(), 0)}) {
    result.prices_.emplace_back(tables, result.cap_, at);
    if (result.prices_.back().whole() > left) return std::nullopt;
  }
  result.fill_room();
  if (result.room(0, tables.codes() - 1) < tables.layers()) return std::nullopt;
  return result;
}

}  // namespace espalier::solve::device_groups
