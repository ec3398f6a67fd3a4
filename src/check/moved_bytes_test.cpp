// SPDX-License-Identifier: Apache-2.0
// Tests which device holds what and what must move, by hand on the small decoder of test_problem.h.
#include "check/moved_bytes.h"

#include <gtest/gtest.h>

#include <numeric>

#include "check/held_elements.h"
#include "check/move_check.h"
#include "check/test_problem.h"

namespace espalier::check::test {
namespace {

/// Makes heads 2 of 4, one key/value head, h = 8: qkv 8 · (8 + 8) = 128 (queries 64, keys and values 64), out 64.
LayerKind projections() {
  LayerKind kind;
  Operator qkv;
  qkv.kind = OperatorKind::linear;
  qkv.name = "attn.qkv";
  qkv.in = 8;
  qkv.out = 16;
  qkv.split = TpSplit::column;
  qkv.parameters = 128;
  Operator core;
  core.kind = OperatorKind::attention;
  core.heads = 2;
  core.kv_heads = 1;
  core.qk_dim = core.v_dim = 4;
  Operator out = qkv;
  out.name = "attn.out";
  out.out = 8;
  out.split = TpSplit::row;
  out.parameters = 64;
  kind.operators = {qkv, core, out};
  return kind;
}

std::int64_t size_of(const std::vector<ElementSpan>& spans) {
  return std::accumulate(spans.begin(), spans.end(), std::int64_t{0},
                         [](std::int64_t sum, const ElementSpan& s) { return sum + s.to - s.from; });
}

// Rank 1 of 2 holds queries 32 … 64, the one key/value head 64 … 128, and the second half of out, 160 … 192. ZeRO
// over two replicas gives rank 3 (second replica) the last 64 of these 128 elements: 96 … 128 and 160 … 192.
TEST(HeldElements, HeadsAndShardsByHand) {
  HeldUnder how;
  how.strategy.tp = 2;
  how.strategy.dp = 2;
  how.strategy.zero = ZeroStage::optimizer;
  how.strategy.shard = 2;
  const HeldElements first = held_elements(how, projections(), 1), second = held_elements(how, projections(), 3);
  EXPECT_EQ(first.whole, (std::vector<ElementSpan>{{32, 64}, {64, 128}, {160, 192}}));
  EXPECT_EQ(second.whole, first.whole);
  EXPECT_EQ(second.sharded, (std::vector<ElementSpan>{{96, 128}, {160, 192}}));
  how.state_shares = {3, 1};  // 96 and 32 of 128
  EXPECT_EQ(held_elements(how, projections(), 3).sharded, (std::vector<ElementSpan>{{160, 192}}));
  EXPECT_EQ(size_of(held_elements(how, projections(), 1).sharded), 96);
}

// There are ten rows of 8 in units of 4 rows times tp 2. The first rank holds ⌈10/8⌉·4 = 8 rows, the second 2.
TEST(HeldElements, RowsOfAPaddedTable) {
  LayerKind kind;
  Operator table;
  table.kind = OperatorKind::embedding;
  table.split = TpSplit::vocab;
  table.parameters = 80;
  kind.operators = {table};
  HeldUnder how;
  how.strategy.tp = 2;
  how.vocabulary = 10;
  how.row_unit = 4;
  EXPECT_EQ(held_elements(how, kind, 0).whole, (std::vector<ElementSpan>{{0, 64}}));
  EXPECT_EQ(held_elements(how, kind, 1).whole, (std::vector<ElementSpan>{{64, 80}}));
}

struct Two {
  Model model = model_of(gpt(2));
  Cluster cluster = cluster_of(2);
  Plan replicas, one;
  std::vector<std::int64_t> all = {0, 1, 2, 3, 4, 5, 6, 7};

