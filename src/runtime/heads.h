// SPDX-License-Identifier: Apache-2.0
// Queries, keys and values as they lie packed in the features of one activation: all queries, then of each key/value
// head its key and its value. Views into a tensor, no copies.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "espalier/model.h"

namespace espalier::runtime {

/// How many heads lie in a packed activation.
struct Heads {
  std::int64_t query = 0, pairs = 0, dim = 0;
  [[nodiscard]] std::int64_t features() const { return (query + 2 * pairs) * dim; }
};

/// Of an attention operator those of one of `ranks`: at least one pair each.
Heads heads_of_rank(const Operator& core, std::int64_t ranks);
/// The attention of a layer.
const Operator& core_of(const LayerKind& kind);

// Views: [tokens, samples, heads, dim]; of pairs [tokens, samples, heads, 2, dim].
at::Tensor queries(const at::Tensor& x, const Heads& h);
at::Tensor pairs(const at::Tensor& x, const Heads& h);
at::Tensor keys(const at::Tensor& x, const Heads& h);
at::Tensor values(const at::Tensor& x, const Heads& h);

}  // namespace espalier::runtime
