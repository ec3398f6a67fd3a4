// SPDX-License-Identifier: Apache-2.0
#include "reference/v1_problem.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace espalier::reference {
namespace {

std::int64_t whole_mb(double mb) { return static_cast<std::int64_t>(std::ceil(mb)); }

std::vector<V1Strategy> strategies_of(const V1Profile& profile, std::int32_t pp) {
  std::vector<V1Strategy> strategies;
  for (const V1Strategy& s : profile.strategies) {
    if (s.pp == pp) strategies.push_back(s);
  }
  return strategies;
}

/// Returns the capacity of each stage. On one node, uniform models give up `other` on every stage, the rest only
/// on the first.
std::vector<std::int64_t> capacities(const V1Workload& workload, const std::vector<double>& other, std::int64_t memory_mb,
                                     V1Capacity policy) {
  const bool fullest = workload.uniform() && policy == V1Capacity::published;
  std::vector<std::int64_t> capacity;
  for (std::size_t stage = 0; stage < other.size(); ++stage) {
    double taken = fullest ? *std::max_element(other.begin(), other.end()) : other[stage];
    if (!workload.profile->two_nodes() && !workload.uniform() && stage > 0) taken = 0;
    capacity.push_back(memory_mb - whole_mb(taken));
  }
  return capacity;
}

std::vector<double> leanest_layers(const V1Workload& workload, const std::vector<V1Strategy>& strategies, std::int32_t batch) {
  std::vector<double> layers;
  for (std::size_t type = 0; type < workload.layers.size(); ++type) {
    double least = INFINITY;
    for (const V1Strategy& s : strategies)
      least = std::min(least, layer_memory_mb(*workload.profile, workload.profile->layer_types[type], s, batch));
    layers.insert(layers.end(), static_cast<std::size_t>(workload.layers[type]), least);
  }
  return layers;
}

/// Returns the memory that each stage holds before its layers, by the rule of the division: on one node all of it on
/// the first stage.
std::vector<double> held_before(const V1Profile& profile, const V1Strategy& strategy, std::int32_t batch) {
  if (profile.two_nodes()) return other_memory_mb(profile, strategy, batch);
  std::vector<double> held(static_cast<std::size_t>(strategy.pp), 0.0);
  held.front() = other_memory_mb(profile, {1, 1, profile.devices}, batch).front();
  return held;
}

/// Fills from the last stage to the first: a stage takes layers while at least half of the next one is missing
/// to the mean.
std::vector<std::int32_t> fill_from_the_end(const std::vector<double>& layers, const std::vector<double>& held, double mean) {
  std::vector<std::int32_t> division(held.size(), 0);
  std::size_t left = layers.size();
  for (std::size_t stage = held.size(); stage-- > 0;) {
    double used = held[stage];
    while (left > 0 && (stage == 0 || mean - used >= 0.5 * layers[left - 1])) {
      used += layers[--left];
      ++division[stage];
    }
  }
  return division;
}

/// Moves, on two nodes, the last layers of stages far above the mean to the next stage.
void relieve(std::vector<std::int32_t>& division, const std::vector<double>& layers, const std::vector<double>& held,
             double most) {
  std::int32_t first = 0;
  for (std::size_t stage = 0; stage + 1 < division.size(); ++stage) {
    const auto begin = layers.begin() + first;
    double used = held[stage] + std::accumulate(begin, begin + division[stage], 0.0);
    while (division[stage] > 0 && used > most) {
      used -= layers[static_cast<std::size_t>(first + --division[stage])];
      ++division[stage + 1];
    }
    first += division[stage];
  }
}

/// Gives every stage a layer from the one after it; with `backwards` the last ones take it from the one before.
void feed_empty(std::vector<std::int32_t>& division, bool backwards) {
  const std::size_t last = division.size() - 1;
  for (std::size_t stage = 0; stage < last; ++stage) {
    for (; division[stage] <= 0; ++division[stage]) --division[stage + 1];
  }
  for (std::size_t stage = last; backwards && stage > 0; --stage) {
    for (; division[stage] <= 0; ++division[stage]) --division[stage - 1];
  }
}

}  // namespace

