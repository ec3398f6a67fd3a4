// SPDX-License-Identifier: Apache-2.0
// The strategies of consecutive layers on one pipeline stage, exact in time and memory: the dynamic program of
// Galvatron (Miao et al. 2022, §4.2) on frontiers of labels instead of a table over megabytes.
//
// Layers l = 1 … n have a type each; a type offers options (a strategy and its costs). Choosing option o_l for every
// layer costs
//     steady = Σ steady(o_l) + Σ transition(o_{l−1}, o_l)        forward and backward of one micro-batch
//     sync   = Σ sync(o_l)                                       once a step
//     held   = Σ states(o_l) + K·Σ saved(o_l)                    K micro-batches in flight
//     peak   = Σ states + (K − 1)·Σ saved + max_i (Σ_{l≤i} saved(o_l) + transient(o_i))        (Galvatron-BMW, §5.2)
// `peak` is what must not exceed the capacity: while layer i runs backward, layers after it have freed what they kept.
// Adding a layer to a label (steady, sync, held, peak):
//     held' = held + states + K·saved,    peak' = max(peak + states + (K − 1)·saved, held' + transient).
// Every component grows with every component, so a label that another of the same last layout equals or beats in all
// four is dropped without loss, and nothing is rounded. Options of one layout have the same transitions.
//
// How it is fast, each step without loss: labels run from the last layer to the first, so that transients settle at
// once (layer_labels.h); Lagrange multipliers bound what a label still costs (layer_bound.h, layer_completion.h); the
// layouts that a choice uses are decided first (layer_sets.h); copies of an item that every good choice must have are
// placed as one block (layer_completion.h), so that 96 equal layers are a search about a few; the limit on the cost
// rises from the bound until something is below it. Costs are ≥ 0; sums are exact but for what rounding may do to a
// double (1e-12 relative).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace espalier::solve {

struct LayerOption {
  double steady = 0;  ///< seconds, or any unit: only sums and comparisons. Infinite: not allowed
  double sync = 0;
  std::int64_t states = 0;     ///< bytes: parameters, gradients, optimizer
  std::int64_t saved = 0;      ///< bytes of one micro-batch kept from forward to backward
  std::int64_t transient = 0;  ///< bytes while the layer itself runs, beside what it keeps
  std::int32_t layout = 0;     ///< index into `transition`: how the layer wants its input and leaves its output
};

struct LayerProblem {
  std::vector<std::int32_t> layers;               ///< type of each layer
  std::vector<std::vector<LayerOption>> options;  ///< [type][option]
  std::vector<std::vector<double>> transition;    ///< [layout][layout] ≥ 0 between consecutive layers; 0 before the
                                                  ///< first
  std::int32_t in_flight = 1;                     ///< K ≥ 1
};

/// One choice for all layers.
struct LayerSolution {
  double steady = 0, sync = 0;
  std::int64_t held = 0, peak = 0;
  std::vector<std::int32_t> options;  ///< of each layer, index into options[type]
};

/// The choice that minimises steady_weight·steady + sync_weight·sync with peak ≤ capacity; nothing if none fits. Exact:
/// equal to trying all. `upper_bound`: choices that are not below it need not be found (then the answer may be
/// nothing); infinity asks for the optimum.
struct LayerObjective {
  double steady_weight = 1, sync_weight = 0;
  double tolerance = 0;  ///< relative: a choice this close to the lower bound is as good as the best; 0 asks for the
                         ///< best
};
std::optional<LayerSolution> best_layers(const LayerProblem& problem, const LayerObjective& objective, std::int64_t capacity,
                                         double upper_bound);

/// A value that no choice that fits is below; infinite if none fits. Cheap: convex hulls instead of labels.
double layers_lower_bound(const LayerProblem& problem, const LayerObjective& objective, std::int64_t capacity);

/// Every choice with peak ≤ capacity that no other equals or beats in (steady, sync, peak) at once, by rising steady;
/// of equal ones the first. With `ignore_sync` only (steady, peak) count, and every point costs one search; without,
/// labels grow fast with the number of layers (0.2 s for eight layers of fifty options).
std::vector<LayerSolution> layer_frontier(const LayerProblem& problem, std::int64_t capacity, bool ignore_sync);

}  // namespace espalier::solve
