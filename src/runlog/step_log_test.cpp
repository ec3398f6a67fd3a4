// SPDX-License-Identifier: Apache-2.0
// Tests short excerpts in each framework's documented form with invented figures.
#include "runlog/step_log.h"

#include <gtest/gtest.h>

namespace espalier::runlog {
namespace {

std::string megatron_line(int iteration, double ms, int batch = 128) {
  return " [2026-01-02 03:04:05] iteration " + std::to_string(iteration) + "/     100 | consumed samples:         1280 | " +
         "elapsed time per iteration (ms): " + std::to_string(ms) + " | throughput per GPU (TFLOP/s/GPU): 412.3 | " +
         "learning rate: 1.0E-04 | global batch size:   " + std::to_string(batch) + " | lm loss: 2.5E+00 | " +
         "number of skipped iterations:   0 |\n";
}

TEST(StepLog, ReadsMegatron) {
  const std::string text =
      "training ...\n" + megatron_line(1, 30000) + megatron_line(2, 5100) +
      "[Rank 0] (after 2 iterations) memory (MB) | allocated: 1000.0 | max allocated: 2048.0 | reserved: 1 |\n" +
      "[Rank 8] (after 2 iterations) memory (MB) | allocated: 1000.0 | max allocated: 1024.0 | reserved: 1 |\n" +
      megatron_line(6, 5000) + megatron_line(7, 5200) + megatron_line(8, 5100);
  const auto log = read_step_log(text, "a.log");
  ASSERT_TRUE(log.ok()) << log.error().message();
  EXPECT_EQ(log->format, LogFormat::megatron);
  ASSERT_EQ(log->steps.size(), 5u);
  EXPECT_EQ(log->steps[0].line, 2);
  EXPECT_EQ(log->steps[2].step, 6);
  EXPECT_EQ(*log->peak_memory_bytes, std::int64_t{2} << 30);
  const StepSummary s = summarize(*log);  // iterations 1 and 2 are warm-up
  EXPECT_EQ(s.warm_up, 2);
  EXPECT_EQ(s.steps, 3);
  EXPECT_DOUBLE_EQ(*s.seconds, 5.1);
  EXPECT_EQ(*s.global_batch, 128);
  EXPECT_DOUBLE_EQ(*s.tflops_per_device, 412.3);
  EXPECT_DOUBLE_EQ(*summarize(*log, 0).seconds, 5.1);  // median of 30, 5.1, 5.0, 5.2, 5.1
}

TEST(StepLog, LeavesTheBatchRampOut) {
  const auto log =
      read_step_log(megatron_line(10, 1000, 64) + megatron_line(20, 1100, 64) + megatron_line(30, 2000, 128), "a.log");
  ASSERT_TRUE(log.ok());
  const StepSummary s = summarize(*log);
  EXPECT_DOUBLE_EQ(*s.seconds, 2.0);
  EXPECT_EQ(s.steps, 1);
}

TEST(StepLog, ReadsTorchtitanWithColoursAndSeparators) {
  const std::string text =
      "[rank0]:[titan] 2026-01-02 - root - INFO - \x1b[31mstep:  1  \x1b[32mloss: 12.2  \x1b[33mmemory: 40.00GiB(50.15%)  "
      "\x1b[34mtps: 512  \x1b[36mtflops: 29.65  \x1b[35mmfu: 9.51%\x1b[39m\r\n"
      "[rank0]:step: 10  loss:  9.8934  grad_norm: 1.2  memory: 47.50GiB(60.15%)  tps: 2,793  tflops: 161.76  mfu: 51.85%\n"
      "[rank0]:step: 20  loss:  8.1  memory: 47.50GiB(60.15%)  tps: 2,795  tflops: 161.90  mfu: 51.9%\n"
      "[rank0]:step: 30  loss:  8.0  memory: 47.50GiB(60.15%)  tps: 2,797  tflops: 162.0  mfu: 52.0%\n";
  const auto log = read_step_log(text, "t.log");
  ASSERT_TRUE(log.ok()) << log.error().message();
  EXPECT_EQ(log->format, LogFormat::torchtitan);
  const StepSummary s = summarize(*log);
  EXPECT_EQ(s.warm_up, 1);
  EXPECT_DOUBLE_EQ(*s.tokens_per_s_per_device, 2795);
  EXPECT_FALSE(s.seconds.has_value());
  EXPECT_EQ(*s.memory_bytes, 51002736640);  // 47.5 · 2^30
}

TEST(StepLog, ReadsNanotronsThreeDigits) {
  const std::string text =
      "01/02/2026 03:04:05 [INFO|DP=0|PP=0|TP=0|node1]: iteration: 10 / 100 | consumed_tokens: 1.2M | time_per_iteration_ms: "
      "1.21K | "
      "tokens_per_sec: 45.1K | tokens_per_sec_per_gpu: 5.63K | global_batch_size: 128 | lm_loss: 11.3 | lr: 0.0003 | "
      "model_tflops_per_gpu: 210 | hardware_tflops_per_gpu: 210 | eta: 0:01:00\n";
  const auto log = read_step_log(text, "n.log");
  ASSERT_TRUE(log.ok()) << log.error().message();
  EXPECT_EQ(log->format, LogFormat::nanotron);
  EXPECT_DOUBLE_EQ(*summarize(*log).seconds, 1.21);
  EXPECT_NEAR(log->resolution, 0.005 / 1.21, 1e-12);  // 1.205K … 1.215K
  EXPECT_DOUBLE_EQ(*summarize(*log).tflops_per_device, 210);
}

TEST(StepLog, SaysWhatIsWrong) {
  const auto nothing = read_step_log("hello\nworld\n", "x.log");
  ASSERT_FALSE(nothing.ok());
  EXPECT_EQ(nothing.error().where, "x.log:1");
  const auto damaged = read_step_log("\n iteration 1x/ 100 | elapsed time per iteration (ms): 5000 |\n", "x.log");
  ASSERT_FALSE(damaged.ok());
  EXPECT_EQ(damaged.error().where, "x.log:2");
  const auto mixed = read_step_log(megatron_line(1, 100) + "step: 10  loss: 9.8  tps: 2,793\n", "x.log");
  ASSERT_FALSE(mixed.ok());
  EXPECT_EQ(mixed.error().where, "x.log:2");
}

TEST(StepLog, CountsDamagedLinesAmongGoodOnes) {
  const auto log =
      read_step_log(megatron_line(1, 100) + " iteration 2/ 100 | elapsed time per iteration (ms): iteration\n", "x.log");
  ASSERT_TRUE(log.ok());
  EXPECT_EQ(log->damaged, 1);
  EXPECT_EQ(log->first_damaged_line, 2);
}

}  // namespace
}  // namespace espalier::runlog
