// SPDX-License-Identifier: Apache-2.0
// Tests settings that an imported file leaves open, or that change the answer: "auto", keys that are known and not
// modelled, conditions of the shell, weights of stages, offload. None of it is guessed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "data/source_dir.h"
#include "espalier/exchange.h"
#include "espalier/imported_cluster.h"
#include "espalier/imported_configuration.h"
#include "espalier/planner.h"
#include "exchange/flag_lines.h"
#include "exchange/torchtitan.h"

namespace espalier::exchange::import_choices_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

/// Returns a request for 8 devices, with typical arguments of training scripts.
ConfigurationRequest request_of(const std::string& text) {
  ConfigurationRequest out{"file", text, 8, {}, 64, {}, 1, "", nullptr};
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
  ADD_FAILURE() << "no key " << key;
  return {};
}

// ---- auto ---------------------------------------------------------------------------------------------------------

const char* const kAuto =
    "{\"bf16\": {\"enabled\": \"auto\"}, \"fp16\": {\"enabled\": \"auto\"},\n \"zero_optimization\": {\"stage\": 3,\n"
    " \"reduce_bucket_size\": \"auto\"}, \"train_micro_batch_size_per_gpu\": \"auto\", \"gradient_clipping\": \"auto\"}";

TEST(Auto, OfThePrecisionIsAsked) {
  ConfigurationRequest request = request_of(kAuto);
  EXPECT_THAT(refusal("deepspeed", request), AllOf(HasSubstr("file:1: found bf16.enabled = auto; expected bf16, fp16 or fp32"),
                                                   HasSubstr("--set training.precision=bf16")));
  request.precision = Precision::fp16;
  EXPECT_EQ(read("deepspeed", request).precision, Precision::fp16);
  // The other one is on, so that the open one is off.
  EXPECT_EQ(read("deepspeed", request_of("{\"bf16\": {\"enabled\": true}, \"fp16\": {\"enabled\": \"auto\"}}")).precision,
            Precision::bf16);
  EXPECT_EQ(read("deepspeed", request_of("{}")).precision, Precision::fp32);
}

TEST(Auto, OfOtherKeysIsListedWithWhoFillsIt) {
  ConfigurationRequest request = request_of(kAuto);
  request.precision = Precision::bf16;
  const ImportedConfiguration c = read("deepspeed", request);
  const ImportedKey micro = key_of(c, "train_micro_batch_size_per_gpu");
  EXPECT_EQ(micro.kind, ImportedKey::Kind::defaulted);
  EXPECT_THAT(micro.meaning, HasSubstr("auto: filled by the training script"));
  EXPECT_EQ(micro.line, 3);
  EXPECT_EQ(key_of(c, "zero_optimization.reduce_bucket_size").meaning, "auto: filled by the training script");
  EXPECT_EQ(std::count_if(c.keys.begin(), c.keys.end(), [](const ImportedKey& k) { return k.key == "bf16.enabled"; }), 1);
  EXPECT_THAT(refusal("deepspeed", request_of("{\"zero_optimization\": {\"stage\": \"auto\"}}")),
              HasSubstr("expected 0, 1, 2 or 3"));
}

/// Returns Accelerate's file that names `json`.
ConfigurationRequest named(const std::string& json, const std::string& precision) {
  ConfigurationRequest out =
      request_of("distributed_type: DEEPSPEED\ndeepspeed_config: {deepspeed_config_file: ds.json}\n" + precision);
  out.file = [json](const std::string&) { return Result<std::string>(json); };
  return out;
}

