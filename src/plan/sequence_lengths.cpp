// SPDX-License-Identifier: Apache-2.0
#include "plan/sequence_lengths.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace espalier {
namespace {

constexpr int kLeastSequences = 4096, kMostSequences = 1 << 19;
/// Samples to fill at least: the last of them, which stays part-empty, is less than a hundredth of all.
constexpr double kSamples = 128;

double total_weight(const std::vector<LengthShare>& histogram) {
  double sum = 0;
  for (const LengthShare& s : histogram) sum += s.weight;
  return sum;
}

/// Returns E[f(l)].
template <class F>
double mean_of(const std::vector<LengthShare>& histogram, const F& f) {
  double sum = 0;
  for (const LengthShare& s : histogram) sum += s.weight * f(static_cast<double>(s.tokens));
  return sum / total_weight(histogram);
}

/// Returns lengths at the middles of equal parts of the distribution, longest first.
std::vector<std::int64_t> quantiles(const std::vector<LengthShare>& histogram, int count) {
  std::vector<std::int64_t> out;
  const double all = total_weight(histogram);
  std::size_t at = 0;
  double below = 0;
  for (int i = 0; i < count; ++i) {
    const double wanted = (i + 0.5) / count * all;
    while (at + 1 < histogram.size() && below + histogram[at].weight < wanted) below += histogram[at++].weight;
    out.push_back(histogram[at].tokens);
  }
  std::reverse(out.begin(), out.end());
  return out;
}

/// Returns the real share of the tokens of samples under best-fit decreasing.
double fill(const std::vector<LengthShare>& histogram, std::int64_t tokens) {
  std::multiset<std::int64_t> room;  // room in the samples so far
  std::int64_t used = 0, samples = 0;
  const double mean = mean_of(histogram, [](double l) { return l; });
  const double wanted = std::clamp<double>(kSamples * static_cast<double>(tokens) / mean, kLeastSequences, kMostSequences);
  for (const std::int64_t length : quantiles(histogram, static_cast<int>(wanted))) {
    used += length;
    const auto at = room.lower_bound(length);
    std::int64_t left = tokens;
    if (at != room.end()) {
      left = *at;
      room.erase(at);
    } else {
      ++samples;
    }
    if (left > length) room.insert(left - length);
  }
  return static_cast<double>(used) / (static_cast<double>(samples) * static_cast<double>(tokens));
}

/// Returns the expected longest of n sequences: Σ l·(F(l)ⁿ − F(l−)ⁿ).
double expected_longest(const std::vector<LengthShare>& histogram, double n) {
  const double all = total_weight(histogram);
  double below = 0, before = 0, sum = 0;
  for (const LengthShare& s : histogram) {
    below += s.weight / all;
    const double here = std::pow(std::min(1.0, below), n);
    sum += static_cast<double>(s.tokens) * (here - before);
    before = here;
  }
  return sum;
}

double spread_of(const std::vector<LengthShare>& histogram, double n) {
  const double m1 = mean_of(histogram, [](double l) { return l; }), m2 = mean_of(histogram, [](double l) { return l * l; });
  const double m3 = mean_of(histogram, [](double l) { return l * l * l; }),
               m4 = mean_of(histogram, [](double l) { return l * l * l * l; });
  const double r = m2 / m1;  // E[l² − r·l] = 0
  const double variance = m4 - 2 * r * m3 + r * r * m2;
  return variance <= 1e-12 * m4 ? 0.0 : std::sqrt(variance / n) / m2;
}

double keys_of(double length, double window, bool causal) {
  if (window > 0 && window < length) return causal ? window - window * window / (2 * length) : window;
  return causal ? length / 2 : length;
}

/// Returns Φ⁻¹ for 0.5 ≤ p < 1 (Hastings 1955, Abramowitz and Stegun 26.2.23: off by less than 4.5·10⁻⁴).
double normal_quantile(double p) {
  const double t = std::sqrt(-2.0 * std::log(1.0 - p));
  return t - (2.515517 + t * (0.802853 + t * 0.010328)) / (1.0 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
}

}  // namespace

LengthFacts length_facts(const Training& training) {
  LengthFacts facts;
  const Lengths& lengths = training.lengths;
  const std::int64_t sample = training.sequence.main;
  if (!lengths.any() || sample <= 0) return facts;
  facts.any = true;
  facts.histogram = lengths.histogram;
  facts.mean = mean_of(facts.histogram, [](double l) { return l; });
  facts.packed = lengths.packing != Packing::none;
  facts.balanced = lengths.packing == Packing::balanced;
  if (!facts.packed) {
    facts.real_tokens = facts.mean / static_cast<double>(sample);
    return facts;
  }
  facts.real_tokens = fill(facts.histogram, sample);
  facts.sequences = std::max(1.0, facts.real_tokens * static_cast<double>(sample) / facts.mean);
  facts.longest = expected_longest(facts.histogram, facts.sequences);
  facts.spread = spread_of(facts.histogram, facts.sequences);
  return facts;
}

double packed_keys(const LengthFacts& facts, double window, bool causal) {
  const double met = mean_of(facts.histogram, [&](double l) { return l * keys_of(l, window, causal); });
  return facts.real_tokens * met / facts.mean;
}

double expected_largest(double k) { return k <= 1 ? 0.0 : std::max(0.0, normal_quantile((k - 0.375) / (k + 0.25))); }

double length_excess(const LengthFacts& facts, std::int64_t replicas, std::int64_t microbatches, std::int64_t micro_batch,
                     std::int64_t stages) {
  if (!facts.packed || facts.spread <= 0) return 1.0;
  const auto m = static_cast<double>(std::max<std::int64_t>(1, microbatches)), b = static_cast<double>(micro_batch);
  const double samples = m * b, later = static_cast<double>(stages) - 1;
  const double among = expected_largest(static_cast<double>(replicas)) / std::pow(samples, facts.balanced ? 1.5 : 0.5);
  const double between = expected_largest(static_cast<double>(replicas) * m) / std::sqrt(b);
  return 1.0 + facts.spread * (m * among + later * between) / (m + later);
}

double real_token_share(const Training& training) { return length_facts(training).real_tokens; }

}  // namespace espalier
