// SPDX-License-Identifier: Apache-2.0
// Compares the memory of a chunk, max_i (Σ_{k≤i} saved_k + transient_i), with a replay that allocates and frees layer
// by layer.
#include "cost/chunk_sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "cost/test_problem.h"

namespace espalier::cost::chunk_sum_test {
namespace {

using namespace test;

/// Describes a layer of a chunk: its kind and how it is recomputed.
struct Step {
  std::int32_t kind = 0;
  RecomputeKind how = RecomputeKind::none;
};

/// Holds the memory of a stage while micro-batches pass it, a layer at a time.
class Replay {
 public:
  Replay(const std::vector<LayerCost>& kinds, const std::vector<Step>& steps) : kinds_(kinds), steps_(steps) {}
  void forward() {
    for (const Step& s : steps_) {
      hold(kept(s));
      touch(cost(s).transient.forward);
    }
  }
  /// Runs the backward pass. The whole of a recomputed layer is there again while it runs; then what it kept is
  /// freed.
  void backward() {
    for (auto s = steps_.rbegin(); s != steps_.rend(); ++s) {
      touch(cost(*s).transient.backward + cost(*s).saved.none - kept(*s));
      hold(-kept(*s));
    }
  }
  [[nodiscard]] std::int64_t peak() const { return peak_; }
  [[nodiscard]] std::int64_t held() const { return held_; }

 private:
  [[nodiscard]] const LayerCost& cost(const Step& s) const { return kinds_[static_cast<std::size_t>(s.kind)]; }
  [[nodiscard]] std::int64_t kept(const Step& s) const {
    const SavedBytes& saved = cost(s).saved;
    return s.how == RecomputeKind::full ? saved.full : s.how == RecomputeKind::selective ? saved.selective : saved.none;
  }
  void hold(std::int64_t bytes) {
    held_ += bytes;
    peak_ = std::max(peak_, held_);
  }
  void touch(std::int64_t bytes) { peak_ = std::max(peak_, held_ + bytes); }
  const std::vector<LayerCost>& kinds_;
  const std::vector<Step>& steps_;
  std::int64_t held_ = 0, peak_ = 0;
};

/// Returns the chunk as ChunkSum sums it.
ChunkTotal summed(const std::vector<LayerCost>& kinds, const std::vector<Step>& steps) {
  static const Model model = model_of(mlp());
  static const CostContext context(model, round_cluster(1), tokens(1000), plain_engine("generic"));
  const Strategy s;
  const StrategyCost x = strategy_cost_of(context, s, 1, kinds, ChunkEdges::exposed);
  ChunkTotal t;
  ChunkSum sum(t);
  for (std::size_t i = 0; i < steps.size();) {  // run by run, as a uniform plan adds them
    std::size_t end = i + 1;
    while (end < steps.size() && steps[end].kind == steps[i].kind && steps[end].how == steps[i].how) ++end;
    sum.add(x, steps[i].kind, static_cast<std::int64_t>(end - i), steps[i].how);
    i = end;
  }
  sum.finish(x, steps.front().kind, 1);
  EXPECT_EQ(sum.peak_bytes(), t.bytes.saved + std::max(t.bytes.forward_transient, t.bytes.backward_transient));
  return t;
}

// Layers keep 10 and 3 bytes, with working sets of 1 and 20 (backward). Forward is 10 + 1 = 11, 13 + 1; backward 13
// + 20 = 33, 10 + 1. In the other order it is 3 + 20 = 23, when the bytes of the larger one are gone.
TEST(ChunkMemory, SmallestExample) {
  std::vector<LayerCost> kinds(2);
  kinds[0].saved = {10, 10, 10};
  kinds[0].transient = {1, 1};
  kinds[1].saved = {3, 3, 3};
  kinds[1].transient = {1, 20};
  const ChunkTotal t = summed(kinds, {{0}, {1}}), other = summed(kinds, {{1}, {0}});
  EXPECT_EQ(t.bytes.saved, 13);
  EXPECT_EQ(t.bytes.saved + t.bytes.backward_transient, 33);
  EXPECT_EQ(other.bytes.saved + other.bytes.backward_transient, 23);
  EXPECT_EQ(t.bytes.saved + t.bytes.forward_transient, 14);
}

// Recomputed as a whole, a layer that keeps 2 of 10 has 8 more while it runs backward: 2 + 2 + 8 + 1 for the second,
// 2 + 8 + 1 for the first.
TEST(ChunkMemory, Recomputation) {
  std::vector<LayerCost> kinds(1);
  kinds[0].saved = {10, 6, 2};
  kinds[0].transient = {0, 1};
  const ChunkTotal t = summed(kinds, {{0, RecomputeKind::full}, {0, RecomputeKind::full}});
  EXPECT_EQ(t.bytes.saved, 4);
  EXPECT_EQ(t.bytes.saved + t.bytes.backward_transient, 13);
}

std::vector<LayerCost> any_kinds(std::mt19937& engine) {
  std::vector<LayerCost> kinds(1 + engine() % 4);
  for (LayerCost& l : kinds) {
    const std::int64_t scale = engine() % 3 == 0 ? 10 : 1000;
    const auto upto = [&](std::int64_t n) { return static_cast<std::int64_t>(engine()) % (n + 1); };
    l.saved.none = upto(scale);
    l.saved.selective = upto(l.saved.none);
    l.saved.full = upto(l.saved.none);
    l.transient = {upto(3 * scale), upto(3 * scale)};
  }
  return kinds;
}

// One-forward-one-backward with K micro-batches in flight holds K − 1 whole chunks in addition to the one that runs.
TEST(ChunkMemory, EqualsReplayOfLayers) {
  std::mt19937 engine(17);
  for (int trial = 0; trial < 5000; ++trial) {
    const std::vector<LayerCost> kinds = any_kinds(engine);
    std::vector<Step> steps(1 + engine() % 8);
    for (Step& s : steps) s = {static_cast<std::int32_t>(engine() % kinds.size()), static_cast<RecomputeKind>(engine() % 3)};
    const ChunkTotal t = summed(kinds, steps);
    const auto in_flight = static_cast<std::int64_t>(1 + engine() % 4);
    const std::int64_t microbatches = in_flight + static_cast<std::int64_t>(engine() % 3);
    Replay replay(kinds, steps);
    for (std::int64_t i = 1; i < in_flight; ++i) replay.forward();
    for (std::int64_t i = in_flight; i <= microbatches; ++i) {
      replay.forward();
      replay.backward();
    }
    for (std::int64_t i = 1; i < in_flight; ++i) replay.backward();
    ASSERT_EQ(replay.held(), 0);
    const std::int64_t alone = t.bytes.saved + std::max(t.bytes.forward_transient, t.bytes.backward_transient);
    ASSERT_EQ((in_flight - 1) * t.bytes.saved + alone, replay.peak()) << "trial " << trial;
  }
}

}  // namespace
}  // namespace espalier::cost::chunk_sum_test
