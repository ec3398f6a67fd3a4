// SPDX-License-Identifier: Apache-2.0
#include "cost/split_table.h"

#include <algorithm>
#include <numeric>

#include "base/invariant.h"
#include "plan/engine.h"
#include "plan/split.h"

namespace espalier::cost {

SplitTable::SplitTable(const Model& model, const std::vector<std::int32_t>& first)
    : first_(first), layers_(static_cast<std::int32_t>(model.layers.size())) {
  ESPALIER_CHECK(model.kinds.size() <= kMaxKinds && !first.empty() && first.front() == 0);
  for (std::int32_t c = 0; c < chunks(); ++c) {
    runs_.emplace_back();
    runs_of(model, this->first(c), last(c), runs_.back());
    layer_counts_.push_back(last(c) - this->first(c) + 1);
    std::int32_t twin = 0;
    const auto same = [&](std::int32_t other) {
      return layer_counts_[static_cast<std::size_t>(other)] == layer_counts_.back() &&
             std::equal(model.layers.begin() + this->first(c), model.layers.begin() + last(c) + 1,
                        model.layers.begin() + this->first(other));
    };
    while (twin < c && (twins_[static_cast<std::size_t>(twin)] != twin || !same(twin))) ++twin;
    twins_.push_back(twin);
  }
  ESPALIER_CHECK(std::accumulate(layer_counts_.begin(), layer_counts_.end(), 0) == layers_);
}

void runs_of(const Model& model, std::int32_t first, std::int32_t last, std::vector<SplitTable::Run>& out) {
  out.clear();
  for (std::int32_t i = first; i <= last; ++i) {
    const std::int32_t kind = model.layers[static_cast<std::size_t>(i)];
    if (out.empty() || out.back().kind != kind) out.push_back({kind, 0});
    ++out.back().layers;
  }
}

SplitTable split_for(const Model& model, const Training& training, const EngineModel& engine, std::int32_t chunks) {
  return {model, split_layers(model, training.sequence, engine.split, chunks)};
}

void structure_for(const Model& model, const Strategy& s, const Schedule& schedule, const SplitTable& split,
                   ProgramStructure& out) {
  structure_of(model, s, schedule, split.layer_counts(), out);
}

}  // namespace espalier::cost
