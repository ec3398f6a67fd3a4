// SPDX-License-Identifier: Apache-2.0
// Provides small programs and timings for the tests of this module.
#pragma once

#include <cstdint>

#include "cost/by_chunk.h"
#include "plan/program.h"

namespace espalier::sim::testing {

inline ProgramStructure structure(ScheduleKind kind, std::int32_t p, std::int32_t v, std::int32_t m, int buckets = 1) {
  ProgramStructure low;
  low.schedule = {kind, p, v, m, 1};
  low.buckets.assign(static_cast<std::size_t>(p * v), static_cast<std::uint8_t>(buckets));
  low.overlap_p2p = true;
  return low;
}

/// Returns timings in which every chunk takes F, B, W nanoseconds of pure compute; no communication, no memory.
inline cost::test::ByChunk uniform(const Schedule& s, std::int64_t F, std::int64_t B, std::int64_t W) {
  cost::test::ByChunk rows = cost::test::empty_rows(s);
  for (cost::test::ChunkRow& chunk : rows.chunks) {
    chunk.forward.compute_ns = F;
    chunk.backward.compute_ns = B + W;
    chunk.backward_input.compute_ns = B;
    chunk.backward_weight.compute_ns = W;
  }
  return rows;
}

}  // namespace espalier::sim::testing
