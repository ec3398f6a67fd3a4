// SPDX-License-Identifier: Apache-2.0
#include "partition/slices.h"

#include "base/invariant.h"

namespace espalier::partition {

namespace {

/// Returns bits first, first + 2, … of the device id, counted from d_1 = 0: k of them, most significant first.
int every_other_bit(int device, int bits, int first, int k) {
  int value = 0;
  for (int j = 0; j < k; ++j) value = 2 * value + ((device >> (bits - 1 - first - 2 * j)) & 1);
  return value;
}

/// Returns the digit that P appends to the index of a dimension, before reduction mod 2^k; 0 for dimensions that P
/// leaves alone (unused).
int primitive_digit(char dimension, Phase phase, int r, int c, int t, bool last) {
  const int delta = last ? 1 : 0;
  switch (dimension) {
    case 'M': return phase == Phase::gradient ? r + t : r;
    case 'N':
      if (phase == Phase::forward) return r + c + t;
      return phase == Phase::backward ? r + c - 1 : r + c - 1 + delta;
    case 'K':
      if (phase == Phase::forward) return c;
      return phase == Phase::backward ? c + t : c - 1 + delta;
    default: return 0;
  }
}

bool primitive_cuts(char dimension) { return dimension == 'M' || dimension == 'N' || dimension == 'K'; }

}  // namespace

const char* to_string(Phase phase) {
  switch (phase) {
    case Phase::forward: return "forward";
    case Phase::backward: return "backward";
    case Phase::gradient: return "gradient";
  }
  return "";
}

int steps(const PartitionSequence& sequence) {
  int bits = 0;
  for (const BasicPartition& part : sequence) bits += part.k;
  return 1 << bits;
}

int slice_bits(const PartitionSequence& sequence, char dimension) {
  int bits = 0;
  for (const BasicPartition& part : sequence) {
    if (part.primitive()) {
      bits += primitive_cuts(dimension) ? part.k : 0;
    } else {
      bits += part.dimension == dimension ? 1 : 0;
    }
  }
  return bits;
}

int slice_index(const PartitionSequence& sequence, char dimension, Phase phase, int device, int step) {
  const int bits = sequence.bits();
  const bool last = step == steps(sequence) - 1;
  int time_bits = 0;  // bits of the levels that are still to come
  for (const BasicPartition& part : sequence) time_bits += part.k;
  ESPALIER_CHECK(device >= 0 && device < sequence.devices() && step >= 0 && step < (1 << time_bits));
  int index = 0, used = 0;
  for (const BasicPartition& part : sequence) {
    if (part.primitive()) {
      time_bits -= part.k;
      if (primitive_cuts(dimension)) {
        const int r = every_other_bit(device, bits, used, part.k), c = every_other_bit(device, bits, used + 1, part.k);
        const int mask = (1 << part.k) - 1, t = (step >> time_bits) & mask;
        index = (index << part.k) + (primitive_digit(dimension, phase, r, c, t, last) & mask);
      }
    } else if (part.dimension == dimension) {
      index = 2 * index + ((device >> (bits - 1 - used)) & 1);
    }
    used += part.bits();
  }
  return index;
}

}  // namespace espalier::partition
