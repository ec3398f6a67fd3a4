// SPDX-License-Identifier: Apache-2.0
// Tests the errors of each reader. Each row is one case: a damaged or unplannable text and the required part of the
// message.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "espalier/imported_cluster.h"
#include "espalier/imported_configuration.h"

namespace espalier::exchange::refusals_test {
namespace {

using testing::HasSubstr;

struct Case {
  const char* text;
  const char* said;  ///< part of the message; "accepted": it is read
};

// ---- configurations -----------------------------------------------------------------------------------------------

constexpr const char* kModel = "--num-layers 8 --hidden-size 64 --num-attention-heads 4 --vocab-size 1000 ";
constexpr const char* kBatch = "--seq-length 128 --micro-batch-size 1 ";

std::string of_config(const char* format, const std::string& text) {
  const ConfigurationRequest request{"file", text, 8, {}, {}, {}, {}, "", nullptr};
  const auto read = find_configuration_format(format)->read(request);
  if (read) return "accepted";
  const bool asserted = read.error().kind == ErrorKind::check_failed;  // by the framework
  EXPECT_TRUE(asserted || read.error().kind == ErrorKind::bad_input) << text;
  EXPECT_FALSE(read.error().found.empty()) << text;
  EXPECT_FALSE(read.error().expected.empty()) << text;
  return read.error().message();
}

TEST(Refusals, OfMegatronFlags) {
  const std::vector<Case> cases = {
      {"", "accepted"},
      {"--bf16", "accepted"},
      {"--lr 1e-4 --train-iters 100 --save /checkpoints", "accepted"},
      {"--tensor-model-parallel-size 0", "--tensor-model-parallel-size = \"0\""},
      {"--tensor-model-parallel-size two", "a whole number"},
      {"--tensor-model-parallel-size", "\"True\""},
      {"--tensor-model-parallel-size 2 --tensor-model-parallel-size 4", "as in line 1"},
      {"--use-megatron-fsdp", "Megatron-FSDP has no model here"},
      {"--use-torch-fsdp2", "--ignore use_torch_fsdp2"},
      {"--multi-latent-attention", "multi_latent_attention"},
      {"--optimizer-cpu-offload --optimizer-offload-fraction 0.5", "partly on the host"},
      {"--cpu-offloading-num-layers 4", "host activations"},
      {"--cpu-offloading-num-layers 0", "accepted"},
      {"--mtp-num-layers 1", "multi-token prediction"},
      {"--optimizer muon", "one of adam, sgd"},
      {"--recompute-granularity selective --recompute-modules core_attn mlp", "accepted"},
      {"--recompute-granularity selective --recompute-modules layernorm", "accepted"},
      {"--recompute-granularity selective --recompute-modules attention", "some of core_attn, layernorm, mlp, moe"},
      {"--recompute-granularity selective", "accepted"},
      {"--recompute-granularity everything", "one of full, selective, none"},
      {"--recompute-activations", "accepted"},
      {"--context-parallel-size 2 --cp-comm-type allgather", "p2p (a ring) or a2a"},
      {"--context-parallel-size 2 --cp-comm-type a2a", "accepted"},
      {"--expert-model-parallel-size 2 --num-experts 4", "alltoall or flex"},
      {"--expert-model-parallel-size 2 --num-experts 4 --moe-token-dispatcher-type alltoall", "accepted"},
      {"--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout Etttt|ttttL", "accepted"},
      {"--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout Etttt|tt|ttL", "a multiple of pp 2"},
      {"--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout Etttt|ttttx", "the character 'x'"},
      {"--pipeline-model-parallel-size 4 --decoder-first-pipeline-num-layers 1", "a multiple of 3 of the 8 layers"},
      {"--pipeline-model-parallel-size 4 --decoder-first-pipeline-num-layers 1 --decoder-last-pipeline-num-layers 1", "accepted"},
      {"--pipeline-model-parallel-size 2 --account-for-loss-in-pipeline-split", "9 divisible by 2 chunks"},
      {"--pipeline-model-parallel-size 5 --account-for-loss-in-pipeline-split --account-for-embedding-in-pipeline-split",
       "MEG-WORLD"},  // on 8 devices
      {"--pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 3", "a divisor of the 8 layers"},
      {"--pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 2", "accepted"},
      {"--cuda-graph-impl local", "full_iteration"},
      {"--cuda-graph-impl full_iteration --no-check-for-nan-in-loss-and-grad", "accepted"},
      {"--use-precision-aware-optimizer --exp-avg-dtype fp8", "fp32 or bf16"},
      {"--use-precision-aware-optimizer --exp-avg-dtype bf16 --exp-avg-sq-dtype bf16", "MEG-MOMENTS"},
      {"--use-distributed-optimizer --use-precision-aware-optimizer --exp-avg-dtype bf16 --exp-avg-sq-dtype bf16", "accepted"},
      {"--attention-dropout 2", "a number from 0 to 1"},
      {"--fp4-format e2m1 --fp4-quantizer-factory a.b", "in 4 bits is written in that code"},
      {"--fp8-format e4m3 --fp8-recipe mxfp8", "accepted"},
      {"--fp8-format e4m3 --fp8-recipe custom", "one of delayed, tensorwise, blockwise, mxfp8"},
      {"--brand-new-parallelism 2", "by its name (\"parallel\")"},
      {"--brand-new-parallelism 0", "accepted"},
      {"--brand-new-colour red", "accepted"},
      {"--yaml-cfg a.yaml", "the arguments stand in that file"},
      {"--nproc_per_node 4 --nnodes 1", "8 devices, those of the cluster"},
  };
  for (const Case& c : cases)
    EXPECT_THAT(of_config("megatron-args", std::string(kModel) + kBatch + c.text), HasSubstr(c.said)) << c.text;
  EXPECT_THAT(of_config("megatron-args", std::string(kModel) + "--micro-batch-size 1"), HasSubstr("no --seq-length"));
  EXPECT_THAT(of_config("megatron-args", std::string(kModel) + "--seq-length 128"), HasSubstr("no --micro-batch-size"));
}

TEST(Refusals, OfPrintedArguments) {
  const std::string head = "---- arguments ----\n", tail = "---- end of arguments ----\n";
  const std::string sound =
      "  num_layers ..... 8\n  hidden_size ..... 64\n  num_attention_heads ..... 4\n  seq_length ..... 128\n"
      "  micro_batch_size ..... 1\n  padded_vocab_size ..... 1024\n  world_size ..... 8\n  recompute_granularity ..... None\n";
  EXPECT_EQ(of_config("megatron-args", head + sound + tail), "accepted");
  EXPECT_EQ(of_config("megatron-args", head + sound), "accepted");  // the end is cut off
  EXPECT_THAT(of_config("megatron-args", head + sound + "  world_size ..... 16\n" + tail), HasSubstr("file:10"));
  EXPECT_THAT(of_config("megatron-args", head + "  world_size ..... 16\n" + tail), HasSubstr("file:2: found world_size = 16"));
  EXPECT_THAT(of_config("megatron-args", head + sound + "  bf16 ..... maybe\n" + tail), HasSubstr("file:10: found bf16"));
  EXPECT_THAT(of_config("megatron-args", head + tail), HasSubstr("no flag"));
}

TEST(Refusals, OfTorchtitan) {
  const std::vector<Case> cases = {
      {"[training]\nseq_len = 128\n", "accepted"},
      {"[training]\nseq_len = \"many\"\n", "file:2: found training.seq_len"},
      {"[training]\nseq_len = 128\nseq_len = 256\n", "file:3"},
      {"[training\n", "TOML that cannot be parsed"},
      {"[training]\nseq_len = nan\n", "not finite"},
      {"[training]\nenable_cpu_offload = true\n[parallelism]\nfsdp_reshard_after_forward = \"never\"\n",
       "parameters on the host"},
      {"[training]\nenable_cpu_offload = true\n", "accepted"},
      {"[training]\nenable_cpu_offload = false\n", "accepted"},
      {"[loss]\nnum_chunks = 4\n", "1 or 8"},
      {"[model]\nconverters = [\"quantize.linear.mx\"]\n", "accepted"},
      {"[model]\nconverters = [\"float8\"]\n", "accepted"},
      {"[optimizer]\nname = \"Muon\"\n", "one of Adam, AdamW"},
      {"[optimizer]\nearly_step_in_backward = true\n", "inside the backward pass"},
      {"[parallelism]\npipeline_parallel_degree = 2\npipeline_parallel_schedule = \"DualPipeV\"\n", "one of 1F1B"},
      {"[parallelism]\npipeline_parallel_degree = 2\npipeline_parallel_schedule = \"interleaved1f1b\"\n", "accepted"},
      {"[parallelism]\npipeline_parallel_degree = 2\npipeline_parallel_split_points = [\"layers.2\"]\n",
       "module_fqns_per_model_part"},
      {"[parallelism]\npipeline_parallel_degree = 2\npipeline_parallel_schedule_csv = \"a.csv\"\n", "stands in that file"},
      {"[parallelism]\npipeline_parallel_degree = 2\nmodule_fqns_per_model_part = [[\"layers.0\"], [\"layers.1\"], [\"norm\"]]\n",
       "a multiple of pp 2"},
      {"[parallelism]\npipeline_parallel_degree = 2\nmodule_fqns_per_model_part = [[\"tok_embeddings\", \"layers.0\"], "
       "[\"layers.1\", \"norm\"]]\n",
       "accepted"},
      {"[parallelism]\ntensor_parallel_degree = 16\n", "TT-WORLD"},
      {"[parallelism]\ndata_parallel_shard_degree = 3\n", "TT-WORLD"},
      {"[parallelism]\nnew_parallel_thing = 3\n", "--ignore parallelism.new_parallel_thing"},
      {"[activation_checkpoint]\nmode = \"memory_budget\"\n", "none, selective or full"},
      {"[activation_checkpoint]\nmode = \"selective\"\nselective_ac_option = \"two\"\n", "op, or a number of layers"},
      {"[activation_checkpoint]\nmode = \"selective\"\nselective_ac_option = \"2\"\n", "accepted"},
      {"[fault_tolerance]\nenable = true\n", "replicas that come and go"},
      {"--parallelism.tensor_parallel_degree 2 --training.max_context_length 100", "accepted"},
      {"--training.max_context_length 100 --training.num_tokens_per_microbatch_per_dp_rank 250", "a multiple of the 100 tokens"},
      {"--parallelism.tensor_parallel_degree $TP", "\"$TP\""},
  };
  for (const Case& c : cases) {
    const bool tokens = std::string(c.text).find("max_context_length 100") != std::string::npos;
    const std::string more =
        tokens && std::string(c.said) == "accepted" ? " --training.num_tokens_per_microbatch_per_dp_rank 200" : "";
    EXPECT_THAT(of_config("torchtitan", c.text + more), HasSubstr(c.said)) << c.text;
  }
}

TEST(Refusals, OfDeepSpeed) {
  const std::string batch = R"("train_micro_batch_size_per_gpu": 1, "sequence_length": 64)";
  const std::vector<Case> cases = {
      {R"("bf16": {"enabled": true})", "accepted"},
      {R"("bf16": {"enabled": true}, "fp16": {"enabled": true})", "one of them"},
      {R"("zero_optimization": {"stage": 4})", "from 0 to 3"},
      {R"("zero_optimization": {"stage": 3, "zero_hpz_partition_size": 8})", "hpZ"},
      {R"("zero_optimization": {"stage": 3, "zero_hpz_partition_size": 1})", "accepted"},
      {R"("zero_optimization": {"stage": 3, "mics_shard_size": 8})", "MiCS"},
      {R"("zero_optimization": {"stage": 2, "offload_optimizer": {"device": "nvme"}})", "states on disk"},
      {R"("zero_optimization": {"stage": 2, "offload_optimizer": {"device": "none"}})", "accepted"},
      {R"("zero_optimization": {"stage": 3, "zero_quantized_weights": true})", "8-bit gathers"},
      {R"("activation_checkpointing": {"cpu_checkpointing": true})", "accepted"},
      {R"("activation_checkpointing": {"partition_activations": true})", "spread over the tensor ranks"},
      {R"("zero_optimization": {"stage": 3, "offload_param": {"device": "nvme"}})", "parameters on disk"},
      {R"("zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}})", "offload_optimizer as well"},
      {R"("zero_optimization": {"stage": 2, "offload_param": {"device": "cpu"}})", "requires stage 3"},
      {R"("optimizer": {"type": "OneBitAdam", "params": {"lr": 1e-4}})", "one of Adam"},
      {R"("optimizer": {"type": "AdamW", "params": {"lr": 1e-4}})", "accepted"},
      {R"("tensor_parallel": {"autotp_size": 2}, "sequence_parallel_size": 2)", "with tensor parallelism"},
      {R"("elasticity": {"enabled": true})", "follows from the devices"},
      {R"("elasticity": {"enabled": false})", "accepted"},
      {R"("pipeline": {"stages": 2})", "--ignore pipeline.stages"},
      {R"("my_own_section": {"colour": "red"})", "accepted"},
      {R"("gradient_accumulation_steps": "auto")", "accepted"},
      {R"("gradient_accumulation_steps": "some")", "a whole number"},
      {R"("train_batch_size": 12)", "DS-BATCH"},
  };
  for (const Case& c : cases) EXPECT_THAT(of_config("deepspeed", "{" + batch + ", " + c.text + "}"), HasSubstr(c.said)) << c.text;
  EXPECT_THAT(of_config("deepspeed", "[1, 2]"), HasSubstr("an object of settings"));
  EXPECT_THAT(of_config("deepspeed", "{\n\"a\": 1,\n"), HasSubstr("file:"));
  EXPECT_THAT(of_config("deepspeed", "{\"sequence_length\": 64}"), HasSubstr("--micro-batch N"));
}

