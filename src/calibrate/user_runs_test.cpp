// SPDX-License-Identifier: Apache-2.0
#include "calibrate/user_runs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calibrate/log_arguments.h"
#include "espalier/calibrate.h"
#include "espalier/configuration.h"

namespace espalier::calibrate::user_runs_test {
namespace {

using testing::Contains;
using testing::HasSubstr;

std::string line(const std::string& id, const std::string& framework, const std::string& measured = R"({"iteration_s":1.5})",
                 const std::string& device = "H100") {
  return R"({"id":")" + id + R"(","source":"lab","model":{"name":"llama","layers":8,"hidden":2048,"ffn":8192,"heads":16,)" +
         R"("kv_heads":16,"vocab":32000},"seq":2048,"gpu":{"type":")" + device +
         R"(","mem_gb":80,"count":8,"per_node":8},"tp":1,"pp":1,"dp":8,"zero_stage":0,"recompute":"none","microbatch":1,)" +
         R"("global_batch":64,"precision":"bf16","framework":")" + framework + R"(","status":"ok","measured":)" + measured +
         "}\n";
}

UserRuns records(const std::string& lines, const UserTarget& target) {
  UserRuns out;
  const Status status = add_records(lines, "folder/mine.jsonl", target, 1, out);
  EXPECT_TRUE(status.ok()) << status.error().message();
  return out;
}

Job small_job() {
  const auto job = load_job(
      "model: {model_type: llama, vocab_size: 32000, hidden_size: 2048, intermediate_size: 8192, num_hidden_layers: 8, "
      "num_attention_heads: 16, max_position_embeddings: 4096}\n"
      "cluster: {nodes: 1, devices_per_node: 8, device: h100-sxm-80gb}\n"
      "training: {sequence_length: 2048, global_batch: 64}\nengine: nanotron\n",
      "job.yaml", "/nonexistent", {});
  EXPECT_TRUE(job.ok()) << job.error().message();
  return *job;
}

TEST(UserRecords, WhatCannotTeachIsSkippedWithItsReason) {
  const UserRuns runs = records(line("ok", "nanotron") + line("memory", "nanotron", R"({"peak_mem_gb":30})") +
                                    line("elsewhere", "nanotron", R"({"iteration_s":2})", "A100") + "not a record\n",
                                {"h100-sxm-80gb", ""});
  ASSERT_EQ(runs.rows.size(), 1u);
  EXPECT_EQ(runs.rows.front().row.result.id, "ok");
  EXPECT_EQ(runs.rows.front().steps, 0);
  std::vector<std::string> reasons;
  for (const SkippedRun& s : runs.skipped) reasons.push_back(s.reason);
  EXPECT_THAT(reasons, testing::UnorderedElementsAre("line cannot be read", "no step time", "not on h100-sxm-80gb"));
  ASSERT_EQ(runs.inputs.size(), 1u);
  EXPECT_EQ(runs.inputs.front().file, "mine.jsonl");
  EXPECT_EQ(runs.inputs.front().kind, "records");
}

TEST(UserRecords, AFileWithoutAnyRecordIsAnError) {
  UserRuns out;
  const Status status = add_records("a,b,c\n1,2,3\n", "table.csv", {"h100-sxm-80gb", ""}, 1, out);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().where, HasSubstr("table.csv:1"));
  EXPECT_TRUE(out.inputs.empty());
}

TEST(UserRecords, TheEngineThatIsAskedForReplacesTheRecords) {
  const UserRuns own = records(line("a", "nanotron"), {"h100-sxm-80gb", ""});
  EXPECT_EQ(own.rows.front().row.result.engine, "nanotron");
  const UserRuns asked = records(line("a", "nanotron"), {"h100-sxm-80gb", "generic"});
  EXPECT_EQ(asked.rows.front().row.result.engine, "generic");
  EXPECT_EQ(asked.rows.front().row.run.job.engine, "generic");
}

TEST(EngineOf, OneOrAnErrorThatNamesThem) {
  UserRuns runs = records(line("a", "nanotron") + line("b", "nanotron"), {"h100-sxm-80gb", ""});
  EXPECT_EQ(*engine_of(runs), "nanotron");
  const UserRuns other = records(line("c", "torchtitan"), {"h100-sxm-80gb", ""});
  runs.rows.push_back(other.rows.front());
  const auto several = engine_of(runs);
  ASSERT_FALSE(several.ok());
  EXPECT_THAT(several.error().found, HasSubstr("nanotron (2), torchtitan (1)"));
}

