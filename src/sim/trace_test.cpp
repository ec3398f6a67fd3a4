// SPDX-License-Identifier: Apache-2.0
#include "sim/trace.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "sim/simulator.h"
#include "sim/testing.h"
#include "sim/timeline.h"

namespace espalier::sim::trace_test {
namespace {

using nlohmann::json;

/// Has an interleaved schedule: 4 stages, 2 chunks each, 8 micro-batches, overlapped collectives, slow-down.
struct Traced {
  explicit Traced(std::int32_t microbatches = 8) {
    ProgramStructure low = testing::structure(ScheduleKind::interleaved, 4, 2, microbatches, 3);
    low.reduce_gradients = low.overlap_reduce = low.gather_parameters = low.overlap_gather = true;
    low.table_chunks = {ChunkId(0), ChunkId(7)};
    program = lower(low);
    cost::test::ByChunk timing = testing::uniform(low.schedule, 1001, 1500, 507);
    for (cost::test::ChunkRow& chunk : timing.chunks) {
      chunk.send_forward_ns = chunk.send_backward_ns = 123;
      chunk.grad_reduce_ns = chunk.param_gather_ns = 400;
      chunk.saved_bytes = 1000;
      chunk.forward_transient_bytes = 10;
      chunk.backward_transient_bytes = 20;
    }
    timing.slow_down({1.3, 1.1});
    plan.only_pipeline().schedule = low.schedule;
    for (std::int32_t i = 0; i < 4; ++i)
      plan.only_pipeline().stages.push_back({{{i, 1, 1}}, {Chunk{{{2 * i, 2 * i, {}}}}, Chunk{{{2 * i + 1, 2 * i + 1, {}}}}}});
    costs = costs_of(timing, low);
    simulation = Simulator().run(program, costs, {true}).value();
  }
  [[nodiscard]] Timeline timeline() const { return timeline_of(plan, program, costs, simulation); }
  Plan plan;
  Program program;
  cost::Costs costs;
  Simulation simulation;
};

std::int64_t ns(const json& us) { return std::llround(us.get<double>() * 1000.0); }

std::vector<json> events_of(const json& trace, const std::string& phase) {
  std::vector<json> result;
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] == phase) result.push_back(event);
  }
  return result;
}

// Stage 1 of 4 with two chunks each holds pipeline chunks 1 and 1 + 4 = 5; 8 micro-batches go through each of them.
TEST(Timeline, SpansSayWhatRanWhenAndForWhom) {
  const Traced t;
  const Timeline timeline = t.timeline();
  ASSERT_EQ(timeline.ranks.size(), 4u);
  EXPECT_EQ(timeline.devices(), 4);
  EXPECT_EQ(timeline.iteration_ns, t.simulation.iteration_ns);
  EXPECT_EQ(timeline.microbatches, 8);
  const TimelineRank& rank = timeline.ranks[1];
  EXPECT_EQ(rank.device, 1);
  EXPECT_EQ(rank.stage, 1);
  std::int64_t forwards = 0;
  for (const TimelineSpan& span : rank.spans) {
    const Span& when = t.simulation.spans[static_cast<std::size_t>(span.instruction)];
    EXPECT_EQ(span.start_ns, when.start_ns);
    EXPECT_EQ(span.end_ns, when.end_ns);
    if (span.kind == InstructionKind::forward) {
      EXPECT_EQ(span.stream, Stream::compute);
      EXPECT_TRUE(span.chunk == 1 || span.chunk == 5);
      EXPECT_EQ(span.first_layer, span.chunk == 1 ? 2 : 3);  // as set by Traced: stage i holds layers 2i and 2i + 1
      forwards += span.bucket == 0 ? 1 : 0;
    }
    if (span.kind == InstructionKind::send) {
      EXPECT_TRUE(span.peer == 0 || span.peer == 2);
    }
  }
  EXPECT_EQ(forwards, 2 * 8);  // 2 chunks, 8 micro-batches
}

