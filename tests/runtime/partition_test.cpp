// SPDX-License-Identifier: Apache-2.0
// Tests that blocks partitioned operator by operator train like one process. They use P_{2×2} and P_{4×4}
// combined with splits of batch, positions, features and heads, under data parallelism and pipelines. Linears
// with P issue no collective.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runtime/heterogeneous_plans.h"
#include "runtime/partitioned_plans.h"
#include "runtime/same_run.h"

namespace espalier::runtime::testing::partition_test {
namespace {

constexpr ScheduleKind k1f1b = ScheduleKind::one_f_one_b;

struct Case {
  std::string name;
  const char* config;
  Plan plan;
  std::int64_t steps = steps_of_a_run();
};

/// Puts all linears in space and time; nothing is replicated except the work that every rank does alone.
constexpr ByKind kP2{"P2", "R,R", "H,H", "N,N", "R,R"};
/// Has norms that split features, and a stream in tiles.
constexpr ByKind kP2Tiles{"P2", "M,N", "M,H", "M,N", "M,N"};
constexpr ByKind kP4{"P4", "M,M,N,N", "M,M,H,H", "M,M,N,N", "M,M,N,N"};

Plan plan_with(const char* config, const ByKind& kinds, Strategy s, Schedule c) {
  s.partition = partition_of(config, c.micro_batch, kinds);
  return plan_of(config, s, c);
}

std::vector<Case> cases() {
  const Schedule whole = schedule(k1f1b, 1, 1, 4), two = schedule(k1f1b, 2, 1, 2);
  std::vector<Case> all{
      {"p2-dp2-zero2-biases", kGpt2, plan_with(kGpt2, kP2Tiles, strategy(4, 2, 2), whole)},
      {"p2-pp2-uneven-zb", kLlama, plan_with(kLlama, kP2Tiles, strategy(4, 1), schedule(ScheduleKind::zb_h1, 2, 1, 4))},
  };
  cut(all.back().plan, {1, 5});
  if (!runs_all()) return all;
  const ByKind mixed{"K,P2", "M,M,R", "M,M,H", "N,M,B", "M,R,N"};
  all.push_back({"p2", kLlama, plan_with(kLlama, kP2, strategy(4, 1), whole)});
  all.push_back({"p2-k-mixed-on-8", kQwen2, plan_with(kQwen2, mixed, strategy(8, 1), whole)});
  all.push_back({"p2-tiles-biases", kGpt2, plan_with(kGpt2, kP2Tiles, strategy(4, 1), whole)});
  all.push_back({"p2-pp2", kGpt2, plan_with(kGpt2, kP2, strategy(4, 1), two)});
  all.push_back({"p2-dp2-zero3", kGpt2, plan_with(kGpt2, kP2, strategy(4, 2, 3), whole)});
  all.push_back({"p2-dp2", kTiedLlama, plan_with(kTiedLlama, kP2Tiles, strategy(4, 2), whole)});
  all.push_back({"p2-inside", kLlama, plan_with(kLlama, {"P2,N", "B,M,N", "B,H,H", "N,N,B", "N,M,M"}, strategy(8, 1), whole)});
  Strategy recomputed = strategy(4, 1);
  recomputed.recompute = {RecomputeKind::full, 4, {}};
  all.push_back({"p2-recomputed", kLlama, plan_with(kLlama, kP2Tiles, recomputed, whole)});
  all.push_back({"p2-beside-tp4", kLlama, plan_with(kLlama, kP2Tiles, strategy(4, 1), whole)});
  respread(all.back().plan, 2, 3, strategy(4, 1, 0, SequenceParallel::megatron));
  all.push_back({"p2-beside-another-pipeline", kLlama, plan_of(kLlama, strategy(1, 1), schedule(k1f1b, 1))});
  beside(all.back().plan, {{6, schedule(k1f1b, 1, 1, 2), {{5, partitioned(strategy(4, 1), partition_of(kLlama, 2, kP2Tiles))}}},
                           {2, schedule(k1f1b, 1), {{5, strategy(1, 2, 1)}}}});
  return all;
}

std::vector<Case> large_cases() {
  const Schedule whole = schedule(k1f1b, 1, 1, 4);
  std::vector<Case> all{{"p4", kLlama, plan_with(kLlama, kP4, strategy(16, 1), whole), runs_all() ? 20 : 3}};
  if (!runs_all()) return all;
  all.push_back(
      {"p2-p2", kGpt2, plan_with(kGpt2, {"P2,P2", "M,M,N,R", "B,M,H,H", "N,M,N,M", "M,R,R,N"}, strategy(16, 1), whole), 4});
  return all;
}

std::string alone(const char* config) { return "alone-" + std::to_string(std::hash<std::string>()(config)); }

std::map<std::string, Outcome> run(const std::vector<Case>& some, double seconds) {
  std::vector<Assignment> work;
  std::map<std::string, bool> known;
  for (const Case& c : some) {
    if (!std::exchange(known[c.config], true)) {
      work.push_back({alone(c.config), plan_of(c.config, strategy(1, 1), schedule(k1f1b, 1)), {}});
      work.back().options.steps = steps_of_a_run();
    }
    work.push_back({c.name, c.plan, {}});
    work.back().options.steps = c.steps;
  }
  return run_all(work, seconds);
}

void expect_same(const std::vector<Case>& some, double seconds) {
  for (const Case& c : some) ASSERT_TRUE(validate(c.plan).ok()) << c.name << ": " << validate(c.plan).error().message();
  const auto outcomes = run(some, seconds);
  for (const Case& c : some) {
    SCOPED_TRACE(c.name);
    expect_same_run(outcomes.at(alone(c.config)), outcomes.at(c.name), static_cast<std::size_t>(c.steps));
  }
}

TEST(Partition, TrainsAsOneProcessDoes) { expect_same(cases(), 500); }
TEST(Partition, OnSixteenRanks) { expect_same(large_cases(), 300); }

/// Tests any legal sequence of every operator, with attention in one piece or in three.
TEST(Partition, AnyLegalSequences) {
  const std::vector<const char*> configs{kLlama, kGpt2, kQwen2, kQwen3, kTiedLlama};
  std::vector<Case> some;
  const std::uint32_t count = runs_all() ? 120 : 5;
  for (std::uint32_t seed = 0; seed < count; ++seed) {
    const char* config = configs[seed % configs.size()];
    const int bits = 1 + static_cast<int>(seed % 3);
    const char* engine = seed % 2 == 0 ? "generic" : "espalier";
    const Schedule whole = schedule(k1f1b, 1, 1, 4);
    Plan plan = plan_of(config, partitioned(strategy(1 << bits, 1), random_partition(config, engine, 4, bits, seed)), whole);
    plan.engine = engine;
    some.push_back({"any-" + std::to_string(seed), config, plan, 3});
  }
  expect_same(some, 500);
}

/// Has as many key/value heads as ranks, and no biases. Only the norms of a block are held by two ranks, and all
/// ranks run them alike.
constexpr const char* kNothingShared =
    R"({"model_type": "llama", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
  "num_key_value_heads": 4, "intermediate_size": 64, "vocab_size": 96, "tie_word_embeddings": false})";

/// Checks that the linears send messages round, and that the tensor group sums only parts of the embedding and of the
/// head, outside the blocks.
TEST(Partition, LinearsInSpaceAndTimeIssueNoCollective) {
  const std::vector<Case> some{
      {"p2", kNothingShared, plan_with(kNothingShared, kP2, strategy(4, 1), schedule(k1f1b, 1, 1, 2)), 2}};
  const Outcome found = run(some, 100).at("p2");
  ASSERT_EQ(found.steps.size(), 2u) << found.errors;
  const Calls blocks = found.calls.at("operators");
  EXPECT_EQ(blocks.collectives, 0);
  EXPECT_GT(blocks.messages, 0);
  for (const auto& [purpose, calls] : found.calls)
    if (purpose.starts_with("sums") || purpose.starts_with("partial")) {
      EXPECT_EQ(calls.collectives, 0) << purpose;
    }
  EXPECT_GT(found.calls.at("tensor").collectives, 0);
}

}  // namespace
}  // namespace espalier::runtime::testing::partition_test
