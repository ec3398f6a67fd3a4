// SPDX-License-Identifier: Apache-2.0
// Describes multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1). Column linears make queries,
// keys and values from latents that are narrower than the layer. Recomputation can drop the results and make them
// again, since the latents are small.
//
// A linear makes heads from a latent if it is split by columns, reads a width other than the layer's, and precedes
// the attention of its layer. Queries come from a latent if one of these linears has exactly their width. All other
// such linears make keys and values.
#pragma once

#include <algorithm>

#include "espalier/model.h"

namespace espalier {

/// Returns the attention for which `op` makes queries, or keys and values, from a latent; null if it does not.
inline const Operator* attention_of_latent(const LayerKind& kind, const Operator& op) {
  if (op.kind != OperatorKind::linear || op.split != TpSplit::column || op.in == kind.hidden) return nullptr;
  const auto here = std::find_if(kind.operators.begin(), kind.operators.end(), [&](const Operator& o) { return &o == &op; });
  const auto attention = std::find_if(here, kind.operators.end(), [](const Operator& o) {
    return o.kind == OperatorKind::attention || o.kind == OperatorKind::residual;
  });
  if (attention == kind.operators.end() || attention->kind == OperatorKind::residual) return nullptr;
  return &*attention;
}

/// Names the inputs of an attention that are made from latents.
struct MadeOfLatents {
  bool queries = false, keys = false;
};
inline MadeOfLatents made_of_latents(const LayerKind& kind, const Operator& attention) {
  MadeOfLatents made;
  for (const Operator& op : kind.operators) {
    if (attention_of_latent(kind, op) != &attention) continue;
    const bool queries = op.out == std::int64_t{attention.heads} * attention.qk_dim;
    (queries ? made.queries : made.keys) = true;
  }
  return made;
}

}  // namespace espalier
