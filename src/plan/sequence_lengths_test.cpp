// SPDX-License-Identifier: Apache-2.0
// Tests two lengths: half of the sequences have 100 tokens and half 300, in samples of 400, so E[l] = 200 and E[l²] =
// 50,000. Best-fit decreasing puts one of each into a sample, all of it real. A token attends to E[l²]/E[l] = 250
// keys, 125 under a causal mask.
#include "plan/sequence_lengths.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

namespace espalier::plan_test::sequence_lengths_test {
namespace {

Training of(std::vector<LengthShare> histogram, Packing packing, std::int64_t sample) {
  Training t;
  t.sequence.main = sample;
  t.lengths.histogram = std::move(histogram);
  t.lengths.packing = packing;
  return t;
}

const std::vector<LengthShare> kTwo = {{100, 1}, {300, 1}};

TEST(SequenceLengths, WithoutThemASampleIsOneSequence) {
  const LengthFacts facts = length_facts(of({}, Packing::packed, 400));
  EXPECT_FALSE(facts.any || facts.packed);
  EXPECT_EQ(facts.real_tokens, 1.0);
  EXPECT_EQ(length_excess(facts, 8, 4, 1, 2), 1.0);
}

TEST(SequenceLengths, PaddedSamplesAreRealByTheirMean) {
  const LengthFacts facts = length_facts(of(kTwo, Packing::none, 400));
  EXPECT_DOUBLE_EQ(facts.real_tokens, 0.5);
  EXPECT_FALSE(facts.packed);
}

TEST(SequenceLengths, PackedSamplesAttendBySequence) {
  const LengthFacts facts = length_facts(of(kTwo, Packing::packed, 400));
  EXPECT_DOUBLE_EQ(facts.real_tokens, 1.0);
  EXPECT_DOUBLE_EQ(facts.sequences, 2.0);
  EXPECT_DOUBLE_EQ(packed_keys(facts, 0, false), 250.0);
  EXPECT_DOUBLE_EQ(packed_keys(facts, 0, true), 125.0);
  // Under a window of 100 the short sequences attend to 50 keys, the long ones to 100 − 100²/600.
  EXPECT_DOUBLE_EQ(packed_keys(facts, 100, true), (100 * 50 + 300 * (100 - 10000.0 / 600)) / 400);
  EXPECT_DOUBLE_EQ(facts.longest, 100 * 0.25 + 300 * 0.75);
  // With r = 250, l² − r·l is −15,000 or 15,000, over 2 sequences per sample with 50,000 each.
  EXPECT_NEAR(facts.spread, 15000.0 / std::sqrt(2.0) / 50000, 1e-12);
}

// Samples that hold thousands of sequences are full: the gap in the last packed sample does not count for all others.
TEST(SequenceLengths, LongSamplesAreFull) {
  EXPECT_GT(length_facts(of(kTwo, Packing::packed, 1 << 20)).real_tokens, 0.99);
  EXPECT_GT(length_facts(of({{64, 1}}, Packing::packed, 1 << 20)).real_tokens, 0.99);
  EXPECT_GT(length_facts(of({{1, 1}}, Packing::packed, 8192)).real_tokens, 0.99);
}

TEST(SequenceLengths, OneLengthThatFillsItsSampleIsNoPacking) {
  const LengthFacts facts = length_facts(of({{400, 7}}, Packing::packed, 400));
  EXPECT_DOUBLE_EQ(packed_keys(facts, 0, true), 200.0);
  EXPECT_EQ(facts.spread, 0.0);
  EXPECT_DOUBLE_EQ(facts.longest, 400.0);
}

// The known expectations of the largest of 2, 4, 8 and 64 normal values are 0.5642, 1.0294, 1.4236,
// 2.3437 (Teichroew 1956).
TEST(SequenceLengths, ExpectedLargestOfNormalValues) {
  EXPECT_EQ(expected_largest(1), 0.0);
  EXPECT_NEAR(expected_largest(2), 0.5642, 0.03);
  EXPECT_NEAR(expected_largest(4), 1.0294, 0.03);
  EXPECT_NEAR(expected_largest(8), 1.4236, 0.03);
  EXPECT_NEAR(expected_largest(64), 2.3437, 0.03);
}

std::vector<LengthShare> log_normal() {
  std::vector<LengthShare> out;
  for (int i = 0; i < 24; ++i) {
    const double length = 32 * std::pow(2.0, i / 4.0), z = std::log(length / 300) / 0.8;
    out.push_back({static_cast<std::int64_t>(length), std::exp(-z * z / 2)});
  }
  return out;
}

/// Returns Σ l² of samples that sequences fill in the order in which they are drawn.
std::vector<double> drawn_samples(const std::vector<LengthShare>& histogram, std::int64_t sample, std::size_t count,
                                  std::mt19937& random) {
  std::vector<double> weights, out;
  for (const LengthShare& s : histogram) weights.push_back(s.weight);
  std::discrete_distribution<std::size_t> draw(weights.begin(), weights.end());
  std::int64_t room = sample;
  double work = 0;
  while (out.size() < count) {
    const std::int64_t l = histogram[draw(random)].tokens;
    if (l > room) {
      out.push_back(work);
      room = sample;
      work = 0;
    }
    room -= l;
    work += static_cast<double>(l) * static_cast<double>(l);
  }
  return out;
}

double mean_of(const std::vector<double>& v) { return std::accumulate(v.begin(), v.end(), 0.0) / static_cast<double>(v.size()); }

TEST(SequenceLengths, SpreadIsThatOfDrawnSamples) {
  std::mt19937 random(1);
  const auto histogram = log_normal();
  const std::vector<double> work = drawn_samples(histogram, 8192, 4000, random);
  const double mean = mean_of(work);
  double square = 0;
  for (const double w : work) square += (w - mean) * (w - mean);
  const double seen = std::sqrt(square / static_cast<double>(work.size())) / mean;
  EXPECT_NEAR(length_facts(of(histogram, Packing::packed, 8192)).spread, seen, 0.25 * seen);
}

/// Returns the time of a step in units of an equal sample's attention: the slowest of `replicas`, each a flow shop of
/// m jobs through p machines.
double slowest(const std::vector<std::vector<double>>& jobs, std::int64_t stages) {
  double most = 0;
  for (const std::vector<double>& replica : jobs)
    most = std::max(most, std::accumulate(replica.begin(), replica.end(), 0.0) +
                              static_cast<double>(stages - 1) * *std::max_element(replica.begin(), replica.end()));
  return most;
}

/// Returns the mean time of the slowest replica over many steps, relative to equal samples.
double simulated_excess(std::int64_t replicas, std::int64_t m, std::int64_t stages, bool balanced) {
  std::mt19937 random(3);
  const auto histogram = log_normal();
  constexpr int kSteps = 300;
  double sum = 0, all = 0;
  for (int step = 0; step < kSteps; ++step) {
    std::vector<double> work = drawn_samples(histogram, 8192, static_cast<std::size_t>(replicas * m), random);
    all += mean_of(work);
    if (balanced) std::sort(work.rbegin(), work.rend());
    std::vector<std::vector<double>> jobs(static_cast<std::size_t>(replicas));
    std::vector<double> load(static_cast<std::size_t>(replicas), 0);
    for (std::size_t i = 0; i < work.size(); ++i) {
      std::size_t to = i % static_cast<std::size_t>(replicas);
      if (balanced) {
        for (std::size_t r = 0; r < load.size(); ++r) {
          const bool full = jobs[to].size() == static_cast<std::size_t>(m);
          if (jobs[r].size() < static_cast<std::size_t>(m) && (full || load[r] < load[to])) to = r;
        }
      }
      jobs[to].push_back(work[i]);
      load[to] += work[i];
    }
    sum += slowest(jobs, stages);
  }
  return sum / (all * static_cast<double>(m + stages - 1));
}

TEST(SequenceLengths, ExcessIsThatOfASimulatedStep) {
  for (const bool balanced : {false, true}) {
    const LengthFacts facts = length_facts(of(log_normal(), balanced ? Packing::balanced : Packing::packed, 8192));
    for (const std::int64_t replicas : {1, 2, 8, 32})
      for (const std::int64_t m : {1, 4, 16})
        for (const std::int64_t stages : {1, 4}) {
          const double seen = simulated_excess(replicas, m, stages, balanced),
                       said = length_excess(facts, replicas, m, 1, stages);
          EXPECT_NEAR(said - 1, seen - 1, 0.35 * (seen - 1) + 0.03)
              << "R " << replicas << " m " << m << " p " << stages << (balanced ? " balanced" : "");
        }
  }
}

TEST(SequenceLengths, BalancedIsNeverSlower) {
  const LengthFacts packed = length_facts(of(log_normal(), Packing::packed, 8192)),
                    balanced = length_facts(of(log_normal(), Packing::balanced, 8192));
  for (const std::int64_t replicas : {2, 16, 128})
    for (const std::int64_t m : {1, 2, 64})
      EXPECT_LE(length_excess(balanced, replicas, m, 1, 2), length_excess(packed, replicas, m, 1, 2));
}

}  // namespace
}  // namespace espalier::plan_test::sequence_lengths_test
