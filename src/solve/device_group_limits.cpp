// SPDX-License-Identifier: Apache-2.0
#include "solve/device_group_limits.h"

#include <cmath>

namespace espalier::solve::device_groups {
namespace {

constexpr int kSteps = 24;

/// A chain of least price, and what it takes.
class PricedChain {
 public:
  PricedChain(const StageTables& tables, std::int64_t cap, const std::vector<std::int64_t>& prices)
      : tables_(tables), cap_(cap), kinds_(tables.kinds()) {
    const std::size_t cells = static_cast<std::size_t>(tables.layers() + 1) * static_cast<std::size_t>(kinds_);
    result_.of_unit = prices;
    result_.least.assign(cells, kNever);
    ending_.assign(cells, {});
    fill();
    finish();
  }
  [[nodiscard]] const Prices& prices() const { return result_; }

  /// Units of each kind that the chain takes, less what there is.
  [[nodiscard]] std::vector<double> excess() const {
    std::vector<double> result;
    for (const std::int32_t units : tables_.units()) result.push_back(-units);
    for (Stage stage = last_; stage.shape >= 0;) {
      const Shape& shape = tables_.shapes()[static_cast<std::size_t>(stage.shape)];
      result[shape.kind] += shape.units;
      if (stage.first == 0) break;
      stage = ending_[stage.first * kinds_ + before_[stage.first * kinds_ + shape.kind]];
    }
    return result;
  }

 private:
  struct Stage {
    std::int64_t cost = kNever;
    std::int32_t first = 0, shape = -1;
  };

  void fill() {
    before_.assign(ending_.size(), 0);
    std::fill_n(result_.least.begin(), kinds_, 0);
    for (std::int32_t a = 0; a < tables_.layers(); ++a) {
      if (a > 0) reach(a);
      for (std::size_t s = 0; s < tables_.shapes().size(); ++s) push(a, s);
    }
  }
  /// N of layers [0, a) from the chains that end there.
  void reach(std::int32_t a) {
    for (std::int32_t next = 0; next < kinds_; ++next) {
      for (std::int32_t kind = 0; kind < kinds_; ++kind) {
        const std::int64_t cost = ending_[a * kinds_ + kind].cost + tables_.send(kind, next) + tables_.send(next, kind);
        std::int64_t& least = result_.least[a * kinds_ + next];
        if (cost >= least) continue;
        least = cost;
        before_[a * kinds_ + next] = kind;
      }
    }
  }
  [[nodiscard]] std::int64_t base(std::int32_t a, const Shape& shape) const {
    return result_.least[a * kinds_ + shape.kind] + shape.units * result_.of_unit[shape.kind];
  }
  void push(std::int32_t a, std::size_t s) {
    const Shape& shape = tables_.shapes()[s];
    const std::int64_t cost = base(a, shape);
    if (cost >= kNever) return;
    for (std::int32_t e = a + 1; e < tables_.layers(); ++e) {
      const std::int64_t work = tables_.least_work(false, s, a, e);
      if (work > cap_) return;
      Stage& stage = ending_[e * kinds_ + shape.kind];
      if (cost + work < stage.cost) stage = {cost + work, a, static_cast<std::int32_t>(s)};
    }
  }
  void finish() {
    for (std::int32_t a = 0; a < tables_.layers(); ++a) {
      for (std::size_t s = 0; s < tables_.shapes().size(); ++s) {
        const std::int64_t work = tables_.least_work(true, s, a, tables_.layers());
        const std::int64_t cost = base(a, tables_.shapes()[s]) + work;
        if (work <= cap_ && cost < last_.cost) last_ = {cost, a, static_cast<std::int32_t>(s)};
      }
    }
    result_.whole = last_.cost;
    if (last_.cost == kNever) return;
    for (std::int32_t kind = 0; kind < kinds_; ++kind) result_.whole -= result_.of_unit[kind] * tables_.units()[kind];
  }

