// SPDX-License-Identifier: Apache-2.0
// Tests that adapt/ and check/ derive the same bytes of moves. On random pairs of plans of unlike degrees, with and
// without lost nodes, the two agree to the byte, and every link is within the checker's bounds.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

#include "adapt/move.h"
#include "check/move_check.h"
#include "espalier/job.h"
#include "espalier/planner.h"
#include "plan/engine.h"

namespace espalier::move_agreement_test {
namespace {

constexpr const char* kExperts =
    R"({model_type: mixtral, hidden_size: 256, intermediate_size: 512, num_attention_heads: 8, num_key_value_heads: 2, num_hidden_layers: 6,
       num_local_experts: 8, num_experts_per_tok: 2, vocab_size: 1003, max_position_embeddings: 2048, tie_word_embeddings: true})";

Job job_on(const std::string& cluster) {
  return load_job(std::string("{model: ") + kExperts + ", cluster: " + cluster +
                      ", training: {sequence_length: 1024, global_batch: 64}, search: {}}",
                  "test", "", {})
      .value();
}

/// Returns plans of all degrees that the job may have.
std::vector<Plan> plans_of(const Job& job) {
  std::vector<Plan> out;
  const auto devices = static_cast<std::int32_t>(job.cluster.devices());
  for (std::int32_t tp = 1; tp <= 8; tp *= 2)
    for (std::int32_t cp = 1; cp <= 2; cp *= 2)
      for (std::int32_t pp = 1; pp <= 4; pp *= 2)
        for (std::int32_t ep = 1; ep <= 4; ep *= 2)
          for (int zero = 0; zero <= 3; ++zero)
            for (const SequenceParallel sp : {SequenceParallel::none, SequenceParallel::ulysses}) {
              Strategy s;
              s.tp = tp;
              s.cp = cp;
              s.dp = devices / (tp * cp * pp);
              s.ep = ep;
              s.sp = tp == 1 ? SequenceParallel::none : sp;
              s.zero = ZeroStage{zero};
              if (zero > 0) s.shard = static_cast<std::int32_t>(s.data_ranks());
              if (s.dp < 1 || (zero > 0 && s.shard == 1)) continue;
              if (zero == 1 && s.shard > 2 && cp == 1) s.shard /= 2;
              Schedule schedule;
              schedule.stages = pp;
              schedule.microbatches = static_cast<std::int32_t>(job.training.global_batch / s.dp);
              auto estimated = estimate(job, s, schedule);
              if (estimated) out.push_back(std::move(estimated->plan));
            }
  return out;
}

std::int64_t rounded(double seconds) { return static_cast<std::int64_t>(std::llround(seconds * 1e9)); }

void agree(const Job& job, const Plan& from, const Plan& to, const ClusterState& state) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(job.cluster.devices()));
  std::iota(all.begin(), all.end(), 0);
  const adapt::MoveScene scene{&job.model, find_engine(job.engine), job.training, &job.cluster, state, {}};
  const adapt::Move m = adapt::move_of(scene, {&from, all}, {&to, all}).value();
  check::MoveClaims claims{m.kept_bytes, m.peer_bytes, m.storage_bytes, m.lost_bytes, {}, 0, 0, 0, 0, 0};
  for (const adapt::LinkLoad& link : m.links) claims.links.emplace_back(link.link, link.bytes);
  claims.transfer_ns = rounded(m.transfer_s);
  claims.storage_ns = rounded(m.storage_s);
  claims.rollback_ns = rounded(m.rollback_s);
  claims.restart_ns = rounded(m.restart_s);
  check::MovePrices prices{scene.options.storage_per_device, rounded(900), rounded(30), 0, {}};
  for (const CapacityFactor& c : state.capacity) prices.narrowed.emplace_back(c.target, c.factor);
  const check::MoveQuestion question{&job.model, &job.cluster, {&from, all}, {&to, all}, state.away, {}, {}};
  for (const Finding& f : check::check_move(question, prices, claims))
    EXPECT_TRUE(f.ok) << from.label() << " → " << to.label() << ": " << f.name << ": " << f.text;
}

void random_pairs(const Job& job, const std::string& narrowed, int pairs) {
  const std::vector<Plan> plans = plans_of(job);
  ASSERT_GT(plans.size(), 50U);
  std::mt19937 random(7);
  for (int k = 0; k < pairs; ++k) {
    ClusterState state;
    if (k % 4 == 1) state.away = {static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(job.cluster.nodes()))};
    if (k % 3 == 1) state.capacity = {{narrowed, 0.25}};
    agree(job, plans[random() % plans.size()], plans[random() % plans.size()], state);
  }
}

TEST(MoveAgreement, EqualNodes) { random_pairs(job_on("{nodes: 4, devices_per_node: 4, device: a100-sxm-80gb}"), "node:2", 300); }

// Two groups with a line between them have plans of equal degrees over both.
TEST(MoveAgreement, TwoSites) {
  const Job job = job_on(
      "{groups: [{name: x, nodes: 1, devices_per_node: 4, device: a100-sxm-80gb}, {name: y, nodes: 2, devices_per_node: 2, "
      "device: a10}], "
      "links: [{from: x, to: y, bandwidth: 10Gb/s, latency: 5ms, both: true}]}");
  random_pairs(job, "x-y", 200);
}

}  // namespace
}  // namespace espalier::move_agreement_test
