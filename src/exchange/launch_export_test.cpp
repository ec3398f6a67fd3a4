// SPDX-License-Identifier: Apache-2.0
// Exports that launch frameworks, flag by flag; tests/engines/parsers.py hands them to the frameworks' own parsers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "data/source_dir.h"
#include "espalier/exchange.h"
#include "espalier/planner.h"
#include "exchange/launch_script.h"
#include "exchange/megatron.h"

namespace espalier::exchange {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

Job job_on(const std::string& model, const std::string& engine) {
  auto job = load_job(std::string("model: ") + ESPALIER_SOURCE_DIR + "/models/" + model +
                          "/config.json\ncluster: {nodes: 2, devices_per_node: 8, device: a100-sxm-80gb}\nengine: " + engine +
                          "\ntraining: {sequence_length: 1024, global_batch: 64, precision: bf16}\n",
                      "test", ".", {});
  EXPECT_TRUE(job) << (job ? "" : job.error().message());
  return std::move(*job);
}

Plan plan_of(const Job& job, const Strategy& s, const Schedule& schedule) {
  const auto result = estimate(job, s, schedule);
  EXPECT_TRUE(result) << (result ? "" : result.error().message());
  return result ? result->plan : Plan{};
}

std::string written(const std::string& format, const Job& job, const Plan& plan) {
  const auto text = find_exporter(format)->write(job, plan);
  return text ? *text : text.error().message();
}

TEST(MegatronExport, EveryDegreeHasItsFlag) {
  const Job job = job_on("llama-2-7b", "megatron-core");
  Strategy s;
  s.tp = 2;
  s.dp = 4;
  s.sp = SequenceParallel::megatron;
  s.zero = ZeroStage::optimizer;
  s.shard = 2;
  const std::string text = written("megatron-core", job, plan_of(job, s, {ScheduleKind::one_f_one_b, 2, 1, 16, 1}));
  for (const char* flag : {"--tensor-model-parallel-size 2\n", "--pipeline-model-parallel-size 2\n", "--sequence-parallel\n",
                           "--use-distributed-optimizer ", "--num-distributed-optimizer-instances 2 ", "--micro-batch-size 1\n",
                           "--global-batch-size 64 ", "--seq-length 1024\n", "--num-layers 32\n", "--ffn-hidden-size 11008\n",
                           "--untie-embeddings-and-output-weights\n", "--nnodes 2 --nproc-per-node 8 "})
    EXPECT_THAT(text, HasSubstr(flag));
  EXPECT_THAT(text, AllOf(Not(HasSubstr("--context-parallel-size")), Not(HasSubstr("layout")), Not(HasSubstr("--num-experts"))));
}

TEST(MegatronExport, ExpertsContextAndRecomputationAreSaid) {
  const Job job = job_on("mixtral-8x7b", "megatron-core");
  Strategy s;
  s.tp = 2;
  s.cp = 2;
  s.dp = 2;
  s.ep = 4;
  s.sp = SequenceParallel::megatron;
  s.recompute = {RecomputeKind::full, 5, {}};
  const std::string text = written("megatron-core", job, plan_of(job, s, {ScheduleKind::one_f_one_b, 2, 1, 32, 1}));
  for (const char* flag :
       {"--context-parallel-size 2\n", "--cp-comm-type p2p\n", "--expert-model-parallel-size 4\n",
        "--expert-tensor-parallel-size 1 ", "--num-experts 8\n", "--moe-router-topk 2\n", "--num-query-groups 8\n",
        "--rotary-base 1000000\n", "--recompute-granularity full\n", "--recompute-method block\n", "--recompute-num-layers 5 "})
    EXPECT_THAT(text, HasSubstr(flag));
  EXPECT_THAT(text, Not(HasSubstr("--use-distributed-optimizer")));
}

TEST(MegatronExport, AllBlocksRecomputedAreUniform) {
  const Job job = job_on("gpt2", "megatron-core");
  Strategy s;
  s.dp = 16;
  s.recompute = {RecomputeKind::full, 12, {}};
  const std::string text = written("megatron-core", job, plan_of(job, s, {ScheduleKind::one_f_one_b, 1, 1, 4, 1}));
  for (const char* flag : {"--recompute-method uniform\n", "--recompute-num-layers 1 ", "--ffn-hidden-size 3072\n",
                           "--max-position-embeddings 1024\n"})
    EXPECT_THAT(text, HasSubstr(flag));
  EXPECT_THAT(text, AllOf(Not(HasSubstr("--swiglu")), Not(HasSubstr("--untie")), Not(HasSubstr("rope"))));
}

// Four chunks of two stages hold embedding + 1, 4, 2 and 5 blocks + head of GPT-2.
TEST(MegatronExport, UnevenStagesAreALayout) {
  const Job job = job_on("gpt2", "megatron-core");
  Plan plan;
  Pipeline& pipeline = plan.only_pipeline();
  pipeline.schedule = {ScheduleKind::interleaved, 2, 2, 8, 1};
  pipeline.stages.resize(2);
  const std::int32_t first[] = {0, 2, 6, 8}, last[] = {1, 5, 7, 13};
  for (std::size_t c = 0; c < 4; ++c) {
    LayerRange range;
    range.first = first[c];
    range.last = last[c];
    pipeline.stages[c % 2].chunks.emplace_back();
    pipeline.stages[c % 2].chunks.back().ranges = {range};
  }
  EXPECT_EQ(megatron_layout(job.model, pipeline), "Et|t*4|t*2|t*5L");
}

TEST(MegatronExport, WhatItCannotSayIsRefusedByName) {
  const Job job = job_on("bloom-7b1", "generic");
  Strategy s;
  s.dp = 16;
  const auto refused = find_exporter("megatron-core")->write(job, plan_of(job, s, {ScheduleKind::one_f_one_b, 1, 1, 4, 1}));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::check_failed);
  EXPECT_THAT(refused.error().message(), HasSubstr("family bloom"));
}

