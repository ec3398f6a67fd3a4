// SPDX-License-Identifier: Apache-2.0
// Tests hosts whose memory is too small for the offloaded state: the error names the hosts, and the
// suggested changes fit.
#include <gmock/gmock.h>

#include <string>

#include "planner/test_jobs.h"

namespace espalier::planner {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Job on_host(const std::string& memory, const std::string& search, const std::string& engine = "deepspeed") {
  return test::job("gpt2",
                   "{nodes: 1, devices_per_node: 2, device: h100-sxm-80gb, host: {memory: " + memory +
                       ", memory_bandwidth: 600GB/s, bandwidth: 50GB/s}}",
                   "{sequence_length: 1024, global_batch: 2}", "engine: " + engine + "\nsearch: " + search + "\n");
}

// 124,439,808 parameters with 16 bytes each (master weights, moments and fp32 gradients) take 1.85 GiB on the one node.
TEST(HostMemory, IsNamedWhereItIsWhatLacks) {
  const auto r = plan(on_host("1GB", "{fix: {offload: optimizer}, memory_margin: 0}"), {});
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(r.error().kind, ErrorKind::infeasible);
  EXPECT_THAT(r.error().found, HasSubstr("puts 1899 MiB into the host memory of a node"));
  EXPECT_THAT(r.error().expected, HasSubstr("954 MiB per node (cluster.host.memory)"));
  EXPECT_THAT(r.error().hint, HasSubstr("cluster.host.memory: 2GB would fit"));
  EXPECT_THAT(r.error().hint, HasSubstr("without search.fix.offload: optimizer, "));
  EXPECT_THAT(r.error().hint, Not(HasSubstr("memory_margin")));
  EXPECT_TRUE(plan(on_host("2GB", "{fix: {offload: optimizer}, memory_margin: 0}"), {}).ok());
  EXPECT_TRUE(plan(on_host("1GB", "{memory_margin: 0}"), {}).ok());
}

// ZeRO 0 would put all states into the host twice.
TEST(HostMemory, AWiderShardFits) {
  const auto r = plan(on_host("2GB", "{fix: {offload: optimizer, zero: 0, tp: 1, pp: 1}, memory_margin: 0}", "generic"), {});
  ASSERT_FALSE(r.ok());
  EXPECT_THAT(r.error().hint, HasSubstr("without search.fix.zero: 0, "));
}

TEST(HostMemory, TheReferenceAgrees) {
  PlannerOptions reference;
  reference.exhaustive = true;
  const Job job = on_host("100MB", "{fix: {offload: optimizer}, memory_margin: 0}");
  const auto all = plan(job, reference), searched = plan(job, {});
  ASSERT_FALSE(all.ok());
  EXPECT_EQ(all.error().kind, ErrorKind::infeasible);
  EXPECT_EQ(all.error().message(), searched.error().message());
}

TEST(HostMemory, AnEstimateSaysWhy) {
  Strategy s;
  s.dp = 2;
  s.zero = ZeroStage::optimizer;
  s.shard = 2;
  s.offload = Offload::optimizer;
  Schedule one;
  const auto r = estimate(on_host("1GB", "{}"), s, one);
  ASSERT_TRUE(r.ok()) << r.error().message();
  EXPECT_FALSE(r->prediction.fits);
  EXPECT_THAT(r->reasons[1], HasSubstr("1.9 GiB of the host memory of a node, which has 0.9 GiB"));
  EXPECT_THAT(r->brief(), HasSubstr("DOES NOT FIT into the hosts' memory"));
}

}  // namespace
}  // namespace espalier::planner