std::int32_t V1Workload::total_layers() const { return std::accumulate(layers.begin(), layers.end(), 0); }

std::vector<std::int32_t> V1Workload::types() const {
  std::vector<std::int32_t> types;
  for (std::size_t type = 0; type < layers.size(); ++type)
    types.insert(types.end(), static_cast<std::size_t>(layers[type]), static_cast<std::int32_t>(type));
  return types;
}

std::optional<V1Stages> v1_stages(const V1Workload& workload, std::int64_t memory_mb, std::int32_t batch, std::int32_t pp,
                                  V1Capacity capacity) {
  const V1Profile& profile = *workload.profile;
  V1Stages stages{batch, pp, strategies_of(profile, pp), {}, {}};
  if (stages.strategies.empty()) return std::nullopt;
  if (profile.two_nodes() && batch % (profile.devices / pp) != 0) return std::nullopt;
  stages.model.layers = workload.types();
  const auto count = static_cast<std::int32_t>(stages.strategies.size());
  for (std::size_t type = 0; type < workload.layers.size(); ++type) {
    std::vector<solve::LayerOption>& options = stages.model.options.emplace_back();
    for (std::int32_t s = 0; s < count; ++s) {
      const V1Strategy& strategy = stages.strategies[static_cast<std::size_t>(s)];
      solve::LayerOption& option = options.emplace_back();
      option.steady = layer_seconds(profile, profile.layer_types[type], strategy, batch, workload.total_layers());
      option.states = whole_mb(layer_memory_mb(profile, profile.layer_types[type], strategy, batch));
      option.layout = s;
    }
  }
  for (const V1Strategy& from : stages.strategies) {
    std::vector<double>& row = stages.model.transition.emplace_back();
    for (const V1Strategy& to : stages.strategies) row.push_back(transition_seconds(profile, from, to, batch));
  }
  // Memory outside the layers is spread like that of the first strategy in the list.
  stages.capacity = capacities(workload, other_memory_mb(profile, stages.strategies.front(), batch), memory_mb, capacity);
  return stages;
}

solve::LayerProblem v1_stage(const V1Stages& stages, std::int32_t first, std::int32_t end) {
  solve::LayerProblem stage = stages.model;
  stage.layers.assign(stages.model.layers.begin() + first, stages.model.layers.begin() + end);
  return stage;
}

std::optional<std::vector<std::int32_t>> v1_division(const V1Workload& workload, std::int32_t batch, std::int32_t pp) {
  const V1Profile& profile = *workload.profile;
  const std::int32_t total = workload.total_layers();
  if (pp > total) return std::nullopt;
  if (pp == 1) return std::vector<std::int32_t>{total};
  if (workload.uniform()) {
    if (total % pp != 0) return std::nullopt;
    return std::vector<std::int32_t>(static_cast<std::size_t>(pp), total / pp);
  }
  const std::vector<V1Strategy> strategies = strategies_of(profile, pp);
  if (strategies.empty()) return std::nullopt;
  const std::vector<double> layers = leanest_layers(workload, strategies, batch);
  const std::vector<double> held = held_before(profile, strategies.front(), batch);
  const double mean = (std::accumulate(layers.begin(), layers.end(), 0.0) + std::accumulate(held.begin(), held.end(), 0.0)) / pp;
  std::vector<std::int32_t> division = fill_from_the_end(layers, held, mean);
  if (profile.two_nodes()) {
    relieve(division, layers, held, mean * (profile.family == V1Family::t5 ? 1.3 : 1.5));
    feed_empty(division, profile.family == V1Family::t5);
  } else if (division[0] == 0) {
    ++division[0];
    --division[1];
  }
  if (*std::min_element(division.begin(), division.end()) <= 0) return std::nullopt;
  return division;
}

}  // namespace espalier::reference
