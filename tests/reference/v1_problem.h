// SPDX-License-Identifier: Apache-2.0
// Builds the layer programs that Galvatron version 1 solves. For a model, a batch B and a number of stages P, they
// hold the strategies of that P with their memory and time per layer type. They also hold the whole megabytes that
// the layers of each stage may fill. Memory adds up and times add up, so a stage is a solve::LayerProblem with states
// = ⌈MB⌉, nothing saved, nothing transient. Every strategy is a layout of its own.
#pragma once

#include <optional>

#include "reference/v1_cost.h"
#include "solve/layer_search.h"

namespace espalier::reference {

/// Describes a model of the published tables: a profile, and the number of its layers of each type in order.
struct V1Workload {
  std::string name;  ///< "BERT-Huge-32"
  const V1Profile* profile = nullptr;
  std::vector<std::int32_t> layers;

  [[nodiscard]] std::int32_t total_layers() const;
  [[nodiscard]] std::vector<std::int32_t> types() const;  ///< by layer
  /// Returns true for models with one type; the authors solve one stage and assume that the others are equal.
  [[nodiscard]] bool uniform() const { return layers.size() == 1; }
};

/// Holds one batch on one number of stages.
struct V1Stages {
  std::int32_t batch = 0, pp = 1;
  std::vector<V1Strategy> strategies;  ///< strategies with this pp; options and layouts are indices into them
  solve::LayerProblem model;           ///< all layers of the model
  std::vector<std::int64_t> capacity;  ///< by stage, MB left for layers; ≤ 0: nothing fits there
};

/// Selects how much of `other` a stage of a uniform model gives up on two nodes. As published, every stage gives up
/// as much as the fullest, because one solution serves all. Otherwise each gives up what the formula states.
enum class V1Capacity : std::uint8_t { published, per_stage };

/// Builds the stages; null if no strategy has this pp, or the authors' loop skips the batch (two nodes: B not a
/// multiple of N/P).
std::optional<V1Stages> v1_stages(const V1Workload& workload, std::int64_t memory_mb, std::int32_t batch, std::int32_t pp,
                                  V1Capacity capacity);

/// Returns layers [first, end) of the model as a separate problem.
solve::LayerProblem v1_stage(const V1Stages& stages, std::int32_t first, std::int32_t end);

/// Returns the authors' division of the layers over P stages, in layers per stage. Uniform models get equal numbers
/// (null if P does not divide them). Others are filled from the last stage, with each layer's memory under its
/// leanest strategy, up to the mean (data/README.md names the scripts).
std::optional<std::vector<std::int32_t>> v1_division(const V1Workload& workload, std::int32_t batch, std::int32_t pp);

}  // namespace espalier::reference
