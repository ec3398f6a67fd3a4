// SPDX-License-Identifier: Apache-2.0
// Tests what the public interface guarantees about timelines and engines.
#include <gtest/gtest.h>

#include <algorithm>

#include "data/source_dir.h"
#include "espalier/engines.h"
#include "espalier/planner.h"

namespace espalier::planner {
namespace {

/// Sets up GPT-2 (hidden size 768, 1024 tokens) on four devices: two stages of two data-parallel replicas, 4
/// micro-batches of 1 sample.
struct TwoStages {
  TwoStages() {
    job = std::move(
        *load_job_file(ESPALIER_SOURCE_DIR "/examples/gpt2-on-4xrtx4090.yaml", {"training.global_batch=8", "engine=generic"}));
    Strategy s;
    s.dp = 2;
    plan = estimate(job, s, {ScheduleKind::one_f_one_b, 2, 1, 4, 1})->plan;
    simulated = std::move(*simulate_with_timeline(job, plan));
  }
  Job job;
  Plan plan;
  SimulatedPlan simulated;
};

// A message is the bf16 activation of one sample: 1024 tokens · 768 features · 2 bytes = 1,572,864 bytes. Each of the
// 4 micro-batches sends one forward and one gradient back.
TEST(Face, ATimelineSaysWhatMovedBetweenStages) {
  const TwoStages t;
  std::int64_t activations = 0, gradients = 0;
  for (const TimelineRank& rank : t.simulated.timeline.ranks)
    for (const TimelineSpan& span : rank.spans) {
      if (span.kind != InstructionKind::send) continue;
      EXPECT_EQ(span.bytes, 1'572'864);
      EXPECT_EQ(span.group_size, 2);
      (span.gradient ? gradients : activations) += 1;
    }
  EXPECT_EQ(activations, 4);
  EXPECT_EQ(gradients, 4);
}

// Gradients are reduced in fp32 (generic engine): the reductions of one rank move 4 bytes for each of its parameters.
// Stage 0 holds the embeddings and stage 1 the head, which shares the token table. So 50257 · 768 = 38,597,376
// elements are held twice. GPT-2 has 124,439,808 parameters.
TEST(Face, ATimelineSaysWhatCollectivesMove) {
  const TwoStages t;
  std::int64_t bytes = 0;
  for (const TimelineRank& rank : t.simulated.timeline.ranks)
    for (const TimelineSpan& span : rank.spans)
      if (span.kind == InstructionKind::grad_reduce) {
        EXPECT_EQ(span.collective, CollectiveKind::all_reduce);
        EXPECT_EQ(span.group_size, 2);
        bytes += span.bytes;
      }
  EXPECT_EQ(bytes, 4 * (124'439'808 + 38'597'376));
}

// The peak of a rank is the largest sample plus its static bytes; the allocator reserve comes on top (generic: 6 %).
TEST(Face, ATimelineHoldsTheFiguresOfTheResult) {
  const TwoStages t;
  const Timeline& timeline = t.simulated.timeline;
  const Prediction& p = t.simulated.result.prediction;
  EXPECT_EQ(timeline.iteration_ns, p.iteration_ns);
  EXPECT_EQ(timeline.devices(), 4);
  ASSERT_EQ(timeline.ranks.size(), p.peak_memory_bytes_per_stage.size());
  std::int64_t last = 0;
  for (std::size_t i = 0; i < timeline.ranks.size(); ++i) {
    std::int64_t most = 0;
    for (const MemorySample& sample : timeline.ranks[i].memory) most = std::max(most, sample.activation_bytes);
    EXPECT_EQ(static_cast<std::int64_t>(static_cast<double>(timeline.ranks[i].static_bytes + most) * 1.06),
              p.peak_memory_bytes_per_stage[i]);
    for (const TimelineSpan& span : timeline.ranks[i].spans) last = std::max(last, span.end_ns);
  }
  EXPECT_EQ(last, p.iteration_ns);
  const auto again = simulate(t.job, t.plan);
  EXPECT_EQ(to_json(*again, false), to_json(t.simulated.result, false));
}

TEST(Face, EnginesAreListedWithTheirRules) {
  const auto all = engines();
  const auto names = engine_names();
  ASSERT_EQ(all.size(), names.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].name, names[i]);
    if (all[i].name == "megatron-core") {
      EXPECT_TRUE(all[i].known_rules);
      EXPECT_FALSE(all[i].rules.empty());
    }
  }
  const TwoStages t;
  for (const std::string& name : engines_that_run(t.job, t.plan))
    EXPECT_NE(std::find(names.begin(), names.end(), name), names.end());
}

}  // namespace
}  // namespace espalier::planner