TEST(Timeline, MemoryReachesThePeakAndReturns) {
  const Traced t;
  for (const TimelineRank& rank : t.timeline().ranks) {
    std::int64_t peak = 0;
    for (const MemorySample& sample : rank.memory) peak = std::max(peak, sample.activation_bytes);
    EXPECT_EQ(peak, t.simulation.ranks[static_cast<std::size_t>(rank.stage)].memory.activations);
    EXPECT_EQ(rank.memory.back().activation_bytes, 0);
  }
}

TEST(Trace, SlicesAreTheSpans) {
  const Traced t;
  const json trace = json::parse(to_trace(t.timeline()));
  std::size_t slices = 0;
  for (const json& event : events_of(trace, "X")) {
    if (event["cat"] == "user_annotation") continue;
    const auto i = event["args"]["correlation"].get<std::size_t>();
    EXPECT_EQ(ns(event["ts"]), t.simulation.spans[i].start_ns);
    EXPECT_EQ(ns(event["ts"]) + ns(event["dur"]), t.simulation.spans[i].end_ns);
    ++slices;
  }
  EXPECT_EQ(slices, t.program.instructions.size());
  EXPECT_EQ(trace["distributedInfo"]["world_size"], 4);
  EXPECT_EQ(trace["displayTimeUnit"], "ms");
}

TEST(Trace, TracksNest) {
  const Traced t;
  const json trace = json::parse(to_trace(t.timeline()));
  std::map<std::pair<int, int>, std::vector<std::pair<std::int64_t, std::int64_t>>> tracks;
  for (const json& event : events_of(trace, "X")) {
    tracks[{event["pid"], event["tid"]}].emplace_back(ns(event["ts"]), ns(event["ts"]) + ns(event["dur"]));
  }
  EXPECT_EQ(tracks.size(), 4u * 5u);  // four streams and the step, on four ranks
  for (auto& [track, slices] : tracks) {
    std::sort(slices.begin(), slices.end());
    for (std::size_t k = 1; k < slices.size(); ++k) ASSERT_LE(slices[k - 1].second, slices[k].first);
  }
}

// The second timeline began 1.5 µs before rank 0 did.
TEST(Trace, TwoTimelinesStandSideBySide) {
  const Traced t;
  Timeline measured = t.timeline();
  for (TimelineSpan& span : measured.ranks[0].spans) {
    span.start_ns -= 1500;
    span.end_ns -= 1500;
  }
  const json trace = json::parse(to_trace(t.timeline(), measured));
  std::map<int, std::size_t> slices;
  std::set<int> arrows;
  for (const json& event : events_of(trace, "X"))
    if (event["cat"] != "user_annotation") ++slices[event["pid"].get<int>()];
  for (const json& event : events_of(trace, "s")) EXPECT_TRUE(arrows.insert(event["id"].get<int>()).second);
  ASSERT_EQ(slices.size(), 8u);  // four ranks, two each
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(slices[2 * rank], slices[2 * rank + 1]);
  const auto first_of = [&](int process) {
    for (const json& event : events_of(trace, "X"))
      if (event["pid"] == process && event["cat"] != "user_annotation") return event["ts"].get<double>();
    return 0.0;
  };
  EXPECT_DOUBLE_EQ(first_of(1), first_of(0) - 1.5);
}

TEST(Trace, FlowsGoFromSendToRecv) {
  const Traced t;
  const json trace = json::parse(to_trace(t.timeline()));
  std::map<int, json> starts;
  for (const json& event : events_of(trace, "s")) EXPECT_TRUE(starts.emplace(event["id"].get<int>(), event).second);
  const std::vector<json> ends = events_of(trace, "f");
  ASSERT_EQ(starts.size(), ends.size());
  const auto sends = std::count_if(t.program.instructions.begin(), t.program.instructions.end(),
                                   [](const Instruction& x) { return x.kind == InstructionKind::send; });
  EXPECT_EQ(starts.size(), static_cast<std::size_t>(sends));
  for (const json& end : ends) {
    const json& start = starts.at(end["id"].get<int>());
    EXPECT_LE(ns(start["ts"]), ns(end["ts"]));
    EXPECT_NE(start["pid"], end["pid"]);
    EXPECT_EQ(start["name"], end["name"]);
    const Instruction& send = t.program.instructions[end["id"].get<std::size_t>()];
    const Span &from = t.simulation.spans[end["id"].get<std::size_t>()],
               &to = t.simulation.spans[static_cast<std::size_t>(send.match)];
    EXPECT_TRUE(from.start_ns <= ns(start["ts"]) && ns(start["ts"]) <= from.end_ns);
    EXPECT_TRUE(to.start_ns <= ns(end["ts"]) && ns(end["ts"]) <= to.end_ns);
  }
}

