// SPDX-License-Identifier: Apache-2.0
// Dimension slice indices I_X^φ(D, t): the slice of dimension X that device D works on at step t of phase φ
// (PrimePar, Algorithm 1).
//
// All indices start at 0; each part of the sequence appends a digit (base 2, or 2^k for P) to the dimensions that it
// cuts:
//     split X by bit d           I_X ← 2·I_X + d                               in every phase
//     P_{2^k×2^k}, q = 2^k       r = bits 1, 3, 5 … of its 2k bits, c = bits 2, 4, 6 …, most significant first; digits
//                                mod q:
//         forward   M: r         N: r + c + t          K: c
//         backward  M: r         N: r + c − 1          K: c + t
//         gradient  M: r + t     N: r + c − 1 + δ      K: c − 1 + δ            δ = 1 in the last step, else 0
// Slices are of equal length |X| / slices(X).
//
// Several P in one sequence are Espalier's definition: time has one level per P. Steps are counted t = 0 … T−1, T = Π
// q_j, with digits t_j in base q_j, the first (outermost) P the most significant. Outer tiles move once per full turn
// of the inner ring, so the slow links carry the least. There is one flag δ for all levels, set in the last step of
// all: the accumulator of dW moves once. The alignment of phases holds digit by digit, hence for the whole (partition
// tests).
#pragma once

#include <array>
#include <cstdint>

#include "partition/sequence.h"

namespace espalier::partition {

enum class Phase : std::uint8_t {
  forward,   ///< O = I·W, reduces N
  backward,  ///< dI = dO·Wᵀ, reduces K
  gradient,  ///< dW = Iᵀ·dO, reduces B and M
};
inline constexpr std::array<Phase, 3> kPhases = {Phase::forward, Phase::backward, Phase::gradient};
const char* to_string(Phase phase);

/// Returns T = Π 2^k over the P's, equal in every phase; 1 without P.
int steps(const PartitionSequence& sequence);
/// Returns log2 of the number of slices of a dimension, equal in every phase.
int slice_bits(const PartitionSequence& sequence, char dimension);
inline int slices(const PartitionSequence& sequence, char dimension) { return 1 << slice_bits(sequence, dimension); }
/// Returns I_X^φ(D, t), 0 ≤ device < sequence.devices(), 0 ≤ step < steps(sequence).
int slice_index(const PartitionSequence& sequence, char dimension, Phase phase, int device, int step);

}  // namespace espalier::partition
