// SPDX-License-Identifier: Apache-2.0
// Bounds from both sides the attention of samples packed from sequences of unequal length, using their histogram.
//
//   keys     of a token: E[l·s(l)]/E[l] times the fill of the samples; at least as next-fit decreasing fills them, at
//            most full
//   excess   of the slowest replica and micro-batch: at least zero, at most 1 + spread·(√(2 ln R) + √(2 ln m)), which
//            no mean of maxima exceeds (E[max of k normals] ≤ √(2 ln k)). The spread is the coefficient of variation
//            of Σ l² over the sequences of one sample.
//   longest  at least a mean sequence, at most the longest of all
#pragma once

#include "check/view.h"

namespace espalier::check {

struct PackedAttention {
  double keys = 0, longest = 0;
};
PackedAttention packed_attention(const View& view, const Operator& op, bool most);

}  // namespace espalier::check
