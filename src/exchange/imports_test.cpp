// SPDX-License-Identifier: Apache-2.0
// Tests imports, counted by hand: flags and their values, layouts, leftovers, host lists, and the degrees of each
// format.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/format.h"
#include "espalier/imported_cluster.h"
#include "espalier/imported_configuration.h"
#include "exchange/cluster_readers.h"
#include "exchange/flag_lines.h"
#include "exchange/megatron_import.h"

namespace espalier::exchange::imports_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string value_of(const FlagLines& lines, const std::string& key) {
  for (const Setting& flag : lines.flags)
    if (flag.key == key) return flag.value;
  return "absent";
}

TEST(FlagLines, TakesFlagsOutOfAScript) {
  const auto lines = read_flag_lines(
      "TP=4\nDP=$((8/TP))\nARGS=(\n  --tensor-model-parallel-size $TP  # four\n  --bf16 --lr=1e-4\n)\n"
      "torchrun --nproc_per_node 8 pretrain.py ${ARGS[@]} \\\n  --cp-comm-type a2a p2p > log\n",
      "x.sh");
  ASSERT_TRUE(lines.ok()) << lines.error().message();
  EXPECT_EQ(value_of(*lines, "tensor_model_parallel_size"), "4");
  EXPECT_EQ(value_of(*lines, "bf16"), "True");
  EXPECT_EQ(value_of(*lines, "lr"), "1e-4");
  EXPECT_EQ(value_of(*lines, "nproc_per_node"), "8");
  EXPECT_EQ(value_of(*lines, "cp_comm_type"), "a2a p2p");
  ASSERT_EQ(lines->variables.size(), 1u);
  EXPECT_EQ(lines->variables.front().key, "$TP");
}

TEST(FlagLines, FollowsTheScriptAndRunsNothing) {
  const auto twice = read_flag_lines("TP=4\nTP=8\n--tp $TP --pp ${PP:-2}\n", "x.sh");
  ASSERT_TRUE(twice.ok());
  EXPECT_EQ(value_of(*twice, "tp"), "8");  // the last assignment before the flag
  EXPECT_EQ(value_of(*twice, "pp"), "2");  // the default, listed as such
  EXPECT_EQ(value_of(*read_flag_lines("--pp ${#X}\n", "x.sh"), "pp"), "${#X}");
  const auto contradiction = read_flag_lines("--tp 4\n\n--tp 8\n", "x.sh");
  ASSERT_FALSE(contradiction.ok());
  EXPECT_THAT(contradiction.error().message(), HasSubstr("x.sh:3"));
  EXPECT_FALSE(read_flag_lines("nothing here\n", "x.sh").ok());
  EXPECT_FALSE(read_flag_lines("--a \"1\n", "x.sh").ok());
}

// A subcommand without its word sets nothing.
TEST(FlagLines, ASubcommandHasAWord) {
  const auto word = read_flag_lines("--tp 4 activation-checkpoint:full --pp 2\n", "x.sh");
  ASSERT_TRUE(word.ok());
  EXPECT_EQ(value_of(*word, "activation_checkpoint.mode"), "full");
  const auto none = read_flag_lines("activation-checkpoint: --tp 4\n", "x.sh");
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(value_of(*none, "tp"), "4");
  EXPECT_EQ(none->flags.size(), 1u);
}

TEST(MegatronLayout, CountsBlocksOfStages) {
  // 3 + 29 · 2 = 61 layers are in 1 + 29 + 1 stages; the last has only the loss.
  const MegatronLayout layout = read_megatron_layout("Et*3|(tt|)*29L");
  EXPECT_EQ(layout.fault, "");
  ASSERT_EQ(layout.blocks.size(), 31u);
  EXPECT_EQ(layout.blocks[0], 3);
  EXPECT_EQ(layout.blocks[1], 2);
  EXPECT_EQ(layout.blocks[30], 0);
  EXPECT_THAT(read_megatron_layout("Ett|tL").blocks, ElementsAre(2, 1));
  EXPECT_THAT(read_megatron_layout("Ett|mL").fault, HasSubstr("multi-token"));
  EXPECT_THAT(read_megatron_layout("Et*99999999|L").fault, HasSubstr("*"));
  EXPECT_THAT(read_megatron_layout("E((t|)*1000)*1000L").fault, HasSubstr("more stages"));
  EXPECT_THAT(read_megatron_layout("E(t|").fault, HasSubstr("without its"));
  EXPECT_THAT(read_megatron_layout("Et)L").fault, HasSubstr("without its"));
}

