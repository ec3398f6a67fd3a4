// SPDX-License-Identifier: Apache-2.0
// Tests published launch files, reduced to the relevant parts, each with its source and the real outcome.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "espalier/imported_configuration.h"

namespace espalier::exchange::launch_cases_test {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using State = ConfigurationRequest::ModelState;

ConfigurationRequest request_of(const std::string& text, std::int64_t nodes, std::int64_t devices_per_node) {
  ConfigurationRequest out;
  out.name = "file";
  out.text = text;
  out.devices = nodes * devices_per_node;
  out.nodes = nodes;
  out.devices_per_node = devices_per_node;
  return out;
}
ImportedConfiguration read(const char* format, const ConfigurationRequest& request) {
  auto out = find_configuration_format(format)->read(request);
  EXPECT_TRUE(out.ok()) << (out ? "" : out.error().message());
  return out ? *out : ImportedConfiguration{};
}
std::string refusal(const char* format, const ConfigurationRequest& request) {
  const auto out = find_configuration_format(format)->read(request);
  return out ? "accepted" : out.error().message();
}
ImportedKey key_of(const ImportedConfiguration& c, const std::string& key) {
  for (const ImportedKey& k : c.keys)
    if (k.key == key) return k;
  return {ImportedKey::Kind::not_understood, "absent", "", "", 0};
}

// github.com/swiss-ai/Megatron-LM, submit-llama3-70b.sh runs on 32 nodes of 4 GH200 as TP4 PP8 with two virtual
// stages and DP4.
const char* const kSwissAi =
    "#!/bin/bash\n#SBATCH --nodes=32\n#SBATCH --gpus-per-node=4\nSEQ_LEN=8192\nNETWORK_SIZE_ARGS=(\n --num-layers 80\n "
    "--hidden-size 8192\n"
    " --ffn-hidden-size 28672\n --num-attention-heads 64\n --max-position-embeddings $SEQ_LEN\n)\nTRAINING_ARGS=(\n "
    "--micro-batch-size 1\n"
    " --global-batch-size 1024\n --seq-length $SEQ_LEN\n --bf16\n)\nDISTRIBUTED_ARGS=(\n --tensor-model-parallel-size "
    "$SLURM_GPUS_PER_NODE\n"
    " --sequence-parallel\n --pipeline-model-parallel-size 8\n --num-layers-per-virtual-pipeline-stage 5\n "
    "--use-distributed-optimizer\n"
    " --defer-embedding-wgrad-compute\n --wgrad-deferral-limit 22\n "
    "--overlap-p2p-communication-warmup-flush\n)\nTORCHRUN_ARGS=(\n"
    " --nproc-per-node $SLURM_GPUS_PER_NODE\n --nnodes $SLURM_NNODES\n)\nCMD_PREFIX=\"numactl --membind=0-3\"\n"
    "TRAINING_CMD=\"torchrun ${TORCHRUN_ARGS[@]} $DIR/pretrain_gpt.py \\\n ${NETWORK_SIZE_ARGS[@]} \\\n "
    "${DISTRIBUTED_ARGS[@]}\"\n"
    "srun -lu --cpus-per-task $SLURM_CPUS_PER_TASK --wait 60 bash -c \"$CMD_PREFIX $TRAINING_CMD\"\n";

TEST(LaunchCases, BatchScriptOfSlurm) {
  const ImportedConfiguration c = read("megatron-args", request_of(kSwissAi, 32, 4));
  EXPECT_EQ(c.strategy.tp, 4);
  EXPECT_EQ(c.schedule.stages, 8);
  EXPECT_EQ(c.schedule.virtual_stages, 2);  // 80 layers / (8 stages · 5 layers)
  EXPECT_EQ(key_of(c, "overlap_p2p_comm_warmup_flush").kind, ImportedKey::Kind::not_modelled);
  for (const char* key : {"membind", "wait", "cpus_per_task"})
    EXPECT_EQ(key_of(c, key).kind, ImportedKey::Kind::without_effect) << key;
  EXPECT_EQ(key_of(c, "$SLURM_GPUS_PER_NODE").meaning, "from the #SBATCH lines");
  EXPECT_THAT(refusal("megatron-args", request_of(kSwissAi, 16, 4)), HasSubstr("--nnodes = 128; expected 64 devices"));
}

// Source: github.com/THUDM/slime, scripts/run-qwen3-235B-A22B-sft.sh with scripts/models/qwen3-235B-A22B.sh.
const char* const kSlime =
    "SCRIPT_DIR=\"$(cd -- \"$(dirname -- \"${BASH_SOURCE[0]}\")\" &>/dev/null && pwd)\"\nsource "
    "\"${SCRIPT_DIR}/models.sh\"\nSFT_ARGS=(\n"
    " --rollout-batch-size 128\n --global-batch-size 128\n)\nPERF_ARGS=(\n --tensor-model-parallel-size 4\n --sequence-parallel\n"
    " --expert-model-parallel-size 32\n --expert-tensor-parallel-size 1\n # --micro-batch-size 1\n --use-dynamic-batch-size\n"
    " --max-tokens-per-gpu 9216\n)\nOPTIMIZER_ARGS=(\n --optimizer adam\n --optimizer-cpu-offload\n "
    "--overlap-cpu-optimizer-d2h-h2d\n"
    " --use-precision-aware-optimizer\n)\npython3 train_async.py --actor-num-nodes 4 ${MODEL_ARGS[@]} ${PERF_ARGS[@]}\n";
const char* const kSlimeModel =
    "MODEL_ARGS=(\n --disable-bias-linear --qk-layernorm --group-query-attention --num-attention-heads 64 --num-query-groups 4\n"
    " --kv-channels 128 --num-layers 94 --hidden-size 4096 --ffn-hidden-size 12288 --normalization RMSNorm\n"
    " --position-embedding-type rope --swiglu --untie-embeddings-and-output-weights --vocab-size 151936 --moe-ffn-hidden-size "
    "1536\n"
    " --moe-layer-freq \"([1]*94)\" --num-experts 128 --moe-router-topk 8 --moe-token-dispatcher-type alltoall "
    "--moe-grouped-gemm\n)\n";

TEST(LaunchCases, SourcedFileIsAskedForByName) {
  ConfigurationRequest request = request_of(kSlime, 4, 8);
  request.model_state = State::absent;
  // One message lists everything that is missing: the batch, the length, the sizes, and the file that has them.
  EXPECT_THAT(refusal("megatron-args", request),
              AllOf(HasSubstr("no --micro-batch-size"), HasSubstr("no --seq-length"), HasSubstr("which line 2 sources"),
                    HasSubstr("--micro-batch N --sequence-length N --model config.json --with models.sh")));
  request.with = {{"models.sh", kSlimeModel}};
  request.micro_batch = 1;
  request.sequence_length = 9216;
  const ImportedConfiguration c = read("megatron-args", request);
  EXPECT_THAT(c.model, HasSubstr("\"model_type\": \"qwen3_moe\""));  // experts in every layer: "([1]*94)"
  EXPECT_EQ(c.strategy.offload, Offload::optimizer);
  // slime sets bf16 and the distributed optimizer by itself, and the answer lists that.
  EXPECT_EQ(c.precision, Precision::bf16);
  EXPECT_EQ(c.strategy.zero, ZeroStage::optimizer);
  EXPECT_THAT(c.notes, Contains(HasSubstr("slime sets what the file leaves unset: bf16 = True")));
  request.with = {{"models.sh", std::string(kSlimeModel).replace(std::string(kSlimeModel).find("([1]*94)"), 8, "[0]*1+[1]*93")}};
  request.model_state = State::absent;
  EXPECT_THAT(refusal("megatron-args", request), HasSubstr("--moe-layer-freq [0]*1+[1]*93"));
}

TEST(LaunchCases, WithoutAPrecisionItIsSaid) {
  const std::string flags =
      "--num-layers 8 --hidden-size 64 --num-attention-heads 4 --seq-length 128 --micro-batch-size 1 --vocab-size 1000 ";
  EXPECT_THAT(read("megatron-args", request_of(flags, 1, 8)).notes, Contains(HasSubstr("trains in fp32")));
  EXPECT_THAT(read("megatron-args", request_of(flags + "--bf16", 1, 8)).notes, Each(Not(HasSubstr("fp32"))));
}

// Source: github.com/modelscope/ms-swift, examples/megatron/moe/qwen3_moe.sh; github.com/THUDM/slime,
// scripts/run-qwen3-4B-base-sft.sh. Both are in daily use.
TEST(LaunchCases, FlagsThatMegatronTurnsOff) {
  ConfigurationRequest request = request_of(
      "--tensor-model-parallel-size 1 --sequence-parallel --use-tp-pp-dp-mapping --bf16 --micro-batch-size 1 --seq-length 8192",
      1, 8);
  request.model_layers = 36;
  const ImportedConfiguration c = read("megatron-args", request);
  EXPECT_EQ(c.strategy.sp, SequenceParallel::none);
  EXPECT_EQ(c.strategy.order, RankOrder::tp_cp_dp_pp);
  EXPECT_THAT(c.notes, ElementsAre("--sequence-parallel has no effect: --tensor-model-parallel-size is 1",
                                   "--use-tp-pp-dp-mapping has no effect: --pipeline-model-parallel-size is 1"));
}

// In github.com/modelscope/ms-swift, examples/train/megatron/moe/moe.sh, the model comes from a Hugging Face folder.
TEST(LaunchCases, LayersOfTheModelThatIsGiven) {
  const auto stages = [](const std::string& flags, std::int64_t layers) {
    ConfigurationRequest request = request_of("--micro-batch-size 1 --seq-length 4096 --bf16 " + flags, 1, 8);
    request.model_state = State::given;
    request.model_layers = layers;
    return read("megatron-args", request);
  };
  EXPECT_THAT(stages("--pipeline_model_parallel_size 2 --decoder_last_pipeline_num_layers 11", 24).blocks, ElementsAre(13, 11));
  const std::string both = "--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split";
  // (48 + 2) / 2 = 25 each
  EXPECT_THAT(stages("--pipeline-model-parallel-size 2 " + both, 48).blocks, ElementsAre(24, 24));
  const std::string chunks = "--pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 4 ";
  EXPECT_EQ(stages(chunks, 48).schedule.virtual_stages, 3);  // 48 / (4 · 4)
  EXPECT_EQ(stages(chunks + "--num-layers 48", 48).schedule.virtual_stages, 3);
  ConfigurationRequest request = request_of("--micro-batch-size 1 --seq-length 4096 " + chunks, 1, 8);
  EXPECT_THAT(refusal("megatron-args", request), AllOf(HasSubstr("no --num-layers"), HasSubstr("--model config.json")));
}

// A model file and flags that agree do not contradict each other.
TEST(LaunchCases, FlagsThatAgreeWithTheModel) {
  ConfigurationRequest request = request_of(
      "--micro-batch-size 1 --seq-length 4096 --bf16 --multi-latent-attention --q-lora-rank 1536 --kv-lora-rank 512 "
      "--qk-head-dim 128",
      1, 8);
  EXPECT_THAT(refusal("megatron-args", request),
              AllOf(HasSubstr("--multi-latent-attention"), HasSubstr("--q-lora-rank"), HasSubstr("3 faults")));
  request.model_state = State::given;
  request.model_layers = 61;
  request.model_fields = {{"q_lora_rank", "1536"}, {"kv_lora_rank", "512"}, {"qk_nope_head_dim", "128"}};
  EXPECT_EQ(key_of(read("megatron-args", request), "q_lora_rank").meaning, "as in --model");
  request.model_fields.front().second = "768";
  EXPECT_THAT(refusal("megatron-args", request),
              HasSubstr("--q-lora-rank = 1536; expected a configuration without it: the given model"));
}

// In github.com/pytorch/torchtitan/issues/1789, only the loss is compiled.
TEST(LaunchCases, CompiledPartsOfTorchtitan) {
  const auto engine = [](const char* parts) {
    return read("torchtitan",
                request_of(std::string("[training]\nseq_len = 64\n[compile]\nenable = true\ncomponents = ") + parts + "\n", 1, 8))
        .engine;
  };
  EXPECT_EQ(engine("[\"loss\"]"), "torchtitan+compiled-loss");
  EXPECT_EQ(engine("[\"model\", \"loss\"]"), "torchtitan-compile");
  EXPECT_EQ(engine("[\"model\"]"), "torchtitan-compile");
  EXPECT_EQ(read("torchtitan", request_of("[training]\nseq_len = 64\n[compile]\nenable = true\n", 1, 8)).engine,
            "torchtitan-compile");
}

// In github.com/huggingface/accelerate/issues/3239, the job runs out of memory, since the whole model is one unit.
TEST(LaunchCases, OneUnitOfFsdp) {
  ConfigurationRequest request = request_of(
      "distributed_type: FSDP\nmixed_precision: bf16\nfsdp_config:\n  fsdp_auto_wrap_policy: NO_WRAP\n"
      "  fsdp_sharding_strategy: FULL_SHARD\n",
      1, 8);
  request.sequence_length = 1024;
  request.micro_batch = 1;
  EXPECT_THAT(refusal("accelerate", request), AllOf(HasSubstr("file:4: found fsdp_config.fsdp_auto_wrap_policy = NO_WRAP"),
                                                    HasSubstr("the whole model is one unit"), HasSubstr("runs out of memory")));
  request.ignored = {"fsdp_config.fsdp_auto_wrap_policy"};
  EXPECT_EQ(read("accelerate", request).strategy.zero, ZeroStage::parameters);
}

// In github.com/volcengine/verl, examples/grpo_trainer/run_qwen3-236b_megatron.sh, settings are overrides of Hydra.
TEST(LaunchCases, OverridesOfVerl) {
  ConfigurationRequest request = request_of(
      "train_pp=8\npython3 -m verl.trainer.main_ppo --config-path=config actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1 "
      "\\\n"
      " actor_rollout_ref.actor.megatron.param_offload=True actor_rollout_ref.actor.megatron.tensor_model_parallel_size=4 \\\n"
      " actor_rollout_ref.actor.megatron.pipeline_model_parallel_size=${train_pp} "
      "actor_rollout_ref.rollout.tensor_model_parallel_size=8 \\\n"
      " +actor_rollout_ref.actor.megatron.override_transformer_config.num_layers_in_first_pipeline_stage=5 \\\n"
      " +actor_rollout_ref.actor.megatron.override_transformer_config.num_layers_in_last_pipeline_stage=5 trainer.nnodes=4 "
      "trainer.n_gpus_per_node=8\n",
      4, 8);
  request.model_layers = 94;
  request.sequence_length = 6144;
  const ImportedConfiguration c = read("megatron-args", request);
  EXPECT_EQ(c.strategy.tp, 4);
  EXPECT_THAT(c.blocks, ElementsAre(5, 14, 14, 14, 14, 14, 14, 5));  // (94 − 10) / 6
  EXPECT_EQ(c.strategy.zero, ZeroStage::optimizer);
  EXPECT_THAT(c.notes, Contains(HasSubstr("verl sets")));
}

// Messages quote flags as written, and call defaults by that name.
TEST(LaunchCases, NamesAsTheyWereWritten) {
  const std::string flags =
      "--num-layers 8 --hidden-size 64 --num-attention-heads 4 --seq-length 128 --micro-batch-size 1 --vocab-size 1000 --bf16 ";
  EXPECT_THAT(refusal("megatron-args", request_of(flags + "--expert-model-parallel-size 2 --num-experts 4", 1, 8)),
              HasSubstr("found --moe-token-dispatcher-type = allgather (default)"));
  EXPECT_THAT(refusal("megatron-args", request_of(flags + "--tensor_model_parallel_size x --cpu-offloading-num-layers 3", 1, 8)),
              AllOf(HasSubstr("2 faults"), HasSubstr("--tensor_model_parallel_size = \"x\""),
                    HasSubstr("--cpu-offloading-num-layers = 3")));
  EXPECT_EQ(
      key_of(read("megatron-args", request_of(flags + "--no-masked-softmax-fusion", 1, 8)), "masked_softmax_fusion").written,
      "--no-masked-softmax-fusion");
}

}  // namespace
}  // namespace espalier::exchange::launch_cases_test
