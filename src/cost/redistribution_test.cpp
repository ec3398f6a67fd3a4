// SPDX-License-Identifier: Apache-2.0
// Redistribution where two layers spread the activation differently: by hand, and against plain sets of cells.
#include "cost/redistribution.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "cost/test_problem.h"

namespace espalier::cost {
namespace {

using namespace test;

/// Returns a strategy dp · cp · tp, whose tp ranks hold the same tile (`none`) or parts of a sequence.
Strategy spread(std::int32_t dp, std::int32_t cp, std::int32_t tp, SequenceParallel sp = SequenceParallel::none) {
  Strategy s;
  s.dp = dp;
  s.cp = cp;
  s.tp = tp;
  s.sp = sp;
  return s;
}
FetchedFraction between(const Strategy& from, const Strategy& to) { return redistribution(layout_of(from), layout_of(to)); }

// Two samples on two devices. Under dp 2 device x holds sample x; under tp 2 both hold both. Forward each fetches the
// other's half; the gradient that a device needs is there already.
TEST(Redistribution, SmallestExample) {
  const FetchedFraction forward = between(spread(2, 1, 1), spread(1, 1, 2)), back = between(spread(1, 1, 2), spread(2, 1, 1));
  EXPECT_DOUBLE_EQ(forward.fetched, 0.5);
  EXPECT_EQ(forward.block, 2);
  EXPECT_EQ(back.fetched, 0.0);
}

// The activation of two samples has 256,000 bytes: each device fetches 128,000 in a block of two. As an all-to-all,
// half of the 256,000 bytes that a device sends stays.
TEST(Redistribution, TrafficIsAnExchangeInBlocks) {
  const FetchedFraction forward = between(spread(2, 1, 1), spread(1, 1, 2)), back = between(spread(1, 1, 2), spread(2, 1, 1));
  EXPECT_EQ(redistribution_traffic(forward, 256000), (Traffic{CollectiveKind::resharding, GroupKind::stage, 256000, 1}));
  EXPECT_EQ(redistribution_traffic(back, 256000).times, 0);
}

TEST(Redistribution, EqualLayoutsMoveNothing) {
  for (const Strategy& s : {spread(4, 1, 1), spread(2, 2, 2), spread(1, 1, 8, SequenceParallel::megatron)}) {
    EXPECT_EQ(between(s, s).fetched, 0.0);
    EXPECT_EQ(between(s, s).block, 1);
  }
  Strategy sharded = spread(4, 1, 2);
  sharded.zero = ZeroStage::parameters;
  sharded.shard = 4;
  sharded.recompute.kind = RecomputeKind::selective;
  EXPECT_EQ(layout_of(sharded), layout_of(spread(4, 1, 2)));  // neither changes how the activation is spread
  EXPECT_EQ(layout_of(spread(2, 1, 2, SequenceParallel::megatron)), layout_of(spread(2, 1, 2, SequenceParallel::ulysses)));
}

// Four samples. dp 4 → dp 2 · tp 2: device x holds sample x and needs its pair's, another quarter, which its
// neighbour has. From dp 2 · tp 2 with sequence parallelism → dp 4, device x holds half the sequence of two samples
// and needs one sample. An eighth is missing.
TEST(Redistribution, PairsExchange) {
  const FetchedFraction pairs = between(spread(4, 1, 1), spread(2, 1, 2));
  EXPECT_DOUBLE_EQ(pairs.fetched, 0.25);
  EXPECT_EQ(pairs.block, 2);
  const FetchedFraction halves = between(spread(2, 1, 2, SequenceParallel::megatron), spread(4, 1, 1));
  EXPECT_DOUBLE_EQ(halves.fetched, 0.125);
  EXPECT_EQ(halves.block, 2);
}

// dp 4 → cp 4: each device has a quarter of every sample, and all four exchange. For cp 2 inside dp 2 or dp 2 inside
// cp 2, devices 1 and 2 change places.
TEST(Redistribution, WholeStageExchanges) {
  const FetchedFraction all = between(spread(4, 1, 1), spread(1, 4, 1));
  EXPECT_DOUBLE_EQ(all.fetched, 0.25 - 0.0625);
  EXPECT_EQ(all.block, 4);
  Strategy inner = spread(2, 2, 1);
  inner.order = RankOrder::tp_dp_cp_pp;
  const FetchedFraction places = between(spread(2, 2, 1), inner);
  EXPECT_DOUBLE_EQ(places.fetched, 0.25);
  EXPECT_EQ(places.block, 4);
}

// 256,000 bytes at 1 ns per byte: half of them, and an exchange among four in which each receives 3/16.
TEST(Redistribution, Time) {
  const Model model = model_of(mlp());
  const CostContext c(model, round_cluster(4), tokens(1000), plain_engine("generic"));
  EXPECT_EQ(redistribution_s(c.fabric, FetchedFraction{}, 256000), 0.0);
  EXPECT_NEAR(redistribution_s(c.fabric, between(spread(2, 1, 1), spread(1, 1, 2)), 256000), 128000e-9, 1e-15);
  EXPECT_NEAR(redistribution_s(c.fabric, between(spread(4, 1, 1), spread(1, 4, 1)), 256000), 48000e-9, 1e-15);
}

// ---- against sets of cells ----------------------------------------------------------------------------------------

/// Returns the cells (sample, position) of an N × N grid that device `x` holds: its coordinates read off digit by
/// digit, innermost first.
std::set<std::pair<int, int>> cells_of(const Strategy& s, int x, int grid) {
  const int t = x % s.tp, rest = x / s.tp;
  const bool dp_first = s.order == RankOrder::tp_dp_cp_pp;
  const int d = dp_first ? rest % s.dp : rest / s.cp, c = dp_first ? rest / s.dp : rest % s.cp;
  const int parts = s.sp == SequenceParallel::none ? s.cp : s.cp * s.tp;
  const int part = s.sp == SequenceParallel::none ? c : c * s.tp + t;
  std::set<std::pair<int, int>> out;
  for (int i = 0; i < grid; ++i)
    for (int j = 0; j < grid; ++j)
      if (i * s.dp / grid == d && j * parts / grid == part) out.emplace(i, j);
  return out;
}

FetchedFraction by_cells(const Strategy& from, const Strategy& to, int devices) {
  std::vector<std::set<std::pair<int, int>>> held, needed;
  for (int x = 0; x < devices; ++x) {
    held.push_back(cells_of(from, x, devices));
    needed.push_back(cells_of(to, x, devices));
  }
  std::size_t most = 0;
  for (std::size_t x = 0; x < held.size(); ++x) {
    std::size_t missing = 0;
    for (const auto& cell : needed[x]) missing += held[x].count(cell) == 0 ? 1 : 0;
    most = std::max(most, missing);
  }
  if (most == 0) return {};
  FetchedFraction move;
  move.fetched = static_cast<double>(most) / (static_cast<double>(devices) * devices);
  const auto enough = [&](std::size_t block) {
    for (std::size_t first = 0; first < held.size(); first += block) {
      std::set<std::pair<int, int>> there;
      for (std::size_t x = first; x < first + block; ++x) there.insert(held[x].begin(), held[x].end());
      for (std::size_t x = first; x < first + block; ++x)
        if (!std::includes(there.begin(), there.end(), needed[x].begin(), needed[x].end())) return false;
    }
    return true;
  };
  for (move.block = 2; devices % move.block != 0 || !enough(static_cast<std::size_t>(move.block));) ++move.block;
  return move;
}

Strategy any_scattered(std::mt19937& engine, int devices) {
  std::vector<Strategy> all;
  for (std::int32_t tp = 1; tp <= devices; ++tp)
    for (std::int32_t cp = 1; tp * cp <= devices; ++cp)
      if (devices % (tp * cp) == 0)
        for (const SequenceParallel sp : {SequenceParallel::none, SequenceParallel::megatron})
          for (const RankOrder order : {RankOrder::tp_cp_dp_pp, RankOrder::tp_dp_cp_pp})
            if (tp > 1 || sp == SequenceParallel::none) {
              all.push_back(spread(devices / tp / cp, cp, tp, sp));
              all.back().order = order;
            }
  return all[engine() % all.size()];
}

TEST(Redistribution, EqualsPlainSetsOfCells) {
  std::mt19937 engine(3);
  for (int trial = 0; trial < 600; ++trial) {
    const int choices[] = {2, 3, 4, 6, 8, 12, 16, 24};
    const int devices = choices[engine() % (trial % 10 == 0 ? 8 : 7)];
    const Strategy from = any_scattered(engine, devices), to = any_scattered(engine, devices);
    const FetchedFraction move = between(from, to), expected = by_cells(from, to, devices);
    const auto text = [](const Strategy& s) {
      return "dp " + std::to_string(s.dp) + " cp " + std::to_string(s.cp) + " tp " + std::to_string(s.tp) + " " +
             std::string(to_string(s.sp)) + " " + std::string(to_string(s.order));
    };
    EXPECT_NEAR(move.fetched, expected.fetched, 1e-12) << text(from) << " → " << text(to);
    EXPECT_EQ(move.block, expected.block) << text(from) << " → " << text(to);
  }
}

// Where no two devices hold the same tile, all tiles are equally large: both ways lack the same amount.
TEST(Redistribution, SymmetricWithoutReplicas) {
  std::mt19937 engine(5);
  for (int trial = 0; trial < 500; ++trial) {
    const int devices = 1 << (1 + engine() % 6);
    const Strategy from = any_scattered(engine, devices), to = any_scattered(engine, devices);
    if (layout_of(from).replicas > 1 || layout_of(to).replicas > 1) continue;
    EXPECT_NEAR(between(from, to).fetched, between(to, from).fetched, 1e-12);
  }
}

// Only a few devices are probed for the reach; even on large stages it is that of all.
TEST(Redistribution, ReachOnLargeStages) {
  for (const std::int32_t devices : {64, 96, 512}) {
    for (const std::int32_t tp : {2, 4, 8, 32}) {
      const FetchedFraction inside = between(spread(devices, 1, 1), spread(devices / tp, 1, tp));
      EXPECT_EQ(inside.block, tp);
      EXPECT_DOUBLE_EQ(inside.fetched, static_cast<double>(tp - 1) / devices);
      const FetchedFraction wider = between(spread(devices / tp, 1, tp), spread(1, 1, devices));
      EXPECT_EQ(wider.block, devices);
    }
  }
}

}  // namespace
}  // namespace espalier::cost