TEST(Auto, IsFilledByAcceleratesMixedPrecision) {
  EXPECT_EQ(read("accelerate", named(kAuto, "mixed_precision: bf16\n")).precision, Precision::bf16);
  EXPECT_EQ(read("accelerate", named(kAuto, "mixed_precision: 'no'\n")).precision, Precision::fp32);
  EXPECT_THAT(refusal("accelerate", named(kAuto, "")), HasSubstr("--set training.precision=bf16"));
  // As in set_mixed_precision, an absent section is added and one with false stays off. The other half precision is
  // an error.
  EXPECT_EQ(read("accelerate", named("{}", "mixed_precision: bf16\n")).precision, Precision::bf16);
  EXPECT_EQ(read("accelerate", named("{\"bf16\": {\"enabled\": false}}", "mixed_precision: bf16\n")).precision, Precision::fp32);
  EXPECT_THAT(refusal("accelerate", named("{\"fp16\": {\"enabled\": true}}", "mixed_precision: bf16\n")),
              HasSubstr("found mixed_precision = bf16; expected fp16, as in the JSON"));
}

// ---- known, not modelled ------------------------------------------------------------------------------------------

const char* const kFlags =
    "--num-layers 8 --hidden-size 64 --num-attention-heads 4 --vocab-size 1000 --seq-length 64 --micro-batch-size 1 ";

ImportedConfiguration megatron(const std::string& flags) { return read("megatron-args", request_of(kFlags + flags)); }

TEST(NotModelled, IsAKindOfItsOwn) {
  const ImportedConfiguration c = megatron(
      "--bf16 --use-distributed-optimizer --fp32-residual-connection --deterministic-mode --cross-entropy-loss-fusion "
      "--fp8-param-gather --no-rope-fusion "
      "--transformer-impl local");
  for (const char* key : {"fp32_residual_connection", "deterministic_mode", "cross_entropy_loss_fusion", "fp8_param_gather",
                          "apply_rope_fusion", "transformer_impl"})
    EXPECT_EQ(key_of(c, key).kind, ImportedKey::Kind::not_modelled) << key;
  EXPECT_EQ(to_string(ImportedKey::Kind::not_modelled), "known, not modelled");
  EXPECT_EQ(key_of(megatron("--transformer-impl transformer_engine"), "transformer_impl").kind,
            ImportedKey::Kind::without_effect);
  const ImportedConfiguration d = read(
      "deepspeed",
      request_of("{\"bf16\": {\"enabled\": true}, \"communication_data_type\": \"fp32\", \"compile\": {\"deepcompile\": true},"
                 " \"zero_optimization\": {\"reduce_scatter\": false}}"));
  for (const char* key : {"communication_data_type", "compile.deepcompile", "zero_optimization.reduce_scatter"})
    EXPECT_EQ(key_of(d, key).kind, ImportedKey::Kind::not_modelled) << key;
}

TEST(NotModelled, NoGlobSwallowsUnknownFlags) {
  EXPECT_THAT(refusal("megatron-args", request_of(std::string(kFlags) + "--no-such-flag-at-all-sharded")),
              HasSubstr("no_such_flag_at_all_sharded"));
  EXPECT_EQ(key_of(megatron("--no-such-thing"), "no_such_thing").kind, ImportedKey::Kind::not_understood);
  EXPECT_EQ(key_of(megatron("--no-load-optim"), "no_load_optim").kind, ImportedKey::Kind::without_effect);
}

TEST(MegatronImport, UnfusedAttentionIsTheEngineThatKeepsScores) {
  EXPECT_EQ(megatron("--attention-backend unfused").engine, "megatron-core-unfused");
  EXPECT_EQ(megatron("--attention-backend AttnBackend.local --grad-reduce-in-bf16").engine,
            "megatron-core-unfused+bf16-gradients");
  EXPECT_EQ(megatron("--attention-backend auto").engine, "megatron-core");
  EXPECT_EQ(key_of(megatron("--attention-backend flash"), "attention_backend").kind, ImportedKey::Kind::read);
  EXPECT_THAT(refusal("megatron-args", request_of(std::string(kFlags) + "--attention-backend fast")),
              HasSubstr("--attention-backend = fast"));
}

// ---- conditions of the shell --------------------------------------------------------------------------------------

