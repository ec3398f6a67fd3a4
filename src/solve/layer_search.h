// SPDX-License-Identifier: Apache-2.0
// Chooses the strategies of consecutive layers on one pipeline stage, exact in time and memory. This is the dynamic
// program of Galvatron (Miao et al. 2022, §4.2) on frontiers of labels instead of a table over megabytes.
//
// Layers l = 1 … n have a type each. A type offers options (a strategy and its costs). Choosing option o_l for every
// layer costs
//     steady = Σ steady(o_l) + Σ transition(o_{l−1}, o_l)        forward and backward of one micro-batch
//     sync   = Σ sync(o_l)                                       once a step
//     held   = Σ states(o_l) + K·Σ saved(o_l)                    K micro-batches in flight
//     peak   = Σ states + (K − 1)·Σ saved + max_i (Σ_{l≤i} saved(o_l) + transient(o_i))        (Galvatron-BMW, §5.2)
// The capacity limits `peak`: while layer i runs backward, layers after it have freed their saved activations. Adding
// a layer to a label (steady, sync, held, peak) gives
//     held' = held + states + K·saved,    peak' = max(peak + states + (K − 1)·saved, held' + transient).
// Every component grows with every component. So if another label of the same last layout equals or beats a label in
// all four, the label is dropped without loss. Nothing is rounded. Options of one layout have the same transitions.
//
// Five steps make the search fast without loss:
// - Labels run from the last layer to the first, so that transients settle at once (layer_labels.h).
// - Lagrange multipliers bound the remaining cost of a label (layer_bound.h, layer_completion.h).
// - The layouts that a choice uses are decided first (layer_sets.h).
// - Copies of an item that every good choice must have are placed as one block (layer_completion.h), so that 96 equal
//   layers reduce to a search over a few.
// - The limit on the cost rises from the bound until a choice is below it.
// Costs are ≥ 0. Sums are exact except for the rounding of doubles (1e-12 relative).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace espalier::solve {

struct LayerOption {
  double steady = 0;  ///< seconds, or any unit: only sums and comparisons count. Infinite: not allowed.
  double sync = 0;
  std::int64_t states = 0;     ///< bytes: parameters, gradients, optimizer
  std::int64_t saved = 0;      ///< bytes per micro-batch kept from forward to backward
  std::int64_t transient = 0;  ///< extra bytes while the layer itself runs
  std::int32_t layout = 0;     ///< index into `transition`: layout of the layer's input and output
};

struct LayerProblem {
  std::vector<std::int32_t> layers;               ///< type of each layer
  std::vector<std::vector<LayerOption>> options;  ///< [type][option]
  /// Holds [layout][layout] ≥ 0 between consecutive layers; it is 0 before the first.
  std::vector<std::vector<double>> transition;
  std::int32_t in_flight = 1;  ///< K ≥ 1
};

/// Holds one choice for all layers.
struct LayerSolution {
  double steady = 0, sync = 0;
  std::int64_t held = 0, peak = 0;
  std::vector<std::int32_t> options;  ///< option of each layer, index into options[type]
};

/// Returns the choice that minimises steady_weight·steady + sync_weight·sync with peak ≤ capacity; nullopt if none
/// fits. It is exact: equal to trying all. Choices that are not below `upper_bound` need not be found (the answer may
/// then be nullopt); infinity asks for the optimum.
struct LayerObjective {
  double steady_weight = 1, sync_weight = 0;
  /// Relative: a choice this close to the lower bound counts as the best; 0 asks for the best.
  double tolerance = 0;
};
std::optional<LayerSolution> best_layers(const LayerProblem& problem, const LayerObjective& objective, std::int64_t capacity,
                                         double upper_bound);

/// Returns a lower bound of all choices that fit; infinity if none fits. It is cheap: it uses convex hulls instead of
/// labels.
double layers_lower_bound(const LayerProblem& problem, const LayerObjective& objective, std::int64_t capacity);

/// Returns every choice with peak ≤ capacity that no other equals or beats in (steady, sync, peak) at once. They are
/// sorted by rising steady; among equal ones the first is kept. With `ignore_sync` only (steady, peak) count, and
/// every point costs one search. Otherwise the labels grow fast with the number of layers (0.2 s for eight layers of
/// fifty options).
std::vector<LayerSolution> layer_frontier(const LayerProblem& problem, std::int64_t capacity, bool ignore_sync);

}  // namespace espalier::solve
