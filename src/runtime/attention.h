// SPDX-License-Identifier: Apache-2.0
// Core attention over packed queries, keys and values (heads.h).
//
//   P = softmax(mask(Q·Kᵀ/√d)),  O = P·V;   dV = Pᵀ·dO,  dP = dO·Vᵀ,  R = dP∘P,  dS = R − P∘rowsum(R),  dQ = dS·K/√d,  dK = dSᵀ·Q/√d
// Scores become probabilities in place, and dP becomes R and dS: beside the saved P there is one matrix of scores, in the backward.
// Query heads of a group share a key/value head (Ainslie et al. 2023); its gradients are summed over them.
#pragma once

#include <memory>

#include "runtime/operators.h"

namespace espalier::runtime {

std::unique_ptr<LayerOperator> make_attention(const Operator& op, const Place& place);

}  // namespace espalier::runtime
