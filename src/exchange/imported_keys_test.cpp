// SPDX-License-Identifier: Apache-2.0
// Tests one whole file of each format: every key with its kind, meaning and line, and every default that is taken for
// a missing key. The degrees and batches that follow are counted by hand on 16 devices.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "espalier/imported_configuration.h"

namespace espalier::exchange::imported_keys_test {
namespace {

constexpr auto kRead = ImportedKey::Kind::read;
constexpr auto kDefaulted = ImportedKey::Kind::defaulted;
constexpr auto kNoEffect = ImportedKey::Kind::without_effect;

struct Row {
  ImportedKey::Kind kind;
  const char *key, *value, *meaning;
  std::int64_t line;
};

ImportedConfiguration read(const char* format, const char* text, std::int64_t sequence, std::int64_t micro_batch) {
  ConfigurationRequest request{"file", text, 16, {}, {}, {}, {}, "", nullptr};
  if (sequence > 0) request.sequence_length = sequence;
  if (micro_batch > 0) request.micro_batch = micro_batch;
  auto out = find_configuration_format(format)->read(request);
  EXPECT_TRUE(out.ok()) << (out ? "" : out.error().message());
  return out ? *out : ImportedConfiguration{};
}

void expect_keys(const ImportedConfiguration& c, const std::vector<Row>& rows) {
  ASSERT_EQ(c.keys.size(), rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(c.keys[i].key, rows[i].key) << i;
    EXPECT_EQ(c.keys[i].kind, rows[i].kind) << rows[i].key;
    EXPECT_EQ(c.keys[i].value, rows[i].value) << rows[i].key;
    EXPECT_EQ(c.keys[i].meaning, rows[i].meaning) << rows[i].key;
    EXPECT_EQ(c.keys[i].line, rows[i].line) << rows[i].key;
  }
}

const char* const kMegatron =
    "TP=2\n"
    "#SBATCH --nodes=2\n"
    "ARGS=(\n"
    "  --num-layers 16 --hidden-size 2048 --ffn-hidden-size 8192 --num-attention-heads 16\n"
    "  --seq-length 4096 --max-position-embeddings 4096 --vocab-size 32000\n"
    "  --position-embedding-type rope --rotary-percent 1.0 --swiglu --normalization RMSNorm --disable-bias-linear\n"
    "  --num-experts 8 --moe-router-topk 2 --expert-model-parallel-size 4 --moe-token-dispatcher-type alltoall\n"
    "  --moe-grouped-gemm --moe-aux-loss-coeff 1e-2\n"
    "  --tensor-model-parallel-size $TP --pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 4\n"
    "  --context-parallel-size 1 --sequence-parallel --use-distributed-optimizer --overlap-grad-reduce\n"
    "  --recompute-granularity full --recompute-method block --recompute-num-layers 1\n"
    "  --micro-batch-size 1 --global-batch-size 64 --bf16\n"
    "  --lr 3e-4 --min-lr 3e-5 --weight-decay 0.1 --clip-grad 1.0 --train-iters 1000 --lr-decay-style cosine\n"
    "  --log-interval 1 --save /checkpoints --tokenizer-type NullTokenizer --data-path /data/tokens\n"
    ")\n"
    "torchrun pretrain_gpt.py \"${ARGS[@]}\"\n";

TEST(ImportedKeys, Megatron) {
  const ImportedConfiguration c = read("megatron-args", kMegatron, 0, 0);
  expect_keys(
      c, {
             {kRead, "$TP", "2", "assigned in the script", 1},
             {kRead, "num_layers", "16", "layers 16", 4},
             {kRead, "hidden_size", "2048", "hidden size 2048", 4},
             {kRead, "ffn_hidden_size", "8192", "width of the MLP (0: from hidden-size) 8192", 4},
             {kRead, "num_attention_heads", "16", "heads 16", 4},
             {kRead, "seq_length", "4096", "sequence length 4096", 5},
             {kRead, "max_position_embeddings", "4096", "positions 4096", 5},
             {kRead, "vocab_size", "32000", "vocabulary 32000", 5},
             {kRead, "swiglu", "True", "gated MLP: yes", 6},
             {kRead, "normalization", "RMSNorm", "norm RMSNorm", 6},
             {kRead, "add_bias_linear", "False", "biases in linears: no", 6},
             {kRead, "position_embedding_type", "rope", "positions rope", 6},
             {kRead, "rotary_percent", "1.0", "share of a head that is rotated 1.0", 6},
             {kRead, "expert_model_parallel_size", "4", "ep 4", 7},
             {kRead, "moe_token_dispatcher_type", "alltoall", "dispatcher of tokens alltoall", 7},
             {kRead, "num_experts", "8", "experts 8", 7},
             {kRead, "moe_router_topk", "2", "experts per token 2", 7},
             {kRead, "moe_grouped_gemm", "True", "products of all experts of a rank in one kernel, as they are predicted", 8},
             {kRead, "tensor_model_parallel_size", "2", "tp 2", 9},
             {kRead, "pipeline_model_parallel_size", "2", "pp 2", 9},
             {kRead, "num_layers_per_virtual_pipeline_stage", "4", "layers per chunk 4", 9},
             {kRead, "context_parallel_size", "1", "cp 1", 10},
             {kRead, "sequence_parallel", "True", "sp megatron: yes", 10},
             {kRead, "use_distributed_optimizer", "True", "zero 1: yes", 10},
             {kRead, "overlap_grad_reduce", "True", "overlap grad: yes", 10},
             {kRead, "recompute_granularity", "full", "recompute full", 11},
             {kRead, "recompute_method", "block", "recompute method block", 11},
             {kRead, "recompute_num_layers", "1", "recompute layers 1", 11},
             {kRead, "micro_batch_size", "1", "micro-batch 1", 12},
             {kRead, "global_batch_size", "64", "global batch (0: one micro-batch per replica) 64", 12},
             {kRead, "bf16", "True", "precision bf16: yes", 12},
             {kDefaulted, "use_tp_pp_dp_mapping", "False", "order tp-cp-pp-dp: no", 0},
             {kDefaulted, "tp_comm_overlap", "False", "overlap tp: no", 0},
             {kDefaulted, "num_distributed_optimizer_instances", "1", "groups that shard states 1", 0},
             {kDefaulted, "overlap_param_gather", "False", "overlap param: no", 0},
             {kDefaulted, "optimizer_cpu_offload", "False", "offload of the optimizer: no", 0},
             {kDefaulted, "num_virtual_stages_per_pipeline_rank", "0", "vpp 0", 0},
             {kDefaulted, "virtual_pipeline_model_parallel_size", "0", "vpp 0", 0},
             {kDefaulted, "overlap_p2p_comm", "True", "overlap p2p: yes", 0},
             {kDefaulted, "pipeline_model_parallel_layout", "", "layout of the stages not stated", 0},
             {kDefaulted, "decoder_first_pipeline_num_layers", "0", "blocks of the first stage (0: like the others) 0", 0},
             {kDefaulted, "decoder_last_pipeline_num_layers", "0", "blocks of the last stage (0: like the others) 0", 0},
             {kDefaulted, "account_for_embedding_in_pipeline_split", "False", "the embedding counts as a layer: no", 0},
             {kDefaulted, "account_for_loss_in_pipeline_split", "False", "the loss counts as a layer: no", 0},
             {kDefaulted, "recompute_modules", "core_attn", "recomputed modules core_attn", 0},
             {kDefaulted, "fp16", "False", "precision fp16: no", 0},
             {kDefaulted, "fp8", "None", "fp8 products None", 0},
             {kDefaulted, "fp4", "None", "fp4 products None", 0},
             {kDefaulted, "optimizer", "adam", "optimizer adam", 0},
             {kDefaulted, "attention_backend", "auto", "attention auto", 0},
             {kDefaulted, "moe_enable_deepep", "False", "DeepEP: no", 0},
             {kDefaulted, "cuda_graph_impl", "none", "CUDA graphs none", 0},
             {kDefaulted, "cuda_graph_scope", "full", "contents of CUDA graphs full", 0},
             {kDefaulted, "use_precision_aware_optimizer", "False", "types of optimizer states are chosen: no", 0},
             {kDefaulted, "exp_avg_dtype", "fp32", "first moments fp32", 0},
             {kDefaulted, "exp_avg_sq_dtype", "fp32", "second moments fp32", 0},
             {kDefaulted, "overlap_moe_expert_parallel_comm", "False", "option overlap-experts: no", 0},
             {kDefaulted, "grad_reduce_in_bf16", "False", "option bf16-gradients: no", 0},
             {kDefaulted, "untie_embeddings_and_output_weights", "False", "untied embedding and head: no", 0},
             {kDefaulted, "norm_epsilon", "1e-05", "epsilon of norms 1e-05", 0},
             {kDefaulted, "padded_vocab_size", "0", "vocabulary, padded 0", 0},
             {kDefaulted, "use_rotary_position_embeddings", "False", "rotary positions (older flag): no", 0},
             {kDefaulted, "rotary_base", "10000", "rotary base 10000", 0},
             {kDefaulted, "group_query_attention", "False", "grouped queries: no", 0},
             {kDefaulted, "num_query_groups", "1", "key and value heads 1", 0},
             {kDefaulted, "kv_channels", "0", "size of a head (0: hidden / heads) 0", 0},
             {kDefaulted, "add_qkv_bias", "False", "bias on queries, keys and values: no", 0},
             {kDefaulted, "qk_layernorm", "False", "norm of queries and keys: no", 0},
             {kDefaulted, "attention_dropout", "0.1", "dropout of scores 0.1", 0},
             {kDefaulted, "hidden_dropout", "0.1", "dropout of the residual stream 0.1", 0},
             {kDefaulted, "moe_ffn_hidden_size", "0", "width of an expert (0: ffn-hidden-size) 0", 0},
             {kDefaulted, "moe_layer_freq", "1", "interval of layers with experts 1", 0},
             {kNoEffect, "moe_aux_loss_coeff", "1e-2", "numbers that kernels are given; their shapes and their count stay", 8},
             {kNoEffect, "lr", "3e-4", "numbers that kernels are given; their shapes and their count stay", 13},
             {kNoEffect, "min_lr", "3e-5", "numbers that kernels are given; their shapes and their count stay", 13},
             {kNoEffect, "weight_decay", "0.1", "numbers that kernels are given; their shapes and their count stay", 13},
             {kNoEffect, "clip_grad", "1.0", "numbers that kernels are given; their shapes and their count stay", 13},
             {kNoEffect, "train_iters", "1000", "how many steps there are, not how long one is", 13},
             {kNoEffect, "lr_decay_style", "cosine", "numbers that kernels are given; their shapes and their count stay", 13},
             {kNoEffect, "log_interval", "1", "what is printed, recorded or profiled; a step is predicted without it", 14},
             {kNoEffect, "save", "/checkpoints", "what is read before the first step and written between steps", 14},
             {kNoEffect, "tokenizer_type", "NullTokenizer",
              "how text becomes tokens, before training; the size of the vocabulary is --vocab-size or --padded-vocab-size", 14},
             {kNoEffect, "data_path", "/data/tokens", "which samples are read and how they are cut; a step waits for none of it",
              14},
         });
  // 16 layers in chunks of 4 are 4 chunks, 2 on each of 2 stages; 16 / (2 · 2) = 4 replicas, and 64 / 4 = 16
  // micro-batches of 1.
  EXPECT_EQ(c.strategy.tp, 2);
  EXPECT_EQ(c.strategy.sp, SequenceParallel::megatron);
  EXPECT_EQ(c.strategy.ep, 4);
  EXPECT_EQ(c.strategy.zero, ZeroStage::optimizer);
  EXPECT_EQ(c.schedule.stages, 2);
  EXPECT_EQ(c.schedule.virtual_stages, 2);
  EXPECT_EQ(c.schedule.kind, ScheduleKind::interleaved);
  EXPECT_EQ(c.strategy.recompute.kind, RecomputeKind::full);
  EXPECT_EQ(c.strategy.recompute.layers, 1);
  EXPECT_EQ(c.global_batch, 64);
}

const char* const kTorchtitan =
    "[model]\n"
    "name = \"llama3\"\n"
    "flavor = \"8B\"\n"
    "[optimizer]\n"
    "name = \"AdamW\"\n"
    "lr = 3e-4\n"
    "[metrics]\n"
    "log_freq = 10\n"
    "[training]\n"
    "local_batch_size = 2\n"
    "global_batch_size = 32\n"
    "seq_len = 4096\n"
    "mixed_precision_param = \"bfloat16\"\n"
    "[parallelism]\n"
    "data_parallel_replicate_degree = 1\n"
    "data_parallel_shard_degree = 4\n"
    "tensor_parallel_degree = 2\n"
    "pipeline_parallel_degree = 2\n"
    "pipeline_parallel_schedule = \"1F1B\"\n"
    "pipeline_parallel_microbatch_size = 1\n"
    "context_parallel_degree = 1\n"
    "[activation_checkpoint]\n"
    "mode = \"full\"\n"
    "[checkpoint]\n"
    "enable_checkpoint = false\n";

TEST(ImportedKeys, Torchtitan) {
  const ImportedConfiguration c = read("torchtitan", kTorchtitan, 0, 0);
  expect_keys(
      c, {
             {kRead, "training.global_batch_size", "32",
              "the pipeline drains between accumulated batches; predicted without draining", 0},
             {kRead, "optimizer.name", "AdamW", "optimizer AdamW", 5},
             {kRead, "training.local_batch_size", "2", "samples per rank 2", 10},
             {kRead, "training.global_batch_size", "32", "global batch (-1: samples of all ranks) 32", 11},
             {kRead, "training.seq_len", "4096", "sequence length 4096", 12},
             {kRead, "training.mixed_precision_param", "bfloat16", "precision bfloat16", 13},
             {kRead, "parallelism.data_parallel_replicate_degree", "1", "replicas of the shards 1", 15},
             {kRead, "parallelism.data_parallel_shard_degree", "4", "shards (-1: the rest of the devices) 4", 16},
             {kRead, "parallelism.tensor_parallel_degree", "2", "tp 2", 17},
             {kRead, "parallelism.pipeline_parallel_degree", "2", "pp 2", 18},
             {kRead, "parallelism.pipeline_parallel_schedule", "1F1B", "schedule 1F1B", 19},
             {kRead, "parallelism.pipeline_parallel_microbatch_size", "1", "micro-batch of the pipeline 1", 20},
             {kRead, "parallelism.context_parallel_degree", "1", "cp 1", 21},
             {kRead, "activation_checkpoint.mode", "full", "recompute full", 23},
             {kDefaulted, "training.compile", "False", "compiled: no", 0},
             {kDefaulted, "compile.enable", "False", "compiled: no", 0},
             {kDefaulted, "training.dtype", "float32", "type of states float32", 0},
             {kDefaulted, "parallelism.expert_parallel_degree", "1", "ep 1", 0},
             {kDefaulted, "parallelism.expert_tensor_parallel_degree", "1", "etp 1", 0},
             {kDefaulted, "parallelism.enable_sequence_parallel", "True", "sp megatron, with tp: yes", 0},
             {kDefaulted, "parallelism.enable_async_tensor_parallel", "False", "overlap tp: no", 0},
             {kDefaulted, "parallelism.fsdp_reshard_after_forward", "default", "parameters after the forward pass default", 0},
             {kDefaulted, "training.batch_size", "0", "samples per rank (older name) 0", 0},
             {kDefaulted, "activation_checkpoint.selective_ac_option", "2",
              "selective recomputation: by operator, or every n-th layer 2", 0},
             {kDefaulted, "model.converters", "[]", "converters of the model []", 0},
             {kNoEffect, "model.name", "llama3", "the model comes from --model", 2},
             {kNoEffect, "model.flavor", "8B", "the model comes from --model", 3},
             {kNoEffect, "optimizer.lr", "3e-04", "numbers that kernels are given; their shapes and their count stay", 6},
             {kNoEffect, "metrics.log_freq", "10", "what is printed, recorded or profiled; a step is predicted without it", 8},
             {kNoEffect, "checkpoint.enable_checkpoint", "False", "what is read before the first step and written between steps",
              25},
         });
  // 2 stages · 2 tensor ranks · 4 shards are the 16 devices. Parameters stay gathered between the passes of a
  // pipeline.
  EXPECT_EQ(c.strategy.tp, 2);
  EXPECT_EQ(c.strategy.dp, 4);
  EXPECT_EQ(c.strategy.shard, 4);
  EXPECT_EQ(c.schedule.stages, 2);
  EXPECT_EQ(c.schedule.micro_batch, 1);
  EXPECT_EQ(c.global_batch, 32);
  EXPECT_EQ(c.strategy.recompute.kind, RecomputeKind::full);
}

const char* const kDeepSpeed =
    "{\"train_batch_size\": 64,\n"
    " \"train_micro_batch_size_per_gpu\": 2,\n"
    " \"gradient_accumulation_steps\": 2,\n"
    " \"steps_per_print\": 10,\n"
    " \"optimizer\": {\"type\": \"AdamW\", \"params\": {\"lr\": 3e-4, \"betas\": [0.9, 0.95]}},\n"
    " \"bf16\": {\"enabled\": true},\n"
    " \"fp16\": {\"enabled\": false},\n"
    " \"zero_optimization\": {\"stage\": 3, \"overlap_comm\": true, \"contiguous_gradients\": true, \"reduce_bucket_size\": "
    "5e8},\n"
    " \"gradient_clipping\": 1.0,\n"
    " \"wall_clock_breakdown\": false}\n";

TEST(ImportedKeys, DeepSpeed) {
  const ImportedConfiguration c = read("deepspeed", kDeepSpeed, 4096, 0);
  expect_keys(
      c, {
             {kRead, "--sequence-length", "4096", "set on the command line", 0},
             {kRead, "train_batch_size", "64", "global batch (0: from the others) 64", 1},
             {kRead, "train_micro_batch_size_per_gpu", "2", "micro-batch (0: from the others) 2", 2},
             {kRead, "gradient_accumulation_steps", "2", "micro-batches per step (0: from the others) 2", 3},
             {kRead, "optimizer.type", "AdamW", "optimizer AdamW", 5},
             {kRead, "bf16.enabled", "True", "precision bf16: yes", 6},
             {kRead, "fp16.enabled", "False", "precision fp16: no", 7},
             {kRead, "zero_optimization.stage", "3", "zero 3", 8},
             {kRead, "zero_optimization.overlap_comm", "True", "overlap of ZeRO's communication: yes", 8},
             {kRead, "zero_optimization.reduce_bucket_size", "5e8", "elements in a bucket 500000000", 8},
             {kDefaulted, "tensor_parallel.autotp_size", "0", "tp (0: none) 0", 0},
             {kDefaulted, "sequence_parallel_size", "1", "sp ulysses over 1", 0},
             {kDefaulted, "zero_optimization.offload_optimizer.device", "none", "offload of the optimizer none", 0},
             {kDefaulted, "sequence_length", "0", "sequence length 0", 0},
             {kDefaulted, "espalier.gradient_checkpointing", "False", "recompute full: no", 0},
             {kDefaulted, "--recompute", "none", "recomputation, which the training script sets", 0},
             {kDefaulted, "bfloat16.enabled", "False", "precision bf16: no", 0},
             {kDefaulted, "bf16.bf16_master_weights_and_grads", "False", "master weights and gradients in bf16: no", 0},
             {kDefaulted, "bf16.bf16_optimizer_states", "False", "moments of Adam in bf16: no", 0},
             {kNoEffect, "steps_per_print", "10", "what is printed, recorded or profiled; a step is predicted without it", 4},
             {kNoEffect, "optimizer.params.lr", "3e-4", "numbers that kernels are given; their shapes and their count stay", 5},
             {kNoEffect, "optimizer.params.betas", "[0.9, 0.95]",
              "numbers that kernels are given; their shapes and their count stay", 5},
             {kNoEffect, "zero_optimization.contiguous_gradients", "True", "as it is predicted", 8},
             {kNoEffect, "gradient_clipping", "1.0", "numbers that kernels are given; their shapes and their count stay", 9},
             {kNoEffect, "wall_clock_breakdown", "False", "what is printed, recorded or profiled; a step is predicted without it",
              10},
         });
  // 64 = 2 samples · 2 micro-batches · 16 replicas.
  EXPECT_EQ(c.strategy.dp, 16);
  EXPECT_EQ(c.strategy.zero, ZeroStage::parameters);
  EXPECT_EQ(c.schedule.micro_batch, 2);
  EXPECT_EQ(c.global_batch, 64);
  EXPECT_EQ(c.engine, "deepspeed");
}

const char* const kAccelerate =
    "compute_environment: LOCAL_MACHINE\n"
    "distributed_type: FSDP\n"
    "mixed_precision: bf16\n"
    "num_machines: 2\n"
    "num_processes: 16\n"
    "machine_rank: 0\n"
    "main_process_port: 29500\n"
    "fsdp_config:\n"
    "  fsdp_version: 2\n"
    "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"
    "  fsdp_transformer_layer_cls_to_wrap: LlamaDecoderLayer\n"
    "  fsdp_reshard_after_forward: true\n"
    "  fsdp_activation_checkpointing: true\n"
    "  fsdp_offload_params: false\n"
    "parallelism_config:\n"
    "  parallelism_config_dp_replicate_size: 2\n"
    "  parallelism_config_dp_shard_size: 4\n"
    "  parallelism_config_tp_size: 2\n";

TEST(ImportedKeys, Accelerate) {
  const ImportedConfiguration c = read("accelerate", kAccelerate, 4096, 1);
  expect_keys(
      c,
      {
          {kRead, "--micro-batch", "1", "set on the command line", 0},
          {kRead, "distributed_type", "FSDP", "kind of data parallelism FSDP", 2},
          {kRead, "mixed_precision", "bf16", "precision bf16", 3},
          {kRead, "num_machines", "2", "nodes 2", 4},
          {kRead, "num_processes", "16", "devices (0: those of the cluster) 16", 5},
          {kRead, "fsdp_config.fsdp_version", "2", "version of FSDP 2", 9},
          {kRead, "fsdp_config.fsdp_auto_wrap_policy", "TRANSFORMER_BASED_WRAP", "units of FSDP TRANSFORMER_BASED_WRAP", 10},
          {kRead, "fsdp_config.fsdp_transformer_layer_cls_to_wrap", "LlamaDecoderLayer", "the blocks that are one unit each", 11},
          {kRead, "fsdp_config.fsdp_reshard_after_forward", "True", "gather parameters again for the backward pass: yes", 12},
          {kRead, "fsdp_config.fsdp_activation_checkpointing", "True", "recompute full: yes", 13},
          {kRead, "fsdp_config.fsdp_offload_params", "False", "offload of parameters, gradients and states: no", 14},
          {kRead, "parallelism_config.parallelism_config_dp_replicate_size", "2", "replicas of the shards 2", 16},
          {kRead, "parallelism_config.parallelism_config_dp_shard_size", "4", "shards 4", 17},
          {kRead, "parallelism_config.parallelism_config_tp_size", "2", "tp 2", 18},
          {kDefaulted, "dynamo_config.dynamo_backend", "NO", "compiler NO", 0},
          {kDefaulted, "parallelism_config.parallelism_config_cp_size", "1", "cp 1", 0},
          {kDefaulted, "parallelism_config.parallelism_config_sp_size", "1", "sequence parallelism 1", 0},
          {kDefaulted, "gradient_accumulation_steps", "1", "micro-batches per step 1", 0},
          {kNoEffect, "compute_environment", "LOCAL_MACHINE", "which processes start where, before the first step", 1},
          {kNoEffect, "machine_rank", "0", "which processes start where, before the first step", 6},
          {kNoEffect, "main_process_port", "29500", "which processes start where, before the first step", 7},
      });
  // 2 replicas · 4 shards · 2 tensor ranks are the 16 devices. One sample each makes 8 per step.
  EXPECT_EQ(c.strategy.tp, 2);
  EXPECT_EQ(c.strategy.dp, 8);
  EXPECT_EQ(c.strategy.shard, 4);
  EXPECT_EQ(c.strategy.zero, ZeroStage::parameters);
  EXPECT_EQ(c.global_batch, 8);
  EXPECT_EQ(c.engine, "accelerate-fsdp");
}

}  // namespace
}  // namespace espalier::exchange::imported_keys_test
