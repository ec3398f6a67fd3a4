// SPDX-License-Identifier: Apache-2.0
// Memory limits at every edge: exactly what some configuration needs, and a byte less. All configurations are simulated once without a
// limit; the expected answer under a limit is then the first of them that fits.
#include <gtest/gtest.h>

#include "random_problem.h"

namespace espalier::property {
namespace {

const int kProblems = long_run() ? 1000 : 100;
constexpr int kLimits = 12;

/// The candidates of a problem without a limit, fastest first.
std::vector<search::Candidate> all_candidates(RandomProblem p) {
  p.cluster.memory_limit.reset();
  SimulatedEvaluator evaluator(1);
  search::Outcome all = search::exhaustive(p.view(), evaluator, {});
  EXPECT_EQ(all.simulations, all.space_size);
  return std::move(all.simulated);
}

std::string first_that_fits(const std::vector<search::Candidate>& candidates, std::int64_t limit) {
  for (const search::Candidate& c : candidates)
    if (c.peak_bytes <= limit) return text_of(c);
  return "infeasible";
}

void expect_right_under(RandomProblem p, const std::vector<search::Candidate>& candidates, std::int64_t limit) {
  p.cluster.memory_limit = Bytes(limit);
  SimulatedEvaluator evaluator(1);
  const search::Outcome found = search::branch_and_bound(p.view(), evaluator, {});
  EXPECT_EQ(text_of(found.best), first_that_fits(candidates, limit)) << describe(p);
}

/// Limits at the needs of random candidates, and around the least need of all.
void try_limits(const RandomProblem& p, std::uint64_t seed) {
  const std::vector<search::Candidate> candidates = all_candidates(p);
  Random random(seed);
  std::int64_t least = INT64_MAX;
  for (const search::Candidate& c : candidates) least = std::min(least, c.peak_bytes);
  for (const std::int64_t limit : {least - 1, least, least + 1}) expect_right_under(p, candidates, limit);
  for (int k = 0; k < kLimits; ++k) expect_right_under(p, candidates, random.of(candidates).peak_bytes - random.below(2));
}

TEST(MemoryLimits, AtTheEdgeOfEveryConfiguration) {
  for (int i = 0; i < kProblems && !HasFailure(); ++i) try_limits(random_problem(1000 + i), static_cast<std::uint64_t>(i));
}

// Under megatron-2022-unfused full recomputation keeps the layer's input whole, 2sbh, while 34sbh and the scores are divided by tp: with
// tp 32, more recomputation needs more memory. The search must not take "more layers, less memory" for granted.
TEST(MemoryLimits, WhereRecomputationNeedsMoreMemory) {
  DecoderShape shape;
  shape.layers = 6, shape.hidden = 512, shape.heads = shape.kv_heads = 32, shape.ffn = 1024, shape.vocabulary = 64, shape.max_positions = 64;
  RandomProblem p;
  Random random(5);
  p.model = *make_decoder(shape, "toy");
  p.cluster = toy_cluster(random, 64);
  p.training.sequence.main = 32, p.training.global_batch = 8;
  p.engine = find_engine("megatron-lm-2021");
  p.space.allow["tp"] = {32}, p.space.allow["sp"] = {1};
  const std::vector<search::Candidate> candidates = all_candidates(p);
  bool more_needs_more = false;
  for (const search::Candidate& a : candidates) {
    for (const search::Candidate& b : candidates) {
      Configuration next = a.configuration;
      ++next.strategy.recompute.layers;
      more_needs_more = more_needs_more || (a.configuration.strategy.recompute.layers > 0 && b.configuration == next && b.peak_bytes > a.peak_bytes);
    }
  }
  EXPECT_TRUE(more_needs_more);
  std::set<std::int64_t> needs;
  for (const search::Candidate& c : candidates) needs.insert(c.peak_bytes);
  for (const std::int64_t need : needs) {
    expect_right_under(p, candidates, need);
    expect_right_under(p, candidates, need - 1);
  }
}

}  // namespace
}  // namespace espalier::property
