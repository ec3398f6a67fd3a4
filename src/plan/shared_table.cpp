// SPDX-License-Identifier: Apache-2.0
#include "plan/shared_table.h"

#include <algorithm>
#include <array>

namespace espalier {
namespace {

bool looks_up_again(const LayerKind& kind) {
  return kind.role != LayerRole::embedding && std::any_of(kind.operators.begin(), kind.operators.end(), [](const Operator& op) {
           return op.kind == OperatorKind::embedding && op.split == TpSplit::vocab && op.parameters == 0;
         });
}

/// Returns the chunk that has a layer.
std::int32_t chunk_of_layer(const std::vector<std::int32_t>& layers, std::int32_t layer) {
  std::int32_t chunk = 0;
  for (std::int32_t end = 0; chunk + 1 < static_cast<std::int32_t>(layers.size()); ++chunk) {
    end += layers[static_cast<std::size_t>(chunk)];
    if (layer < end) break;
  }
  return chunk;
}

}  // namespace

std::int32_t second_lookup_layer(const Model& model) {
  if (model.vocabulary == 0) return -1;
  for (std::size_t k = 0; k < model.kinds.size(); ++k) {
    if (!looks_up_again(model.kinds[k])) continue;
    const auto at = std::find(model.layers.begin(), model.layers.end(), static_cast<std::int32_t>(k));
    if (at != model.layers.end()) return static_cast<std::int32_t>(at - model.layers.begin());
  }
  return -1;
}

void table_chunks(const Model& model, const Schedule& schedule, const std::vector<std::int32_t>& layers,
                  std::vector<ChunkId>& out) {
  out.clear();
  if (schedule.stages == 1 || layers.empty() || model.vocabulary == 0) return;
  const std::int32_t lookup = second_lookup_layer(model), last = schedule.chunks() - 1;
  const std::array uses = {0, lookup >= 0 ? chunk_of_layer(layers, lookup) : 0, tied_table(model) ? last : 0};
  std::array<std::int32_t, 3> stages{};
  for (const std::int32_t chunk : uses) {
    const std::int32_t stage = place_of_chunk(schedule, chunk).stage;
    const auto held = stages.begin() + static_cast<std::ptrdiff_t>(out.size());
    if (std::find(stages.begin(), held, stage) != held) continue;
    *held = stage;
    out.emplace_back(chunk);
  }
  if (out.size() == 1) out.clear();
}

bool trains_table(const Model& model) {
  const std::vector<Operator>& embedding = model.layer(0).operators;
  return std::any_of(embedding.begin(), embedding.end(), [](const Operator& op) {
    return op.kind == OperatorKind::embedding && op.split == TpSplit::vocab && !op.frozen;
  });
}

std::int32_t table_layer(const Model& model, std::int32_t first, std::int32_t last) {
  if (first == 0) return 0;
  const std::int32_t lookup = second_lookup_layer(model), head = static_cast<std::int32_t>(model.layers.size()) - 1;
  if (first <= lookup && lookup <= last) return lookup;
  return tied_table(model) && last == head ? head : -1;
}

TableLayout table_layout(const Strategy& s) { return {s.tp, s.sp, s.cp, s.dp, s.zero, s.shard}; }

std::string text_of(const TableLayout& layout) {
  Strategy s;
  s.tp = layout.tp;
  s.sp = layout.sp;
  s.cp = layout.cp;
  s.dp = layout.dp;
  s.zero = layout.zero;
  s.shard = layout.shard;
  return label(s);
}

}  // namespace espalier
