// SPDX-License-Identifier: Apache-2.0
#include "search/layer_refinement.h"

#include <algorithm>
#include <utility>

#include "search/budgets.h"

namespace espalier::search {
namespace {

std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }

}  // namespace

LayerRefinement::LayerRefinement(GroupJudge& judge, const Schedule& schedule, Assignment start, const Overlap& on)
    : judge_(judge), schedule_(schedule), now_(std::move(start)), on_(on), overlaps_(judge.overlaps()) {}

Refinement LayerRefinement::run(Depth depth, std::int64_t budget) {
  Refinement out = climb(depth, budget);
  if (out.left == 0 || depth == Depth::boundaries || judge_.over()) return out;
  // Layers have used up the budget, so at least the boundaries are tried to the end.
  const auto boundaries = static_cast<std::int64_t>(changes(Depth::boundaries).size());
  const Refinement last = climb(Depth::boundaries, kBoundaryRounds * boundaries);
  out.tried += last.tried;
  out.left = std::max(last.left, static_cast<std::int64_t>(changes(depth).size()) - boundaries + last.left);
  return out;
}

/// Applies changes while they help. The plan may be another one afterwards, and `left` refers to that plan.
Refinement LayerRefinement::climb(Depth depth, std::int64_t budget) {
  Refinement out;
  std::vector<Change> todo = changes(depth);
  std::size_t next = 0, in_vain = 0;  // changes of the current plan that did not help
  while (in_vain < todo.size() && out.tried < budget && !judge_.over()) {
    if (next >= todo.size()) next = 0;
    ++out.tried;
    if (better(todo[next])) {
      todo = changes(depth);
      in_vain = 0;
    } else {
      ++in_vain;
      ++next;
    }
  }
  out.left = static_cast<std::int64_t>(todo.size() - in_vain);
  return out;
}

bool LayerRefinement::better(const Change& change) {
  Assignment other = now_;
  Overlap on = on_;
  const auto index = at(change.index);
  if (change.kind == Change::Kind::layer) {
    other.options[index] = change.value;
    if (change.partner >= 0) other.options[other.options.size() - 1 - index] = change.partner;
  } else if (change.kind == Change::Kind::overlap) {
    on = overlaps_[at(change.value)];
  } else {
    other.first[index] += change.value;
    // If the boundary moves left, the layer before it moves, and its new neighbour is the layer after it. To the
    // right it is the other way round.
    const std::int32_t moved = change.value < 0 ? now_.first[index] - 1 : now_.first[index];
    if (change.adopts) other.options[at(moved)] = other.options[at(moved - change.value)];
  }
  const double before = judge_.best_ns();
  judge_.judge(schedule_, other, {on});
  if (judge_.best_ns() >= before) return false;
  now_ = std::move(other);
  on_ = on;
  return true;
}

std::vector<LayerRefinement::Change> LayerRefinement::changes(Depth depth) const {
  std::vector<Change> out;
  add_boundaries(out);
  if (depth == Depth::boundaries) return out;
  for (std::size_t o = 0; o < overlaps_.size(); ++o)
    if (!(overlaps_[o] == on_)) out.push_back({Change::Kind::overlap, 0, static_cast<std::int32_t>(o), false, -1});
  const auto layers = static_cast<std::int32_t>(now_.options.size());
  const OptionTable& table = judge_.tools().table;
  for (const bool kept : {true, false}) {
    for (const bool edges : {true, false}) {
      if (depth != Depth::all && !(kept && edges)) continue;
      for (std::int32_t l = 0; l < layers; ++l) {
        const std::int32_t kind = judge_.tools().problem.model->layers[at(l)];
        if (at_an_edge(l) == edges) add_layer(l, kept ? table.of_kind(kind) : table.dropped_of_kind(kind), out);
      }
    }
  }
  return out;
}

void LayerRefinement::add_boundaries(std::vector<Change>& out) const {
  const auto layers = static_cast<std::int32_t>(now_.options.size());
  for (std::size_t c = 1; c < now_.first.size(); ++c) {
    const std::int32_t here = now_.first[c], end = c + 1 < now_.first.size() ? now_.first[c + 1] : layers;
    for (const std::int32_t by : {-1, 1}) {
      if (here + by <= now_.first[c - 1] || here + by >= end) continue;
      const std::int32_t moved = by < 0 ? here - 1 : here, beside = moved - by;
      const auto index = static_cast<std::int32_t>(c);
      out.push_back({Change::Kind::boundary, index, by, false, -1});
      const bool alike = judge_.tools().problem.model->layers[at(moved)] == judge_.tools().problem.model->layers[at(beside)];
      if (alike && now_.options[at(moved)] != now_.options[at(beside)])
        out.push_back({Change::Kind::boundary, index, by, true, -1});
    }
  }
}

void LayerRefinement::add_layer(std::int32_t layer, const std::vector<PricedOption>& options, std::vector<Change>& out) const {
  const OptionTable& table = judge_.tools().table;
  const bool zero_bubble = splits_backward(schedule_.kind);
  for (const PricedOption& o : options) {
    if (o.strategy == now_.options[at(layer)] || (zero_bubble && whole_backward(table.strategy(o.strategy)))) continue;
    add_with_partner(layer, o, out);
  }
}

/// Adds changes of an embedding or head together with its partner, where their table would otherwise have two
/// layouts. The partner gets every strategy of that layout, in the same activation layout if there are any.
void LayerRefinement::add_with_partner(std::int32_t layer, const PricedOption& option, std::vector<Change>& out) const {
  const OptionTable& table = judge_.tools().table;
  const auto head = static_cast<std::int32_t>(now_.options.size()) - 1;
  const std::int32_t partner = head - layer;
  if ((layer != 0 && layer != head) || table.share_layout(option.strategy, now_.options[at(partner)])) {
    out.push_back({Change::Kind::layer, layer, option.strategy, false, -1});
    return;
  }
  for (const bool alike : {true, false}) {
    const std::size_t before = out.size();
    for (const PricedOption& o : table.of_kind(judge_.tools().problem.model->layers[at(partner)]))
      if (o.table == option.table && (!alike || o.layout == option.layout))
        out.push_back({Change::Kind::layer, layer, option.strategy, false, o.strategy});
    if (out.size() > before) return;
  }
}

/// Returns whether a layer is the first or last of its run of layers of one kind under one strategy in one chunk.
bool LayerRefinement::at_an_edge(std::int32_t layer) const {
  const auto layers = static_cast<std::int32_t>(now_.options.size());
  const std::vector<std::int32_t>& kinds = judge_.tools().problem.model->layers;
  const auto starts = [&](std::int32_t l) {
    return l == 0 || now_.options[at(l)] != now_.options[at(l - 1)] || kinds[at(l)] != kinds[at(l - 1)] ||
           std::binary_search(now_.first.begin(), now_.first.end(), l);
  };
  return starts(layer) || layer + 1 == layers || starts(layer + 1);
}

}  // namespace espalier::search
