// SPDX-License-Identifier: Apache-2.0
#include "check/packed_lengths.h"

#include <algorithm>
#include <cmath>

namespace espalier::check {
namespace {

/// Holds moments of the histogram, normalised to a total weight of one.
struct Moments {
  double first = 0, second = 0, fourth = 0, met = 0, longest = 0;
};

Moments moments_of(const Lengths& lengths, double window, bool causal) {
  double all = 0;
  for (const LengthShare& s : lengths.histogram) all += s.weight;
  Moments m;
  for (const LengthShare& s : lengths.histogram) {
    const auto l = static_cast<double>(s.tokens);
    const double w = s.weight / all;
    double keys = causal ? l / 2 : l;
    if (window > 0 && l > window) keys = causal ? window * (1 - window / (2 * l)) : window;
    m.first += w * l;
    m.second += w * l * l;
    m.fourth += w * l * l * l * l;
    m.met += w * l * keys;
    m.longest = std::max(m.longest, l);
  }
  return m;
}

/// Packs a thousand sequences at even quantiles by next-fit decreasing, which fills samples less than any packing
/// that looks back. It fills only a few long samples. A closed sample had no room for the next sequence, so that it
/// holds more than all but the longest sequence's length.
double least_fill(const Lengths& lengths, double sample) {
  constexpr int kSequences = 1000;
  double all = 0, below = 0, used = 0, room = 0;
  for (const LengthShare& s : lengths.histogram) all += s.weight;
  std::int64_t samples = 0;
  auto at = lengths.histogram.rbegin();
  for (int i = 0; i < kSequences; ++i) {
    while (std::next(at) != lengths.histogram.rend() && below + at->weight < (i + 0.5) / kSequences * all) {
      below += at->weight;
      ++at;
    }
    const auto l = static_cast<double>(at->tokens);
    if (l > room) {
      room = sample;
      ++samples;
    }
    room -= l;
    used += l;
  }
  const double longest = static_cast<double>(lengths.histogram.back().tokens);
  return std::max(used / (static_cast<double>(samples) * sample), 1 - longest / sample);
}

}  // namespace

PackedAttention packed_attention(const View& view, const Operator& op, bool most) {
  constexpr double kBelow = 0.95;  // a thousand sequences do not represent all
  const Training& training = view.plan->training;
  const auto sample = static_cast<double>(training.sequence.main);
  const Moments m = moments_of(training.lengths, static_cast<double>(op.window), op.causal);
  const double keys = m.met / m.first;
  if (!most) return {kBelow * least_fill(training.lengths, sample) * keys, m.first};
  const double sequences = std::max(1.0, sample / m.first / 2);  // a sample is at least half full
  const double spread = std::sqrt(std::max(0.0, m.fourth - m.second * m.second) / sequences) / m.second;
  const auto largest = [](double k) { return k > 1 ? std::sqrt(2 * std::log(k)) : 0; };
  const double excess = 1 + spread * (largest(view.strategy.dp) + largest(view.microbatches));
  return {excess * keys, m.longest};
}

}  // namespace espalier::check
