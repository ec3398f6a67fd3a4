// SPDX-License-Identifier: Apache-2.0
#include "runtime/heads.h"

#include <algorithm>

#include "base/invariant.h"

namespace espalier::runtime {

using at::Tensor;

Heads heads_of_rank(const Operator& core, std::int64_t ranks) {
  return {core.heads / ranks, std::max<std::int64_t>(1, core.kv_heads / ranks), core.qk_dim};
}

const Operator& core_of(const LayerKind& kind) {
  for (const Operator& op : kind.operators)
    if (op.kind == OperatorKind::attention) return op;
  ESPALIER_CHECK(false);
  return kind.operators.front();
}

Tensor queries(const Tensor& x, const Heads& h) {
  return x.narrow(2, 0, h.query * h.dim).view({x.size(0), x.size(1), h.query, h.dim});
}

Tensor pairs(const Tensor& x, const Heads& h) {
  return x.narrow(2, h.query * h.dim, 2 * h.pairs * h.dim).view({x.size(0), x.size(1), h.pairs, 2, h.dim});
}

Tensor keys(const Tensor& x, const Heads& h) { return pairs(x, h).select(3, 0); }

Tensor values(const Tensor& x, const Heads& h) { return pairs(x, h).select(3, 1); }

}  // namespace espalier::runtime