TEST(EngineOf, NoRowSaysWhyTheFirstThreeWereSkipped) {
  UserRuns runs;
  EXPECT_EQ(engine_of(runs).error().found, "no measured steps");
  for (const char* id : {"a", "b", "c", "d"}) runs.skipped.push_back({id, "", "no step time", ""});
  const std::string found = engine_of(runs).error().found;
  EXPECT_THAT(found, HasSubstr("c: no step time"));
  EXPECT_THAT(found, testing::Not(HasSubstr("d: ")));
}

// Three digits are printed, with the last zero left out. 1.2K ms means 1195 to 1205 ms, half a step of 0.005 in 1.2.
TEST(UserLog, CoarseTimesAreNoted) {
  Job job = small_job();
  Strategy strategy;
  strategy.dp = 0;
  strategy.shard = 0;
  Schedule schedule;
  schedule.micro_batch = 1;
  schedule.microbatches = 0;
  complete_configuration(job, strategy, schedule);
  std::string log;
  for (int i = 10; i <= 60; i += 10)
    log += "iteration: " + std::to_string(i) + " / 100 | time_per_iteration_ms: 1.2K | global_batch_size: 64 |\n";
  UserRuns out;
  const Status status = add_log(log, "folder/n.log", job, strategy, schedule, 0, {"h100-sxm-80gb", ""}, out);
  ASSERT_TRUE(status.ok()) << status.error().message();
  ASSERT_EQ(out.rows.size(), 1u);
  EXPECT_DOUBLE_EQ(*out.rows.front().row.result.measured_s, 1.2);
  EXPECT_NEAR(out.rows.front().resolution, 0.005 / 1.2, 1e-9);
  EXPECT_EQ(out.rows.front().steps, 6);
  EXPECT_EQ(out.inputs.front().kind, "nanotron log");
  EXPECT_THAT(out.notes, Contains(HasSubstr("three digits")));
  EXPECT_EQ(out.rows.front().row.result.id, "n.log");
}

std::string megatron_log(const std::string& arguments) {
  std::string log = "--- arguments ---\n" + arguments + "--- end of arguments ---\n";
  for (int i = 10; i <= 60; i += 10)
    log += " iteration " + std::to_string(i) + "/ 100 | elapsed time per iteration (ms): 1200.0 | global batch size: 64 |\n";
  return log;
}

struct Completed {
  Job job = small_job();
  Strategy strategy;
  Schedule schedule;
  Completed() {
    strategy.dp = strategy.shard = 0;
    schedule.micro_batch = 1;
    schedule.microbatches = 0;
    complete_configuration(job, strategy, schedule);
  }
  Status add(const std::string& log, UserRuns& out) const {
    return add_log(log, "m.log", job, strategy, schedule, 0, {"h100-sxm-80gb", ""}, out);
  }
};

TEST(UserLog, ArgumentsThatContradictTheFlagsAreRefusedAllAtOnce) {
  const Completed c;
  UserRuns out;
  const Status good = c.add(megatron_log("  tensor_model_parallel_size ..... 1\n  recompute_granularity ..... None\n"
                                         "  virtual_pipeline_model_parallel_size ..... None\n"),
                            out);
  ASSERT_TRUE(good.ok()) << good.error().message();
  EXPECT_THAT(out.notes, Contains(HasSubstr("3 arguments of the log match the configuration")));
  const Status bad = c.add(megatron_log("  tensor_model_parallel_size ..... 4\n  recompute_granularity ..... full\n"), out);
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.error().kind, ErrorKind::bad_input);
  EXPECT_EQ(bad.error().found, "tensor_model_parallel_size 4 (line 2), recompute_granularity full (line 3)");
  EXPECT_EQ(bad.error().expected, "1, None, as the configuration says");
}

// Where the log has both peaks, the allocator's is compared.
TEST(UserLog, PeaksOfMemoryAreThoseOfTheLog) {
  const Completed c;
  UserRuns out;
  const std::string line = "[Rank 0] (after 2 iterations) memory (MB) | allocated: 1 | max allocated: 1000.0 | reserved: 1";
  ASSERT_TRUE(c.add(megatron_log("") + line + "\n", out).ok());
  ASSERT_TRUE(c.add(megatron_log("") + line + " | max reserved: 1500.0\n", out).ok());
  const RunResult &allocated = out.rows[0].row.result, &reserved = out.rows[1].row.result;
  EXPECT_EQ(allocated.memory_kind, "allocated");
  EXPECT_EQ(*allocated.measured_bytes, 1000 * 1048576);
  EXPECT_EQ(reserved.memory_kind, "reserved");
  EXPECT_EQ(*reserved.measured_bytes, 1500 * 1048576);
  EXPECT_NEAR(static_cast<double>(*reserved.predicted_bytes) / static_cast<double>(*allocated.predicted_bytes), 1.06, 1e-6);
}