ImportedConfiguration read(const char* format, const std::string& text, std::int64_t devices) {
  ConfigurationRequest request{"file", text, devices, {}, {}, {}, {}, "", nullptr};
  auto out = find_configuration_format(format)->read(request);
  EXPECT_TRUE(out.ok()) << (out ? "" : out.error().message());
  return out ? *out : ImportedConfiguration{};
}
std::string refusal(const char* format, const std::string& text, std::int64_t devices = 8,
                    std::vector<std::string> ignored = {}) {
  ConfigurationRequest request{"file", text, devices, std::move(ignored), {}, {}, {}, "", nullptr};
  const auto out = find_configuration_format(format)->read(request);
  return out ? "accepted" : out.error().message();
}

const char* const kFlags =
    "--num-layers 8 --hidden-size 64 --num-attention-heads 4 --seq-length 128 --micro-batch-size 1 --vocab-size 1000 ";

TEST(MegatronImport, DegreesAndStages) {
  const auto c = read("megatron-args",
                      std::string(kFlags) +
                          "--pipeline-model-parallel-size 4 --decoder-first-pipeline-num-layers 1 "
                          "--decoder-last-pipeline-num-layers 3 --global-batch-size 16 --fp16",
                      8);
  EXPECT_EQ(c.schedule.stages, 4);
  EXPECT_THAT(c.blocks, ElementsAre(1, 2, 2, 3));  // 8 − 1 − 3 = 4 over two stages
  EXPECT_EQ(c.precision, Precision::fp16);
  EXPECT_EQ(c.global_batch, 16);
  EXPECT_THAT(c.model, HasSubstr("gpt2"));  // LayerNorm, gelu, biases, learned positions: the defaults
  // On 8 devices with tp 1 and pp 1, a missing --global-batch-size means one sample for each of 8 replicas.
  EXPECT_EQ(read("megatron-args", kFlags, 8).global_batch, 8);
}

TEST(MegatronImport, RefusesByName) {
  EXPECT_THAT(refusal("megatron-args", std::string(kFlags) + "--cpu-offloading-num-layers 2"),
              HasSubstr("--cpu-offloading-num-layers"));
  EXPECT_THAT(refusal("megatron-args", std::string(kFlags) + "--new-expert-thing 4"), HasSubstr("--ignore new_expert_thing"));
  EXPECT_EQ(refusal("megatron-args", std::string(kFlags) + "--new-expert-thing 4", 8, {"new_expert_thing"}), "accepted");
  EXPECT_EQ(refusal("megatron-args", std::string(kFlags) + "--harmless-thing 4"), "accepted");
  EXPECT_THAT(refusal("megatron-args", std::string(kFlags) + "--tensor-model-parallel-size $TP"), HasSubstr("\"$TP\""));
  EXPECT_THAT(refusal("megatron-args", std::string(kFlags) + "--nproc_per_node 8 --nnodes 2"), HasSubstr("16"));
}

TEST(TorchtitanImport, ShardsTheRestOfTheDevices) {
  // 16 devices with tp 2 and 2 replicas give 16 / 2 / 2 = 4 shards. Parameters stay gathered only under a pipeline.
  const auto c = read("torchtitan",
                      "[parallelism]\ntensor_parallel_degree = 2\ndata_parallel_replicate_degree = 2\n[training]\nseq_len = "
                      "128\nlocal_batch_size = 3\n",
                      16);
  EXPECT_EQ(c.strategy.dp, 8);
  EXPECT_EQ(c.strategy.shard, 4);
  EXPECT_EQ(c.strategy.zero, ZeroStage::parameters);
  EXPECT_EQ(c.global_batch, 24);
  EXPECT_EQ(c.strategy.recompute.kind, RecomputeKind::full);  // "2", the default of its TOML: every second layer
  EXPECT_EQ(c.recompute_every, 2);
  EXPECT_THAT(refusal("torchtitan", "[parallelism]\ntensor_parallel_degree = 3\n[training]\nseq_len = 128\n"),
              HasSubstr("TT-WORLD"));
  EXPECT_THAT(
      refusal("torchtitan", "[training]\nenable_cpu_offload = true\n[parallelism]\nfsdp_reshard_after_forward = \"never\"\n"),
      HasSubstr("file:2"));
  EXPECT_THAT(refusal("torchtitan", "[training\nseq_len = 128\n"), HasSubstr("file:1"));
}