TEST(Trace, MemoryCounterReachesThePeakAndReturns) {
  const Traced t;
  const json trace = json::parse(to_trace(t.timeline()));
  std::map<int, std::int64_t> peak, last;
  for (const json& event : events_of(trace, "C")) {
    const auto activations = event["args"]["activations"].get<std::int64_t>();
    peak[event["pid"]] = std::max(peak[event["pid"]], activations);
    last[event["pid"]] = activations;
  }
  for (int r = 0; r < 4; ++r) {
    EXPECT_EQ(peak[r], t.simulation.ranks[static_cast<std::size_t>(r)].memory.activations);
    EXPECT_EQ(last[r], 0);
  }
}

TEST(Trace, TooLargeTracesLeaveOutTheLastMicrobatchesAndSaySo) {
  const Traced t(16);
  const std::string whole = to_trace(t.timeline());
  const std::string cut = to_trace(t.timeline(), {whole.size() / 2});
  EXPECT_LE(cut.size(), whole.size() / 2);
  EXPECT_GE(cut.size(), whole.size() / 4);
  const json trace = json::parse(cut);
  const int shown = trace["espalier"]["microbatches_shown"];
  EXPECT_GT(shown, 0);
  EXPECT_LT(shown, 16);
  EXPECT_EQ(trace["espalier"]["microbatches"], 16);
  ASSERT_EQ(events_of(trace, "i").size(), 1u);
  EXPECT_EQ(events_of(trace, "i")[0]["name"],
            "micro-batches " + std::to_string(shown) + " to 15 are left out: the trace would be too large");
  EXPECT_EQ(events_of(trace, "s").size(), events_of(trace, "f").size());
  EXPECT_TRUE(events_of(json::parse(whole), "i").empty());
}

TEST(Trace, UnfoldedProgramsShowOneRankAStage) {
  Traced t;
  t.plan.only_pipeline().stages.clear();
  Strategy strategy;
  strategy.dp = 2;
  for (std::int32_t i = 0; i < 4; ++i)
    t.plan.only_pipeline().stages.push_back({{{2 * i, 2, 1}}, {Chunk{{{0, 0, strategy}}}, Chunk{{{1, 1, strategy}}}}});
  t.program = lower(t.plan, Model{}, false);
  t.costs = costs_of(testing::uniform(t.program.schedule(), 1001, 1500, 507), t.program.structure());
  t.simulation = Simulator().run(t.program, t.costs, {true}).value();
  const json trace = json::parse(to_trace(t.timeline()));
  std::map<int, int> ranks;
  for (const json& event : events_of(trace, "X")) ++ranks[event["pid"].get<int>()];
  EXPECT_EQ(ranks.size(), 4u);
  EXPECT_TRUE(ranks.contains(6));
  EXPECT_EQ(trace["distributedInfo"]["world_size"], 8);
}

TEST(Gzip, RoundTripAndFixedHeader) {
  const std::string text = "espalier " + std::string(100'000, 'x');
  const std::string packed = gzip(text);
  EXPECT_EQ(packed, gzip(text));
  EXPECT_EQ(packed.substr(4, 4), std::string(4, '\0')) << "modification time";
  std::string back(text.size() + 1, '\0');
  z_stream stream{};
  ASSERT_EQ(inflateInit2(&stream, 15 + 16), Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(back.data());
  stream.avail_out = static_cast<uInt>(back.size());
  EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
  inflateEnd(&stream);
  EXPECT_EQ(back.substr(0, text.size()), text);
}

}  // namespace
}  // namespace espalier::sim::trace_test
