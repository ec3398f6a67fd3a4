// SPDX-License-Identifier: Apache-2.0
// Tests memory limits at every edge: exactly the need of some configuration, and a byte less. All configurations are
// simulated once without a limit; the expected answer under a limit is then the first of them that fits.
#include <gtest/gtest.h>

#include "plan/engine.h"
#include "random_problem.h"

namespace espalier::property::memory_limits_test {
namespace {

const int kProblems = cases(100, 1000);
constexpr int kLimits = 12;

/// Returns the candidates of a problem without a memory limit, fastest first; hosts may be too small for some.
std::vector<search::Candidate> all_candidates(RandomProblem p) {
  p.cluster.memory_limit.reset();
  planner::SimulatedEvaluator evaluator(1);
  search::Outcome all = search::exhaustive(p.view(), evaluator, {});
  const double without_host = all.pruning.removed(search::Pruning::memory);
  EXPECT_EQ(static_cast<double>(all.simulations) + without_host, all.space_size);
  EXPECT_TRUE(without_host == 0 || p.cluster.groups.front().host.known()) << describe(p);
  return std::move(all.simulated);
}

std::string first_that_fits(const std::vector<search::Candidate>& candidates, std::int64_t limit) {
  for (const search::Candidate& c : candidates)
    if (c.peak_bytes <= limit) return text_of(c);
  return "infeasible";
}

void expect_right_under(RandomProblem p, const std::vector<search::Candidate>& candidates, std::int64_t limit) {
  p.cluster.memory_limit = Bytes(limit);
  planner::SimulatedEvaluator evaluator(1);
  const search::Outcome found = search::branch_and_bound(p.view(), evaluator, {});
  EXPECT_EQ(text_of(found.best), first_that_fits(candidates, limit)) << describe(p);
}

/// Tries limits at the needs of random candidates, and around the least need of all.
void try_limits(const RandomProblem& p, std::uint64_t seed) {
  const std::vector<search::Candidate> candidates = all_candidates(p);
  if (candidates.empty()) return;
  Random random(seed);
  std::int64_t least = INT64_MAX;
  for (const search::Candidate& c : candidates) least = std::min(least, c.peak_bytes);
  for (const std::int64_t limit : {least - 1, least, least + 1}) expect_right_under(p, candidates, limit);
  for (int k = 0; k < kLimits; ++k) expect_right_under(p, candidates, random.of(candidates).peak_bytes - random.below(2));
}

TEST(MemoryLimits, AtTheEdgeOfEveryConfiguration) {
  for (int i = 0; i < kProblems && !HasFailure(); ++i) try_limits(random_problem(1000 + i), static_cast<std::uint64_t>(i));
}

/// Tries every limit at which the set of fitting configurations changes.
void try_every_limit(const RandomProblem& p, const std::vector<search::Candidate>& candidates) {
  std::set<std::int64_t> needs;
  for (const search::Candidate& c : candidates) needs.insert(c.peak_bytes);
  for (const std::int64_t need : needs) {
    expect_right_under(p, candidates, need);
    expect_right_under(p, candidates, need - 1);
  }
}

/// Returns a problem with one block kind, `heads` heads, and little choice except recomputation.
RandomProblem recomputation_problem(Random& random, std::int64_t heads, std::int64_t devices, const char* engine) {
  DecoderShape shape;
  shape.layers = 6;
  shape.heads = shape.kv_heads = heads;
  shape.hidden = 16 * heads;
  shape.ffn = 2 * shape.hidden;
  shape.vocabulary = 64;
  shape.max_positions = 512;
  RandomProblem p;
  p.model = *make_decoder(shape, "toy");
  p.cluster = toy_cluster(random, devices);
  p.training.sequence.main = 32;
  p.training.global_batch = 8;
  p.engine = find_engine(engine);
  return p;
}

// Selective recomputation applies to every layer, full recomputation to as many as necessary. Where
// the scores of unfused attention fill the memory, a little full recomputation may be faster than
// selective recomputation everywhere.
TEST(MemoryLimits, WhereSelectiveAndFullRecomputationCompete) {
  Random random(11);
  int full = 0, selective = 0;
  for (int i = 0; i < cases(100, 2000) && !HasFailure(); ++i) {
    RandomProblem p = recomputation_problem(random, 4, random.of<std::int64_t>({2, 4}), "megatron-deepspeed");
    p.training.sequence.main = 512;
    p.space.limit(Dimension::zero, 1);
    p.space.allow(Dimension::overlap_p2p, {0});
    p.space.limit(Dimension::vpp, 1);
    p.space.limit(Dimension::cp, 1);
    p.space.forbid(Dimension::schedule, {0});
    const std::vector<search::Candidate> candidates = all_candidates(p);
    for (int k = 0; k < 20; ++k) expect_right_under(p, candidates, random.of(candidates).peak_bytes);
    for (const search::Candidate& c : candidates) {
      if (first_that_fits(candidates, c.peak_bytes) != text_of(c)) continue;
      full += c.configuration.strategy.recompute.kind == RecomputeKind::full;
      selective += c.configuration.strategy.recompute.kind == RecomputeKind::selective;
    }
  }
  EXPECT_GT(full, 0);
  EXPECT_GT(selective, 0);
}

// Under megatron-2022-unfused, full recomputation keeps the layer's input whole, 2sbh, while 34sbh and the scores
// are divided by tp. With tp 32, more recomputation therefore needs more memory. The search must not assume "more
// layers, less memory".
TEST(MemoryLimits, WhereRecomputationNeedsMoreMemory) {
  Random random(5);
  RandomProblem p = recomputation_problem(random, 32, 64, "megatron-lm-2021");
  p.space.allow(Dimension::tp, {32});
  p.space.allow(Dimension::sp, {1});
  std::vector<search::Candidate> candidates = all_candidates(p);
  bool more_needs_more = false;
  for (const search::Candidate& a : candidates) {
    for (const search::Candidate& b : candidates) {
      Configuration next = a.configuration;
      ++next.strategy.recompute.layers;
      more_needs_more = more_needs_more ||
                        (a.configuration.strategy.recompute.layers > 0 && b.configuration == next && b.peak_bytes > a.peak_bytes);
    }
  }
  EXPECT_TRUE(more_needs_more);
  try_every_limit(p, candidates);
  p.space.allow(Dimension::recompute, {2});
  p.space.allow(Dimension::pp, {1});
  try_every_limit(p, all_candidates(p));
}

}  // namespace
}  // namespace espalier::property::memory_limits_test
