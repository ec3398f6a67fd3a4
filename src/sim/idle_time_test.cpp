// SPDX-License-Identifier: Apache-2.0
// Compares idle times of the schedules with published figures, for zero communication and uniform stages. F, B and W
// are times of a whole stage.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <vector>

#include "sim/simulator.h"
#include "sim/testing.h"

namespace espalier::sim {
namespace {

using testing::structure;
using testing::uniform;

constexpr std::array<std::int32_t, 6> kStages = {1, 2, 3, 4, 7, 8};
constexpr std::int32_t kMicrobatches = 16;

struct Times {
  std::int64_t F, B, W;
};
constexpr std::array<Times, 4> kTimes = {{{12, 12, 12}, {24, 36, 12}, {12, 24, 12}, {36, 48, 24}}};  // W ≤ F, W ≤ B

/// Returns the idle time of each stage in [0, iteration). Checks that it is only bubble, and equal on every stage.
std::int64_t idle(const Schedule& s, const Times& t) {
  const ProgramStructure low = structure(s.kind, s.stages, s.virtual_stages, s.microbatches);
  const std::int64_t v = s.virtual_stages;
  Simulator simulator;
  const Result<Simulation> result = simulator.run(lower(low), costs_of(uniform(s, t.F / v, t.B / v, t.W / v), low));
  EXPECT_TRUE(result.ok());
  const std::int64_t busy = s.microbatches * (t.F + t.B + t.W);
  for (const RankOutcome& rank : result->ranks) {
    EXPECT_EQ(rank.breakdown, (Breakdown{busy, 0, result->iteration_ns - busy, 0, 0}));
  }
  return result->iteration_ns - busy;
}

std::string name_of(const Schedule& s, const Times& t) {
  return "p" + std::to_string(s.stages) + " v" + std::to_string(s.virtual_stages) + " m" + std::to_string(s.microbatches) + " F" +
         std::to_string(t.F) + " B" + std::to_string(t.B) + " W" + std::to_string(t.W);
}

TEST(IdleTime, GpipeAndOneFOneB) {
  for (const Times& t : kTimes) {
    for (const std::int32_t p : kStages) {
      for (std::int32_t m = 1; m <= kMicrobatches; ++m) {
        for (const ScheduleKind kind : {ScheduleKind::gpipe, ScheduleKind::one_f_one_b}) {
          const Schedule s{kind, p, 1, m, 1};
          ASSERT_EQ(idle(s, t), (p - 1) * (t.F + t.B + t.W)) << name_of(s, t);
        }
      }
    }
  }
}

TEST(IdleTime, InterleavedDividesItByV) {
  for (const Times& t : kTimes) {
    for (const std::int32_t p : kStages) {
      for (std::int32_t m = p; m <= kMicrobatches; m += p) {
        for (std::int32_t v = 1; v <= 4; ++v) {
          const Schedule s{ScheduleKind::interleaved, p, v, m, 1};
          ASSERT_EQ(idle(s, t), (p - 1) * (t.F + t.B + t.W) / v) << name_of(s, t);
        }
      }
    }
  }
}

TEST(IdleTime, ZbH1) {
  for (const Times& t : kTimes) {
    for (const std::int32_t p : kStages) {
      for (std::int32_t m = p; m <= kMicrobatches; ++m) {
        const Schedule s{ScheduleKind::zb_h1, p, 1, m, 1};
        ASSERT_EQ(idle(s, t), (p - 1) * (t.F + t.B - t.W)) << name_of(s, t);
      }
    }
  }
}

/// Returns the time from the first to the last computation of each stage of a simulated step.
std::vector<std::int64_t> spans(const Schedule& s, const Times& t) {
  const ProgramStructure low = structure(s.kind, s.stages, s.virtual_stages, s.microbatches);
  const Program program = lower(low);
  Simulator simulator;
  const Result<Simulation> result = simulator.run(program, costs_of(uniform(s, t.F, t.B, t.W), low), {true});
  EXPECT_TRUE(result.ok());
  std::vector<std::int64_t> out;
  for (const RankClass& rank : program.ranks) {
    std::int64_t first = std::numeric_limits<std::int64_t>::max(), last = 0;
    for (std::int32_t i = rank.begin; i < rank.end; ++i) {
      if (program.instructions[static_cast<std::size_t>(i)].stream != Stream::compute) continue;
      first = std::min(first, result->spans[static_cast<std::size_t>(i)].start_ns);
      last = std::max(last, result->spans[static_cast<std::size_t>(i)].end_ns);
    }
    out.push_back(last - first);
  }
  return out;
}

// ZB-H2 with m ≥ 2p − 1: a stage waits for at most (p−1)(F+B−2W) between its first and its last step, as in table 2
// of the paper. With F = B = W it does not wait. The step itself also waits for the last stage's first input.
TEST(IdleTime, ZbH2) {
  for (const Times& t : kTimes) {
    for (const std::int32_t p : kStages) {
      for (std::int32_t m = 2 * p - 1; m <= 2 * p + 8; ++m) {
        const Schedule s{p == 1 ? ScheduleKind::one_f_one_b : ScheduleKind::zb_h2, p, 1, m, 1};
        const std::int64_t left = (p - 1) * (t.F + t.B - 2 * t.W);
        const std::vector<std::int64_t> found = spans(s, t);
        ASSERT_EQ(*std::max_element(found.begin(), found.end()), m * (t.F + t.B + t.W) + left) << name_of(s, t);
        ASSERT_EQ(idle(s, t), std::max((p - 1) * t.F, left)) << name_of(s, t);
      }
    }
  }
}

// ZB-V with F = B = W and m ≥ 2p: every stage is busy without a gap from its first step to its last. The rest of [0,
// iteration) is the fill and the drain. The fill is i chunk forwards before stage i has its first input, the drain
// p−1−i steps after its last one.
TEST(IdleTime, ZbVHasNoneBetweenFirstAndLastStep) {
  constexpr std::int64_t unit = 5;
  for (const std::int32_t p : kStages) {
    for (std::int32_t m = 2 * p; m <= 2 * p + 8; ++m) {
      const ProgramStructure low = structure(ScheduleKind::zb_v, p, 2, m);
      const Program program = lower(low);
      Simulator simulator;
      const Result<Simulation> result = simulator.run(program, costs_of(uniform(low.schedule, unit, unit, unit), low), {true});
      ASSERT_TRUE(result.ok());
      for (const RankClass& rank : program.ranks) {
        std::int64_t first = std::numeric_limits<std::int64_t>::max(), last = 0;
        for (std::int32_t i = rank.begin; i < rank.end; ++i) {
          if (program.instructions[static_cast<std::size_t>(i)].stream != Stream::compute) continue;
          first = std::min(first, result->spans[static_cast<std::size_t>(i)].start_ns);
          last = std::max(last, result->spans[static_cast<std::size_t>(i)].end_ns);
        }
        ASSERT_EQ(first, rank.stage.value * unit) << "p " << p << " m " << m;
        ASSERT_EQ(last - first, 6 * m * unit) << "p " << p << " m " << m;
      }
      ASSERT_EQ(result->iteration_ns, (6 * m + p - 1) * unit);
    }
  }
}

// With fewer micro-batches than the published figures require, they are still never worse than 1F1B.
TEST(IdleTime, ZeroBubbleSchedulesAreNeverWorse) {
  constexpr Times t{12, 12, 12};
  for (const std::int32_t p : kStages) {
    for (std::int32_t m = 1; m <= kMicrobatches; ++m) {
      const std::int64_t plain = idle({ScheduleKind::one_f_one_b, p, 1, m, 1}, t);
      ASSERT_LE(idle({ScheduleKind::zb_h1, p, 1, m, 1}, t), plain) << "p " << p << " m " << m;
      ASSERT_LE(idle({ScheduleKind::zb_h2, p, 1, m, 1}, t), plain) << "p " << p << " m " << m;
      ASSERT_LE(idle({ScheduleKind::zb_v, p, 2, m, 1}, t), plain) << "p " << p << " m " << m;
    }
  }
}

}  // namespace
}  // namespace espalier::sim
