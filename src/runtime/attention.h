// SPDX-License-Identifier: Apache-2.0
// Computes core attention over packed queries, keys and values (heads.h).
//
//   P = softmax(mask(Q·Kᵀ/√d)),  O = P·V
//   dV = Pᵀ·dO,  dP = dO·Vᵀ,  R = dP∘P,  dS = P∘(dP − rowsum(R)),  dQ = dS·K/√d,  dK = dSᵀ·Q/√d
// Scores become probabilities in place, and dP becomes dS. In addition to the saved P, the backward needs one matrix
// of scores.
//
// Ring context parallelism (Liu et al. 2023): the keys and values of every rank go round the ring. Each step sends
// one message, overlapped with the attention to the keys and values already received. Each step computes its
// probabilities with the largest score so far; they are rescaled by it and by the sum at the end (Milakov and
// Gimelshein 2018). The backward needs rowsum(R) = rowsum(dO∘O) (Dao et al. 2022), which depends on no other rank's
// keys.
// In the backward, keys and values go round again. Gradients of a rank's keys and values start one step later at its
// neighbour and return with the last step. These are (cp−1) messages of each, as the cost model counts them. A step
// skips whole rows and columns that a causal mask or a window hides.
//
// All-to-all context parallelism works like Ulysses, over the context group; it comes after Ulysses where a layer has
// both. Query heads of a group share a key/value head (Ainslie et al. 2023), whose gradients are summed over them.
#pragma once

#include <memory>

#include "runtime/rank_operators.h"

namespace espalier::runtime {

std::unique_ptr<LayerOperator> make_attention(const Operator& op, const OperatorPlace& place);

}  // namespace espalier::runtime
