// SPDX-License-Identifier: Apache-2.0
#include "search/stage_ports.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "cost/price.h"
#include "plan/engine.h"
#include "search/device_groups.h"
#include "search/test_fixture.h"

namespace espalier::search {
namespace {

using test::Fixture;

constexpr const char* kSites =
    "{groups: [{name: e, nodes: 1, devices_per_node: 4, device: a100-sxm-40gb, site: east},"
    " {name: w, nodes: 2, devices_per_node: 2, device: v100-sxm-32gb, site: west}],"
    " links: [{from: east, to: west, bandwidth: 10Gb/s, latency: 30ms, both: true}]}";

std::int64_t between(const StageOptions& all, std::size_t a, std::size_t b) {
  return all.send_ns[static_cast<std::size_t>(all.options[a].port)][static_cast<std::size_t>(all.options[b].port)];
}

/// Returns the price of a message by `price` for a chain of these two options.
std::int64_t priced(const Fixture& f, const StageOptions& all, std::size_t a, std::size_t b) {
  const std::vector<solve::GroupedStage> chain = {{static_cast<std::int32_t>(a), 0, 3}, {static_cast<std::int32_t>(b), 4, 7}};
  Plan plan;
  plan.training = f.problem.training;
  plan.pipelines = {pipeline_of(f.problem, all, chain, 4)};
  Program program;
  const cost::Costs costs = cost::price(f.costs(), plan, program);
  return costs.transfers[program.structure().transfer(ChunkId(1), false)].count();
}

/// Only the cost of their messages distinguishes options, so there are few ports, each with options of one kind.
TEST(StagePorts, OptionsThatSendAlikeShareOne) {
  const Fixture f(kSites);
  const StageOptions all = stage_options(f.problem, f.costs(), 4);
  std::map<std::int32_t, std::int32_t> kind_of;
  for (const solve::StageOption& o : all.options) {
    ASSERT_GE(o.port, 0);
    ASSERT_LT(static_cast<std::size_t>(o.port), all.send_ns.size());
    const auto [known, added] = kind_of.emplace(o.port, o.kind);
    EXPECT_EQ(known->second, o.kind) << (added ? "" : "a port of two kinds");
  }
  EXPECT_EQ(kind_of.size(), all.send_ns.size());
  EXPECT_LT(all.send_ns.size() * 4, all.options.size());
}

/// 4 sequences of 512 tokens and 1024 numbers of 2 bytes are 4,194,304 bytes: 3.355 ms over 10 Gb/s, behind 30 ms of
/// latency. Two data ranks on both sides each send half of that over half of the line, which takes the same time. Two
/// tensor ranks without sequence parallelism each hold all of it: 6.711 ms.
TEST(StagePorts, MessagesBetweenSitesByHand) {
  const Fixture f(kSites);
  const StageOptions all = stage_options(f.problem, f.costs(), 4);
  const auto option = [&](std::size_t group, int tp, int dp) {
    for (std::size_t i = 0; i < all.choices.size(); ++i) {
      const Strategy& s = all.choices[i].strategy;
      if (all.choices[i].group == group && s.tp == tp && s.dp == dp && s.sp == SequenceParallel::none) return i;
    }
    return all.choices.size();
  };
  const auto ms = [&](std::size_t a, std::size_t b) { return static_cast<double>(between(all, a, b)) * 1e-6; };
  EXPECT_NEAR(ms(option(0, 1, 1), option(1, 1, 1)), 33.355, 0.02);
  EXPECT_NEAR(ms(option(0, 1, 2), option(1, 1, 2)), 33.355, 0.02);
  EXPECT_NEAR(ms(option(1, 1, 2), option(0, 1, 2)), 33.355, 0.02);
  if (!f.problem.engine->communication.scattered_messages) {
    EXPECT_NEAR(ms(option(0, 2, 1), option(1, 2, 1)), 36.711, 0.02);
  }
}

/// Between groups the figure equals the price up to its last ten thousandth. Inside a group, where stages may lie
/// nearer or further apart, it never exceeds the price.
TEST(StagePorts, FiguresAreThoseOfPrices) {
  const Fixture f(kSites);
  const StageOptions all = stage_options(f.problem, f.costs(), 4);
  std::size_t seen = 0;
  for (std::size_t a = 0; a < all.options.size(); a += 5)
    for (std::size_t b = 2; b < all.options.size(); b += 7) {
      const bool same = all.options[a].kind == all.options[b].kind;
      if (same && all.options[a].units + all.options[b].units > 4) continue;
      const std::int64_t exact = priced(f, all, a, b);
      EXPECT_LE(between(all, a, b), exact);
      if (!same) {
        EXPECT_GE(between(all, a, b) + between(all, a, b) / 5'000 + 1, exact);
      }
      ++seen;
    }
  EXPECT_GT(seen, 100U);
}

/// A group of one device has no network level at all, and its stage has no other stage in the group to send to.
TEST(StagePorts, AGroupOfOneDevice) {
  const Fixture f(
      "{groups: [{nodes: 1, devices_per_node: 1, device: v100-sxm-32gb}, {nodes: 1, devices_per_node: 2, device: a100-sxm-40gb}],"
      " inter_group: {bandwidth: 100Gb/s, latency: 5us}}");
  const StageOptions all = stage_options(f.problem, f.costs(), 4);
  ASSERT_FALSE(all.options.empty());
  for (const auto& row : all.send_ns) EXPECT_EQ(row.size(), all.send_ns.size());
}

}  // namespace
}  // namespace espalier::search
