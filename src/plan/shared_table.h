// SPDX-License-Identifier: Apache-2.0
// Handles the token table of a model that several layers use, and the pipeline stages that hold a copy of it.
//
// The embedding (layer 0) owns the table. The head uses it again if the output is tied to it, and so does every block
// that looks tokens up in it. That is the first decoder block of T5, whose lookup has no parameters of its own, even
// if the head is untied. A stage with any of these layers holds ONE copy: table, gradient and optimizer state, in the
// layout of the embedding's strategy. If several stages do, the gradients of the copies are summed once per step,
// before the update (Megatron-LM's embedding group).
//
// The layout is the mapping of the table's bytes to ranks and the ranks that reduce them. It follows from tp, sp, cp,
// dp, zero and shard of a strategy. Rule `tied-table`: in a model whose head uses the embedding's table both layers
// have one layout. A runtime holds one parameter on one stage, and reduces copies rank by rank between two. Order of
// ranks, recomputation, overlap, ep and etp do not affect the layout.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "espalier/model.h"
#include "espalier/plan.h"
#include "plan/ids.h"

namespace espalier {

/// Returns whether output projection and embedding are one parameter.
inline bool tied_table(const Model& model) { return model.tied_embeddings && model.vocabulary > 0; }

/// Returns whether a layer uses weights of an earlier one, as in ALBERT and Zamba2. Later uses of a block have the
/// operators of the first, with "again." before their names, and none of its parameters. Copies on other stages are
/// not modelled, so all uses are on one stage, under one layout.
inline bool uses_again(const LayerKind& kind) {
  return std::any_of(kind.operators.begin(), kind.operators.end(),
                     [](const Operator& op) { return op.name.starts_with("again."); });
}

/// Returns the layer after the embedding that looks tokens up in the embedding's table; −1 if there is none.
std::int32_t second_lookup_layer(const Model& model);

/// Returns the pipeline chunks that hold a copy, in ascending order: the first chunk of each stage that uses the
/// table; the embedding's is the first. Empty if one stage has all uses of the table. `layers[c]` are the layers of
/// chunk c. Reuses the memory of `out`.
void table_chunks(const Model& model, const Schedule& schedule, const std::vector<std::int32_t>& layers,
                  std::vector<ChunkId>& out);

/// Returns whether the table is trained. Frozen copies have no gradients to exchange.
bool trains_table(const Model& model);

/// Returns the first of layers [first, last] that uses the table; −1 if none does.
std::int32_t table_layer(const Model& model, std::int32_t first, std::int32_t last);

/// Returns whether a chunk holds a copy in addition to its own layers: every one of `copies` except the first, which
/// has the embedding itself.
inline bool holds_copy(const std::vector<ChunkId>& copies, ChunkId chunk) {
  return !copies.empty() && chunk != copies.front() && std::find(copies.begin(), copies.end(), chunk) != copies.end();
}

/// Holds the part of a strategy that decides the layout of a dense table.
struct TableLayout {
  std::int32_t tp = 1;
  SequenceParallel sp = SequenceParallel::none;
  std::int32_t cp = 1, dp = 1;
  ZeroStage zero = ZeroStage::none;
  std::int32_t shard = 1;
  auto operator<=>(const TableLayout&) const = default;
};
TableLayout table_layout(const Strategy& s);
/// Returns "TP2·DP2 ZeRO-1", as in labels of strategies.
std::string text_of(const TableLayout& layout);

}  // namespace espalier
