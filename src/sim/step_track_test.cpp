// SPDX-License-Identifier: Apache-2.0
// Tests steps in the timeline: inside their instructions, stretched with them, on tracks of their own.
#include "sim/step_track.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "cost/plan_testing.h"
#include "plan/engine.h"
#include "sim/simulator.h"
#include "sim/timeline.h"

namespace espalier::sim::step_track_test {
namespace {

using nlohmann::json;

/// Has a decoder of four blocks under pp 2 · tp 2 · dp 2 on eight devices.
struct Traced {
  explicit Traced(std::int32_t microbatches, std::int64_t blocks = 4) {
    DecoderShape shape;
    shape.layers = blocks;
    shape.hidden = 1024;
    shape.ffn = 4096;
    shape.heads = shape.kv_heads = 16;
    shape.vocabulary = 1000;
    shape.max_positions = 512;
    model = make_decoder(shape, "toy").value();
    cluster = load_cluster("{nodes: 1, devices_per_node: 8, device: h100-sxm-80gb}", "cluster").value();
    training.sequence.main = 512;
    training.global_batch = 2 * microbatches;
    Strategy s;
    s.tp = 2;
    s.dp = 2;
    s.sp = SequenceParallel::megatron;
    s.overlap.grad_reduce = true;
    Schedule schedule;
    schedule.kind = ScheduleKind::one_f_one_b;
    schedule.stages = 2;
    schedule.microbatches = microbatches;
    schedule.micro_batch = 1;
    plan = make_uniform_plan(model, cluster, training, "generic", s, schedule, SplitPolicy::balanced);
    program = lower(plan, model, true);
    context = std::make_unique<cost::CostContext>(model, cluster, training, *find_engine("generic"));
    costs = cost::price(*context, plan, program);
    simulation = Simulator().run(program, costs, {true}).value();
  }
  [[nodiscard]] json trace() const {
    Timeline timeline = timeline_of(plan, program, costs, simulation);
    add_steps(*context, plan, program, costs, simulation, timeline);
    return json::parse(to_trace(timeline));
  }
  Model model;
  Cluster cluster;
  Training training;
  Plan plan;
  Program program;
  std::unique_ptr<cost::CostContext> context;
  cost::Costs costs;
  Simulation simulation;
};

std::int64_t ns(const json& us) { return std::llround(us.get<double>() * 1000.0); }

std::vector<json> steps_of(const json& trace) {
  std::vector<json> out;
  for (const json& e : trace["traceEvents"])
    if (e["ph"] == "X" && e["tid"] >= 5) out.push_back(e);
  return out;
}

TEST(StepTrack, StepsLieInsideTheirInstructionsAndTracksDoNotOverlap) {
  const Traced t(4);
  const json trace = t.trace();
  std::map<std::pair<int, int>, std::int64_t> free;
  // Spans run from the first to the last compute event.
  std::map<std::tuple<int, int, int>, std::pair<std::int64_t, std::int64_t>> passes;
  for (const json& e : trace["traceEvents"]) {
    if (e["ph"] != "X" || e["tid"] != 1 || !e["args"].contains("microbatch")) continue;
    auto& [from, to] = passes[{e["pid"], e["args"]["microbatch"], e["name"].get<std::string>()[0]}];
    if (to == 0) from = ns(e["ts"]);
    to = ns(e["ts"]) + ns(e["dur"]);
  }
  int inside = 0;
  for (const json& e : steps_of(trace)) {
    const std::int64_t start = ns(e["ts"]), end = start + ns(e["dur"]);
    auto& last = free[{e["pid"], e["tid"]}];
    EXPECT_GE(start, last) << e;
    last = end;
    const bool forward = e["args"]["part"] == "forward";
    const auto at = passes.find({e["pid"], e["args"]["microbatch"], forward ? 'F' : 'B'});
    ASSERT_NE(at, passes.end()) << e;
    if (e["name"] == "pass") continue;  // belongs to either
    EXPECT_GE(start, at->second.first) << e;
    EXPECT_LE(end, at->second.second) << e;
    ++inside;
  }
  EXPECT_GT(inside, 100);
}

TEST(StepTrack, CollectivesSayWhatTheyMoveAmongWhomAndBesideWhat) {
  const Traced t(2);
  int gathers = 0, beside = 0;
  for (const json& e : steps_of(t.trace())) {
    const json& args = e["args"];
    if (!args.contains("collective")) continue;
    EXPECT_EQ(args["group"], "tensor");
    EXPECT_EQ(args["times"], e["name"] == "head.loss all_reduce" ? 3 : 1) << e;
    if (args["collective"] == "all_gather" && e["name"].get<std::string>().starts_with("attn.qkv")) {
      EXPECT_EQ(args["bytes"], 2 * 512 * 1024);  // one sample of 512 tokens, 1024 features of 2 bytes
      ++gathers;
      beside += args.contains("beside") ? 1 : 0;
    }
  }
  EXPECT_EQ(gathers, 4 * 2 * 2);  // four blocks, two micro-batches, forward and backward
  EXPECT_EQ(beside, 4 * 2);       // backward
}

TEST(StepTrack, ManyMicrobatchesShowTheFirst) {
  const Traced t(256, 8);
  for (const json& e : steps_of(t.trace())) ASSERT_EQ(e["args"]["microbatch"], 0);
}

TEST(StepTrack, TheDefaultTimelineHasNoSteps) {
  const Traced t(2);
  EXPECT_TRUE(steps_of(json::parse(to_trace(timeline_of(t.plan, t.program, t.costs, t.simulation)))).empty());
}

TEST(StepTrack, CostsOfAnotherPlanAreABug) {
  Traced t(2);
  ++t.costs.works[t.program.structure().backward(ChunkId(1))].time.exposed_ns;
  EXPECT_ANY_THROW(t.trace());
}

}  // namespace
}  // namespace espalier::sim::step_track_test
