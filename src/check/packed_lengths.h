// SPDX-License-Identifier: Apache-2.0
// Attention of samples that are packed of sequences of unlike length, derived from the histogram from both sides.
//
//   keys     of a token, E[l·s(l)]/E[l] times how full samples are: at least as next-fit decreasing fills them, at most
//            wholly
//   excess   of the slowest replica and micro-batch: least none; most 1 + spread·(√(2 ln R) + √(2 ln m)), which no mean
//            of maxima exceeds
//            (E[max of k normals] ≤ √(2 ln k)), spread the coefficient of variation of Σ l² over the sequences of one
//            sample
//   longest  least a mean sequence, most the longest of all
#pragma once

#include "check/view.h"

namespace espalier::check {

struct PackedAttention {
  double keys = 0, longest = 0;
};
PackedAttention packed_attention(const View& view, const Operator& op, bool most);

}  // namespace espalier::check