  const StageTables& tables_;
  std::int64_t cap_;
  std::int32_t kinds_;
  Prices result_;
  std::vector<Stage> ending_;         ///< [e·kinds + kind] the best chain over [0, e) whose last stage is of that kind
  std::vector<std::int32_t> before_;  ///< [a·kinds + kind of the next] kind of the stage that ends at a
  Stage last_;
};

/// Subgradient steps with the length of Polyak towards `target`; the best prices seen. Stops once the target is passed.
Prices raise(const StageTables& tables, std::int64_t cap, std::int64_t target, const std::vector<std::int64_t>& begin) {
  std::vector<std::int64_t> at = begin;
  Prices best;
  best.whole = -kNever;
  for (int step = 0; step < kSteps; ++step) {
    const PricedChain chain(tables, cap, at);
    if (chain.prices().whole > best.whole) best = chain.prices();
    if (best.whole > target) break;
    const std::vector<double> excess = chain.excess();
    double square = 0;
    for (std::size_t k = 0; k < at.size(); ++k)
      if (excess[k] > 0 || at[k] > 0) square += excess[k] * excess[k];
    if (square == 0) break;
    const std::int64_t aim =
        std::min(target, 2 * std::max<std::int64_t>(best.whole, 0) + 1);  // prices stay small without a limit
    const double length = static_cast<double>(aim - chain.prices().whole) / square / (1 + step / 4);
    for (std::size_t k = 0; k < at.size(); ++k) at[k] = std::max<std::int64_t>(0, at[k] + std::llround(length * excess[k]));
  }
  return best;
}

}  // namespace

void Limits::fill_room() {
  const std::size_t side = static_cast<std::size_t>(tables_->layers()) + 1;
  std::vector<std::int16_t> reach(tables_->shapes().size() * side);  // [shape][a] how far a stage from a goes
  for (std::size_t s = 0; s < tables_->shapes().size(); ++s) {
    for (std::int32_t a = 0; a <= tables_->layers(); ++a) {
      std::int32_t e = a;
      while (e < tables_->layers() && tables_->least_work(false, s, a, e + 1) <= cap_) ++e;
      reach[s * side + static_cast<std::size_t>(a)] = static_cast<std::int16_t>(e);
    }
  }
  room_.assign(static_cast<std::size_t>(tables_->codes()), 0);
  std::vector<std::int32_t> digits(kinds_, 0);
  for (std::int64_t code = 1; code < tables_->codes(); ++code) {
    for (std::size_t k = 0; ++digits[k] > tables_->units()[k]; ++k) digits[k] = 0;
    std::int16_t most = 0;
    for (std::size_t k = 0; k < kinds_; ++k)
      if (digits[k] > 0) most = std::max(most, room_[code - tables_->strides()[k]]);
    for (std::size_t s = 0; s < tables_->shapes().size(); ++s) {
      const Shape& shape = tables_->shapes()[s];
      if (shape.units <= digits[shape.kind])
        most = std::max(most, reach[s * side + static_cast<std::size_t>(room_[code - shape.code])]);
    }
    room_[code] = most;
  }
}

/// A last stage, which keeps one micro-batch, behind what the other units have room for.
bool Limits::whole_fits() const {
  const std::int64_t all = tables_->codes() - 1;
  for (std::size_t s = 0; s < tables_->shapes().size(); ++s) {
    const std::int32_t first = std::min(room(all - tables_->shapes()[s].code), tables_->layers() - 1);
    if (tables_->least_work(true, s, first, tables_->layers()) <= cap_) return true;
  }
  return false;
}

std::optional<Limits> Limits::make(const StageTables& tables, std::int64_t limit, std::vector<std::int64_t>& prices) {
  const std::int64_t m = tables.microbatches(), left = std::min(limit, kNever - 1) - tables.least_end();
  if (left < 0 || tables.shapes().empty()) return std::nullopt;
  Limits result(tables);
  prices.resize(tables.units().size(), 0);
  result.cap_ = left / m;
  Prices found = raise(tables, result.cap_, left, prices);
  if (found.whole > left) return std::nullopt;
  prices = found.of_unit;
  const std::int64_t divisor = 2 * m - tables.in_flight(tables.most_stages()) - 1;
  if (divisor > 0) result.cap_ = std::min(result.cap_, 2 * (left - std::max<std::int64_t>(found.whole, 0)) / divisor);
  for (const auto& at : {found.of_unit, std::vector<std::int64_t>(prices.size(), 0)}) {
    const PricedChain chain(tables, result.cap_, at);
    if (chain.prices().whole > left) return std::nullopt;
    result.prices_.push_back(chain.prices());
  }
  if (tables.codes() <= kMostCodes) result.fill_room();
  if (!result.whole_fits()) return std::nullopt;
  return result;
}

}  // namespace espalier::solve::device_groups
