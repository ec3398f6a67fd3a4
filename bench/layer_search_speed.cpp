// SPDX-License-Identifier: Apache-2.0
// Measures milliseconds of the exact layer search on synthetic stages. The options are the leaves of the paper's
// decision tree with and without recomputation. Simple formulas give the costs of BERT-Huge-like layers. Each
// combination of pipeline depth, micro-batches and memory budget is one search. Layers and memory grow together, so
// that every size is about as tight. Prints one JSON object a line.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "reference/decision_tree.h"
#include "solve/layer_search.h"

namespace {

using namespace espalier::reference;
using namespace espalier::solve;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int kNode = 8, kBatch = 512;
// One layer has the hidden size 1280 (sequence 512). The constants are seconds forward of one sample on one device,
// and bytes of parameters, of activations at tensor parallelism 1, and of the layer's input. The whole part of the
// activations is what is left at a large degree.
constexpr double kForward = 0.8e-3, kParameters = 77e6, kSplitActivations = 83e6, kWholeActivations = 11e6, kInput = 2.6e6;
constexpr double kNodeBandwidth = 150e9, kFabricBandwidth = 20e9, kLatency = 10e-6;

/// Returns the CPU seconds of this thread, unaffected by other work on the machine.
double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// Returns the seconds that a ring of `degree` ranks, `stride` apart, needs for an all-gather or
/// reduce-scatter of `bytes`.
double ring(double bytes, int degree, int stride) {
  if (degree == 1) return 0;
  const double bandwidth = degree * stride <= kNode ? kNodeBandwidth : kFabricBandwidth;
  return (degree - 1.0) / degree * bytes / bandwidth + kLatency * (degree - 1);
}

struct Axes {
  int data = 1, tensor = 1, tensor_stride = 1;
};

Axes axes_of(const TreeLeaf& leaf) {
  Axes axes;
  int stride = 1;
  for (auto level = leaf.levels.rbegin(); level != leaf.levels.rend(); ++level) {
    if (level->dimension == TreeDimension::tp) {
      axes.tensor = level->degree;
      axes.tensor_stride = stride;
    } else {
      axes.data *= level->degree;
    }
    stride *= level->degree;
  }
  return axes;
}

/// `sample` is the number of samples of one micro-batch on one replica; it must be at least 1.
LayerOption option_of(const TreeLeaf& leaf, double sample) {
  const Axes axes = axes_of(leaf);
  const double t = axes.tensor, activations = sample * (kSplitActivations / t + kWholeActivations);
  const double tensor_sync = 2 * ring(2 * sample * kInput, axes.tensor, axes.tensor_stride);
  LayerOption o;
  const double forward = sample * kForward / t;
  o.steady = (3 * forward + 2 * tensor_sync) + (leaf.recompute ? forward + tensor_sync : 0);
  double states = 8 * kParameters / t;
  int stride = 1;
  for (auto level = leaf.levels.rbegin(); level != leaf.levels.rend(); stride *= level->degree, ++level) {
    if (level->dimension == TreeDimension::tp) continue;
    const double half = ring(2 * kParameters / t, level->degree, stride);
    if (level->dimension == TreeDimension::sdp) {
      o.steady += 2 * half;
      o.sync += half;
      states = states / level->degree + 0.025 * states;
    } else {
      o.sync += 2 * half;
    }
  }
  o.states = static_cast<std::int64_t>(states);
  o.saved = static_cast<std::int64_t>(leaf.recompute ? sample * kInput : activations);
  o.transient = static_cast<std::int64_t>(leaf.recompute ? activations : 0.05 * activations);
  return o;
}

struct Shape {
  std::string name;
  int devices = 64;
  bool all_leaves = false;  ///< also combine DP with SDP
};

/// Builds the first stage of `depth`, which holds the activations of most micro-batches.
LayerProblem stage(const Shape& shape, int depth, int microbatches, int layers) {
  TreeRules rules;
  if (shape.all_leaves) rules.disable("no-dp-sdp-mix");
  LayerProblem p;
  p.layers.assign(static_cast<std::size_t>(layers), 0);
  p.options.resize(1);
  p.in_flight = std::min(depth, microbatches);
  std::map<std::vector<int>, std::int32_t> layouts;
  std::vector<Axes> axes;
  const double samples = static_cast<double>(kBatch) / microbatches;
  for (const TreeLeaf& leaf : decision_tree(shape.devices, true, rules)) {
    const Axes a = axes_of(leaf);
    if (leaf.pp != depth || samples < a.data) continue;
    LayerOption o = option_of(leaf, samples / a.data);
    o.layout =
        layouts.emplace(std::vector<int>{a.tensor, a.tensor_stride}, static_cast<std::int32_t>(layouts.size())).first->second;
    if (static_cast<std::size_t>(o.layout) == axes.size()) axes.push_back(a);
    p.options[0].push_back(o);
  }
  for (const Axes& from : axes) {
    p.transition.emplace_back();
    for (const Axes& to : axes) {
      const bool same = from.tensor == to.tensor && from.tensor_stride == to.tensor_stride;
      const bool gather = to.tensor > from.tensor || to.tensor_stride != from.tensor_stride;
      const double bytes = 2 * samples / to.data * kInput;
      p.transition.back().push_back(same ? 0 : gather ? ring(bytes, to.tensor, to.tensor_stride) : 0);
    }
  }
  return p;
}

struct Total {
  int searches = 0, found = 0;
  std::size_t options = 0, layouts = 0;
  double seconds = 0, slowest = 0, bound_seconds = 0, gap = 0;
};

void search_all(const Shape& shape, int layers, int deepest, Total& total) {
  for (int depth = 1; depth <= deepest; depth *= 2) {
    for (int m = 1; m <= kBatch; m *= 2) {
      const LayerProblem p = stage(shape, depth, m, layers / depth);
      total.options = std::max(total.options, p.options[0].size());
      total.layouts = std::max(total.layouts, p.transition.size());
      if (p.options[0].empty()) continue;
      for (int budget = 8; budget <= 80; budget += 4) {
        const auto capacity = static_cast<std::int64_t>(budget * 1e9 * layers / 96);
        const LayerObjective objective{static_cast<double>(m), 1};
        const double start = cpu_seconds();
        const auto best = best_layers(p, objective, capacity, kInfinity);
        const double seconds = cpu_seconds() - start;
        const double bound_start = cpu_seconds();
        const double bound = layers_lower_bound(p, objective, capacity);
        total.bound_seconds += cpu_seconds() - bound_start;
        ++total.searches;
        total.seconds += seconds;
        total.slowest = std::max(total.slowest, seconds);
        if (!best) continue;
        ++total.found;
        total.gap = std::max(total.gap, (m * best->steady + best->sync) / bound - 1);
      }
    }
  }
}

void measure(const Shape& shape, int deepest) {
  for (const int layers : {12, 24, 48, 96}) {
    Total total;
    search_all(shape, layers, std::min(deepest, layers), total);
    std::printf(
        "{\"bench\": \"layer_search\", \"space\": \"%s\", \"devices\": %d, \"depths\": %d, \"layers\": %d, \"options\": %zu, "
        "\"layouts\": %zu, "
        "\"searches\": %d, \"found\": %d, \"seconds\": %.4f, \"mean_us\": %.1f, \"slowest_ms\": %.3f, \"bound_mean_us\": %.1f, "
        "\"largest_gap\": %.4f}\n",
        shape.name.c_str(), shape.devices, deepest, layers, total.options, total.layouts, total.searches, total.found,
        total.seconds, total.seconds / total.searches * 1e6, total.slowest * 1e3, total.bound_seconds / total.searches * 1e6,
        total.gap);
    std::fflush(stdout);
  }
}

}  // namespace

int main() {
  measure({"published", 64, false}, 1);
  measure({"published", 64, false}, 32);
  measure({"all", 64, true}, 32);
  measure({"all", 1024, true}, 32);
  return 0;
}
