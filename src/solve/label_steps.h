// SPDX-License-Identifier: Apache-2.0
// Computes the extensions of a label: the items that can still matter, with their costs in integer ticks. Internal to
// the layer search.
//
// Ticks make sums exact in any order, so the same layers in another order give the same label. A tick is below 2⁻⁵⁸
// of the greatest cost that matters.
#pragma once

#include <cstdint>
#include <vector>

#include "solve/layer_chain.h"
#include "solve/layer_labels.h"

namespace espalier::solve {

struct LabelExtension {
  Item item;
  std::int64_t cost = 0, tail = 0;
};

struct Steps {
  std::vector<std::vector<LabelExtension>> of_type;
  std::size_t layouts = 0;
  std::vector<std::int64_t> ticks;     ///< transitions, [from·layouts + to]
  std::vector<std::int64_t> distance;  ///< layout_distances of them
  std::int64_t reach_cut = 0;          ///< the largest transient
  double tick = 1;                     ///< cost per tick

  [[nodiscard]] std::int64_t transition(std::int32_t from, std::int32_t to) const {
    return to < 0 ? 0 : ticks[static_cast<std::size_t>(from) * layouts + static_cast<std::size_t>(to)];
  }
};

/// Returns the options of a label's layers, first layer first.
std::vector<std::int32_t> options_of(const LayerLabel& label, const std::vector<LayerLabel>& kept);

/// Returns the sums of a choice.
LayerSolution solution_of(const LayerProblem& problem, std::vector<std::int32_t> options);

/// Builds the steps; no choice that matters costs more than `limit`, or `tail_limit` in tails.
Steps make_steps(const Chain& chain, double limit, double tail_limit);

/// Returns the label after q copies of a step in front of another; `cost` is kForbidden or more if there is no such
/// transition.
inline LayerLabel extended(const Steps& steps, const LayerLabel& label, const LabelExtension& step, std::int32_t copies,
                           std::int32_t after) {
  LayerLabel out;
  const std::int64_t q = copies, over = step.item.transient - label.reach;
  out.cost = label.cost + q * step.cost + steps.transition(step.item.layout, label.layout) +
             (q - 1) * steps.transition(step.item.layout, step.item.layout);
  out.tail = label.tail + q * step.tail;
  out.memory = label.memory + q * step.item.memory + (over > 0 ? over : 0);
  out.reach = label.reach + q * step.item.saved + (over > 0 ? over : 0);
  if (out.reach > steps.reach_cut) out.reach = steps.reach_cut;
  out.layout = step.item.layout;
  out.after = after;
  out.option = step.item.option;
  out.copies = copies;
  return out;
}

}  // namespace espalier::solve
