// SPDX-License-Identifier: Apache-2.0
#include "solve/layer_completion.h"

#include <algorithm>
#include <cmath>

#include "base/infinity.h"

namespace espalier::solve {
namespace {

using base::kInfinity;
constexpr std::int32_t kShortRun = 3;  // runs up to this length are not worth blocks
constexpr std::size_t kBlocks = 4;     // every block doubles the positions of its run
constexpr double kEqualCost = 1e-13;   // choices this close (relative) count as equal

/// Returns [item] the first item that differs from it in its layout alone.
std::vector<std::int32_t> twins(const std::vector<Item>& items) {
  std::vector<std::int32_t> first;
  for (const Item& item : items) {
    const auto same = [&](const Item& o) {
      return o.cost == item.cost && o.memory == item.memory && o.saved == item.saved && o.transient == item.transient;
    };
    first.push_back(static_cast<std::int32_t>(std::find_if(items.begin(), items.end(), same) - items.begin()));
  }
  return first;
}

}  // namespace

Completion::Completion(const Chain& chain, const Multipliers& multipliers, const Scope& scope, double tick)
    : chain_(chain), multipliers_(multipliers), scope_(scope), tick_(tick) {
  const std::size_t lambdas = multipliers.lambda.size();
  any_.resize(chain.items.size());
  within_.resize(chain.items.size());
  without_best_.resize(chain.items.size());
  best_.resize(chain.items.size());
  std::vector<double> total(lambdas, 0);
  for (std::size_t t = 0; t < chain.items.size(); ++t) tabulate(t);
  for (const TypeRun& run : chain.runs) {
    const auto type = static_cast<std::size_t>(run.type);
    if (chain.items[type].empty()) hopeless_ = true;
    for (std::size_t k = 0; k < lambdas; ++k) total[k] += run.count * any_[type][k];
  }
  if (hopeless_) return;
  const auto last = static_cast<std::size_t>(chain.runs.back().type);
  for (std::size_t k = 0; k < lambdas; ++k) {
    double least = kInfinity;
    for (const Item& item : chain.items[last])
      least = std::min(least, last_value(item, multipliers.lambda[k], multipliers.least_last));
    total[k] += least - any_[last][k];
  }
  for (std::size_t k = 0; k < lambdas; ++k) {
    const double slack = multipliers.lambda[k] * static_cast<double>(multipliers.slack);
    gap_.push_back(scope.limit - scope.way - (total[k] - slack) + kRounding * (total[k] + slack));
    if (gap_.back() <= 0) hopeless_ = true;
  }
  for (std::size_t a = 0; a < chain.layouts; ++a) {
    least_entry_.push_back(kInfinity);
    for (std::size_t x = 0; x < chain.layouts; ++x)
      if (x != a) least_entry_[a] = std::min(least_entry_[a], chain.transition[x * chain.layouts + a]);
  }
  Rest before{std::vector<double>(lambdas, 0), std::vector<double>(lambdas * chain.layouts, 0), {}, 0};
  for (const TypeRun& run : chain.runs) {
    plan_run(run);
    if (runs_.back().free < 0) hopeless_ = true;
    before_.push_back(before);
    add(before, static_cast<std::size_t>(run.type), run.count);
  }
}

void Completion::tabulate(std::size_t type) {
  const std::size_t lambdas = multipliers_.lambda.size();
  any_[type].assign(lambdas, kInfinity);
  without_best_[type].assign(lambdas, kInfinity);
  best_[type].assign(lambdas, -1);
  within_[type].assign(lambdas * chain_.layouts, kInfinity);
  const std::vector<Item>& items = chain_.items[type];
  twin_.push_back(twins(items));
  for (std::size_t i = 0; i < items.size(); ++i) {
    const Item& item = items[i];
    const std::int32_t twin = twin_[type][i];
    double* within = &within_[type][static_cast<std::size_t>(item.layout) * lambdas];
    for (std::size_t k = 0; k < lambdas; ++k) {
      const double v = value(item, multipliers_.lambda[k], multipliers_.least_memory[type]);
      within[k] = std::min(within[k], v);
      if (v < any_[type][k]) {
        without_best_[type][k] = any_[type][k];
        any_[type][k] = v;
        best_[type][k] = twin;
      } else if (twin != best_[type][k]) {
        without_best_[type][k] = std::min(without_best_[type][k], v);
      }
    }
  }
}

void Completion::plan_run(const TypeRun& run) {
  RunPlan plan{run.type, run.count, {}};
  const auto type = static_cast<std::size_t>(run.type);
  if (scope_.metric && run.count > kShortRun) {
    // The last layer has its own values and may have another item at no extra cost.
    const int own_last = runs_.size() + 1 == chain_.runs.size() ? 1 : 0;
    std::vector<std::int32_t> forced(chain_.items[type].size(), 0);
    for (std::size_t k = 0; k < gap_.size(); ++k) {
      const double others = gap_[k] / (without_best_[type][k] - any_[type][k]) * (1 + 1e-9) + 1e-9 + own_last;
      if (!(others < run.count)) continue;
      std::int32_t& least = forced[static_cast<std::size_t>(best_[type][k])];
      least = std::max(least, run.count - static_cast<std::int32_t>(others));
    }
    add_blocks(plan, forced);
  }
  runs_.push_back(std::move(plan));
}

void Completion::add_blocks(RunPlan& plan, const std::vector<std::int32_t>& forced) {
  const auto type = static_cast<std::size_t>(plan.type);
  for (std::size_t i = 0; i < forced.size(); ++i) {
    if (forced[i] < 2) continue;
    LayoutCopies block{forced[i], {}};
    for (std::size_t j = i; j < forced.size(); ++j)
      if (twin_[type][j] == static_cast<std::int32_t>(i)) block.items.push_back(static_cast<std::int32_t>(j));
    plan.blocks.push_back(std::move(block));
  }
  std::stable_sort(plan.blocks.begin(), plan.blocks.end(),
                   [](const LayoutCopies& a, const LayoutCopies& b) { return a.copies > b.copies; });
  if (plan.blocks.size() > kBlocks) plan.blocks.resize(kBlocks);
  for (const LayoutCopies& block : plan.blocks) {
    plan.free -= block.copies;
    // Such a choice alone would exceed the limit; the kept multipliers may have missed it.
    const double cost = chain_.items[type][static_cast<std::size_t>(block.items.front())].cost;
    if (block.copies * cost > scope_.limit) hopeless_ = true;
  }
}

void Completion::add(Rest& rest, std::size_t type, std::int32_t layers) const {
  if (layers == 0) return;
  for (std::size_t k = 0; k < rest.any.size(); ++k) rest.any[k] += layers * any_[type][k];
  for (std::size_t k = 0; k < rest.within.size(); ++k) rest.within[k] += layers * within_[type][k];
  rest.least_memory += layers * multipliers_.least_memory[type];
}

void Completion::add_block(Rest& rest, const RunPlan& run, const LayoutCopies& block) const {
  const auto type = static_cast<std::size_t>(run.type);
  const std::vector<Item>& items = chain_.items[type];
  const std::size_t lambdas = rest.any.size();
  // With metric transitions, the way from the block's layout is not shorter than the direct one; it is 0 from the
  // layout itself.
  std::vector<double> direct(chain_.layouts, kInfinity);
  for (std::size_t a = 0; a < chain_.layouts; ++a) {
    for (const std::int32_t i : block.items)
      direct[a] = std::min(direct[a], chain_.way(items[static_cast<std::size_t>(i)].layout, static_cast<std::int32_t>(a)));
    rest.entry[a] = std::max(rest.entry[a], direct[a]);
  }
  std::vector<bool> inside(chain_.layouts, false);
  for (const std::int32_t i : block.items) inside[static_cast<std::size_t>(items[static_cast<std::size_t>(i)].layout)] = true;
  const Item& any = items[static_cast<std::size_t>(block.items.front())];
  for (std::size_t k = 0; k < lambdas; ++k) {
    const double v = block.copies * value(any, multipliers_.lambda[k], multipliers_.least_memory[type]);
    rest.any[k] += v;
    for (std::size_t a = 0; a < chain_.layouts; ++a) rest.within[a * lambdas + k] += inside[a] ? v : kInfinity;
  }
  rest.least_memory += block.copies * multipliers_.least_memory[type];
}

Rest Completion::rest(std::size_t run, std::int32_t free, std::uint32_t placed) const {
  Rest rest = before_[run];
  rest.entry = least_entry_;
  const RunPlan& plan = runs_[run];
  add(rest, static_cast<std::size_t>(plan.type), free);
  for (std::size_t b = 0; b < plan.blocks.size(); ++b)
    if ((placed >> b & 1U) == 0) add_block(rest, plan, plan.blocks[b]);
  return rest;
}

bool Completion::worthwhile(const LayerLabel& label, const Rest& rest) const {
  const std::int64_t slack = chain_.capacity - label.memory - rest.least_memory;
  if (slack < 0) return false;
  const auto layout = static_cast<std::size_t>(label.layout);
  const std::size_t lambdas = rest.any.size();
  const double cost = static_cast<double>(label.cost) * tick_, entry = rest.entry[layout];
  const double* within = &rest.within[layout * lambdas];
  const double target = scope_.limit * (1 - kEqualCost) - cost;
  for (std::size_t k = 0; k < lambdas; ++k) {
    const double paid = multipliers_.lambda[k] * static_cast<double>(slack);
    if (std::min(rest.any[k] + entry, within[k]) - paid - kRounding * (rest.any[k] + paid) >= target) return false;
  }
  return true;
}

}  // namespace espalier::solve