std::int64_t condition_of(const std::string& script, const std::string& key) {
  const auto lines = read_flag_lines(script, "x.sh");
  EXPECT_TRUE(lines.ok()) << (lines ? "" : lines.error().message());
  if (lines)
    for (const Setting& flag : lines->flags)
      if (flag.key == key) return flag.condition;
  return -1;
}

TEST(ShellConditions, OfBranchesAndOperators) {
  const std::string branch =
      "if [ \"$USE_FP8\" = 1 ]; then\n  EXTRA=\"--fp8-format hybrid\"\nelse\n  EXTRA=\"--bf16\"\nfi\n--lr 1 $EXTRA\n";
  EXPECT_EQ(condition_of(branch, "fp8_format"), 1);
  EXPECT_EQ(condition_of(branch, "bf16"), 1);
  EXPECT_EQ(condition_of(branch, "lr"), 0);
  EXPECT_EQ(condition_of("x=1\ncase $M in\n  big) A=(--tp 8);;\n  *) A=(--tp 8);;\nesac\ntorchrun --pp 1 ${A[@]}\n", "tp"), 2);
  EXPECT_EQ(condition_of("[ -n \"$X\" ] && E=\"--tp 2\"\n--pp 1\n", "tp"), 1);
  EXPECT_EQ(condition_of("[ -n \"$X\" ] && E=\"--tp 2\"\n--pp 1\n", "pp"), 0);
  EXPECT_EQ(condition_of("[[ $X ]] ||\n  E+=(--tp 2)\n", "tp"), 1);
  EXPECT_EQ(condition_of("grep -q y z && export E='--tp 2'\n", "tp"), 1);
  // A command that merely follows another one always counts as run.
  EXPECT_EQ(condition_of("cd /work && torchrun train.py --tp 2 || exit 1\n", "tp"), 0);
  EXPECT_EQ(condition_of("for i in 1 2; do torchrun --tp 2; done\n", "tp"), 0);
}

TEST(ShellConditions, TestsAndPatternsHoldNoFlags) {
  const std::string parsing =
      "while [ $# -gt 0 ]; do\n  case $1 in\n    --tp) TP=$2; shift;;\n    --debug|--dry-run) D=1;;\n  esac\ndone\n"
      "if [ $1 = --help ]; then exit; elif [ $1 == --version ]; then exit; fi\n--pp 2 --tp $TP\n";
  EXPECT_EQ(condition_of(parsing, "tp"), 0);
  for (const char* key : {"debug", "dry_run", "help", "version"}) EXPECT_EQ(condition_of(parsing, key), -1) << key;
  EXPECT_EQ(condition_of("if that is a word of prose\n--tp 2\n", "tp"), 0);  // an unterminated block is not a block
}

TEST(ShellConditions, RefuseWhatTheyWouldChange) {
  const std::string script =
      std::string(kFlags) + "\nif [ $A ]; then\n  E=\"--tensor-model-parallel-size 2 --wandb-project x\"\nfi\n";
  ConfigurationRequest request = request_of(script);
  EXPECT_THAT(refusal("megatron-args", request),
              AllOf(HasSubstr("file:3: found --tensor-model-parallel-size = \"2\" under the condition of line 2"),
                    HasSubstr("--ignore tensor_model_parallel_size")));
  request.ignored = {"tensor_model_parallel_size"};
  EXPECT_EQ(read("megatron-args", request).strategy.tp, 1);
  // There are two values, one per branch, and neither is taken.
  request =
      request_of(std::string(kFlags) +
                 "\nif [ $A ]; then\nT='--pipeline-model-parallel-size 2'\nelse\nT='--pipeline-model-parallel-size 4'\nfi\n");
  EXPECT_THAT(refusal("megatron-args", request), HasSubstr("under the condition of line 2"));
  request = request_of(std::string(kFlags) + "\n[ $A ] && TP=2\n--tensor-model-parallel-size $TP\n");
  EXPECT_THAT(refusal("megatron-args", request), HasSubstr("\"$TP\""));
}

