// SPDX-License-Identifier: Apache-2.0
// The token table of a model that several layers use, and which pipeline stages hold a copy of it.
//
// The embedding (layer 0) owns the table. It is used again by the head when the output is tied to it, and by every
// block that looks tokens up in it: the first decoder block of T5, whose lookup has no parameters of its own, also
// where the head is untied. A stage with any of these layers holds ONE copy: table, gradient and optimizer state, laid
// out as the embedding's strategy says. Where several stages do, the gradients of the copies are summed once a step,
// before the update (Megatron-LM's embedding group).
//
// Layout. Which rank holds which bytes of the table, and who reduces them, follows from tp, sp, cp, dp, zero and shard
// of a strategy. Rule `tied-table`: in a model whose head uses the embedding's table both layers have one layout. A
// runtime holds one parameter on one stage, and reduces copies rank by rank between two. Order of ranks, recomputation,
// overlap, ep and etp do not matter to it.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "espalier/model.h"
#include "espalier/plan.h"
#include "plan/ids.h"

namespace espalier {

/// Whether output projection and embedding are one parameter.
inline bool tied_table(const Model& model) { return model.tied_embeddings && model.vocabulary > 0; }

/// Whether a layer uses weights of an earlier one: ALBERT's and Zamba2's blocks, whose later uses have the operators of
/// the first and none of its parameters, and "again." before their names. Copies on other stages are not modelled, so
/// that all uses stand on one, under one layout.
inline bool uses_again(const LayerKind& kind) {
  return std::any_of(kind.operators.begin(), kind.operators.end(),
                     [](const Operator& op) { return op.name.starts_with("again."); });
}

/// The layer after the embedding that looks tokens up in the embedding's table; −1 if there is none.
std::int32_t second_lookup_layer(const Model& model);

/// Pipeline chunks that hold a copy: the first that uses the table of each stage, by rising chunk; the embedding's is
/// the first. Empty when one stage has all uses of the table. `layers[c]`: layers of chunk c. Reuses the memory of
/// `out`.
void table_chunks(const Model& model, const Schedule& schedule, const std::vector<std::int32_t>& layers,
                  std::vector<ChunkId>& out);

/// Whether the table is trained. The gradients of frozen copies need no exchange, since there are none.
bool trains_table(const Model& model);

/// The first of layers [first, last] that uses the table; −1 if none does.
std::int32_t table_layer(const Model& model, std::int32_t first, std::int32_t last);

/// Whether a chunk holds a copy beside its own layers: every one of `copies` but the first, which has the embedding
/// itself.
inline bool holds_copy(const std::vector<ChunkId>& copies, ChunkId chunk) {
  return !copies.empty() && chunk != copies.front() && std::find(copies.begin(), copies.end(), chunk) != copies.end();
}

/// What of a strategy decides where the bytes of a dense table lie.
struct TableLayout {
  std::int32_t tp = 1;
  SequenceParallel sp = SequenceParallel::none;
  std::int32_t cp = 1, dp = 1;
  ZeroStage zero = ZeroStage::none;
  std::int32_t shard = 1;
  auto operator<=>(const TableLayout&) const = default;
};
TableLayout table_layout(const Strategy& s);
/// "TP2·DP2 ZeRO-1", as in labels of strategies.
std::string text_of(const TableLayout& layout);

}  // namespace espalier
