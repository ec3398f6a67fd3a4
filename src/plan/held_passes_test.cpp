// SPDX-License-Identifier: Apache-2.0
#include "plan/held_passes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "plan/schedule.h"

namespace espalier {
namespace {

// Two stages with two chunks each run interleaved with two micro-batches. Stage 0 runs F0 F1 F'0 F'1 B'0 B'1 B0 B1. A
// pass of the first chunk holds 10 bytes and one of the second 7. All four passes are held at F'1 and B'0, 2·10 + 2·7
// = 34; the backward of the second chunk needs 5 more: 39. The backward of the first chunk needs 20 more, but only
// 2·10 are held then: 40.
TEST(HeldPasses, SmallestExample) {
  HeldPasses held;
  const Schedule s{ScheduleKind::interleaved, 2, 2, 2, 1};
  EXPECT_EQ(held.peak_bytes(s, 0, {{10, 10, 1, 2}, {7, 7, 1, 5}}), 39);
  EXPECT_EQ(held.peak_bytes(s, 0, {{10, 10, 1, 20}, {7, 7, 1, 5}}), 40);
}

// Stage 1 of 3 under ZB-H1 with many micro-batches has 2 whole passes and 1 that waits for its weight gradient: 2·10
// + 1·4 + 3.
TEST(HeldPasses, PassesWaitForTheirWeightGradient) {
  HeldPasses held;
  EXPECT_EQ(held.peak_bytes({ScheduleKind::zb_h1, 3, 1, 9, 1}, 1, {{10, 4, 3, 2}}), 27);
}

// Under ZB-H2 this stage has 3 whole passes and 2 that wait: 3·10 + 2·4 + 3. Stage 0 of 3 holds 5 whole ones.
TEST(HeldPasses, ZbH2HoldsTwiceAsMany) {
  HeldPasses held;
  EXPECT_EQ(held.peak_bytes({ScheduleKind::zb_h2, 3, 1, 9, 1}, 1, {{10, 4, 3, 2}}), 41);
  EXPECT_EQ(held.peak_bytes({ScheduleKind::zb_h2, 3, 1, 9, 1}, 0, {{10, 4, 3, 2}}), 53);
}

/// Computes the peak by definition: it replays every step in order.
std::int64_t replayed(const Schedule& s, std::int32_t stage, const std::vector<PassBytes>& chunks) {
  std::int64_t now = 0, peak = 0;
  for (const ChunkPass& step : compute_order(s, stage)) {
    const PassBytes& c = chunks[static_cast<std::size_t>(step.local_chunk)];
    switch (step.kind) {
      case InstructionKind::forward:
        now += c.saved;
        peak = std::max(peak, now + c.forward_transient);
        break;
      case InstructionKind::backward_weight:
        peak = std::max(peak, now);
        now -= c.after_input;
        break;
      default:
        peak = std::max(peak, now + c.backward_transient);
        now -= step.kind == InstructionKind::backward ? c.saved : c.saved - c.after_input;
        break;
    }
  }
  EXPECT_EQ(now, 0);
  return peak;
}

std::vector<PassBytes> random_chunks(std::mt19937& random, std::int32_t v) {
  const auto draw = [&](std::int64_t most) { return std::uniform_int_distribution<std::int64_t>(0, most)(random); };
  std::vector<PassBytes> kinds, out;
  for (std::int64_t n = 1 + draw(2); n > 0; --n) {
    const std::int64_t saved = draw(1000);
    kinds.push_back({saved, draw(saved), draw(3000), draw(3000)});
  }
  for (std::int32_t k = 0; k < v; ++k)
    out.push_back(kinds[static_cast<std::size_t>(draw(static_cast<std::int64_t>(kinds.size()) - 1))]);
  return out;
}

// Every schedule is tested with every number of micro-batches up to two further repetitions, with chunks of up to
// three kinds in any places.
TEST(HeldPasses, EqualsTheReplayOfEveryStep) {
  std::mt19937 random(11);
  HeldPasses held;
  int compared = 0;
  const auto compare = [&](const Schedule& s) {
    for (std::int32_t stage = 0; stage < s.stages; ++stage) {
      const std::vector<PassBytes> chunks = random_chunks(random, s.virtual_stages);
      ASSERT_EQ(held.peak_bytes(s, stage, chunks), replayed(s, stage, chunks))
          << static_cast<int>(s.kind) << " p" << s.stages << " v" << s.virtual_stages << " m" << s.microbatches << " stage "
          << stage;
      ++compared;
    }
  };
  for (const std::int32_t p : {1, 2, 3, 4, 5, 8}) {
    for (std::int32_t m = 1; m <= 7 * p + 3; ++m) {
      for (const ScheduleKind kind : kScheduleKinds)
        if (!has_chunks(kind)) compare({kind, p, 1, m, 1});
      compare({ScheduleKind::zb_v, p, 2, m, 1});
      for (std::int32_t v = 1; v <= 5; ++v) compare({ScheduleKind::interleaved, p, v, m, 1});
    }
  }
  EXPECT_GT(compared, 8000);
}

TEST(HeldPasses, ManyMicrobatchesAddRepetitionsOnly) {
  EXPECT_EQ(shortest_alike({ScheduleKind::zb_v, 4, 2, 1000, 1}).microbatches, 8);
  EXPECT_EQ(shortest_alike({ScheduleKind::interleaved, 4, 3, 1002, 1}).microbatches, 18);
  EXPECT_EQ(shortest_alike({ScheduleKind::interleaved, 4, 3, 19, 1}).microbatches, 19);
}

}  // namespace
}  // namespace espalier
