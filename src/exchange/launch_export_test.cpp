// SPDX-License-Identifier: Apache-2.0
// Tests exports that launch frameworks, flag by flag. tests/engines/parsers.py passes them to the frameworks' own
// parsers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "data/source_dir.h"
#include "espalier/exchange.h"
#include "espalier/imported_configuration.h"
#include "espalier/planner.h"
#include "exchange/launch_script.h"
#include "exchange/megatron.h"
#include "exchange/torchtitan.h"
#include "plan/engine.h"

namespace espalier::exchange::launch_export_test {
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

Plan plan_of(const Job& job, Strategy s, const Schedule& schedule) {
  if (job.engine.starts_with("torchtitan")) {  // torchtitan overlaps by default
    s.overlap.grad_reduce = s.data_ranks() > 1;
    s.overlap.param_gather = s.shards_optimizer();
    s.overlap.p2p = schedule.stages > 1;
  }
  const auto result = estimate(job, s, schedule);
  EXPECT_TRUE(result) << (result ? "" : result.error().message());
  return result ? result->plan : Plan{};
}

std::string written(const std::string& format, const Job& job, const Plan& plan) {
  const auto text = find_exporter(format)->write({&job, &plan});
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

// Tests each option whose flags data/engines.yaml names, by itself: the command has the flags, and reading it gives
// the engine with that option.
TEST(MegatronExport, ModulesThatTheSearchChoseAreAFlag) {
  Job job = job_on("llama-2-7b", "megatron-core");
  job.search.allow(Dimension::recompute, {kModuleSets});
  job.search.fix(Dimension::tp, 2);
  const auto result = plan(job, {});
  ASSERT_TRUE(result) << result.error().message();
  EXPECT_EQ(result->search.reason, SearchEnd::optimal);
  std::string names = to_string(result->plan.only_pipeline().strategy().recompute.modules);
  std::replace(names.begin(), names.end(), ',', ' ');
  EXPECT_NE(names, "");
  EXPECT_THAT(written("megatron-core", job, result->plan),
              AllOf(HasSubstr("--recompute-granularity selective"), HasSubstr("--recompute-modules " + names)));
}

TEST(MegatronExport, OptionsAreWrittenAndReadAsTheirFlags) {
  Strategy s;
  s.dp = 8;
  s.ep = 2;
  int with_flags = 0;
  for (const EngineOption& option : find_engine("megatron-core")->options) {
    if (option.flags.empty()) continue;
    ++with_flags;
    const Job job = job_on("mixtral-8x7b", "megatron-core+" + option.name);
    s.zero = option.name == "bf16-moments" ? ZeroStage::optimizer : ZeroStage::none;
    s.shard = option.name == "bf16-moments" ? 8 : 1;
    Schedule schedule{ScheduleKind::interleaved, 2, 2, 8, 1};
    s.overlap.p2p = true;  // Megatron interleaves two stages with overlapped messages only
    const std::string text = written("megatron-core", job, plan_of(job, s, schedule));
    for (const std::string& flag : option.flags) EXPECT_THAT(text, HasSubstr(flag)) << option.name;
    ConfigurationRequest request;
    request.name = "launch.sh";
    request.text = text;
    request.devices = 16;
    request.nodes = 2;
    request.devices_per_node = 8;
    const auto read = find_configuration_format("megatron-args")->read(request);
    ASSERT_TRUE(read) << option.name << ": " << read.error().message();
    EXPECT_EQ(read->engine, job.engine);
  }
  EXPECT_EQ(with_flags, 7);
}

// Transformer Engine's kernel of the loss keeps 2 bytes a logit. Megatron's own keeps 4 and takes 6 while it runs; its
// fused form (native) has no option.
TEST(MegatronExport, TheFusedLossIsAnOption) {
  const std::string flags =
      "--num-layers 8 --hidden-size 64 --num-attention-heads 4 --seq-length 128 --micro-batch-size 1 --vocab-size 1000 --bf16 "
      "--cross-entropy-loss-fusion ";
  const auto engine = [&](const std::string& kernel) {
    ConfigurationRequest request{"launch.sh", flags + kernel, 8, {}, 0, 0, 0, "", nullptr};
    const auto read = find_configuration_format("megatron-args")->read(request);
    return read ? read->engine : read.error().message();
  };
  EXPECT_EQ(engine("--cross-entropy-fusion-impl te"), "megatron-core+fused-loss");
  EXPECT_EQ(engine("--cross-entropy-fusion-impl native"), "megatron-core");
  EXPECT_EQ(engine(""), "megatron-core");
  const EngineModel &fused = *find_engine("megatron-core+fused-loss"), &bridge = *find_engine("megatron-bridge");
  EXPECT_EQ(fused.memory.loss.saved + fused.memory.loss.forward + fused.memory.loss.backward, 2);
  EXPECT_EQ(fused.kernels.loss_forward_bytes, bridge.kernels.loss_forward_bytes);
  EXPECT_LT(fused.kernels.loss_forward_bytes, find_engine("megatron-core")->kernels.loss_forward_bytes);
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
  const Plan plan = plan_of(job, s, {ScheduleKind::one_f_one_b, 1, 1, 4, 1});
  const auto refused = find_exporter("megatron-core")->write({&job, &plan});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::check_failed);
  EXPECT_THAT(refused.error().message(), HasSubstr("MEG-MODEL: megatron-core has no model of type bloom"));
}

TEST(AccelerateExport, ShardsAndReplicasMultiplyToAllProcesses) {
  const Job job = job_on("llama-2-7b", "fsdp2");
  Strategy s;
  s.tp = 2;
  s.dp = 8;
  s.zero = ZeroStage::parameters;
  s.shard = 4;
  s.overlap.grad_reduce = s.overlap.param_gather = true;
  const std::string text = written("accelerate-fsdp", job, plan_of(job, s, {ScheduleKind::one_f_one_b, 1, 1, 8, 1}));
  for (const char* line : {"num_processes: 16\n", "dp_replicate_size: 2\n", "dp_shard_size: 4\n", "tp_size: 2\n",
                           "fsdp_reshard_after_forward: true\n", "LlamaDecoderLayer\n"})
    EXPECT_THAT(text, HasSubstr(line));
  Strategy plain;
  plain.dp = 16;
  plain.overlap.grad_reduce = true;
  EXPECT_THAT(written("accelerate-fsdp", job, plan_of(job, plain, {ScheduleKind::one_f_one_b, 1, 1, 4, 1})),
              HasSubstr("FSDP-ZERO: accelerate-fsdp does not run zero 0"));
}

// 64 samples are 2 per rank in 2 micro-batches of 16 ranks.
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
  EXPECT_THAT(written("deepspeed", job, plan), HasSubstr("DS-HYBRID-SHARD: deepspeed shards over all 16 data ranks"));
  Strategy piped;
  piped.dp = 8;
  const Job any = job_on("llama-2-7b", "generic");
  EXPECT_THAT(written("deepspeed", any, plan_of(any, piped, {ScheduleKind::one_f_one_b, 2, 1, 8, 1})),
              HasSubstr("DS-NO-PP: deepspeed has no pipeline parallelism, but pp is 2"));
}