TEST(FlagLines, VariablesBehindValuesEndThem) {
  const auto unknown = read_flag_lines("--num-query-groups 8 $EXTRA\n--lr 1 \"${MORE}\" | tee x\n", "x.sh");
  ASSERT_TRUE(unknown.ok());
  EXPECT_EQ(unknown->flags[0].value, "8");
  EXPECT_EQ(unknown->flags[1].value, "1");
  ASSERT_EQ(unknown->variables.size(), 2u);
  EXPECT_EQ(unknown->variables[0].key, "$EXTRA");
  EXPECT_EQ(unknown->variables[0].kind, ImportedKey::Kind::not_understood);
  EXPECT_THAT(unknown->variables[0].meaning, HasSubstr("not assigned in the file"));
  const auto known =
      read_flag_lines("EXTRA=\"--sequence-parallel\"\nNONE=\"\"\n--num-query-groups 8 $EXTRA\n--tp 2 $NONE\n", "x.sh");
  ASSERT_TRUE(known.ok());
  ASSERT_EQ(known->flags.size(), 3u);
  EXPECT_EQ(known->flags[0].key, "sequence_parallel");
  EXPECT_EQ(known->flags[1].value, "8");
  EXPECT_EQ(known->flags[2].value, "2");
  EXPECT_TRUE(known->variables.empty());
}

// ---- stages of torchtitan -----------------------------------------------------------------------------------------

TEST(TitanBlocks, EarlierStagesHaveOneMore) {
  // 12 + 1 + 1 = 14 over 4 stages is 3, and one more for the first two; then both ends have one less.
  EXPECT_THAT(titan_blocks(12, 4, 1, 1), ElementsAre(3, 4, 3, 2));
  EXPECT_THAT(titan_blocks(12, 4, 0, 0), ElementsAre(3, 3, 3, 3));
  EXPECT_THAT(titan_blocks(12, 2, 3, 1), ElementsAre(5, 7));
  EXPECT_TRUE(titan_blocks(12, 4, 10, 1).empty());  // 23 / 4 = 5 layers, less than the 10 that the first would lack
}

/// Returns a cluster of 16 devices with hosts, as a file.
std::string cluster_path() {
  const std::string path = testing::TempDir() + "import_choices_cluster.yaml";
  std::ofstream(path) << "{nodes: 2, devices_per_node: 8, device: a100-sxm-80gb, host: {memory: 2TB, memory_bandwidth: 400GB/s, "
                         "bandwidth: 25GB/s}}\n";
  return path;
}

/// Returns a model of twelve blocks that torchtitan has, as a file.
std::string llama_path() {
  const std::string path = testing::TempDir() + "import_choices_llama.json";
  std::ofstream(path) << R"({"model_type": "llama", "hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12,
    "num_attention_heads": 12, "num_key_value_heads": 12, "vocab_size": 50304, "max_position_embeddings": 4096})";
  return path;
}

TEST(Inputs, AnErrorAboutAnOverrideNamesIt) {
  const auto none = devices_of({"", cluster_path(), {"cluster.nodes=0"}});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().where, "--set cluster.nodes=0");
  EXPECT_EQ(*devices_of({"", cluster_path(), {"cluster.nodes=3", "training.tokens=1"}}), 24);
}

