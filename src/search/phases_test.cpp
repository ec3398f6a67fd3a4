// SPDX-License-Identifier: Apache-2.0
// What the phases found together: which plan is the answer, and what the certificate may say.
#include "search/phases.h"

#include <gtest/gtest.h>

namespace espalier::search {
namespace {

Outcome uniform_of(std::int64_t best_ns, std::int64_t bound_ns, bool complete) {
  Outcome out;
  Candidate c;
  c.iteration_ns = best_ns;
  if (best_ns > 0) out.best = c;
  out.lower_bound_ns = bound_ns;
  out.complete = complete;
  return out;
}

LayerwiseOutcome layered_of(std::int64_t best_ns, std::int64_t bound_ns) {
  LayerwiseOutcome out;
  LayeredCandidate c;
  c.iteration_ns = best_ns;
  c.configuration.chunks = {{LayerRange{}}};
  if (best_ns > 0) out.best = c;
  out.lower_bound_ns = bound_ns;
  return out;
}

Found found_of(const Outcome& uniform, const LayerwiseOutcome& layered) {
  Found all;
  all.uniform = uniform;
  all.layered = layered;
  all.phases = {{"uniform", false, true, true}, {"layer-wise", false, true, true}};
  return all;
}

// 1,000,000 ns uniform; a layer-wise plan counts from 500 ns less on (0.05 %).
TEST(Phases, ALayerWisePlanMustBeWorthItsLayers) {
  const Found little = found_of(uniform_of(1'000'000, 1'000'000, true), layered_of(999'500, 900'000));
  EXPECT_EQ(little.best_ns(), 1'000'000);
  EXPECT_TRUE(little.best()->chunks.empty());
  const Found more = found_of(uniform_of(1'000'000, 1'000'000, true), layered_of(999'499, 900'000));
  EXPECT_EQ(more.best_ns(), 999'499);
  EXPECT_EQ(more.best()->chunks.size(), 1U);
}

// The least of the bounds; of a complete uniform search the answer itself.
TEST(Phases, OneCertificate) {
  EXPECT_EQ(found_of(uniform_of(1'000'000, 1'000'000, true), layered_of(0, 980'000)).lower_bound_ns(), 980'000);
  EXPECT_EQ(found_of(uniform_of(1'000'000, 700'000, false), layered_of(0, 980'000)).lower_bound_ns(), 700'000);
  EXPECT_TRUE(found_of(uniform_of(1, 1, true), layered_of(0, 1)).complete());
  EXPECT_FALSE(found_of(uniform_of(1, 1, false), layered_of(0, 1)).complete());
}

TEST(Phases, NothingIsKnownOfAPhaseThatDidNotBegin) {
  Found all;
  all.uniform = uniform_of(1'000'000, 1'000'000, true);
  all.phases = {{"uniform", false, true, true}, {"layer-wise", true, false, false}};
  EXPECT_EQ(all.lower_bound_ns(), 0);
  EXPECT_FALSE(all.complete());
  EXPECT_TRUE(all.left_out());
}

TEST(Phases, NothingFits) {
  Found all;
  all.uniform = uniform_of(0, 0, true);
  EXPECT_FALSE(all.best());
  EXPECT_EQ(all.best_ns(), 0);
}

TEST(Phases, Names) {
  EXPECT_EQ(phase_names(), (std::vector<std::string>{"uniform", "layer-wise", "operators", "operators by layer", "each group",
                                                     "device groups"}));
}

}  // namespace
}  // namespace espalier::search
