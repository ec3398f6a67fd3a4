// SPDX-License-Identifier: Apache-2.0
#include "search/group_program.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "plan/engine.h"
#include "plan/program.h"
#include "solve/shadow_price.h"

namespace espalier::search {
namespace {

constexpr double kCoarse = 0.01;      // share of the least time of a layer
constexpr double kTolerance = 0.002;  // share of a stage's objective

/// Returns the least bytes that a stage sends on. A stage may end with every layer but the last, under any option.
std::int64_t least_message(const Model& model, const OptionTable& table) {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (std::size_t l = 0; l + 1 < model.layers.size(); ++l)
    for (const auto* options : {&table.of_kind(model.layers[l]), &table.dropped_of_kind(model.layers[l])})
      for (const PricedOption& option : *options) least = std::min(least, option.share.boundary_bytes);
  return least == std::numeric_limits<std::int64_t>::max() ? 0 : least;
}

}  // namespace

GroupProgram::GroupProgram(const Model& model, const CostBook& book, const OptionTable& table, const GroupChoices& group,
                           ScheduleKind kind)
    : model_(model), table_(table), margins_(static_cast<std::size_t>(group.stages), 0) {
  const cost::CostContext& c = book.context();
  schedule_.kind = kind;
  schedule_.stages = group.stages;
  schedule_.microbatches = group.microbatches;
  update_ns_ = std::floor(cost::update_constant_s(c.device, *c.engine) * 1e9);
  pass_ns_ = std::floor(cost::pass_constant_s(c.device, *c.engine) * 1e9);
  const double room = (static_cast<double>(book.memory_limit()) + 1) / (1.0 + c.engine->memory.allocator_reserve);
  capacity_ = static_cast<std::int64_t>(room) - c.device.workspace_bytes;
  // Buffers of the largest message, on every stage.
  if (group.stages > 1) capacity_ -= 2 * least_message(model, table);
}

std::int32_t GroupProgram::in_flight(std::int32_t stage) const { return std::max(1, max_in_flight(schedule_, stage)); }

GroupProgram::Key GroupProgram::key_of(std::int32_t stage, std::int32_t first, std::int32_t end, const Mode& mode) const {
  Key key = {in_flight(stage), margins_[static_cast<std::size_t>(stage)], static_cast<std::int64_t>(mode.lambda * 2), mode.steady,
             uses_table(first, end) ? table_layout_ : kAnyTable};
  for (std::int32_t l = first; l < end; ++l) {
    const std::int32_t kind = model_.layers[static_cast<std::size_t>(l)];
    if (l == first || kind != model_.layers[static_cast<std::size_t>(l) - 1]) {
      key.push_back(kind);
      key.push_back(0);
    }
    ++key.back();
  }
  return key;
}

solve::LayerProblem GroupProgram::program_of(std::int32_t stage, std::int32_t first, std::int32_t end, const Mode& mode) const {
  const std::vector<std::int32_t> kinds(model_.layers.begin() + first, model_.layers.begin() + end);
  return table_.program(kinds, in_flight(stage), mode.lambda, zero_bubble(), table_layout_);
}

const GroupProgram::Solved& GroupProgram::stage(std::int32_t stage, std::int32_t first, std::int32_t end, const Mode& mode) {
  const auto [at, fresh] = solved_.try_emplace(key_of(stage, first, end, mode));
  if (fresh) {
    const std::int64_t room = capacity_ - margins_[static_cast<std::size_t>(stage)];
    auto found = solve::best_layers(coarse(program_of(stage, first, end, mode), objective(mode)), objective(mode), room,
                                    std::numeric_limits<double>::infinity());
    at->second.fits = found.has_value();
    if (found) at->second.solution = std::move(*found);
  }
  return at->second;
}

solve::LayerProblem coarse(solve::LayerProblem p, const solve::LayerObjective& objective) {
  double least = std::numeric_limits<double>::infinity();
  for (const auto& options : p.options)
    for (const solve::LayerOption& o : options) least = std::min(least, o.steady > 0 ? o.steady : least);
  if (!std::isfinite(least)) return p;
  const double unit = kCoarse * least, once = unit * objective.steady_weight;
  for (auto& options : p.options) {
    for (solve::LayerOption& o : options) {
      if (std::isfinite(o.steady)) o.steady = std::round(o.steady / unit) * unit;
      o.sync = std::round(o.sync / once) * once;
    }
  }
  for (auto& row : p.transition)
    for (double& t : row) t = std::ceil(t / unit) * unit;
  return p;
}

solve::LayerObjective GroupProgram::objective(const Mode& mode) const {
  return {schedule_.microbatches - 1 + mode.lambda, mode.steady ? 0.0 : 1.0, kTolerance};
}

double GroupProgram::constant_ns(const Mode& mode) const { return constant_ns(objective(mode).steady_weight); }

double GroupProgram::floor_ns(std::int32_t layer) const {
  double least = std::numeric_limits<double>::infinity();
  for (const PricedOption& o : table_.of_kind(model_.layers[static_cast<std::size_t>(layer)]))
    least = std::min(least, static_cast<double>(o.share.forward_ns + o.share.backward_ns));
  return least;
}

double GroupProgram::forward_floor_ns(std::int32_t layer) const {
  return table_.least_forward(model_.layers[static_cast<std::size_t>(layer)]);
}

solve::BalanceProblem GroupProgram::balance(const Mode& mode) const {
  solve::BalanceProblem b;
  b.layers = static_cast<std::int32_t>(model_.layers.size());
  b.stages = schedule_.stages;
  b.microbatches = schedule_.microbatches;
  for (std::int32_t l = 0; l < b.layers; ++l) b.layer_floor.push_back(mode.way ? floor_ns(l) : forward_floor_ns(l));
  return b;
}

solve::StageValue GroupProgram::value_of(const Mode& mode, std::int32_t first, std::int32_t end, double steady, double all,
                                         std::int64_t peak) const {
  const solve::LayerObjective o = objective(mode);
  if (mode.way) return solve::StageValue{steady, std::max(0.0, all - o.steady_weight * steady), peak};
  // Only the warm-up counts, which no choice shortens.
  double down = 0;
  for (std::int32_t l = first; l < end; ++l) down += forward_floor_ns(l);
  return solve::StageValue{down, std::max(0.0, all - schedule_.microbatches * down), peak};
}

solve::StageOracle GroupProgram::bounds(const Mode& mode) {
  return [this, mode](std::int32_t i, std::int32_t first, std::int32_t end) -> std::optional<solve::StageValue> {
    const auto [at, fresh] = bounds_.try_emplace(key_of(i, first, end, mode), 0.0);
    if (fresh)
      at->second = solve::layers_lower_bound(program_of(i, first, end, mode), objective(mode),
                                             capacity_ - margins_[static_cast<std::size_t>(i)]);
    if (!std::isfinite(at->second)) return std::nullopt;
    // In the mode with steady time alone the bound is m times it; in the other modes the warm-up is an estimate.
    return value_of(mode, first, end, at->second / objective(mode).steady_weight, at->second, 0);
  };
}

solve::StageOracle GroupProgram::oracle(const Mode& mode) {
  return [this, mode](std::int32_t i, std::int32_t first, std::int32_t end) -> std::optional<solve::StageValue> {
    const Solved& s = stage(i, first, end, mode);
    if (!s.fits) return std::nullopt;
    const solve::LayerObjective o = objective(mode);
    const double all = o.steady_weight * s.solution.steady + o.sync_weight * s.solution.sync;
    return value_of(mode, first, end, s.solution.steady, all, s.solution.peak);
  };
}

Assignment GroupProgram::assignment(const std::vector<std::int32_t>& first, const Mode& mode) {
  Assignment a;
  a.first = first;
  const auto layers = static_cast<std::int32_t>(model_.layers.size());
  for (std::size_t i = 0; i < first.size(); ++i) {
    const std::int32_t end = i + 1 < first.size() ? first[i + 1] : layers;
    const Solved& s = stage(static_cast<std::int32_t>(i), first[i], end, mode);
    if (!s.fits) return {};
    for (std::int32_t l = first[i]; l < end; ++l) {
      const auto option = static_cast<std::size_t>(s.solution.options[static_cast<std::size_t>(l - first[i])]);
      a.options.push_back(table_.of_kind(model_.layers[static_cast<std::size_t>(l)])[option].strategy);
    }
  }
  return a;
}

std::int32_t GroupProgram::best_table(const std::vector<std::int32_t>& first, const Mode& mode, double least_price) const {
  const auto stages = static_cast<std::int32_t>(first.size()), layers = static_cast<std::int32_t>(model_.layers.size());
  const solve::LayerObjective o = objective(mode);
  const auto price = [&](std::int32_t stage) {
    const std::int32_t end = stage + 1 < stages ? first[static_cast<std::size_t>(stage) + 1] : layers;
    const solve::LayerProblem p = program_of(stage, first[static_cast<std::size_t>(stage)], end, mode);
    return std::max(least_price, solve::shadow_price(p, o, capacity_ - margins_[static_cast<std::size_t>(stage)]));
  };
  const auto costs = [&](std::int32_t layer, std::int32_t stage, double at) {
    const solve::LayerProblem p = program_of(stage, layer, layer + 1, mode);
    std::vector<double> all;
    for (const solve::LayerOption& x : p.options[static_cast<std::size_t>(p.layers.front())])
      all.push_back(priced_at(x, o, at, p.in_flight));
    return all;
  };
  const double embedding = price(0), head = stages > 1 ? price(stages - 1) : embedding;
  return table_.best_table(costs(0, 0, embedding), costs(layers - 1, stages - 1, head));
}

}  // namespace espalier::search
