// SPDX-License-Identifier: Apache-2.0
// Runs mixtures of experts. Every token goes to the `top_k` experts that its router prefers, on any rank, and none is
// dropped.
//
//   router     p = softmax(W·x);  of the k largest  w = p, or p / Σ p where the configuration normalises them
//                dp = dw, or (dw − Σ dw∘w) / Σ p, of the chosen;  dz = p∘(dp − Σ dp∘p);  dx += dz·W
//   dispatch   k copies of a token, in the order of their experts; an all-to-all of exactly these rows
//   experts    a matrix product each
//   combine    all-to-all back;  y = Σ_k w_k · copy_k;   dw_k = dy·copy_k,  dcopy_k = w_k·dy
//
// A rank at place (x, e) in its expert tensor and expert groups holds the x-th part of experts [e·E/ep, (e+1)·E/ep)
// (plan/ownership.h). Where the expert tensor group divides a sequence, its members hold different tokens. The
// arrived rows are then gathered among them before the experts and reduce-scattered after. Otherwise all members hold
// the same tokens, and partial outputs are all-reduced. The backward swaps the two ends. Ranks of a tensor group that
// hold the same tokens and split no expert each send all of them, as the cost model assumes. Each then counts its
// share of the experts' gradients.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/rank_operators.h"

namespace espalier::runtime {

/// Records where the copies of a pass's tokens went. Rows of tensors are copies.
struct Routing {
  std::vector<std::int64_t> shape;           ///< shape of the activation that is routed
  at::Tensor experts;                        ///< [tokens, top_k]
  at::Tensor weights;                        ///< weights of the copies, [tokens, top_k]
  at::Tensor gradient;                       ///< gradient of the weights
  at::Tensor order;                          ///< copies by expert: numbers token · top_k + k
  at::Tensor grouped;                        ///< arrived rows by own expert: row numbers
  std::vector<std::int64_t> sent, received;  ///< rows, by member of the expert group
  std::vector<std::int64_t> rows;            ///< by own expert
  std::int64_t room = 0;                     ///< rows of the expert tensor group's member that received most
};

/// Makes a router, dispatch, expert linear or combine.
std::unique_ptr<LayerOperator> make_expert_operator(const Operator& op, const Parameters& parameters, const OperatorPlace& place);

}  // namespace espalier::runtime