/// Checks that the format's own export of the configuration is imported unchanged.
void comes_back(const std::string& engine, const std::string& exporter, const char* importer, const Strategy& s,
                const Schedule& schedule) {
  const std::string model = engine == "torchtitan" ? llama_path() : std::string(ESPALIER_SOURCE_DIR) + "/models/gpt2/config.json";
  const auto job = load_job("model: " + model + "\ncluster: " + cluster_path() + "\nengine: " + engine +
                                "\ntraining: {sequence_length: 1024, global_batch: 64, precision: bf16}\n",
                            "test", ".", {});
  ASSERT_TRUE(job) << job.error().message();
  const auto planned = estimate(*job, s, schedule);
  ASSERT_TRUE(planned) << planned.error().message();
  const auto text = find_exporter(exporter)->write({&*job, &planned->plan});
  ASSERT_TRUE(text) << text.error().message();
  ConfigurationRequest request{"file", *text, 16, {}, {}, {}, {}, "", nullptr};
  if (std::string(importer) == "deepspeed") request.sequence_length = 1024;
  const auto read = find_configuration_format(importer)->read(request);
  ASSERT_TRUE(read) << read.error().message() << *text;
  const bool holds_model = !read->model.empty();
  const auto again = job_of(*read, {holds_model ? "" : model, cluster_path(), {}});
  ASSERT_TRUE(again) << again.error().message();
  const auto plan = plan_of(*again, *read);
  ASSERT_TRUE(plan) << plan.error().message();
  EXPECT_EQ(plan->label(), planned->plan.label()) << *text;
  EXPECT_EQ(plan->pipelines, planned->plan.pipelines) << *text;
}

Strategy sharded(std::int32_t dp, ZeroStage zero, RecomputeKind recompute) {
  Strategy s;
  s.dp = dp;
  s.zero = zero;
  s.shard = zero == ZeroStage::none ? 1 : dp;
  s.recompute = {recompute, recompute == RecomputeKind::full ? 12 : 0, {}};
  s.overlap.grad_reduce = true;
  s.overlap.param_gather = shards_optimizer(zero);
  return s;
}

TEST(ComesBack, TorchtitanWithItsRecomputation) {
  for (const RecomputeKind kind : {RecomputeKind::none, RecomputeKind::selective, RecomputeKind::full})
    comes_back("torchtitan", "torchtitan", "torchtitan", sharded(16, ZeroStage::parameters, kind),
               {ScheduleKind::one_f_one_b, 1, 1, 4, 1});
}

// Each selection comes back as itself: the engine's selective recomputation, attention alone, and both.
TEST(ComesBack, ModulesOfMegatron) {
  using enum RecomputeModule;
  for (const RecomputeModules modules : {RecomputeModules{}, RecomputeModules{core_attn}, RecomputeModules{mlp},
                                         RecomputeModules{core_attn, layernorm}, RecomputeModules{layernorm, mlp}}) {
    Strategy s = sharded(16, ZeroStage::optimizer, RecomputeKind::selective);
    s.recompute.modules = modules;
    comes_back("megatron-core", "megatron-core", "megatron-args", s, {ScheduleKind::one_f_one_b, 1, 1, 4, 1});
    comes_back("megatron-core-unfused", "megatron-core", "megatron-args", s, {ScheduleKind::one_f_one_b, 1, 1, 4, 1});
  }
}

TEST(ComesBack, TorchtitanWithItsStages) {
  Strategy s = sharded(4, ZeroStage::gradients, RecomputeKind::none);
  s.overlap.p2p = true;
  comes_back("torchtitan", "torchtitan", "torchtitan", s, {ScheduleKind::one_f_one_b, 4, 1, 16, 1});
  comes_back("torchtitan", "torchtitan", "torchtitan", s, {ScheduleKind::interleaved, 4, 2, 16, 1});
}

TEST(ComesBack, OffloadOfActivations) {
  Strategy s = sharded(16, ZeroStage::optimizer, RecomputeKind::none);
  s.offload = Offload::activations;
  comes_back("megatron-core", "megatron-core", "megatron-args", s, {ScheduleKind::one_f_one_b, 1, 1, 4, 1});
  s.offload = Offload::optimizer_activations;
  comes_back("megatron-core", "megatron-core", "megatron-args", s, {ScheduleKind::one_f_one_b, 1, 1, 4, 1});
}

