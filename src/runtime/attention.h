// SPDX-License-Identifier: Apache-2.0
// Rotary positions and core attention. Queries, keys and values come packed in the features of one activation: all queries, then of each
// key/value head its key and its value.
//
//   P = softmax(mask(Q·Kᵀ/√d)),  O = P·V;   dV = Pᵀ·dO,  dP = dO·Vᵀ,  dS = P∘(dP − rowsum(dP∘P)),  dQ = dS·K/√d,  dK = dSᵀ·Q/√d
// Query heads of a group share a key/value head (Ainslie et al. 2023); its gradients are summed over them.
#pragma once

#include <memory>

#include "runtime/operators.h"

namespace espalier::runtime {

/// Of a rotary or an attention operator.
std::unique_ptr<LayerOperator> make_attention(const LayerKind& kind, const Operator& op, const Place& place);

}  // namespace espalier::runtime