  Two() {
    Training training;
    training.sequence.main = 64;
    training.global_batch = 8;
    Strategy s;
    s.dp = 8;
    s.zero = ZeroStage::optimizer;
    s.shard = 8;
    Schedule schedule;
    schedule.microbatches = 1;
    replicas = make_uniform_plan(model, cluster, training, "generic", s, schedule, SplitPolicy::balanced);
    s.shard = s.dp = 1;
    s.zero = ZeroStage::none;
    schedule.microbatches = 8;
    one = replicas;
    one.only_pipeline().schedule = schedule;
    Stage& stage = one.only_pipeline().stages.front();
    stage.devices = {{0, 1, 1}};
    for (LayerRange& range : stage.chunks.front().ranges) range.strategy = s;
  }
  [[nodiscard]] MoveQuestion question(const Plan& from, const Plan& to) const {
    return {&model, &cluster, {&from, all}, {&to, all}, {}, {}, {}};
  }
};

// Eight replicas under ZeRO 1 become one device, which already holds all parameters and an eighth of the states.
// Three eighths come from its own node, four from the other. Layers are sharded one by one, so an eighth may have one
// extra element per layer.
TEST(MovedBytes, ShardsAreGathered) {
  const Two two;
  const MovedBytes m = moved_bytes(two.question(two.replicas, two.one));
  const std::int64_t n = parameter_count(two.model);
  EXPECT_EQ(m.needed, 14 * n);
  EXPECT_EQ(m.lost, 0);
  EXPECT_EQ(m.nowhere, 0);
  EXPECT_EQ(m.kept + m.peer, m.needed);
  EXPECT_NEAR(static_cast<double>(m.peer), 12.0 * static_cast<double>(n) * 7 / 8, 12.0 * 8 * 4);
  const auto inside = m.links.at("inside node:0"), in = m.links.at("node:0 in"), out = m.links.at("node:1 out");
  EXPECT_EQ(inside.least, inside.most);
  EXPECT_EQ(in.least, in.most);
  EXPECT_EQ(out.least, in.most);  // only node:1 has these bytes
  EXPECT_EQ(inside.least + in.least, m.peer);
  EXPECT_NEAR(static_cast<double>(in.least), 12.0 * static_cast<double>(n) / 2, 12.0 * 8 * 4);
}

// Half of the states were lost with the other node: one device reads everything again, 14 bytes an element.
TEST(MovedBytes, LostShards) {
  const Two two;
  MoveQuestion q = two.question(two.replicas, two.one);
  q.lost_nodes = {1};
  const MovedBytes m = moved_bytes(q);
  EXPECT_GT(m.lost, 0);
  EXPECT_EQ(m.most_read, 14 * parameter_count(two.model));
  MoveClaims claims;
  claims.lost = m.lost;
  claims.storage = m.needed;
  claims.links = {{"storage", m.needed}};
  claims.storage_ns = m.most_read;  // at 1 byte/ns
  claims.rollback_ns = 900;
  const MovePrices prices{1e9, 900, 0, 0, {}};
  for (const Finding& f : check_move(q, prices, claims)) EXPECT_TRUE(f.ok) << f.name << ": " << f.text;
  claims.rollback_ns = 0;
  EXPECT_FALSE(check_move(q, prices, claims)[2].ok);
}

// One device becomes eight replicas: seven take all parameters and their eighth of the states, which only device 0
// can send. Three of them are inside its node. The four of the other node take 4 · (2 + 12/8) · n over the network of
// 4 · 100 GB/s per node at an efficiency of 0.8.
TEST(MoveCheck, WhatALinkNeeds) {
  const Two two;
  const MoveQuestion q = two.question(two.one, two.replicas);
  const MovedBytes m = moved_bytes(q);
  MoveClaims claims;
  claims.kept = m.kept;
  claims.peer = m.peer;
  for (const auto& [name, bounds] : m.links) claims.links.emplace_back(name, bounds.least);
  const double bytes = static_cast<double>(m.links.at("node:0 out").least);
  EXPECT_NEAR(bytes, 4 * (2 + 1.5) * static_cast<double>(parameter_count(two.model)), 4 * 12.0 * 8 * 4);
  claims.transfer_ns = static_cast<std::int64_t>(bytes / 80e9 * 1e9) + 1;  // one device sends it all
  const MovePrices prices{1e9, 0, 0, 0, {}};
  for (const Finding& f : check_move(q, prices, claims)) EXPECT_TRUE(f.ok) << f.name << ": " << f.text;
  claims.transfer_ns /= 5;  // faster than all devices of the node together
  EXPECT_FALSE(check_move(q, prices, claims)[2].ok);
  claims.transfer_ns *= 50;
  EXPECT_FALSE(check_move(q, prices, claims)[2].ok);
}

// Peers would take an hour over a path at a millionth of its bandwidth. The checkpoint may then be read, and peers
// may not be claimed. Over a normal path the reverse holds.
TEST(MoveCheck, ACheckpointIsReadOnlyWherePeersAreSlower) {
  const Two two;
  const MoveQuestion q = two.question(two.one, two.replicas);
  const MovedBytes m = moved_bytes(q);
  MovePrices prices{1e9, 1'000'000'000, 0, 0, {{"node:0", 1e-6}}};
  MoveClaims read;
  read.storage = m.needed;
  read.links = {{"storage", m.needed}};
  read.storage_ns = m.most_read;  // at 1 byte/ns
  read.rollback_ns = prices.checkpoint_age_ns;
  for (const Finding& f : check_move(q, prices, read)) EXPECT_TRUE(f.ok) << f.name << ": " << f.text;
  MoveClaims peers;
  peers.kept = m.kept;
  peers.peer = m.peer;
  for (const auto& [name, bounds] : m.links) peers.links.emplace_back(name, bounds.least);
  const double bytes = static_cast<double>(m.links.at("node:0 out").least);
  peers.transfer_ns = static_cast<std::int64_t>(bytes / 80e3 * 1e9) + 1;  // one device sends it all, at 80 kB/s
  EXPECT_GT(peers.transfer_ns, read.storage_ns + read.rollback_ns);
  EXPECT_FALSE(check_move(q, prices, peers)[2].ok);
  prices.narrowed.clear();
  peers.transfer_ns = static_cast<std::int64_t>(bytes / 80e9 * 1e9) + 1;
  for (const Finding& f : check_move(q, prices, peers)) EXPECT_TRUE(f.ok) << f.name << ": " << f.text;
  EXPECT_FALSE(check_move(q, prices, read)[2].ok);
}

}  // namespace
}  // namespace espalier::check::test
