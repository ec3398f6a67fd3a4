// SPDX-License-Identifier: Apache-2.0
// Key/value projections under tensor parallelism of more ranks than key/value heads (grouped-query attention).
//
// A rank needs whole heads: with tp > KV it holds ⌈KV/tp⌉ = 1 of them, and tp/KV neighbouring ranks hold the same one.
// So of the outputs of a projection to keys and values KV·(d_qk + d_v)/KV stay on a rank, not 1/tp of them: weights,
// gradients, states and the matrix product follow. Each of those ranks sums the gradient of its own query heads only;
// together they all-reduce them once a step.
#pragma once

#include <cstdint>

#include "espalier/model.h"

namespace espalier {

/// What a linear projects to keys and values; nothing where it does not, or where tp ≤ KV divides the heads.
struct ReplicatedKeys {
  std::int64_t outputs = 0;   ///< of all key/value heads
  std::int64_t kv_heads = 1;  ///< KV
  [[nodiscard]] bool any() const { return outputs > 0; }
  /// On one rank: those of one head.
  [[nodiscard]] std::int64_t on_rank() const { return outputs / kv_heads; }
};
ReplicatedKeys replicated_keys(const LayerKind& kind, const Operator& op, std::int64_t tp);

/// Output features of a column linear on a rank of tp, as a real number where they do not divide.
double outputs_on_rank(const LayerKind& kind, const Operator& op, std::int64_t tp);

}  // namespace espalier
