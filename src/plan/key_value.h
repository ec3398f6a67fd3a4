// SPDX-License-Identifier: Apache-2.0
// Describes key/value projections under tensor parallelism of more ranks than key/value heads
// (grouped-query attention).
//
// A rank needs whole heads: with tp > KV it holds ⌈KV/tp⌉ = 1 of them, and tp/KV neighbouring ranks hold the same
// one. A projection to KV·(d_qk + d_v) key and value outputs thus keeps 1/KV of them on a rank, not 1/tp. Weights,
// gradients, states and the matrix product follow. Each of those ranks sums the gradient of its own query heads only;
// together they all-reduce them once per step.
#pragma once

#include <cstdint>

#include "espalier/model.h"

namespace espalier {

/// Describes the outputs of a linear to keys and values; empty if there are none, or if tp ≤ KV divides the heads.
struct ReplicatedKeys {
  std::int64_t outputs = 0;   ///< outputs of all key/value heads
  std::int64_t kv_heads = 1;  ///< KV
  [[nodiscard]] bool any() const { return outputs > 0; }
  /// Returns the outputs on one rank: those of one head.
  [[nodiscard]] std::int64_t on_rank() const { return outputs / kv_heads; }
};
ReplicatedKeys replicated_keys(const LayerKind& kind, const Operator& op, std::int64_t tp);

/// Returns the output features of a column linear on a rank of tp, as a real number if they do not divide.
double outputs_on_rank(const LayerKind& kind, const Operator& op, std::int64_t tp);

}  // namespace espalier