TEST(ComesBack, OffloadOfParameters) {
  Strategy s = sharded(16, ZeroStage::parameters, RecomputeKind::none);
  s.offload = Offload::parameters;
  comes_back("deepspeed", "deepspeed", "deepspeed", s, {ScheduleKind::one_f_one_b, 1, 1, 4, 1});
  comes_back("torchtitan", "torchtitan", "torchtitan", s, {ScheduleKind::one_f_one_b, 1, 1, 4, 1});
}

TEST(ComesBack, OffloadOfTheOptimizer) {
  Strategy s = sharded(16, ZeroStage::optimizer, RecomputeKind::none);
  s.offload = Offload::optimizer;
  comes_back("megatron-core", "megatron-core", "megatron-args", s, {ScheduleKind::one_f_one_b, 1, 1, 4, 1});
  s.zero = ZeroStage::gradients;
  s.overlap.param_gather = false;  // DeepSpeed gathers parameters after the step below stage 3
  comes_back("deepspeed", "deepspeed", "deepspeed", s, {ScheduleKind::one_f_one_b, 1, 1, 4, 1});
}

TEST(TorchtitanImport, StagesFollowTheWeightsOfTheEnds) {
  const std::string model = llama_path();  // 12 blocks
  const auto blocks = [&](const std::string& weights, const char* recompute = "none") {
    const ConfigurationRequest request{
        "file", "--training.seq_len 1024 --parallelism.pipeline_parallel_degree 4 " + weights, 16, {}, {}, {}, {}, recompute,
        nullptr};
    const auto read = find_configuration_format("torchtitan")->read(request);
    const auto job = job_of(*read, {model, cluster_path(), {}});
    const auto plan = plan_of(*job, *read);
    std::vector<std::int32_t> out;
    if (!plan) return out;
    for (const Stage& stage : plan->only_pipeline().stages)
      out.push_back(stage.chunks.front().last() - stage.chunks.front().first() + 1);
    return out;
  };
  EXPECT_THAT(blocks("--parallelism.pipeline_parallel_first_stage_less_layers 1"),
              ElementsAre(4, 4, 3, 3));  // 3, 4, 3, 2 and the ends' layers
  EXPECT_THAT(blocks("--parallelism.pipeline_parallel_first_stage_less_layers 2"), ElementsAre(3, 4, 4, 3));
  EXPECT_TRUE(blocks("--parallelism.pipeline_parallel_first_stage_less_layers 10").empty());
  // 12 + 4 + 1 = 17 gives 5, 4, 4, 4 before the first has 4 and the last 1 less. That exceeds the 3 of even stages.
  EXPECT_THAT(blocks("--parallelism.pipeline_parallel_first_stage_less_layers 4", "full"), ElementsAre(2, 4, 4, 4));
  // With 1, 4, 4, 3 blocks, every second one of the fullest stage makes 2, which the first stage does not have.
  EXPECT_TRUE(
      blocks("--parallelism.pipeline_parallel_first_stage_less_layers 4 --activation_checkpoint.selective_ac_option 2", "")
          .empty());
  EXPECT_THAT(
      blocks("--activation_checkpoint.selective_ac_option 4 --parallelism.pipeline_parallel_first_stage_less_layers 1", ""),
      ElementsAre(4, 4, 3, 3));
}

TEST(Variables, DefaultsOfTheScriptAreTakenAndListed) {
  const auto lines =
      read_flag_lines("PP=${PP:-2}\nTP=4\nrun --pp $PP --tp ${TP:-8} --cp ${CP:-1} --dp ${DP:-$N} --ep ${EP:+3}", "x.sh");
  ASSERT_TRUE(lines.ok()) << lines.error().message();
  const auto value = [&](const char* key) {
    for (const Setting& flag : lines->flags)
      if (flag.key == key) return flag.value;
    return std::string();
  };
  EXPECT_EQ(value("pp"), "2");
  EXPECT_EQ(value("tp"), "4");  // assigned
  EXPECT_EQ(value("cp"), "1");
  EXPECT_EQ(value("dp"), "${DP:-$N}");
  EXPECT_EQ(value("ep"), "${EP:+3}");
  ASSERT_EQ(lines->variables.size(), 3U);
  EXPECT_EQ(lines->variables[0].key, "$PP");
  EXPECT_EQ(lines->variables[0].kind, ImportedKey::Kind::defaulted);
  EXPECT_EQ(lines->variables[1].kind, ImportedKey::Kind::read);
  EXPECT_EQ(lines->variables[2].line, 3);
}

