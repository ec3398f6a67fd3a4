// SPDX-License-Identifier: Apache-2.0
// Implements the two ends of a model: tables of tokens and positions, logits, and the cross-entropy. The ranks of a
// tensor group divide the rows of the vocabulary (Shoeybi et al. 2019).
//
//   loss = Σ tokens (ln Σ_v e^(z_v − M) − (z_target − M)) · scale,  M = max_v z_v
//   dz = (softmax(z) − onehot(target)) · scale.
//
// M, the sum and the target's logit are reduced over the group, so that a rank's loss covers all rows. One rank of
// the group counts it. Logits become their softmax, and that its gradient, in place. Only one tensor of the size of
// the logits exists at a time.
#pragma once

#include <memory>

#include "runtime/rank_operators.h"

namespace espalier::runtime {

std::unique_ptr<LayerOperator> make_table(const Operator& op, const Parameters& parameters, const OperatorPlace& place);
std::unique_ptr<LayerOperator> make_logits(const Operator& op, const Parameters& parameters, const OperatorPlace& place);
std::unique_ptr<LayerOperator> make_loss(const Parameters& parameters, const OperatorPlace& place);

}  // namespace espalier::runtime
