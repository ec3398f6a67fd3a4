// SPDX-License-Identifier: Apache-2.0
// Mixtures of experts: every token goes to the `top_k` experts that its router prefers, wherever these lie, and none is
// dropped.
//
//   router     p = softmax(W·x);  of the k largest  w = p, or p / Σ p where the configuration normalises them
//                dp = dw, or (dw − Σ dw∘w) / Σ p, of the chosen;  dz = p∘(dp − Σ dp∘p);  dx += dz·W
//   dispatch   k copies of a token, in the order of their experts; all-to-all of as many rows as there are
//   experts    a matrix product each
//   combine    all-to-all back;  y = Σ_k w_k · copy_k;   dw_k = dy·copy_k,  dcopy_k = w_k·dy
//
// A rank of place (x, e) in its expert tensor and expert groups holds the x-th part of experts [e·E/ep, (e+1)·E/ep)
// (plan/ownership.h). Where the expert tensor group divides a sequence, its members have different tokens: what arrived
// is gathered among them before the experts and reduce-scattered after; otherwise all have the same, and partial
// outputs are all-reduced. Backward the two ends change places. Ranks of a tensor group that hold the same tokens and
// split no expert each send all of theirs, as the cost model has it: of the gradients of experts each counts its share.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/rank_operators.h"

namespace espalier::runtime {

/// Where the copies of a pass's tokens went. Rows of tensors are copies.
struct Routing {
  std::vector<std::int64_t> shape;           ///< of the activation that is routed
  at::Tensor experts;                        ///< [tokens, top_k]
  at::Tensor weights;                        ///< of the copies, [tokens, top_k]
  at::Tensor gradient;                       ///< of the weights
  at::Tensor order;                          ///< copies by expert: numbers token · top_k + k
  at::Tensor grouped;                        ///< what arrived, by own expert: numbers of rows
  std::vector<std::int64_t> sent, received;  ///< rows, by member of the expert group
  std::vector<std::int64_t> rows;            ///< by own expert
  std::int64_t room = 0;                     ///< rows of the member of the expert tensor group that received most
};

/// Of a router, dispatch, expert linear or combine.
std::unique_ptr<LayerOperator> make_expert_operator(const Operator& op, const Parameters& parameters, const OperatorPlace& place);

}  // namespace espalier::runtime