TEST(UserLog, WhatTheFlagsLeaveOpenTheArgumentsSay) {
  const auto said = logged_configuration(
      megatron_log(
          "  tensor_model_parallel_size ..... 8\n  use_distributed_optimizer ..... True\n  recompute_granularity ..... full\n"
          "  recompute_method ..... block\n  recompute_num_layers ..... 3\n  virtual_pipeline_model_parallel_size ..... None\n"),
      "m.log");
  ASSERT_TRUE(said.ok());
  EXPECT_EQ(said->tp, 8);
  EXPECT_EQ(said->distributed_optimizer, true);
  EXPECT_EQ(said->recompute, "full");
  EXPECT_EQ(said->recompute_layers, 3);
  EXPECT_FALSE(said->vpp.has_value());
  EXPECT_FALSE(said->sequence_parallel.has_value());
  EXPECT_FALSE(said->overlap_gradients.has_value());
}

TEST(UserLog, OverlapIsThatOfTheArguments) {
  const auto said = logged_configuration(megatron_log("  overlap_grad_reduce ..... True\n"), "m.log");
  ASSERT_TRUE(said.ok());
  EXPECT_EQ(said->overlap_gradients, true);
  EXPECT_FALSE(said->overlap_parameters.has_value());
}

// One data rank has no reduction to overlap, whatever the log says.
TEST(UserLog, OverlapNeedsDataRanks) {
  Completed c;
  LoggedConfiguration logged;
  logged.overlap_gradients = true;
  CompleteConfiguration several{c.strategy, c.schedule}, one = several;
  overlap_as_logged(c.job, logged, several);
  EXPECT_TRUE(several.strategy.overlap.grad_reduce);
  one.strategy.dp = one.strategy.shard = 1;
  overlap_as_logged(c.job, logged, one);
  EXPECT_FALSE(one.strategy.overlap.grad_reduce);
}

TEST(UserLog, OverlapThatTheConfigurationLacksIsRefused) {
  const Completed c;
  ASSERT_GT(c.strategy.data_ranks(), 1);
  ASSERT_FALSE(c.strategy.overlap.grad_reduce);
  UserRuns out;
  const Status bad = c.add(megatron_log("  overlap_grad_reduce ..... True\n"), out);
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.error().found, "overlap_grad_reduce True (line 2)");
}

CalibrationInputs on(const std::string& device) {
  CalibrationInputs inputs;
  inputs.device = device;
  return inputs;
}

TEST(FitCalibration, NothingMeasuredAndUnknownDevicesAreRefused) {
  const auto device = fit_calibration(on("abacus"));
  ASSERT_FALSE(device.ok());
  EXPECT_EQ(device.error().kind, ErrorKind::usage);
  const auto nothing = fit_calibration(on("h100-sxm"));
  ASSERT_FALSE(nothing.ok());
  EXPECT_EQ(nothing.error().found, "nothing measured");
  CalibrationInputs tables = on("h100-sxm");
  tables.nccl_tests = {{"t.txt", "no table"}};
  EXPECT_FALSE(fit_calibration(tables).ok());
}

TEST(FitCalibration, ReportsTheFitAndWritesAFileThatIsRead) {
  CalibrationInputs inputs = on("h100-sxm");
  inputs.records = {{"mine.jsonl", line("a", "nanotron")}};
  const auto made = fit_calibration(inputs);
  ASSERT_TRUE(made.ok()) << made.error().message();
  EXPECT_EQ(made->device, "h100-sxm-80gb");
  EXPECT_EQ(made->engine, "nanotron");
  EXPECT_EQ(made->configurations, 1);
  EXPECT_EQ(made->before.n, 1);
  EXPECT_EQ(made->held_out.n, 0);
  EXPECT_THAT(made->cross_validation, HasSubstr("none: 1 configuration"));
  EXPECT_TRUE(read_calibration(made->yaml, "mine.yaml").ok());
  inputs.threads = 3;
  EXPECT_EQ(fit_calibration(inputs)->yaml, made->yaml);
}

}  // namespace
}  // namespace espalier::calibrate::user_runs_test