TEST(TorchtitanImport, CommandLineCountsTokens) {
  // 8 devices with pp 2 give 4 replicas. 256 tokens per micro-batch of length 128 are 2 samples; 3 micro-batches make
  // 2 · 3 · 4 = 24 samples per step.
  const auto c =
      read("torchtitan",
           "--parallelism.pipeline-parallel-degree 2 --parallelism.num_pp_microbatches 3 --compile.no-enable "
           "--training.max_context_length 128 --training.num_tokens_per_microbatch_per_dp_rank 256 --loss.num_chunks 1",
           8);
  EXPECT_EQ(c.schedule.micro_batch, 2);
  EXPECT_EQ(c.global_batch, 24);
  EXPECT_EQ(c.strategy.zero, ZeroStage::gradients);
  EXPECT_EQ(c.engine, "torchtitan");
}

TEST(TorchtitanImport, LossInPartsAndTypeOfStates) {
  const auto engine = [](const char* text) { return read("torchtitan", text, 8).engine; };
  EXPECT_EQ(engine("--training.seq_len 128"),
            "torchtitan+chunked-loss");  // the default of 0.3, whose arguments are a command line
  EXPECT_EQ(engine("--training.seq_len 128 --loss.num_chunks 1"), "torchtitan");
  EXPECT_EQ(engine("[training]\nseq_len = 128\n"), "torchtitan");  // 0.2 had no such loss
  EXPECT_EQ(engine("[training]\nseq_len = 128\ndtype = \"bfloat16\"\n"), "torchtitan+bf16-states");
}

TEST(DeepSpeedImport, StatesInTwoBytes) {
  const auto engine = [](const char* more) {
    return read(
               "deepspeed",
               std::string(
                   R"({"train_batch_size": 8, "sequence_length": 128, "zero_optimization": {"stage": 2}, "bf16": {"enabled": true)") +
                   more + "}}",
               8)
        .engine;
  };
  EXPECT_EQ(engine(""), "deepspeed");
  EXPECT_EQ(engine(R"(, "bf16_master_weights_and_grads": true, "bf16_optimizer_states": true)"), "deepspeed+bf16-states");
  ConfigurationRequest automatic{"file",
                                 R"({"train_batch_size": 8, "sequence_length": 128, "zero_optimization": {"stage": 2}, "bf16":
                                     {"enabled": "auto", "bf16_master_weights_and_grads": true, "bf16_optimizer_states": true}})",
                                 8,
                                 {},
                                 {},
                                 {},
                                 {},
                                 "",
                                 nullptr};
  automatic.precision = Precision::bf16;  // by the training script
  const auto filled = find_configuration_format("deepspeed")->read(automatic);
  ASSERT_TRUE(filled.ok()) << filled.error().message();
  EXPECT_EQ(filled->engine, "deepspeed+bf16-states");
  EXPECT_THAT(refusal("deepspeed", R"({"train_batch_size": 8, "sequence_length": 128, "zero_optimization": {"stage": 2},
                                       "bf16": {"enabled": true, "bf16_master_weights_and_grads": true}})"),
              HasSubstr("bf16_optimizer_states as well"));
}