TEST(Refusals, OfAccelerate) {
  const std::vector<Case> cases = {
      {"distributed_type: FSDP\n", "accepted"},
      {"distributed_type: MULTI_GPU\nmixed_precision: bf16\n", "accepted"},
      {"distributed_type: MEGATRON_LM\n", "--from megatron-args"},
      {"distributed_type: TPU\n", "one of FSDP"},
      {"distributed_type: FSDP\nnum_processes: 4\n", "file:2: found num_processes = 4"},
      {"distributed_type: FSDP\nfsdp_config: {fsdp_version: 3}\n", "from 1 to 2"},
      {"distributed_type: FSDP\nfsdp_config: {fsdp_offload_params: true}\n", "accepted"},
      {"distributed_type: FSDP\nfsdp_config: {fsdp_offload_params: true, fsdp_sharding_strategy: SHARD_GRAD_OP}\n",
       "parameters on the host"},
      {"distributed_type: FSDP\nfsdp_config: {fsdp_sharding_strategy: SOME_SHARD}\n", "one of FULL_SHARD"},
      {"distributed_type: FSDP\nfsdp_config: {fsdp_sharding_strategy: '2'}\n", "accepted"},
      {"distributed_type: FSDP\nparallelism_config: {parallelism_config_tp_size: 2}\n", "ACC-FSDP2"},
      {"distributed_type: FSDP\nfsdp_config: {fsdp_version: 2}\nparallelism_config: {parallelism_config_tp_size: 2}\n",
       "ACC-PROD"},
      {"distributed_type: FSDP\nfsdp_config: {fsdp_version: 2}\nparallelism_config: {parallelism_config_tp_size: 2, "
       "parallelism_config_dp_shard_size: 4}\n",
       "accepted"},
      {"distributed_type: FSDP\nfsdp_config: {fsdp_new_shard: 2}\n", "--ignore fsdp_config.fsdp_new_shard"},
      {"distributed_type: DEEPSPEED\ndeepspeed_config: {deepspeed_config_file: ds.json}\n", "a file named in it"},
      {"distributed_type: DEEPSPEED\ndeepspeed_config: {zero_stage: 2, offload_param_device: cpu}\n", "requires stage 3"},
      {"distributed_type: DEEPSPEED\ndeepspeed_config: {zero_stage: 2}\n", "accepted"},
      {"- a\n- b\n", "a mapping of settings"},
      {"a: [1\n", "file:"},
  };
  for (const Case& c : cases) {
    const ConfigurationRequest request{"file", c.text, 8, {}, 64, 16, 1, "", nullptr};
    const auto read = find_configuration_format("accelerate")->read(request);
    EXPECT_THAT(read ? "accepted" : read.error().message(), HasSubstr(c.said)) << c.text;
  }
}

