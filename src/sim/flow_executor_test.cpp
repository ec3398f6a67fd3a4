// SPDX-License-Identifier: Apache-2.0
// Tests programs over a flow network: by hand if links are shared, and against the closed form if they are not.
#include "sim/flow_executor.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "sim/random_case.h"
#include "sim/simulator.h"

namespace espalier::sim::flow_executor_test {
namespace {

using testing::any_case;
using testing::Case;
using testing::up_to;

constexpr double kGigabyte = 1e9;  // bytes/s: a byte takes a nanosecond

/// Makes a piece of `bytes` over one link for as many nanoseconds, after `fixed_ns` that sharing does not stretch.
TrafficPiece over(LinkId link, std::int64_t bytes, std::int64_t offset_ns = 0, std::int64_t fixed_ns = 0) {
  TrafficPiece piece{offset_ns, offset_ns + fixed_ns + bytes, {}};
  piece.activity.duration_ns = fixed_ns + bytes;
  piece.activity.fixed_ns = fixed_ns;
  piece.activity.flows = {{{{link, 1.0}}, bytes}};
  return piece;
}

struct Ran {
  bool ended = false;
  std::int64_t iteration_ns = 0;
  std::vector<std::int64_t> starts, ends;
  LinkUtilisation first_link;
};

Ran run(FlowNetwork network, const Program& program, const cost::Costs& costs, const ProgramTraffic& traffic) {
  FlowExecutor flow(std::move(network), traffic);
  Ran out;
  out.ended = flow.run(program, costs, true);
  out.iteration_ns = flow.iteration_ns();
  out.starts = flow.starts();
  out.ends = flow.ends();
  out.first_link = flow.network().utilisation(0);
  return out;
}

/// Has two stages under GPipe with one layer each: F = 100, B = 200 ns; the only message in each direction takes 50
/// ns.
struct TwoStages {
  explicit TwoStages(std::int32_t microbatches, std::int64_t message_ns = 50) {
    ProgramStructure s = testing::structure(ScheduleKind::gpipe, 2, 1, microbatches);
    s.reduce_gradients = true;
    program = lower(s);
    cost::test::ByChunk rows = testing::uniform(s.schedule, 100, 100, 100);
    rows.chunks[1].send_forward_ns = rows.chunks[1].send_backward_ns = message_ns;
    for (cost::test::ChunkRow& chunk : rows.chunks) chunk.grad_reduce_ns = 80;
    costs = cost::test::costs_of(rows, s);
    traffic.collectives.resize(2);
  }
  [[nodiscard]] std::int32_t transfer(bool gradient) const { return program.structure().transfer(ChunkId(1), gradient).value; }
  [[nodiscard]] std::int32_t reduction(std::int32_t chunk) const { return program.structure().grad_reduce(ChunkId(chunk)).value; }
  Program program;
  cost::Costs costs;
  ProgramTraffic traffic;
};

// The schedule is: F 0–100, message –150, F –250, B –450, message –500, B of stage 0 –700, its reduction –780. Stage
// 1 reduces 450–530, on another link.
TEST(FlowExecutor, TakesTheClosedFormWhereNothingIsShared) {
  TwoStages x(1);
  x.traffic.transfers[x.transfer(false)] = {over(0, 50)};
  x.traffic.transfers[x.transfer(true)] = {over(1, 30, 0, 20)};
  x.traffic.collectives[0][x.reduction(0)] = {over(2, 80)};
  x.traffic.collectives[1][x.reduction(1)] = {over(3, 80)};
  const Ran flow = run(FlowNetwork(std::vector<double>(4, kGigabyte)), x.program, x.costs, x.traffic);
  ASSERT_TRUE(flow.ended);
  EXPECT_EQ(flow.iteration_ns, 780);
  EXPECT_EQ(flow.first_link.bytes, 50);
  EXPECT_EQ(flow.first_link.busy_ns, 50);
}

// The gradient of the only micro-batch leaves stage 1 at 450, when its reduction also begins, over one NIC. The
// message has 50 bytes and the reduction 80. Both run at half rate until the message has ended at 550. By then the
// reduction has made 50 of 80; it ends at 580. Stage 0 computes its backward 550–750 and reduces on a link of its own
// until 830: 50 later than alone.
TEST(FlowExecutor, AReductionBesideAMessageOverOneNic) {
  TwoStages x(1);
  x.traffic.transfers[x.transfer(true)] = {over(0, 50)};
  x.traffic.collectives[0][x.reduction(0)] = {over(1, 80)};
  x.traffic.collectives[1][x.reduction(1)] = {over(0, 80)};
  const Ran flow = run(FlowNetwork({kGigabyte, kGigabyte}), x.program, x.costs, x.traffic);
  ASSERT_TRUE(flow.ended);
  EXPECT_EQ(flow.iteration_ns, 830);
  EXPECT_EQ(flow.first_link.bytes, 130);
  EXPECT_EQ(flow.first_link.busy_ns, 130);
  EXPECT_EQ(flow.first_link.highest_share, 1.0);
}

// Both stages reduce over one link at once if their backward passes end together. Two transfers over one NIC take
// twice as long. Without messages (0 ns) stage 1 ends its backward at 400 and stage 0 at 600, so stage 1 gets 480
// bytes to reduce. It moves 200 bytes alone, 400–600. Then it shares the link at half rate with the 80 bytes of stage
// 0, which take 160 until 760. The remaining 480 − 200 − 80 = 200 take until 960.
TEST(FlowExecutor, TwoTransfersOverOneNicTakeTwiceAsLong) {
  TwoStages x(1, 0);
  x.costs.collectives[x.program.structure().grad_reduce(ChunkId(1))] = Nanoseconds(480);
  x.traffic.collectives[0][x.reduction(0)] = {over(0, 80)};
  x.traffic.collectives[1][x.reduction(1)] = {over(0, 480)};
  const Ran flow = run(FlowNetwork({kGigabyte}), x.program, x.costs, x.traffic);
  ASSERT_TRUE(flow.ended);
  const auto end_of = [&](std::int32_t collective) {
    for (std::size_t i = 0; i < x.program.instructions.size(); ++i)
      if (x.program.instructions[i].kind == InstructionKind::grad_reduce && x.program.instructions[i].id == collective)
        return flow.ends[i];
    return std::int64_t{-1};
  };
  EXPECT_EQ(end_of(x.reduction(0)), 760);
  EXPECT_EQ(end_of(x.reduction(1)), 960);
  EXPECT_EQ(flow.iteration_ns, 960);
}

// The link of the reductions has half its capacity from 490 on. Stage 1 would reduce 450–530 alone, stage 0 from 700.
// At 490, 40 of stage 1's 80 bytes are gone, and the other 40 take 80 until 570. Stage 0 takes 160 until 860.
TEST(FlowExecutor, ALinkThatHalvesInTheMiddleOfAStep) {
  TwoStages x(1);
  x.traffic.collectives[0][x.reduction(0)] = {over(0, 80)};
  x.traffic.collectives[1][x.reduction(1)] = {over(0, 80)};
  FlowNetwork network({kGigabyte});
  network.change_capacity(490, 0, 1, 0.5);
  const Ran flow = run(std::move(network), x.program, x.costs, x.traffic);
  ASSERT_TRUE(flow.ended);
  EXPECT_EQ(flow.iteration_ns, 860);
  EXPECT_EQ(flow.first_link.busy_ns, 120 + 160);
}

// A forward of 100 overlaps 40 bytes from 20 on, due at 100. On a link at half rate they take until 100, and nothing
// is late. At a quarter they take until 180, and the forward ends at 180: of their 120 late nanoseconds, 40 were
// hidden.
TEST(FlowExecutor, TrafficBesideComputeDelaysByWhatIsLaterThanTheCompute) {
  for (const auto& [factor, later] : {std::pair{0.5, 0}, std::pair{0.25, 80}}) {
    TwoStages x(1);
    TrafficPiece hidden = over(0, 40, 20);
    hidden.due_ns = 100;
    x.traffic.works[x.program.structure().forward(ChunkId(0)).value] = {hidden};
    FlowNetwork network({kGigabyte});
    network.change_capacity(0, 0, 1, factor);
    const Ran flow = run(std::move(network), x.program, x.costs, x.traffic);
    ASSERT_TRUE(flow.ended);
    EXPECT_EQ(flow.iteration_ns, 780 + later);
  }
}

TEST(FlowExecutor, ADeadLinkEndsInAnAnswer) {
  TwoStages x(1);
  x.traffic.transfers[x.transfer(false)] = {over(0, 50)};
  FlowNetwork network({kGigabyte});
  network.change_capacity(0, 0, 1, 0.0);
  EXPECT_FALSE(run(std::move(network), x.program, x.costs, x.traffic).ended);
}

/// Returns up to three consecutive pieces in `duration_ns`, the last to its end, each on a link of its own.
Pieces pieces_on_own_links(std::int64_t duration_ns, std::vector<double>& capacities) {
  Pieces pieces;
  std::int64_t offset = 0;
  for (std::int64_t n = up_to(2); n >= 0 && offset < duration_ns; --n) {
    const std::int64_t bytes = n == 0 ? duration_ns - offset : 1 + up_to(duration_ns - offset - 1);
    const std::int64_t fixed = up_to(bytes - 1);
    TrafficPiece piece = over(static_cast<LinkId>(capacities.size()), bytes - fixed, offset, fixed);
    capacities.push_back(kGigabyte);
    pieces.push_back(piece);
    offset += bytes;
  }
  return pieces;
}

/// Returns traffic with a separate link for every collective, every transfer and all traffic inside works.
ProgramTraffic traffic_apart(const Program& program, const cost::Costs& costs, std::vector<double>& capacities) {
  ProgramTraffic traffic;
  traffic.collectives.resize(program.ranks.size());
  Durations durations;
  durations.fill(program, costs);
  for (std::size_t r = 0; r < program.ranks.size(); ++r)
    for (std::int32_t i = program.ranks[r].begin; i < program.ranks[r].end; ++i) {
      const Instruction& here = program.instructions[static_cast<std::size_t>(i)];
      const std::int64_t duration = durations.of(here);
      if (here.stream == Stream::data && !traffic.collectives[r].contains(here.id))
        traffic.collectives[r][here.id] = pieces_on_own_links(duration, capacities);
      if (here.stream == Stream::send && !traffic.transfers.contains(here.id))
        traffic.transfers[here.id] = pieces_on_own_links(duration, capacities);
      if (here.stream == Stream::compute && here.buckets == 1 && !traffic.works.contains(here.id))
        traffic.works[here.id] = pieces_on_own_links(duration, capacities);
    }
  return traffic;
}

// Each of a hundred cases runs three programs.
TEST(FlowExecutor, EqualsTheClosedFormToTheNanosecondWhereNothingIsShared) {
  EXPECT_TRUE(rc::check("flow and closed form agree", [] {
    for (int n = 0; n < 3; ++n) {
      const Case c = any_case();
      const Program program = lower(c.plan, c.model, true);
      const cost::Costs costs = costs_of(c.timing, program.structure());
      std::vector<double> capacities;
      const ProgramTraffic traffic = traffic_apart(program, costs, capacities);
      capacities.push_back(kGigabyte);
      Engine closed;
      RC_ASSERT(closed.run(program, costs, true));
      const Ran flow = run(FlowNetwork(capacities), program, costs, traffic);
      RC_ASSERT(flow.ended);
      RC_ASSERT(flow.iteration_ns == closed.iteration_ns());
      RC_ASSERT(flow.starts == closed.starts());
      RC_ASSERT(flow.ends == closed.ends());
    }
  }));
}

TEST(FlowExecutor, TheSameCallsGiveTheSameAnswer) {
  TwoStages x(4);
  x.traffic.transfers[x.transfer(false)] = {over(0, 50)};
  x.traffic.transfers[x.transfer(true)] = {over(0, 50)};
  x.traffic.collectives[0][x.reduction(0)] = {over(0, 80)};
  x.traffic.collectives[1][x.reduction(1)] = {over(0, 80)};
  const Ran first = run(FlowNetwork({kGigabyte}), x.program, x.costs, x.traffic);
  const Ran second = run(FlowNetwork({kGigabyte}), x.program, x.costs, x.traffic);
  EXPECT_EQ(first.starts, second.starts);
  EXPECT_EQ(first.ends, second.ends);
}

}  // namespace
}  // namespace espalier::sim::flow_executor_test