// Sizes that differ from DeepSpeed's defaults are written, and an import reads the same engine back.
TEST(DeepSpeedExport, SizesOfZeroReturn) {
  const std::string engine =
      "deepspeed+fp32-gradients+reduce-bucket=200000000+sub-group=100000000+live-parameters=300000000+reuse-distance=0";
  const Job job = job_on("llama-2-7b", engine);
  Strategy s;
  s.dp = 16;
  s.zero = ZeroStage::parameters;
  s.shard = 16;
  const std::string text = written("deepspeed", job, plan_of(job, s, {ScheduleKind::one_f_one_b, 1, 1, 2, 2}));
  for (const char* line : {"\"reduce_bucket_size\": 200000000", "\"sub_group_size\": 100000000", "\"grad_accum_dtype\": \"fp32\"",
                           "\"stage3_max_live_parameters\": 300000000", "\"stage3_max_reuse_distance\": 0"})
    EXPECT_THAT(text, HasSubstr(line));
  ConfigurationRequest request{"ds_config.json", text, 16, {}, 1024, 0, 0, "none", nullptr};
  const auto back = find_configuration_format("deepspeed")->read(request);
  ASSERT_TRUE(back) << back.error().message();
  EXPECT_EQ(back->engine, engine);
  EXPECT_THAT(written("deepspeed", job_on("llama-2-7b", "deepspeed"),
                      plan_of(job_on("llama-2-7b", "deepspeed"), s, {ScheduleKind::one_f_one_b, 1, 1, 2, 2})),
              Not(HasSubstr("bucket")));
}

