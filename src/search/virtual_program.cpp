// SPDX-License-Identifier: Apache-2.0
#include "search/virtual_program.h"

#include <algorithm>

#include "base/infinity.h"
#include "plan/program.h"
#include "plan/split.h"
#include "search/search.h"
#include "solve/shadow_price.h"

namespace espalier::search {
namespace {

using base::kInfinity;

/// Returns the larger of two bounds, as both memories must fit: that of the passes held together, and that of one
/// pass while it runs.
double least(const solve::LayerProblem& held, const solve::LayerProblem& alone, const solve::LayerObjective& objective,
             std::int64_t capacity) {
  return std::max(solve::layers_lower_bound(held, objective, capacity), solve::layers_lower_bound(alone, objective, capacity));
}

}  // namespace

solve::LayerProblem without_transients(solve::LayerProblem p) {
  for (auto& options : p.options)
    for (solve::LayerOption& o : options) o.transient = 0;
  return p;
}

VirtualProgram::VirtualProgram(const Problem& problem, const OptionTable& table, GroupProgram& program, const Schedule& s,
                               const ChunkOrders& orders)
    : model_(*problem.model),
      table_(table),
      program_(program),
      orders_(orders),
      schedule_(s),
      layers_(static_cast<std::size_t>(s.stages)) {
  first_ = split_layers(model_, problem.training.sequence, SplitPolicy::balanced, s.chunks());
  std::vector<std::int32_t> bounds = first_;
  bounds.push_back(static_cast<std::int32_t>(model_.layers.size()));
  for (std::int32_t i = 0; i < s.stages; ++i) {
    for (std::int32_t k = 0; k < s.virtual_stages; ++k) {
      const auto chunk = static_cast<std::size_t>(pipeline_chunk(s, i, k));
      for (std::int32_t l = bounds[chunk]; l < bounds[chunk + 1]; ++l) layers_[static_cast<std::size_t>(i)].push_back(l);
    }
  }
}

/// Returns the layout of a shared table as far as it matters to a stage.
std::int32_t VirtualProgram::table_for(std::int32_t stage) const {
  const std::vector<std::int32_t>& mine = layers_[static_cast<std::size_t>(stage)];
  return program_.uses_table(mine.front(), mine.back() + 1) ? held_table_ : kAnyTable;
}

solve::LayerProblem VirtualProgram::layers_of(std::int32_t stage, std::int32_t passes) const {
  std::vector<std::int32_t> kinds;
  for (const std::int32_t l : layers_[static_cast<std::size_t>(stage)])
    kinds.push_back(model_.layers[static_cast<std::size_t>(l)]);
  return table_.program(kinds, passes, kTotal.lambda, zero_bubble(), held_table_);
}

const VirtualProgram::Least& VirtualProgram::least_of(std::int32_t stage) {
  const auto [at, fresh] = least_.try_emplace({stage, table_for(stage)});
  if (fresh) {
    const solve::LayerProblem held = without_transients(layers_of(stage, orders_.held_together(stage))),
                              alone = layers_of(stage, 1);
    const double m = schedule_.microbatches;
    at->second.all = least(held, alone, {m, 1.0}, program_.capacity());
    if (!zero_bubble()) at->second.steady = least(held, alone, {m, 0.0}, program_.capacity());
  }
  return at->second;
}

double VirtualProgram::bound() {
  const double constant = program_.constant_ns(kTotal);
  double bound = 0, way = 0, down = 0;
  for (std::int32_t i = 0; i < schedule_.stages; ++i) {
    const Least& work = least_of(i);
    bound = std::max(bound, down + work.all + constant);
    if (!zero_bubble()) bound = std::max(bound, way + work.steady + constant);
    const auto end = static_cast<std::size_t>(i) + 1;
    for (std::int32_t l = first_[static_cast<std::size_t>(i)]; l < first_[end]; ++l) {
      way += program_.floor_ns(l);
      down += program_.forward_floor_ns(l);
    }
  }
  return bound;
}

const std::optional<solve::LayerSolution>& VirtualProgram::solution_of(std::int32_t stage, std::int64_t margin) {
  const auto [at, fresh] = solutions_.try_emplace({stage, table_for(stage)});
  if (fresh || at->second.first != margin) {
    const solve::LayerObjective objective = program_.objective(kTotal);
    at->second = {margin, solve::best_layers(coarse(layers_of(stage, passes_of(stage)), objective), objective,
                                             program_.capacity() - margin, kInfinity)};
  }
  return at->second.second;
}

std::int32_t VirtualProgram::best_table(double least_price) const {
  const solve::LayerObjective objective = program_.objective(kTotal);
  const auto costs = [&](std::int32_t layer) {
    std::int32_t stage = 0;
    while (layers_[static_cast<std::size_t>(stage)].front() != layer && layers_[static_cast<std::size_t>(stage)].back() != layer)
      ++stage;
    const solve::LayerProblem p = layers_of(stage, passes_of(stage));
    const double price = std::max(least_price, solve::shadow_price(p, objective, program_.capacity()));
    std::vector<double> all;
    for (const solve::LayerOption& o : p.options[static_cast<std::size_t>(model_.layers[static_cast<std::size_t>(layer)])])
      all.push_back(priced_at(o, objective, price, p.in_flight));
    return all;
  };
  return table_.best_table(costs(0), costs(static_cast<std::int32_t>(model_.layers.size()) - 1));
}

/// Returns the number of micro-batch passes of every chunk that a stage is assumed to hold.
std::int32_t VirtualProgram::passes_of(std::int32_t stage) const {
  return std::max(1, (max_in_flight(schedule_, stage) + schedule_.virtual_stages - 1) / schedule_.virtual_stages);
}

Assignment VirtualProgram::assignment(std::int64_t margin) {
  Assignment a;
  a.first = first_;
  a.options.assign(model_.layers.size(), 0);
  for (std::int32_t i = 0; i < schedule_.stages; ++i) {
    const std::optional<solve::LayerSolution>& found = solution_of(i, margin);
    if (!found) return {};
    const std::vector<std::int32_t>& mine = layers_[static_cast<std::size_t>(i)];
    for (std::size_t l = 0; l < mine.size(); ++l) {
      const std::int32_t kind = model_.layers[static_cast<std::size_t>(mine[l])];
      a.options[static_cast<std::size_t>(mine[l])] = table_.of_kind(kind)[static_cast<std::size_t>(found->options[l])].strategy;
    }
  }
  return a;
}

}  // namespace espalier::search