TEST(Missing, IsNamedAllAtOnce) {
  ConfigurationRequest request = request_of("{\"bf16\": {\"enabled\": true}}");
  request.micro_batch.reset();
  request.sequence_length.reset();
  EXPECT_THAT(refusal("deepspeed", request),
              AllOf(HasSubstr("no micro-batch and no sequence length"), HasSubstr("--micro-batch N --sequence-length N")));
}

// A dump prints the value that a flag set, so both agree. Where both activations are set, the one that the model has
// counts.
TEST(Fusions, FlagsAndDumpsSayTheSame) {
  const std::string head = "---- arguments ----\n", tail = "---- end of arguments ----\n";
  const std::string sound =
      "  num_layers ..... 8\n  hidden_size ..... 64\n  num_attention_heads ..... 4\n  seq_length ..... 64\n"
      "  micro_batch_size ..... 1\n  padded_vocab_size ..... 1024\n  world_size ..... 8\n";
  const auto kind = [&](const std::string& more, const char* key) {
    return key_of(read("megatron-args", request_of(head + sound + more + tail)), key).kind;
  };
  const auto kNot = ImportedKey::Kind::not_modelled, kNone = ImportedKey::Kind::without_effect;
  EXPECT_EQ(key_of(megatron("--no-bias-gelu-fusion"), "bias_gelu_fusion").kind,
            kind("  bias_gelu_fusion ..... False\n", "bias_gelu_fusion"));
  EXPECT_EQ(kind("  bias_gelu_fusion ..... False\n", "bias_gelu_fusion"), kNot);
  EXPECT_EQ(kind("  bias_gelu_fusion ..... True\n", "bias_gelu_fusion"), kNone);
  EXPECT_EQ(kind("  bias_swiglu_fusion ..... False\n", "bias_swiglu_fusion"), kNone);  // the model uses GELU
  EXPECT_EQ(kind("  swiglu ..... True\n  bias_swiglu_fusion ..... False\n", "bias_swiglu_fusion"), kNot);
  EXPECT_EQ(kind("  add_bias_linear ..... False\n  bias_gelu_fusion ..... False\n", "bias_gelu_fusion"), kNone);
  EXPECT_EQ(key_of(megatron("--no-masked-softmax-fusion"), "masked_softmax_fusion").kind, kNot);
}