// ---- clusters -----------------------------------------------------------------------------------------------------

std::string of_cluster(const char* format, const std::string& text) {
  const auto read = find_cluster_format(format)->read({"file", text, "h100-sxm-80gb", 2, {}, {}, 1, ""});
  if (!read) return read.error().message();
  const auto yaml = cluster_file(read->cluster, read->notes);
  EXPECT_TRUE(yaml.ok()) << text;
  EXPECT_TRUE(load_cluster(*yaml, "written").ok()) << *yaml;
  return "accepted";
}

TEST(Refusals, OfLinkMatrices) {
  const std::vector<Case> cases = {
      {"GPU0 GPU1\nGPU0 X NV18\nGPU1 NV18 X\n", "accepted"},
      {"     GPU0GPU1   CPU Affinity\nGPU0   X   NV18   0-3\nGPU1  NV18X\n", "accepted"},
      {"GPU0 GPU1 mlx5_0\nGPU0 X SYS PIX\nGPU1 SYS X SYS\nmlx5_0 PIX SYS X\n", "accepted"},
      {"[rank0]: GPU0 GPU1\n[rank0]: GPU0 X PHB\n[rank0]: GPU1 PHB X\n", "accepted"},
      {"GPU0\nGPU0 X\n", "accepted"},
      {"GPU0 GPU1\nGPU0 X NV18\nGPU1 NV18 X\nGPU2 NV18 NV18 X\n", "file:4: found a row of GPU2"},
      {"GPU0 GPU1\nGPU0 X NV18\nGPU0 X NV18\nGPU1 NV18 X\n", "file:3: found a second row of GPU0"},
      {"GPU0 GPU1\nGPU0 NV18 X\nGPU1 X NV18\n", "file:2: found no X"},
      {"GPU0 GPU1\nGPU0 X NV999\nGPU1 NV999 X\n", "\"NV999\""},
      {"GPU0 GPU1\nGPU0 X PIX\nGPU1 PXB X\n", "differs from the opposite direction"},
      {"GPU0 GPU2\nGPU0 X PIX\nGPU2 PIX X\n", "no row of GPU1"},
      {"", "nvidia-smi topo -m"},
  };
  for (const Case& c : cases) EXPECT_THAT(of_cluster("nvidia-smi-topo", c.text), HasSubstr(c.said)) << c.text;
}

