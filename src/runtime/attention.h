// SPDX-License-Identifier: Apache-2.0
// Core attention over packed queries, keys and values (heads.h).
//
//   P = softmax(mask(Q·Kᵀ/√d)),  O = P·V;   dV = Pᵀ·dO,  dP = dO·Vᵀ,  R = dP∘P,  dS = P∘(dP − rowsum(R)),  dQ =
//                                           dS·K/√d,  dK = dSᵀ·Q/√d
// Scores become probabilities in place, and dP becomes dS: beside the saved P there is one matrix of scores, in the
// backward. Context parallelism, ring (Liu et al. 2023): keys and values of every rank go round, one message a step
// beside the attention to those that are there; each step's probabilities are made with the largest score so far and
// put right by it and the sum at the end (Milakov and Gimelshein 2018). rowsum(R) = rowsum(dO∘O) (Dao et al. 2022)
// needs no other rank's keys. Backward keys and values go round again; gradients of a rank's keys and values begin one
// step later at its neighbour and come home with the last step, (cp−1) messages of each, as the cost model counts them.
// What a causal mask or a window hides of a step as whole rows or columns is not computed.
//     all-to-all: as Ulysses, over the context group; behind it where there are both.
// Query heads of a group share a key/value head (Ainslie et al. 2023); its gradients are summed over them.
#pragma once

#include <memory>

#include "runtime/rank_operators.h"

namespace espalier::runtime {

std::unique_ptr<LayerOperator> make_attention(const Operator& op, const OperatorPlace& place);

}  // namespace espalier::runtime
