// SPDX-License-Identifier: Apache-2.0
// The layer programs that Galvatron version 1 solves: for a model, a batch B and a number of stages P, the strategies
// of that P with their memory and time per layer type, and the whole megabytes that the layers of each stage may fill.
// Memory adds up and times add up, so a stage is a solve::LayerProblem with states = ⌈MB⌉, nothing saved, nothing
// transient; every strategy is a layout of its own.
#pragma once

#include <optional>

#include "reference/v1_cost.h"
#include "solve/layer_search.h"

namespace espalier::reference {

/// A model of the published tables: a profile and how many layers of each type it has, in order.
struct V1Workload {
  std::string name;  ///< "BERT-Huge-32"
  const V1Profile* profile = nullptr;
  std::vector<std::int32_t> layers;

  [[nodiscard]] std::int32_t total_layers() const;
  [[nodiscard]] std::vector<std::int32_t> types() const;  ///< of each layer
  /// One type: the authors solve one stage and take the others to be equal to it.
  [[nodiscard]] bool uniform() const { return layers.size() == 1; }
};

/// One batch on one number of stages.
struct V1Stages {
  std::int32_t batch = 0, pp = 1;
  std::vector<V1Strategy> strategies;  ///< those with this pp: what options and layouts number
  solve::LayerProblem model;           ///< all layers of the model
  std::vector<std::int64_t> capacity;  ///< of each stage, MB left for layers; ≤ 0: nothing fits there
};

/// How much of `other` a stage of a uniform model gives up on two nodes: as published (every stage as much as the
/// fullest, because one solution serves all) or what the formula says for each.
enum class V1Capacity : std::uint8_t { published, per_stage };

/// Nothing if no strategy has this pp, or the authors' loop passes over the batch (two nodes: B not a multiple of N/P).
std::optional<V1Stages> v1_stages(const V1Workload& workload, std::int64_t memory_mb, std::int32_t batch, std::int32_t pp,
                                  V1Capacity capacity);

/// Layers [first, end) of the model as a problem of their own.
solve::LayerProblem v1_stage(const V1Stages& stages, std::int32_t first, std::int32_t end);

/// The authors' division of the layers over P stages: equal numbers for uniform models (nothing if P does not divide
/// them); else filled from the last stage with each layer's memory under its leanest strategy up to the mean
/// (data/README.md names the scripts). Layers per stage.
std::optional<std::vector<std::int32_t>> v1_division(const V1Workload& workload, std::int32_t batch, std::int32_t pp);

}  // namespace espalier::reference
