// SPDX-License-Identifier: Apache-2.0
// Concurrent pipelines, and replicas of unequal shares, take packed samples as jobs of their own would: as uneven as
// their own micro-batches make them.
#include "cost/sampled_contexts.h"

#include <gtest/gtest.h>

#include "cost/cluster_costs.h"
#include "cost/test_problem.h"
#include "plan/program.h"

namespace espalier::cost::sampled_contexts_test {
namespace {

using namespace test;

Model attending() { return model_of(block({linear("in", 64, 192, TpSplit::column), attention(1, 64, true)}, 64)); }

Training packed(std::int64_t global_batch) {
  Training t = tokens(1024, global_batch);
  t.lengths = {{{16, 60}, {1024, 2}}, Packing::packed};
  return t;
}

/// Returns one stage of two replicas on the two devices from `first` on.
Pipeline pipeline(std::int64_t first, std::int32_t microbatches, std::int32_t micro_batch = 1) {
  Strategy s;
  s.dp = 2;
  Pipeline p;
  p.schedule.microbatches = microbatches;
  p.schedule.micro_batch = micro_batch;
  p.samples = std::int64_t{2} * microbatches * micro_batch;
  p.stages = {{{{first, 2, 1}}, {Chunk{{{0, 0, s}}}}}};
  return p;
}

Costs priced(const Model& model, const Training& training, std::vector<Pipeline> pipelines,
             std::vector<KindCosts>* kinds = nullptr) {
  Cluster cluster = round_cluster(2);
  cluster.groups.front().nodes = 2;
  cluster.inter = cluster.groups.front().intra;
  cluster.inter.front().span = 4;
  const ClusterCosts costs(model, cluster, training, plain_engine("generic"));
  Plan plan;
  plan.training = training;
  plan.pipelines = std::move(pipelines);
  for (std::size_t k = 0; k < plan.pipelines.size(); ++k) plan.pipelines[k].id = static_cast<std::int32_t>(k);
  Program program;
  return price(costs, plan, program, kinds);
}

std::int64_t forward_ns(const Costs& costs, std::int32_t work) { return costs.works[WorkId(work)].time.duration_ns(); }

// 12 samples in six micro-batches run next to 4 in two: 0.19 and 0.33 standard deviations of two replicas, not 0.17
// and 0.17 of eight.
TEST(SampledContexts, APipelineBesideOthersIsPricedAsAlone) {
  const Model model = attending();
  const Costs beside = priced(model, packed(16), {pipeline(0, 6), pipeline(2, 2)});
  const std::int64_t six = forward_ns(priced(model, packed(12), {pipeline(0, 6)}), 0);
  const std::int64_t two = forward_ns(priced(model, packed(4), {pipeline(2, 2)}), 0);
  EXPECT_LT(six, two);
  EXPECT_EQ(forward_ns(beside, 0), six);
  EXPECT_EQ(forward_ns(beside, 3), two);
}

// Replicas of three samples and of one each count as one of two equal ones with as many samples.
TEST(SampledContexts, AReplicaIsPricedByItsOwnSamples) {
  const Model model = attending();
  Pipeline uneven = pipeline(0, 4, 2);
  uneven.stages.front().samples_per_replica = {3, 1};
  std::vector<KindCosts> kinds;
  (void)priced(model, packed(16), {uneven}, &kinds);
  ASSERT_EQ(kinds.size(), 2u);
  EXPECT_EQ(forward_ns(kinds[0].costs, 0), forward_ns(priced(model, packed(24), {pipeline(0, 4, 3)}), 0));
  EXPECT_EQ(forward_ns(kinds[1].costs, 0), forward_ns(priced(model, packed(8), {pipeline(0, 4, 1)}), 0));
}

TEST(SampledContexts, SamplesThatAreNotPackedNeedNoOther) {
  const Model model = attending();
  const Cluster cluster = round_cluster(2);
  const CostContext context(model, cluster, tokens(1024, 16), plain_engine("generic"));
  SampledContexts sampled;
  EXPECT_EQ(&sampled.of(context, 4), &context);
  const CostContext other(model, cluster, packed(16), plain_engine("generic"));
  EXPECT_EQ(&sampled.of(other, 16), &other);
  EXPECT_EQ(&sampled.of(other, 4), &sampled.of(other, 4));
  EXPECT_NE(&sampled.of(other, 4), &other);
}

}  // namespace
}  // namespace espalier::cost::sampled_contexts_test