// github.com/hiyouga/LlamaFactory/issues/6752: Qwen2.5-3B under ZeRO 2 runs out of 4 devices of 24 GB in the optimizer
// step (cutoff 512, one sample, overlap_comm). Two buckets and a copy take 3 GB. Flattened and fp32 gradients take 6
// bytes for each of a rank's elements.
TEST(DeepSpeedExport, BucketsAndCopiesDoNotFit) {
  const auto job = load_job(
      "model: {model_type: qwen2, hidden_size: 2048, intermediate_size: 11008, num_hidden_layers: 36, num_attention_heads: 16,"
      " num_key_value_heads: 2, vocab_size: 151936, tie_word_embeddings: true}\n"
      "cluster: {nodes: 1, devices_per_node: 4, device: rtx-3090}\nengine: deepspeed\n"
      "training: {sequence_length: 512, global_batch: 4, precision: bf16}\n",
      "test", ".", {});
  ASSERT_TRUE(job) << job.error().message();
  Strategy s;
  s.dp = 4;
  s.zero = ZeroStage::gradients;
  s.shard = 4;
  s.overlap.grad_reduce = true;
  s.recompute = {RecomputeKind::full, 36};
  const auto result = estimate(*job, s, {ScheduleKind::one_f_one_b, 1, 1, 1, 1});
  ASSERT_TRUE(result) << result.error().message();
  EXPECT_GT(result->prediction.peak_memory_bytes, 24'500'000'000);  // 22.8 GiB are usable
}

TEST(LaunchExports, NodesOfOneSizeAndAllOfThem) {
  Strategy s;
  s.dp = 16;
  s.zero = ZeroStage::parameters;
  s.shard = 16;
  s.overlap.grad_reduce = s.overlap.param_gather = true;
  for (const auto& [format, engine] : {std::pair{"accelerate-fsdp", "accelerate-fsdp"}, std::pair{"deepspeed", "deepspeed"}}) {
    const Job job = job_on("llama-2-7b", engine);
    const Plan plan = plan_of(job, s, {ScheduleKind::one_f_one_b, 1, 1, 4, 1});
    Plan part = plan;
    part.only_pipeline().stages[0].devices = {{0, 8, 1}};
    EXPECT_THAT(written(format, job, part), HasSubstr("8 of 16 devices")) << format;
    Job mixed = job;
    mixed.cluster.groups.push_back(mixed.cluster.groups.front());
    mixed.cluster.groups.back().devices_per_node = 4;
    const auto refused = find_exporter(format)->write({&mixed, &plan});
    ASSERT_FALSE(refused) << format;
    EXPECT_EQ(refused.error().kind, ErrorKind::check_failed);
    EXPECT_THAT(refused.error().message(), HasSubstr("nodes of 8 and of 4 devices"));
    EXPECT_THAT(refused.error().message(), HasSubstr(std::string("--engine ") + engine + " "));
  }
}

// 64 samples are 8 micro-batches of 2 on each of 4 replicas, with 2 shard groups of 2.
TEST(TorchtitanExport, DegreesBatchAndStagesAreSaid) {
  const Job job = job_on("llama-2-7b", "torchtitan");
  Strategy s;
  s.tp = 2;
  s.dp = 4;
  s.sp = SequenceParallel::megatron;
  s.zero = ZeroStage::parameters;
  s.shard = 2;
  const Plan plan = plan_of(job, s, {ScheduleKind::one_f_one_b, 2, 1, 8, 2});
  const std::string text = written("torchtitan", job, plan);
  for (const char* flag : {"--parallelism.data_parallel_replicate_degree 2\n", "--parallelism.data_parallel_shard_degree 2\n",
                           "--parallelism.fsdp_reshard_after_forward always ", "--parallelism.tensor_parallel_degree 2\n",
                           "--parallelism.pipeline_parallel_degree 2\n", "--parallelism.pipeline_parallel_schedule 1F1B\n",
                           "--parallelism.pipeline_parallel_microbatch_size 2\n", "--training.local_batch_size 16 ",
                           "--training.global_batch_size 64\n", "--training.seq_len 1024\n", "--training.disable_cuda_graphs ",
                           "--compile.no-enable\n", "\"$@\" activation-checkpoint:none\n"})
    EXPECT_THAT(text, HasSubstr(flag));
  EXPECT_THAT(text, AllOf(Not(HasSubstr("context_parallel")), Not(HasSubstr("sequence-parallel"))));
  Plan other = plan;
  for (Stage& stage : other.only_pipeline().stages) stage.chunks[0].ranges[0].strategy.zero = ZeroStage::optimizer;
  EXPECT_THAT(written("torchtitan", job, other), HasSubstr("TT-ZERO: torchtitan does not run zero 1"));
}

// torchtitan splits (layers + first + last) over the stages, gives the earlier ones one more, and takes the weights
// off the ends.
TEST(TorchtitanExport, WeightsOfTheEndsThatCutAsThePlanDoes) {
  EXPECT_EQ(titan_cut({7, 8, 8, 7}, 4), (TitanCut{1, 1, 0}));  // 30 + 2 = 4 · 8
  EXPECT_EQ(titan_cut({8, 8, 8, 8}, 4), (TitanCut{0, 0, 0}));
  EXPECT_EQ(titan_cut({9, 8, 8, 7}, 4), (TitanCut{0, 1, 0}));        // 33 = 9 + 8 + 8 + 8
  EXPECT_EQ(titan_cut({8, 8, 8, 7}, 4), (TitanCut{1, 1, 0}));        // 33 = 9 + 8 + 8 + 8
  EXPECT_EQ(titan_cut({3, 4, 4, 4, 4, 3}, 4), (TitanCut{1, 1, 4}));  // 6 stages, where the default would be 4
  EXPECT_EQ(titan_cut({5, 8, 3, 8}, 4), std::nullopt);
}

TEST(ScheduleExport, OrderOfComputeOfEveryRank) {
  const Job job = job_on("gpt2", "generic");
  Strategy s;
  s.dp = 8;
  EXPECT_EQ(written("schedule-csv", job, plan_of(job, s, {ScheduleKind::one_f_one_b, 2, 1, 4, 2})),
            "0F0,0F1,0B0,0F2,0B1,0F3,0B2,0B3\n1F0,1B0,1F1,1B1,1F2,1B2,1F3,1B3\n");
  EXPECT_EQ(written("schedule-csv", job, plan_of(job, s, {ScheduleKind::gpipe, 2, 1, 4, 2})).substr(0, 16), "0F0,0F1,0F2,0F3,");
  const std::string there_and_back = written("schedule-csv", job, plan_of(job, s, {ScheduleKind::zb_v, 2, 2, 4, 2}));
  for (const char* cell : {"0F0", "3F0", "3I0", "3W0", "0W3"})
    EXPECT_THAT(there_and_back.substr(0, there_and_back.find('\n')), HasSubstr(cell));
  s.dp = 16;
  EXPECT_THAT(written("schedule-csv", job, plan_of(job, s, {ScheduleKind::one_f_one_b, 1, 1, 4, 1})),
              HasSubstr("without a pipeline"));
}

TEST(RankMap, EveryRankHasADeviceAndAPlace) {
  const Job job = job_on("gpt2", "generic");
  Strategy s;
  s.tp = 2;
  s.cp = 2;
  s.dp = 2;
  const std::string text = written("rank-map", job, plan_of(job, s, {ScheduleKind::one_f_one_b, 2, 1, 8, 4}));
  for (const char* line :
       {"rank\thost:device\tstage\tdp\tcp\ttp\n0\tnode:0:0\t0\t0\t0\t0\n1\tnode:0:1\t0\t0\t0\t1\n2\tnode:0:2\t0\t0\t1\t0\n",
        "\n4\tnode:0:4\t0\t1\t0\t0\n", "\n8\tnode:1:0\t1\t0\t0\t0\n", "\n15\tnode:1:7\t1\t1\t1\t1\n"})
    EXPECT_THAT(text, HasSubstr(line));
}

TEST(Launchers, EachStartsTheSameFlags) {
  const Job job = job_on("llama-2-7b", "megatron-core");
  Strategy s;
  s.tp = 2;
  s.dp = 8;
  const Plan plan = plan_of(job, s, {ScheduleKind::one_f_one_b, 1, 1, 8, 1});
  const auto launched = [&](Launcher launcher) { return *find_exporter("megatron-core")->write({&job, &plan, launcher}); };
  EXPECT_EQ(launched(Launcher::torchrun), written("megatron-core", job, plan));
  const std::string slurm = launched(Launcher::sbatch), mpi = launched(Launcher::mpirun), pods = launched(Launcher::kubeflow);
  for (const char* part : {"#SBATCH --nodes=2\n", "#SBATCH --gpus-per-node=8\n", "--node-rank \"$SLURM_NODEID\"",
                           "  --tensor-model-parallel-size 2\n", "pretrain_gpt.py \"${MODEL[@]}\""})
    EXPECT_THAT(slurm, HasSubstr(part));
  for (const char* part : {"mpirun -np 16 -N 8 --hostfile hostfile", "-x CUDA_DEVICE_MAX_CONNECTIONS",
                           "RANK=$OMPI_COMM_WORLD_RANK", "  --tensor-model-parallel-size 2\n"})
    EXPECT_THAT(mpi, HasSubstr(part));
  for (const char* part :
       {"kind: TrainJob\n", "    numNodes: 2\n    numProcPerNode: 8\n",
        "      - {name: CUDA_DEVICE_MAX_CONNECTIONS, value: \"1\"}", "      - \"--tensor-model-parallel-size\"\n      - \"2\"\n"})
    EXPECT_THAT(pods, HasSubstr(part));
  for (const Launcher launcher : {Launcher::torchrun, Launcher::sbatch, Launcher::mpirun, Launcher::kubeflow})
    EXPECT_EQ(parse_launcher(to_string(launcher)), launcher);
  EXPECT_EQ(parse_launcher("ssh"), std::nullopt);
}

TEST(LaunchScript, WordsOfTheShellAreQuoted) {
  EXPECT_EQ(quoted("plain-1.5/x"), "plain-1.5/x");
  EXPECT_EQ(quoted("Et*7|t*9"), "'Et*7|t*9'");
  EXPECT_EQ(quoted("it's"), "'it'\\''s'");
  EXPECT_EQ(quoted(""), "''");
}

}  // namespace
}  // namespace espalier::exchange::launch_export_test