TEST(Offload, OfEachFormat) {
  EXPECT_EQ(
      megatron(
          "--use-distributed-optimizer --use-precision-aware-optimizer --optimizer-cpu-offload --overlap-cpu-optimizer-d2h-h2d")
          .strategy.offload,
      Offload::optimizer);
  EXPECT_EQ(key_of(megatron("--use-distributed-optimizer --use-precision-aware-optimizer --optimizer-cpu-offload"),
                   "overlap_cpu_optimizer_d2h_h2d")
                .kind,
            ImportedKey::Kind::defaulted);
  EXPECT_THAT(refusal("megatron-args",
                      request_of(std::string(kFlags) +
                                 "--use-precision-aware-optimizer --optimizer-cpu-offload --optimizer-offload-fraction 0.5")),
              HasSubstr("--optimizer-offload-fraction = 0.5"));
  const auto device = [](const char* name) {
    return request_of(
        std::string(
            "{\"bf16\": {\"enabled\": true}, \"zero_optimization\": {\"stage\": 2, \"offload_optimizer\": {\"device\": \"") +
        name + "\"}}}");
  };
  EXPECT_EQ(read("deepspeed", device("cpu")).strategy.offload, Offload::optimizer);
  EXPECT_EQ(read("deepspeed", device("none")).strategy.offload, Offload::none);
  EXPECT_THAT(refusal("deepspeed", device("nvme")), HasSubstr("on disk"));
  EXPECT_EQ(read("accelerate",
                 request_of("distributed_type: DEEPSPEED\nmixed_precision: bf16\n"
                            "deepspeed_config: {zero_stage: 2, offload_optimizer_device: cpu, offload_param_device: none}\n"))
                .strategy.offload,
            Offload::optimizer);
  EXPECT_EQ(read("accelerate", request_of("distributed_type: FSDP\nfsdp_config: {fsdp_offload_params: true}\n")).strategy.offload,
            Offload::parameters);
  EXPECT_EQ(read("torchtitan", request_of("--training.seq_len 64 --training.local_batch_size 1 --training.enable_cpu_offload"))
                .strategy.offload,
            Offload::parameters);
  const auto zero_3 = [](const char* more) {
    return request_of(std::string(R"({"bf16": {"enabled": true}, "zero_optimization": {"stage": 3, )") + more);
  };
  EXPECT_EQ(read("deepspeed", zero_3(R"("offload_optimizer": {"device": "cpu"}, "offload_param": {"device": "cpu"}}})"))
                .strategy.offload,
            Offload::parameters);
  EXPECT_EQ(read("deepspeed", zero_3(R"("offload_optimizer": {"device": "cpu"}, "offload_param": {"device": "cpu"}},
                                        "activation_checkpointing": {"cpu_checkpointing": true}})"))
                .strategy.offload,
            Offload::parameters_activations);
  EXPECT_EQ(read("deepspeed", zero_3(R"("overlap_comm": true}, "activation_checkpointing": {"cpu_checkpointing": true}})"))
                .strategy.offload,
            Offload::activations);
}

// ---- clusters -----------------------------------------------------------------------------------------------------

std::string cluster_refusal(const char* format, const std::string& text, const char* device, double oversubscription = 1) {
  const auto out = find_cluster_format(format)->read({"file", text, device, {}, {}, {}, oversubscription, ""});
  return out ? "accepted" : out.error().message();
}

TEST(ClusterImports, FiguresThatCannotBeAreRefused) {
  EXPECT_THAT(cluster_refusal("slurm-hosts", "SLURM_JOB_NODELIST=n[1-4]\nSLURM_NNODES=abc\n", "h100-sxm-80gb"),
              HasSubstr("file:2: found SLURM_NNODES=abc"));
  const std::string topology = "SwitchName=s0 Nodes=n[0-3]\nSwitchName=s1 Nodes=n[4-7]\nSwitchName=s2 Switches=s[0-1]\n";
  for (const double bad : {0.5, -1.0, 1e300, std::nan("")})
    EXPECT_THAT(cluster_refusal("slurm-topology", topology, "h100-sxm-80gb", bad), HasSubstr("a number from 1 to 1000")) << bad;
  EXPECT_EQ(cluster_refusal("slurm-topology", topology, "h100-sxm-80gb", 2), "accepted");
  // An H100 has 18 NVLinks, a V100 has 6.
  const std::string matrix = "GPU0 GPU1\nGPU0 X NV18\nGPU1 NV18 X\n";
  EXPECT_THAT(cluster_refusal("nvidia-smi-topo", matrix, "v100-sxm-32gb"),
              HasSubstr("found 18 NVLinks of a device; expected at most 6"));
  EXPECT_EQ(cluster_refusal("nvidia-smi-topo", matrix, "h100-sxm-80gb"), "accepted");
}

}  // namespace
}  // namespace espalier::exchange::import_choices_test