TEST(AccelerateExport, ShardsAndReplicasMultiplyToAllProcesses) {
  const Job job = job_on("llama-2-7b", "fsdp2");
  Strategy s;
  s.tp = 2;
  s.dp = 8;
  s.zero = ZeroStage::parameters;
  s.shard = 4;
  const std::string text = written("accelerate-fsdp", job, plan_of(job, s, {ScheduleKind::one_f_one_b, 1, 1, 8, 1}));
  for (const char* line : {"num_processes: 16\n", "dp_replicate_size: 2\n", "dp_shard_size: 4\n", "tp_size: 2\n",
                           "fsdp_reshard_after_forward: true\n", "LlamaDecoderLayer\n"})
    EXPECT_THAT(text, HasSubstr(line));
  Strategy plain;
  plain.dp = 16;
  EXPECT_THAT(written("accelerate-fsdp", job, plan_of(job, plain, {ScheduleKind::one_f_one_b, 1, 1, 4, 1})), HasSubstr("ZeRO-0"));
}

// 64 samples are 2 a rank in 2 micro-batches of 16 ranks.
TEST(DeepSpeedExport, BatchesMultiplyAndShardGroupsAreRefused) {
  const Job job = job_on("llama-2-7b", "deepspeed");
  Strategy s;
  s.dp = 16;
  s.zero = ZeroStage::parameters;
  s.shard = 16;
  Plan plan = plan_of(job, s, {ScheduleKind::one_f_one_b, 1, 1, 2, 2});
  const std::string text = written("deepspeed", job, plan);
  for (const char* line : {"\"train_batch_size\": 64", "\"train_micro_batch_size_per_gpu\": 2",
                           "\"gradient_accumulation_steps\": 2", "\"stage\": 3", "\"enabled\": true"})
    EXPECT_THAT(text, HasSubstr(line));
  EXPECT_THAT(text, Not(HasSubstr("autotp_size")));
  plan.only_pipeline().stages[0].chunks[0].ranges[0].strategy.shard = 8;
  EXPECT_THAT(written("deepspeed", job, plan), HasSubstr("sharded over 8 of 16 ranks"));
  Strategy piped;
  piped.dp = 8;
  EXPECT_THAT(written("deepspeed", job, plan_of(job, piped, {ScheduleKind::one_f_one_b, 2, 1, 8, 1})),
              HasSubstr("2 pipeline stages"));
}

TEST(LaunchExports, NodesOfOneSizeAndAllOfThem) {
  Strategy s;
  s.dp = 16;
  s.zero = ZeroStage::parameters;
  s.shard = 16;
  for (const auto& [format, engine] : {std::pair{"accelerate-fsdp", "fsdp2"}, std::pair{"deepspeed", "deepspeed"}}) {
    const Job job = job_on("llama-2-7b", engine);
    const Plan plan = plan_of(job, s, {ScheduleKind::one_f_one_b, 1, 1, 4, 1});
    Plan part = plan;
    part.only_pipeline().stages[0].devices = {{0, 8, 1}};
    EXPECT_THAT(written(format, job, part), HasSubstr("8 of 16 devices")) << format;
    Job mixed = job;
    mixed.cluster.groups.push_back(mixed.cluster.groups.front());
    mixed.cluster.groups.back().devices_per_node = 4;
    const auto refused = find_exporter(format)->write(mixed, plan);
    ASSERT_FALSE(refused) << format;
    EXPECT_EQ(refused.error().kind, ErrorKind::check_failed);
    EXPECT_THAT(refused.error().message(), HasSubstr("nodes of 8 and of 4 devices"));
    EXPECT_THAT(refused.error().message(), HasSubstr(std::string("--set engine=") + engine + " "));
  }
}

TEST(LaunchScript, WordsOfTheShellAreQuoted) {
  EXPECT_EQ(quoted("plain-1.5/x"), "plain-1.5/x");
  EXPECT_EQ(quoted("Et*7|t*9"), "'Et*7|t*9'");
  EXPECT_EQ(quoted("it's"), "'it'\\''s'");
  EXPECT_EQ(quoted(""), "''");
}

}  // namespace
}  // namespace espalier::exchange
