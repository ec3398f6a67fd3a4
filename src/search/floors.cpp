// SPDX-License-Identifier: Apache-2.0
#include "search/floors.h"

#include <algorithm>

#include "base/invariant.h"

namespace espalier::search {
namespace {

constexpr double kNearAnswer = 4;     // times the answer: floors beyond are not listed individually
constexpr std::size_t kFastest = 16;  // simulated configurations that a record lists

void add_layer(SearchRecord::Layer layer, std::int64_t reach, SearchRecord& out) {
  if (layer.floor_ns <= reach) {
    out.layers.push_back(std::move(layer));
    return;
  }
  out.far_leaves += layer.leaves;
  out.far_floor_ns = std::min(out.far_floor_ns, layer.floor_ns);
}

}  // namespace

std::int64_t Floors::add(std::size_t layer, const std::vector<std::int64_t>& bounds) {
  const std::size_t first = floors_.size();
  rows_.push_back({layer, first, bounds.size()});
  floors_.insert(floors_.end(), bounds.begin(), bounds.end());
  return static_cast<std::int64_t>(first);
}

void Floors::raise(std::int64_t slot, std::int64_t floor_ns) {
  ESPALIER_CHECK(slot >= 0 && slot < static_cast<std::int64_t>(floors_.size()));
  std::int64_t& known = floors_[static_cast<std::size_t>(slot)];
  known = std::max(known, floor_ns);
}

KnownBounds Floors::known(const SearchFrame& frame, const std::vector<LayerNode>& nodes) const {
  KnownBounds out;
  for (const Row& row : rows_) {
    Configuration b = nodes[row.layer].choice;
    const std::vector<Space::ScheduleChoice>& choices = frame.space.schedules(b);
    ESPALIER_CHECK(choices.size() == row.count);
    KnownBounds::Node node{b, {}};
    for (std::size_t i = 0; i < row.count; ++i) {
      if (!frame.worth_keeping(floors_[row.first + i])) continue;
      choices[i].take(b.schedule);
      node.schedules.emplace_back(b, floors_[row.first + i]);
    }
    out.nodes.push_back(std::move(node));
  }
  out.sort();
  if (!frame.out.complete || !frame.out.best) return out;
  out.choices.emplace();
  for (const LayerNode& n : nodes)
    if (frame.worth_keeping(n.bound_ns)) out.choices->push_back({n.choice, n.bound_ns, n.leaves});
  return out;
}

/// Adds the floors that the record dropped, with their present values.
void Floors::add_dropped(const SearchFrame& frame, SearchRecord& out) const {
  if (!carried_) return;
  const Carried* carried = frame.options.carried;
  for (const std::size_t at : dropped_) {
    SearchRecord::Layer layer = carried->record->layers[at];
    layer.floor_ns = carried->floor_ns(layer.choice, layer.floor_ns);
    for (std::int64_t& floor : layer.schedule_floors_ns) floor = carried->floor_ns(layer.choice, floor);
    out.layers.push_back(std::move(layer));
  }
  out.far_leaves += carried->record->far_leaves;
  out.far_floor_ns = std::min(out.far_floor_ns, carried->far_floor_ns(frame.problem.training.global_batch));
}

SearchRecord Floors::record(const SearchFrame& frame, const std::vector<LayerNode>& nodes, double too_large) const {
  ESPALIER_CHECK(frame.out.complete && frame.out.best);
  SearchRecord out;
  const auto reach = static_cast<std::int64_t>(kNearAnswer * static_cast<double>(frame.out.best->iteration_ns));
  std::vector<const Row*> row_of(nodes.size(), nullptr);
  for (const Row& row : rows_) row_of[row.layer] = &row;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    SearchRecord::Layer layer{nodes[i].choice, nodes[i].leaves, nodes[i].bound_ns, {}};
    if (const Row* row = row_of[i]) {
      const auto first = floors_.begin() + static_cast<std::ptrdiff_t>(row->first);
      layer.schedule_floors_ns.assign(first, first + static_cast<std::ptrdiff_t>(row->count));
      std::int64_t least = INT64_MAX;
      for (const std::int64_t floor : layer.schedule_floors_ns) least = std::min(least, floor);
      layer.floor_ns = std::max(layer.floor_ns, least);
    }
    add_layer(std::move(layer), reach, out);
  }
  add_dropped(frame, out);
  out.too_large = too_large;
  out.space_size = frame.out.space_size;
  out.by_dimension = frame.out.by_dimension;
  for (std::size_t i = 0; i < std::min(frame.out.simulated.size(), kFastest); ++i)
    out.fastest.push_back(frame.out.simulated[i].configuration);
  out.model_layers = static_cast<std::int64_t>(frame.problem.model->layers.size());
  double listed = out.far_leaves + out.too_large;
  for (const SearchRecord::Layer& layer : out.layers) listed += layer.leaves;
  ESPALIER_CHECK(listed == out.space_size);  // the list covers the whole space
  return out;
}

}  // namespace espalier::search
