// SPDX-License-Identifier: Apache-2.0
#include "search/chunk_bound.h"

#include <algorithm>
#include <numeric>

#include "base/invariant.h"
#include "plan/schedule.h"

namespace espalier::search {
namespace {

constexpr int kRounds = 8;                // rounds that move the weights towards equal costs
constexpr double kBackwardOfForward = 2;  // b/f of the layer whose cost is equalised

/// Counts the passes so far, by local chunk.
struct Counts {
  explicit Counts(std::size_t chunks) : forwards(chunks, 0), backwards(chunks, 0) {}
  void add(const ChunkPass& step) {
    const auto chunk = static_cast<std::size_t>(step.local_chunk);
    // The two parts of a backward pass count once, as the first part, which is an upper limit of the steps before.
    if (step.kind == InstructionKind::forward) ++forwards[chunk];
    if (step.kind == InstructionKind::backward || step.kind == InstructionKind::backward_input) ++backwards[chunk];
  }
  std::vector<std::int64_t> forwards, backwards;
};

double nominal(const ChunkOrders::Coefficients& c) { return c.forward + kBackwardOfForward * c.backward; }

bool undercuts(const ChunkOrders::Coefficients& a, const ChunkOrders::Coefficients& b) {
  return a.forward <= b.forward && a.backward <= b.backward && a.tail <= b.tail;
}

std::int64_t sum(const std::vector<std::int64_t>& values) {
  return std::accumulate(values.begin(), values.end(), std::int64_t{0});
}

}  // namespace

ChunkOrders::ChunkOrders(const Schedule& schedule) : schedule_(schedule) {
  for (std::int32_t i = 0; i < schedule.stages; ++i) read(i);
  ESPALIER_CHECK(outside_.size() == static_cast<std::size_t>(schedule.chunks()));
}

void ChunkOrders::read(std::int32_t stage) {
  const auto chunks = static_cast<std::size_t>(schedule_.virtual_stages);
  const std::vector<ChunkPass> order = compute_order(schedule_, stage);
  std::vector<Outside> mine(chunks);
  std::vector<std::int32_t> held(chunks, 0);
  std::int32_t most = 1;
  Counts seen(chunks);
  for (const ChunkPass& step : order) {
    const auto chunk = static_cast<std::size_t>(step.local_chunk);
    if (step.kind == InstructionKind::forward) {
      if (seen.forwards[chunk] == 0) {
        mine[chunk].forwards_before = seen.forwards;
        mine[chunk].backwards_before = seen.backwards;
      }
      ++held[chunk];
      most = std::max(most, *std::min_element(held.begin(), held.end()));
    } else if (step.kind != InstructionKind::backward_input) {
      --held[chunk];  // a pass is held until its weight gradients are done
    }
    seen.add(step);
  }
  Counts later(chunks);
  for (auto step = order.rbegin(); step != order.rend(); ++step) {
    const auto chunk = static_cast<std::size_t>(step->local_chunk);
    if (step->kind == InstructionKind::backward && later.backwards[chunk] == 0) {
      mine[chunk].forwards_after = later.forwards;
      mine[chunk].backwards_after = later.backwards;
    }
    later.add(*step);
  }
  // Every pass was released.
  ESPALIER_CHECK(std::all_of(held.begin(), held.end(), [](std::int32_t n) { return n == 0; }));
  held_.push_back(most);
  outside_.insert(outside_.end(), mine.begin(), mine.end());
}

const ChunkOrders::Outside& ChunkOrders::outside(std::int32_t stage, std::int32_t local_chunk) const {
  return outside_[static_cast<std::size_t>(stage * schedule_.virtual_stages + local_chunk)];
}

std::int32_t ChunkOrders::least_held() const { return *std::min_element(held_.begin(), held_.end()); }

std::int64_t ChunkOrders::most_skipped() const {
  std::int64_t most = 0;
  for (const Outside& o : outside_)
    most = std::max(most, sum(o.forwards_before) + sum(o.backwards_before) + sum(o.forwards_after) + sum(o.backwards_after));
  return most;
}

/// Returns the coefficients by pipeline chunk, for weights γ of the stages.
std::vector<ChunkOrders::Coefficients> ChunkOrders::with(const std::vector<double>& weights, bool ends) const {
  ESPALIER_CHECK(weights.size() == static_cast<std::size_t>(schedule_.stages));
  const std::int32_t v = schedule_.virtual_stages, chunks = schedule_.stages * v;
  const double m = schedule_.microbatches;
  std::vector<Coefficients> out(static_cast<std::size_t>(chunks));
  double later = 0;  // weight of the later chunks
  for (std::int32_t c = chunks; c-- > 0;) {
    const ChunkPlace place = place_of_chunk(schedule_, c);
    const double weight = weights[static_cast<std::size_t>(place.stage)], each = weight / v;
    const auto here = static_cast<std::size_t>(place.local_chunk);
    Coefficients& x = out[static_cast<std::size_t>(c)];
    x.forward = later + m * weight;
    x.backward = (ends ? later : 0) + m * weight;
    x.tail = ends ? 0 : weight;
    for (std::int32_t k = 0; k < v; ++k) {
      const Outside& o = outside(place.stage, k);
      x.forward -= each * static_cast<double>(o.forwards_before[here] + (ends ? o.forwards_after[here] : 0));
      x.backward -= each * static_cast<double>(o.backwards_before[here] + (ends ? o.backwards_after[here] : 0));
    }
    later += each;
  }
  return out;
}

std::vector<ChunkOrders::Coefficients> ChunkOrders::coefficients(bool ends) const {
  const auto stages = static_cast<std::size_t>(schedule_.stages);
  const double whole = schedule_.microbatches * (1 + kBackwardOfForward);  // cost of a layer over all micro-batches
  std::vector<double> weights(stages, 1.0 / static_cast<double>(stages));
  std::vector<Coefficients> best;
  double best_least = 0;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<Coefficients> now = with(weights, ends);
    std::vector<double> least(stages, 0);  // cost of the layer on the cheapest chunk of each stage
    for (std::size_t i = 0; i < stages; ++i) {
      for (std::int32_t k = 0; k < schedule_.virtual_stages; ++k) {
        const double cost = nominal(now[static_cast<std::size_t>(pipeline_chunk(schedule_, static_cast<std::int32_t>(i), k))]);
        least[i] = k == 0 ? cost : std::min(least[i], cost);
      }
    }
    const double lowest = *std::min_element(least.begin(), least.end());
    if (best.empty() || lowest > best_least) {
      best_least = lowest;
      best = std::move(now);
    }
    // Each stage's weight moves by the difference of its cost from the mean.
    double total = 0;
    const double mean = std::accumulate(least.begin(), least.end(), 0.0) / static_cast<double>(stages);
    for (std::size_t i = 0; i < stages; ++i) {
      weights[i] = std::max(0.0, weights[i] + (mean - least[i]) / whole);
      total += weights[i];
    }
    for (double& w : weights) w /= total;
  }
  std::vector<Coefficients> kept;
  for (const Coefficients& c : best) {
    if (std::any_of(kept.begin(), kept.end(), [&](const Coefficients& k) { return undercuts(k, c); })) continue;
    kept.erase(std::remove_if(kept.begin(), kept.end(), [&](const Coefficients& k) { return undercuts(c, k); }), kept.end());
    kept.push_back(c);
  }
  return kept;
}

}  // namespace espalier::search