TEST(Refusals, OfTopologyXml) {
  const std::string open =
      "<system version='1'>\n<cpu numaid='0' arch='x86_64' vendor='GenuineIntel' familyid='6' modelid='143'>\n";
  const std::string close = "</cpu>\n</system>\n";
  const std::vector<Case> cases = {
      {"<pci busid='0:1'>\n<gpu dev='0' sm='90'/>\n</pci>\n", "accepted"},
      {"<pci busid='0:1' link_speed='32.0 GT/s PCIe' link_width='16'>\n<gpu dev='0' sm='90'/>\n</pci>\n", "accepted"},
      {"<pci busid='0:1' link_speed='Unknown' link_width='16'>\n<gpu dev='0' sm='90'/>\n</pci>\n", "accepted"},
      {"<gpu dev='0' sm='90'/>\n", "file:3: found <gpu> below <cpu>"},
      {"<pci>\n<gpu dev='0' sm='90'/>\n</pci>\n", "file:3: found <pci> without busid"},
      {"<pci busid='0:1' link_speed='7 GT/s' link_width='16'>\n<gpu dev='0' sm='90'/>\n</pci>\n", "link_speed=\"7 GT/s\""},
      {"<pci busid='0:1' link_speed='16 GT/s' link_width='wide'>\n<gpu dev='0' sm='90'/>\n</pci>\n", "link_width=\"wide\""},
      {"<pci busid='0:1'>\n<gpu dev='0'/>\n</pci>\n", "<gpu> without sm"},
      {"<pci busid='0:1'>\n<gpu dev='0' sm='90'><nvlink target='0:9' count='4'/></gpu>\n</pci>\n", "an NVLink to 0:9"},
      {"<pci busid='0:1'>\n<gpu dev='0' sm='90'><nvlink target='0:9' count='-1'/></gpu>\n</pci>\n", "count=\"-1\""},
      {"<pci busid='0:1'>\n<gpu dev='0' sm='90'/>\n</pci>\n<pci busid='0:2'>\n<gpu dev='1' sm='80'/>\n</pci>\n", "sm=\"80\""},
      {"<pci busid='0:1'>\n<gpu dev='0' sm='90'/>\n</pci>\n<pci busid='0:1'>\n<gpu dev='1' sm='90'/>\n</pci>\n",
       "a second GPU at 0:1"},
      {"<pci busid='0:1'>\n<nic><net name='a' speed='fast'/></nic>\n</pci>\n", "speed=\"fast\""},
      {"", "no <gpu>"},
      {"<pci busid='0:1'>\n", "XML that cannot be parsed"},
  };
  for (const Case& c : cases) EXPECT_THAT(of_cluster("nccl-xml", open + c.text + close), HasSubstr(c.said)) << c.text;
}