TEST(DeepSpeedImport, SizesOfBuffersAndTypeOfSums) {
  const auto engine = [](int stage, const char* zero, const char* more = "") {
    return read("deepspeed",
                base::cat(R"({"train_batch_size": 8, "sequence_length": 128, "bf16": {"enabled": true}, )",
                          R"("zero_optimization": {"stage": )", stage, zero, "}", more, "}"),
                8)
        .engine;
  };
  EXPECT_EQ(engine(2, R"(, "reduce_bucket_size": 5e8, "allgather_bucket_size": 2e8)"), "deepspeed");
  EXPECT_EQ(engine(2, R"(, "reduce_bucket_size": 2e8)"), "deepspeed+reduce-bucket=200000000");
  EXPECT_EQ(engine(0, R"(, "reduce_bucket_size": 2e8)"), "deepspeed");  // without ZeRO nothing reads it
  EXPECT_EQ(engine(2, R"(, "stage3_max_live_parameters": 0)"), "deepspeed");
  EXPECT_EQ(engine(3, R"(, "stage3_max_live_parameters": 0, "stage3_max_reuse_distance": 1e7, "sub_group_size": 1e8)"),
            "deepspeed+sub-group=100000000+live-parameters=0+reuse-distance=10000000");
  EXPECT_EQ(engine(3, R"(, "stage3_prefetch_bucket_size": 5e7)"), "deepspeed");
  EXPECT_EQ(engine(3, R"(, "stage3_prefetch_bucket_size": 0)"), "deepspeed+live-parameters=0");
  EXPECT_EQ(engine(1, "", R"(, "data_types": {"grad_accum_dtype": "fp32"})"), "deepspeed+fp32-gradients");
  EXPECT_EQ(engine(0, "", R"(, "data_types": {"grad_accum_dtype": "fp32"})"), "deepspeed");
  EXPECT_THAT(refusal("deepspeed", R"({"train_batch_size": 8, "sequence_length": 128, "bf16": {"enabled": true},
                                       "zero_optimization": {"stage": 2, "reduce_bucket_size": "large"}})"),
              HasSubstr("a number of elements"));
}

// transformers, integrations/deepspeed.py: "auto" is the square of the hidden size.
TEST(DeepSpeedImport, TheTrainerFillsInTheBucket) {
  ConfigurationRequest request{"file",
                               R"({"train_batch_size": 8, "sequence_length": 128, "bf16": {"enabled": true},
                                   "zero_optimization": {"stage": 2, "reduce_bucket_size": "auto"}})",
                               8,
                               {},
                               0,
                               0,
                               0,
                               "",
                               nullptr};
  EXPECT_EQ(find_configuration_format("deepspeed")->read(request).value().engine, "deepspeed");
  request.model_fields = {{"hidden_size", "4096"}};
  EXPECT_EQ(find_configuration_format("deepspeed")->read(request).value().engine, "deepspeed+reduce-bucket=16777216");
}

TEST(DeepSpeedImport, TwoOfThreeBatchSizes) {
  const std::string tail = ", \"sequence_length\": 64, \"zero_optimization\": {\"stage\": 2}}";
  EXPECT_EQ(read("deepspeed", "{\"train_batch_size\": 64, \"gradient_accumulation_steps\": 4" + tail, 8).schedule.micro_batch, 2);
  EXPECT_EQ(
      read("deepspeed", "{\"train_micro_batch_size_per_gpu\": 2, \"gradient_accumulation_steps\": 4" + tail, 8).global_batch, 64);
  // The two ranks of a tensor group count as one with separate samples each: 8 · 2 · 4, of which half are trained.
  const std::string autotp =
      "\"train_micro_batch_size_per_gpu\": 2, \"gradient_accumulation_steps\": 4, \"tensor_parallel\": {\"autotp_size\": 2}";
  EXPECT_EQ(read("deepspeed", "{\"train_batch_size\": 64, " + autotp + tail, 8).global_batch, 32);
  EXPECT_EQ(read("deepspeed", "{" + autotp + tail, 8).global_batch, 32);
  EXPECT_THAT(refusal("deepspeed", "{\"train_batch_size\": 32, " + autotp + tail), HasSubstr("DS-BATCH"));
  EXPECT_THAT(refusal("deepspeed", "{\"train_batch_size\": 60, \"train_micro_batch_size_per_gpu\": 8" + tail),
              HasSubstr("DS-BATCH"));
  EXPECT_THAT(refusal("deepspeed", "{\"train_batch_size\": 8, \"train_batch_size\": 8}"), HasSubstr("train_batch_size"));
  EXPECT_THAT(refusal("deepspeed",
                      "{\"train_batch_size\": 8, \"sequence_length\": 64, \"zero_optimization\": {\"offload_param\": "
                      "{\"device\": \"cpu\"}}}"),
              HasSubstr("offload_param"));
}

