// SPDX-License-Identifier: Apache-2.0
// Views queries, keys and values packed in the features of one activation. All queries come first, then the key and
// the value of each key/value head. The views share the tensor's memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "espalier/model.h"

namespace espalier::runtime {

/// Counts the heads in a packed activation.
struct Heads {
  std::int64_t query = 0, pairs = 0, dim = 0;
  [[nodiscard]] std::int64_t features() const { return (query + 2 * pairs) * dim; }
};

/// Returns one rank's share of an attention operator's heads, split over `ranks`. Each rank has at least one pair.
Heads heads_of_rank(const Operator& core, std::int64_t ranks);
/// Returns the attention operator of a layer.
const Operator& core_of(const LayerKind& kind);

// These views are [tokens, samples, heads, dim], and [tokens, samples, heads, 2, dim] for pairs.
at::Tensor queries(const at::Tensor& x, const Heads& h);
at::Tensor pairs(const at::Tensor& x, const Heads& h);
at::Tensor keys(const at::Tensor& x, const Heads& h);
at::Tensor values(const at::Tensor& x, const Heads& h);

}  // namespace espalier::runtime