TEST(Refusals, OfSlurm) {
  const std::vector<Case> hosts = {
      {"node1,node2", "accepted"},
      {"# a comment\nexport SLURM_JOB_NODELIST=\"n[1-2]\"\n", "accepted"},
      {"SLURM_GPUS_PER_NODE=h100:many\nn[1-2]\n", "SLURM_GPUS_PER_NODE"},
      {"n[1-2]\nn2\n", "twice"},
      {"n[1-2],,n4", "the host \"\""},
      {"n[1-2", "an unclosed bracket"},
      {"n$", "the host"},
      {"\n\n", "no host"},
  };
  for (const Case& c : hosts) EXPECT_THAT(of_cluster("slurm-hosts", c.text), HasSubstr(c.said)) << c.text;
  const std::vector<Case> trees = {
      {"SwitchName=a Nodes=n[1-2]\nSwitchName=b Nodes=n[3-4]\nSwitchName=t Switches=a,b\n", "accepted"},
      {"SwitchName=a Nodes=n[1-2]\nSwitchName=b Nodes=n[3-5]\n", "accepted"},
      {"BlockName=a Nodes=n[1-2]\nBlockSizes=2\n", "accepted"},
      {"switchname=a nodes=n1 # small letters\n", "accepted"},
      {"SwitchName=a Nodes=n[1-2]\nSwitchName=a Nodes=n3\n", "file:2: found a second"},
      {"SwitchName=a Nodes=n[1-2]\nSwitchName=b Nodes=n2\n", "below two switches"},
      {"SwitchName=a\n", "file:1: found \"a\" without nodes"},
      {"Switches=a\n", "SwitchName="},
      {"SwitchName=t Switches=a,b\n", "no switch with nodes"},
      {"SwitchName=a Nodes=n[2-1]\n", "file:1: found the range"},
  };
  for (const Case& c : trees) EXPECT_THAT(of_cluster("slurm-topology", c.text), HasSubstr(c.said)) << c.text;
}

}  // namespace
}  // namespace espalier::exchange::refusals_test
