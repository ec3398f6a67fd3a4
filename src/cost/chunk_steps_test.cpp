// SPDX-License-Identifier: Apache-2.0
// A pass through a chunk, by hand on round devices (test_problem.h).
#include "cost/chunk_steps.h"

#include <gtest/gtest.h>

#include "cost/test_problem.h"

namespace espalier::cost::chunk_steps_test {
namespace {

using namespace test;

constexpr std::int64_t kGemm = 32768;  // ns

struct Problem {
  explicit Problem(std::vector<LayerRange> ranges, std::int64_t samples, std::int64_t devices)
      : model(model_of(mlp(), 2)), cluster(round_cluster(devices)) {
    chunks.ranges = {std::move(ranges)};
    chunks.samples = samples;
  }
  Model model;
  Cluster cluster;
  CostContext context{model, cluster, tokens(1000, 4), plain_engine("generic")};
  PlanChunks chunks;
  ChunkSteps pass(ChunkPhase phase) { return StepBook(context, chunks).chunk(0, phase); }
};

std::vector<std::string> names(const ChunkSteps& steps, StepTrack track) {
  std::vector<std::string> out;
  for (const ChunkSpan& span : steps.spans)
    if (span.track == track) out.push_back(std::to_string(span.layer) + " " + span.name);
  return out;
}
using Names = std::vector<std::string>;

// Two layers of two products each on one device: four products run one after the other.
TEST(ChunkSteps, SmallestExample) {
  Problem p({{0, 1, {}}}, 1, 1);
  const ChunkSteps forward = p.pass(ChunkPhase::forward);
  EXPECT_EQ(forward.whole.compute_ns, 4 * kGemm);
  EXPECT_EQ(names(forward, StepTrack::compute), (Names{"0 up", "0 down", "1 up", "1 down"}));
  EXPECT_EQ(forward.spans[2].start_ns, 2 * kGemm);
  const ChunkSteps backward = p.pass(ChunkPhase::backward);
  EXPECT_EQ(names(backward, StepTrack::compute), (Names{"1 down", "1 down", "1 up", "1 up", "0 down", "0 down", "0 up", "0 up"}));
  EXPECT_EQ(backward.spans[1].part, StepPart::weight_gradient);
}

// The first of two blocks is recomputed: its forward runs again before its backward, which comes last.
TEST(ChunkSteps, RecomputedBlocksRunTheirForwardAgain) {
  Strategy s;
  s.recompute = {RecomputeKind::full, 1};
  Problem p({{0, 1, s}}, 1, 1);
  const ChunkSteps backward = p.pass(ChunkPhase::backward);
  EXPECT_EQ(backward.whole.compute_ns, (8 + 2) * kGemm);
  EXPECT_EQ(names(backward, StepTrack::compute),
            (Names{"1 down", "1 down", "1 up", "1 up", "0 up", "0 down", "0 down", "0 down", "0 up", "0 up"}));
  EXPECT_EQ(backward.spans[4].part, StepPart::recomputation);
  EXPECT_EQ(p.pass(ChunkPhase::backward_weight).whole.compute_ns, 4 * kGemm);
}

// ZeRO 3 over two devices, overlapped. The first gather of the chunk runs alone (32,768 weights of 2 bytes, half from
// the other device: 32,768 ns), then each layer's gather overlaps it. Backward, the last reduction runs alone (of 4
// bytes: 65,536 ns).
TEST(ChunkSteps, ZeroRunsBesideLayersAndAloneAtTheEdges) {
  Strategy s;
  s.dp = 2;
  s.zero = ZeroStage::parameters;
  s.shard = 2;
  s.overlap.param_gather = s.overlap.grad_reduce = true;
  Problem p({{0, 1, s}}, 2, 2);
  const ChunkSteps forward = p.pass(ChunkPhase::forward);
  EXPECT_EQ(names(forward, StepTrack::zero), (Names{"0 parameters", "0 parameters", "1 parameters"}));
  EXPECT_EQ(forward.whole.exposed_ns, kGemm);
  EXPECT_EQ(forward.whole.hidden_ns, 2 * kGemm);
  const ChunkSpan& first = forward.spans.front();
  EXPECT_EQ(first.beside, "");
  EXPECT_EQ(first.end_ns - first.start_ns, kGemm);
  EXPECT_EQ(first.traffic, (Traffic{CollectiveKind::all_gather, GroupKind::data_shard, 65536, 1}));
  const ChunkSteps backward = p.pass(ChunkPhase::backward);
  EXPECT_EQ(names(backward, StepTrack::zero).back(), "0 gradients");
  EXPECT_EQ(backward.spans.back().beside, "");
  EXPECT_EQ(backward.spans.back().end_ns - backward.spans.back().start_ns, 2 * kGemm);
}

// The first block is data-parallel over two devices, the second is split over both. Between them each device fetches
// the other's sample, 128,000 bytes of activation; the gradient that it needs is there.
TEST(ChunkSteps, RedistributesBetweenRanges) {
  Strategy data, tensor;
  data.dp = 2;
  tensor.tp = 2;
  Problem p({{0, 0, data}, {1, 1, tensor}}, 2, 2);
  const ChunkSteps forward = p.pass(ChunkPhase::forward);
  EXPECT_EQ(names(forward, StepTrack::traffic), (Names{"1 redistribution", "1 down"}));
  const auto moved =
      std::find_if(forward.spans.begin(), forward.spans.end(), [](const ChunkSpan& s) { return s.name == "redistribution"; });
  EXPECT_EQ(moved->traffic.kind, CollectiveKind::resharding);
  EXPECT_EQ(moved->traffic.group, GroupKind::stage);
  EXPECT_EQ(moved->end_ns - moved->start_ns, 128000);
  EXPECT_EQ(names(p.pass(ChunkPhase::backward_input), StepTrack::traffic), (Names{"1 up"}));
}

}  // namespace
}  // namespace espalier::cost::chunk_steps_test