TEST(AccelerateImport, ShardingOfBothVersions) {
  ConfigurationRequest request{
      "file", "distributed_type: FSDP\nnum_machines: 2\nfsdp_config: {fsdp_version: 1, fsdp_sharding_strategy: HYBRID_SHARD}\n",
      16,     {},
      64,     32,
      2,      "",
      nullptr};
  const auto* format = find_configuration_format("accelerate");
  const auto hybrid = format->read(request);
  ASSERT_TRUE(hybrid.ok()) << hybrid.error().message();
  EXPECT_EQ(hybrid->strategy.shard, 8);  // 16 devices on 2 nodes
  EXPECT_EQ(hybrid->engine, "fsdp1");
  request.text = "distributed_type: FSDP\nnum_processes: 8\n";
  EXPECT_THAT(format->read(request).error().message(), HasSubstr("ACC-PROD"));
  request.text = "distributed_type: DEEPSPEED\ndeepspeed_config: {zero_stage: 3, gradient_accumulation_steps: 1}\n";
  const auto deepspeed = format->read(request);
  ASSERT_TRUE(deepspeed.ok()) << deepspeed.error().message();
  EXPECT_EQ(deepspeed->strategy.zero, ZeroStage::parameters);
  EXPECT_EQ(deepspeed->engine, "deepspeed");
}

TEST(SlurmHosts, ExpandsLists) {
  const auto hosts = expand_hosts("node[08-10,20],gpu[1-2]-[0-1]", "x");
  ASSERT_TRUE(hosts.ok()) << hosts.error().message();
  EXPECT_THAT(*hosts, ElementsAre("node08", "node09", "node10", "node20", "gpu1-0", "gpu1-1", "gpu2-0", "gpu2-1"));
  for (const char* bad : {"node[1-", "node]1[", "node[2-1]", "node[[1]]", "a b", "", "n[1-9999999999]", "n[0-999][0-999]"})
    EXPECT_FALSE(expand_hosts(bad, "x").ok()) << bad;
}

// Every line of a file may have as many hosts as a whole file. The sum is therefore checked line by line, before
// memory runs out.
TEST(SlurmHosts, AreCountedLineByLine) {
  const auto* format = find_cluster_format("slurm-hosts");
  const std::string lines = "a[1-60000]\nb[1-60000]\nc[1-60000]\nd[1-60000]\n";
  const auto read = format->read({"hosts", lines, "a100-sxm-80gb", 2, {}, {}, 1, ""});
  ASSERT_FALSE(read.ok());
  EXPECT_THAT(read.error().message(), HasSubstr("hosts:3: found too many hosts"));
}

TEST(TopoMatrix, DamageIsNamedWithItsLine) {
  const auto* format = find_cluster_format("nvidia-smi-topo");
  const auto read_text = [&](const std::string& text) {
    return format->read({"topo.txt", text, "a100-sxm-80gb", 2, {}, {}, 1, ""});
  };
  const auto sound = read_text(
      "\tGPU0\tGPU1\tGPU2\tGPU3\nGPU0\tX\tNV4\tNV4\tNV4\nGPU1\tNV4 X NV4NV4\nGPU2\tNV4\tNV4\tX\tNV4\nGPU3\tNV4\tNV4\tNV4\tX\n");
  ASSERT_TRUE(sound.ok()) << sound.error().message();
  const FabricLevel& level = sound->cluster.groups.front().intra.front();
  EXPECT_EQ(level.kind, FabricKind::nvlink_mesh);  // 4 links to each of 3 others are the 12 of an A100: direct
  EXPECT_DOUBLE_EQ(level.bandwidth.count(), 300e9);
  EXPECT_DOUBLE_EQ(level.per_peer.count(), 100e9);
  EXPECT_THAT(read_text("GPU0 GPU1\nGPU0 X NV4\nGPU1 NV8 X\n").error().message(), HasSubstr("topo.txt:3"));
  EXPECT_THAT(read_text("GPU0 GPU1\nGPU0 X NV4\n").error().message(), HasSubstr("no row of GPU1"));
  EXPECT_THAT(read_text("GPU0 GPU1\nGPU0 X\nGPU1 NV4 X\n").error().message(), HasSubstr("topo.txt:2"));
  EXPECT_THAT(read_text("nothing\n").error().message(), HasSubstr("nvidia-smi topo -m"));
}

}  // namespace
}  // namespace espalier::exchange::imports_test
