// SPDX-License-Identifier: Apache-2.0
// Tests published excerpts of logs, shortened; each names its source.
#include "runlog/step_lines.h"

#include <gtest/gtest.h>

#include "runlog/step_log.h"

namespace espalier::runlog {
namespace {

StepLog read(const std::string& text) {
  auto log = read_step_log(text, "run.log");
  EXPECT_TRUE(log.ok()) << (log ? "" : log.error().message());
  return log ? *log : StepLog{};
}

std::string refused(const std::string& text) {
  const auto log = read_step_log(text, "run.log");
  EXPECT_FALSE(log.ok());
  return log ? "" : log.error().message();
}

// Source: https://github.com/huggingface/nanotron/issues/390
TEST(StepLines, NanotronOf2025) {
  const StepLog log = read(
      "10/17/2025 16:31:56 [INFO|DP=0|PP=0|TP=0]: iteration: 327281 / 378950 | consumed_tokens: 85.8G | "
      "elapsed_time_per_iteration_ms: 11.5K | tokens_per_sec: 22.8K | tokens_per_sec_per_gpu: 11.4K | global_batch_size: 64 | "
      "lm_loss: 2.38 | model_tflops_per_gpu: 38.3 | hardware_tflops_per_gpu: 38.3 | grad_norm: 1.25\n");
  EXPECT_EQ(log.format, LogFormat::nanotron);
  EXPECT_DOUBLE_EQ(*log.steps.at(0).seconds, 11.5);
  EXPECT_EQ(*log.steps.at(0).global_batch, 64);
  EXPECT_DOUBLE_EQ(*log.steps.at(0).tflops_per_device, 38.3);
}

// Source: https://github.com/deepspeedai/DeepSpeed/issues/5779, /2629 and /1825, three generations of the throughput
// timer.
TEST(StepLines, DeepSpeedsThroughputTimer) {
  const StepLog now = read(
      "[2024-07-17 19:53:24,981] [INFO] [timer.py:258:stop] epoch=0/micro_step=4500/global_step=4500, "
      "RunningAvgSamplesPerSec=16.124955167964504, CurrSamplesPerSec=16.807402094161112, MemAllocated=0.02GB, "
      "MaxMemAllocated=0.97GB\n");
  EXPECT_EQ(now.format, LogFormat::deepspeed);
  EXPECT_EQ(now.steps.at(0).step, 4500);
  EXPECT_DOUBLE_EQ(*now.steps[0].samples_per_s, 16.807402094161112);
  EXPECT_EQ(*now.peak_memory_bytes, 1041529569);  // 0.97 · 2^30
  // 64 samples per step take 64 / 16.807 s.
  EXPECT_NEAR(*seconds_of(now.steps[0], 0, 64), 3.8079, 1e-4);
  const StepLog before = read(
      "stdout: [2022-12-20 08:26:26,101] [INFO] [timer.py:197:stop] 0/17, RunningAvgSamplesPerSec=158.31157878546472, "
      "CurrSamplesPerSec=159.628891629629, MemAllocated=1.75GB, MaxMemAllocated=2.6GB\n");
  EXPECT_EQ(before.steps.at(0).step, 17);
  EXPECT_DOUBLE_EQ(*before.steps[0].samples_per_s, 159.628891629629);
  const StepLog first = read(
      "[2022-03-11 02:06:58,985] [INFO] [timer.py:189:stop] 0/40, SamplesPerSec=83.48609168106144, MemAllocated=0.26GB, "
      "MaxMemAllocated=9.02GB\n");
  EXPECT_EQ(first.steps.at(0).step, 40);
  EXPECT_DOUBLE_EQ(*first.steps[0].samples_per_s, 83.48609168106144);
}

TEST(StepLines, DeepSpeedStatesItsBatch) {
  const StepLog log = read(
      "[2024-01-02 03:04:05,678] [INFO] [config.py:1008:print]   train_batch_size ............. 512\n"
      "[2024-01-02 03:04:05,678] [INFO] [config.py:1008:print]   train_micro_batch_size_per_gpu  4\n"
      "[2024-07-17 19:53:24,981] [INFO] [timer.py:258:stop] epoch=0/micro_step=8/global_step=8, "
      "RunningAvgSamplesPerSec=16, CurrSamplesPerSec=16, MemAllocated=0.02GB, MaxMemAllocated=0.97GB\n");
  EXPECT_EQ(*summarize(log).global_batch, 512);
}

// Source: https://github.com/deepspeedai/DeepSpeed/issues/1436, with bars of the Trainer in between: 435.67 + 744.11
// + 0.98 ms.
TEST(StepLines, DeepSpeedsBreakdown) {
  const StepLog log = read(
      "  0%|          | 0/1000 [00:00<?, ?it/s][2021-10-08 20:03:15,649] [INFO] [logging.py:68:log_dist] [Rank 0] rank=0 time "
      "(ms) | "
      "forward_microstep: 435.69 | backward_microstep: 744.13 | backward_inner_microstep: 513.94 | "
      "backward_allreduce_microstep: 230.14 | step_microstep: 1.00\n"
      "[2021-10-08 20:03:15,649] [INFO] [logging.py:68:log_dist] [Rank 0] rank=0 time (ms) | forward: 435.67 | backward: 744.11 "
      "| "
      "backward_inner: 513.92 | backward_allreduce: 230.11 | step: 0.98\n");
  EXPECT_EQ(log.format, LogFormat::deepspeed);
  ASSERT_EQ(log.steps.size(), 1u);
  EXPECT_NEAR(*log.steps[0].seconds, 1.18076, 1e-9);
}

// The form is that of deepspeed/runtime/pipe/engine.py, the figures are of DeepSpeed's own test of its pipeline with
// experts.
TEST(StepLines, DeepSpeedsPipelines) {
  const StepLog log =
      read("steps: 200 loss: 5.5508 lm loss: 5.5103 moe loss: 0.0405 iter time (s): 0.936 samples/sec: 136.706\n");
  EXPECT_EQ(log.format, LogFormat::deepspeed);
  EXPECT_EQ(log.steps.at(0).step, 200);
  EXPECT_DOUBLE_EQ(*log.steps[0].seconds, 0.936);
}

// Source: https://github.com/deepspeedai/DeepSpeed/issues/3742. GPT-NeoX prints Megatron's line between DeepSpeed's,
// and that line counts.
TEST(StepLines, MegatronOnDeepSpeed) {
  const StepLog log = read(
      "[2023-07-25 21:03:17,269] [INFO] [timer.py:215:stop] epoch=0/micro_step=34/global_step=34, "
      "RunningAvgSamplesPerSec=7.864669709950182, CurrSamplesPerSec=8.00912418308922, MemAllocated=59.65GB, "
      "MaxMemAllocated=63.31GB\n"
      "[2023-07-25 21:03:17,269] [INFO] [logging.py:96:log_dist] [Rank 0] rank=0 time (ms) | forward: 652.41 | backward: 2164.52 "
      "| "
      "backward_inner: 2001.89 | backward_allreduce: 162.60 | step: 1172.13\n"
      " samples/sec: 7.799 | iteration       34/   10000 | elapsed time per iteration (ms): 4103.1 | learning rate: 2.111E-06 | "
      "lm_loss: 1.118665E+01 |\n");
  EXPECT_EQ(log.format, LogFormat::megatron);
  ASSERT_EQ(log.steps.size(), 1u);
  EXPECT_DOUBLE_EQ(*log.steps[0].seconds, 4.1031);
}

// Source: https://github.com/NVIDIA-NeMo/Megatron-Bridge/pull/841 (2025-10). The rate is on the line before.
TEST(StepLines, MegatronBridge) {
  const std::string step_time = "Step Time : 14.26s GPU utilization: 58.2TFLOP/s/GPU\n";
  const StepLog both = read(
      step_time +
      " [2025-10-02 22:54:30] iteration       20/      50 | consumed samples:        10240 | elapsed time per iteration (ms): "
      "14260.3 | "
      "learning rate: 2.604594E-04 | global batch size:   512 | lm loss: 8.797448E-02 | loss scale: 1.0 | grad norm: 0.170 |\n");
  EXPECT_EQ(both.format, LogFormat::megatron);
  EXPECT_DOUBLE_EQ(*both.steps.at(0).seconds, 14.2603);
  EXPECT_DOUBLE_EQ(*both.steps[0].tflops_per_device, 58.2);
  const StepLog alone = read(step_time + "Step Time : 6.1s GPU utilization: 620 MODEL_TFLOP/s/GPU\n");
  EXPECT_EQ(alone.format, LogFormat::bridge);
  ASSERT_EQ(alone.steps.size(), 2u);
  EXPECT_DOUBLE_EQ(*alone.steps[1].seconds, 6.1);
  EXPECT_DOUBLE_EQ(*alone.steps[1].tflops_per_device, 620);
  EXPECT_EQ(alone.steps[1].step, 2);
}

// The form is that of NeMo 2's progress printer, the figures are of NVIDIA's DGX Cloud benchmarking recipe for Llama
// 3.1.
TEST(StepLines, NeMo) {
  const StepLog log = read(
      "Training epoch 0, iteration 49/49 | lr: 7.496e-06 | global_batch_size: 128 | global_step: 49 | peak_memory_usage: "
      "70833405952 | "
      "memory_allocated: 44271689728 | reduced_train_loss: 11.96 | train_step_timing in s: 12.39 | consumed_samples: 6400\n");
  EXPECT_EQ(log.format, LogFormat::nemo);
  EXPECT_EQ(log.steps.at(0).step, 49);
  EXPECT_DOUBLE_EQ(*log.steps[0].seconds, 12.39);
  EXPECT_EQ(*log.steps[0].global_batch, 128);
  EXPECT_EQ(*log.peak_memory_bytes, 70833405952);
  const StepLog bar = read(
      "Epoch 0: :   2%|         | 11/500 [01:32<1:08:21, reduced_train_loss=10.90, global_step=10.00, consumed_samples=1408.0, "
      "train_step_timing in s=6.100]\n");
  EXPECT_EQ(bar.format, LogFormat::nemo);
  EXPECT_EQ(bar.steps.at(0).step, 10);
  EXPECT_DOUBLE_EQ(*bar.steps[0].seconds, 6.1);
}

// Source: https://github.com/microsoft/huggingface-transformers/pull/7, with bars drawn twice and an evaluation
// between them.
TEST(StepLines, TrainersBars) {
  const StepLog log = read(
      "Map: 100%|###| 669/669 [00:00<00:00, 3076.21 examples/s]\n"
      "  Total train batch size (w. parallel, distributed & accumulation) = 36\n"
      " 98%|#########8| 2086/2120 [26:01<00:22,  1.49it/s]\r 98%|#########8| 2087/2120 [26:02<00:22,  1.48it/s]\n"
      "{'train_step_runtime': 0.641, 'train_step_samples_per_second': 56.162, 'epoch': 0.98}\n"
      " 98%|#########8| 2087/2120 [26:02<00:22,  1.48it/s]\n"
      "100%|##########| 108/108 [00:46<00:00,  2.32it/s]\n"
      " 99%|#########8| 2089/2120 [26:03<00:21,  1.25it/s]\n");
  EXPECT_EQ(log.format, LogFormat::trainer);
  ASSERT_EQ(log.steps.size(), 3u);
  EXPECT_EQ(log.steps[1].step, 2087);
  EXPECT_DOUBLE_EQ(*log.steps[2].seconds, 0.8);
  EXPECT_EQ(*log.steps[0].global_batch, 36);
  EXPECT_NEAR(log.resolution, 0.005 / 1.25, 1e-12);
}

// Source: https://github.com/hiyouga/LlamaFactory/pull/10488. transformers 5 quotes its figures.
TEST(StepLines, TrainersLastLine) {
  const StepLog log = read(
      "{'loss': '0.9', 'grad_norm': '2726', 'learning_rate': '0', 'epoch': '0.5'}\n"
      "{'train_runtime': '2219', 'train_samples_per_second': '1.474', 'train_steps_per_second': '0.185', 'train_loss': '0.7228', "
      "'epoch': '3'}\n");
  EXPECT_EQ(log.format, LogFormat::trainer);
  // 8 samples per step give 8 / 1.474 = 5.427 s; 1 / 0.185 = 5.405 s is the coarser of the two.
  EXPECT_NEAR(*seconds_of(log.steps.at(0), 0, 8), 5.4274, 1e-4);
  EXPECT_NEAR(log.resolution, 0.0005 / 1.474, 1e-12);
}

// The form is that of mlcommons/logging. The block of 384 samples of llama2_70b_lora on 8 H100 was published by
// Lambda (2024): 384 / 199.434 s.
TEST(StepLines, MlperfsBlocks) {
  const StepLog log = read(
      R"(0: :::MLLOG {"namespace": "", "time_ms": 1721026000000, "event_type": "POINT_IN_TIME", "key": "global_batch_size", "value": 8, "metadata": {"lineno": 1}}
0: :::MLLOG {"namespace": "", "time_ms": 1721026606541, "event_type": "INTERVAL_START", "key": "block_start", "value": null, "metadata": {"samples_count": 2688}}
0: :::MLLOG {"namespace": "", "time_ms": 1721026805975, "event_type": "POINT_IN_TIME", "key": "tracked_stats", "value": {"throughput": 1.9257918929116467}, "metadata": {"step": 3072}}
0: :::MLLOG {"namespace": "", "time_ms": 1721026805975, "event_type": "INTERVAL_END", "key": "block_stop", "value": null, "metadata": {"samples_count": 3072}}
0: :::MLLOG {"namespace": "", "time_ms": 1721026805975, "event_type": "INTERVAL_START", "key": "eval_start", "value": null, "metadata": {"samples_count": 3072}}
)");
  EXPECT_EQ(log.format, LogFormat::mlperf);
  ASSERT_EQ(log.steps.size(), 1u);
  EXPECT_NEAR(*seconds_of(log.steps[0], 0, 8), 8 * 199.434 / 384, 1e-9);
  EXPECT_EQ(*log.steps[0].global_batch, 8);
}

TEST(StepLines, MlperfsStepTimesGoBeforeBlocks) {
  const StepLog log = read(
      R"(:::MLLOG {"time_ms": 1000, "key": "block_start", "value": null, "metadata": {"samples_count": 0}}
:::MLLOG {"time_ms": 6000, "key": "tracked_stats", "value": {"train_step_time": 5.07, "reduced_train_loss": 2.1}, "metadata": {"samples_count": 1152}}
:::MLLOG {"time_ms": 9000, "key": "block_stop", "value": null, "metadata": {"samples_count": 1152}}
)");
  ASSERT_EQ(log.steps.size(), 1u);
  EXPECT_DOUBLE_EQ(*log.steps[0].seconds, 5.07);
}

std::string titan(int rank, int step, int tps, const char* memory) {
  return "[rank" + std::to_string(rank) + "]:step: " + std::to_string(step) + "  loss: 9.89  memory: " + memory +
         "GiB(60.15%)  tps: " + std::to_string(tps) + "  tflops: 161.76  mfu: 51.85%\n";
}

// Four interleaved ranks print two steps, not eight, with medians of the rates and the largest of the peaks. A run
// that begins again adds its steps.
TEST(StepLines, LinesOfAllRanksAreOneStep) {
  const std::string text = titan(0, 10, 1000, "40.00") + titan(1, 10, 1010, "40.00") + titan(0, 20, 2000, "40.00") +
                           titan(2, 10, 1020, "47.50") + titan(3, 10, 1030, "40.00") + titan(1, 20, 2000, "40.00") +
                           titan(2, 20, 2010, "40.00") + titan(3, 20, 2010, "40.00");
  const StepLog log = read(text);
  ASSERT_EQ(log.steps.size(), 2u);
  EXPECT_DOUBLE_EQ(*log.steps[0].tokens_per_s_per_device, 1015);
  EXPECT_DOUBLE_EQ(*log.steps[1].tokens_per_s_per_device, 2005);
  EXPECT_EQ(*log.peak_memory_bytes, 51002736640);  // 47.5 · 2^30
  EXPECT_EQ(read(text + titan(0, 10, 3000, "40.00")).steps.size(), 3u);
}

TEST(StepLines, AMissingWordIsNamed) {
  const std::string titan_line = refused("[rank0]:step: 10  loss: 9.8934  memory: 47.61GiB(60.15%)\n");
  EXPECT_NE(titan_line.find("a step line of torchtitan without the word \"tps:\""), std::string::npos) << titan_line;
  const std::string nanotron = refused("iteration: 10 / 100 | consumed_tokens: 85.8G | tokens_per_sec: 22.8K |\n");
  EXPECT_NE(nanotron.find("the word \"elapsed_time_per_iteration_ms\""), std::string::npos) << nanotron;
  const std::string megatron = refused("iteration 10/ 100 | consumed samples: 1280 | lm loss: 2.5 |\n");
  EXPECT_NE(megatron.find("the word \"elapsed time per iteration (ms):\""), std::string::npos) << megatron;
  const std::string cut = refused("iteration 10/ 100 | consumed samples: 1280 | elapsed time per iteration (ms): n/a |\n");
  EXPECT_NE(cut.find("a number after \"elapsed time per iteration (ms):\""), std::string::npos) << cut;
  const std::string nemo =
      refused("Training epoch 0, iteration 4/9 | lr: 7e-06 | reduced_train_loss: 11.96 | consumed_samples: 6\n");
  EXPECT_NE(nemo.find("\"train_step_timing in s\""), std::string::npos) << nemo;
  const std::string loss = refused("{'loss': 2.7838, 'grad_norm': 27.5, 'learning_rate': 0.0, 'epoch': 1.0}\n");
  EXPECT_NE(loss.find("train_steps_per_second"), std::string::npos) << loss;
  const std::string mllog = refused(":::MLLOG {\"time_ms\": 1000, \"key\": \"run_start\", \"value\": null, \"metadata\": {}}\n");
  EXPECT_NE(mllog.find("samples_count"), std::string::npos) << mllog;
}

TEST(StepLines, TwoFrameworksAreTwoRuns) {
  EXPECT_NE(refused(titan(0, 10, 1000, "40.00") +
                    "Training epoch 0, iteration 1/9 | global_step: 1 | reduced_train_loss: 1 | train_step_timing in s: 12.39\n")
                .find("a step of NeMo after steps of torchtitan"),
            std::string::npos);
}

}  // namespace
}  // namespace espalier::runlog
