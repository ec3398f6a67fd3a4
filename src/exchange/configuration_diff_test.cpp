// SPDX-License-Identifier: Apache-2.0
// Tests diffs in the user's own file: a launch script with a variable, TOML and JSON. Each edited file is read again
// and gives the wanted plan.
#include "espalier/configuration_diff.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "espalier/configuration.h"
#include "espalier/planner.h"
#include "exchange/file_edits.h"

namespace espalier::exchange {
namespace {

using testing::HasSubstr;
using testing::Not;

const std::string kScript = R"(#!/bin/bash
TP=4   # of a node
ARGS=(
  --num-layers 8 --hidden-size 1024 --num-attention-heads 16
  --tensor-model-parallel-size $TP
  --sequence-parallel
  --micro-batch-size=1
  --bf16 \
  --overlap-grad-reduce
)
)";

TEST(FlagEdits, ValuesSwitchesAndVariables) {
  const EditedFile out = edit_flags(kScript,
                                    {{"--tensor-model-parallel-size", "4", "1"},
                                     {"--sequence-parallel", "on", ""},
                                     {"--micro-batch-size", "1", "2"},
                                     {"--overlap-grad-reduce", "on", ""},
                                     {"--use-distributed-optimizer", "", "on"},
                                     {"--pipeline-model-parallel-size", "", "2"}},
                                    {"--tensor-model-parallel-size"});
  EXPECT_EQ(out.text, R"(#!/bin/bash
TP=1   # of a node
ARGS=(
  --num-layers 8 --hidden-size 1024 --num-attention-heads 16
  --tensor-model-parallel-size $TP --use-distributed-optimizer --pipeline-model-parallel-size 2
  --micro-batch-size=2
  --bf16
)
)");
  ASSERT_EQ(out.edits.size(), 6u);
  EXPECT_EQ(out.edits[0], (ConfigurationEdit{"TP", "4", "1", 2}));
  EXPECT_EQ(out.edits[1], (ConfigurationEdit{"--sequence-parallel", "on", "", 6}));
  EXPECT_EQ(out.edits[2], (ConfigurationEdit{"--micro-batch-size", "1", "2", 7}));
  EXPECT_EQ(out.edits[5], (ConfigurationEdit{"--pipeline-model-parallel-size", "", "2", 0}));
}

// A variable that is assigned twice stays unchanged, and the flag itself gets the value.
TEST(FlagEdits, AVariableOfTwoValuesStays) {
  const EditedFile out =
      edit_flags("TP=1\nTP=2\nrun --tensor_model_parallel_size ${TP}\n", {{"--tensor-model-parallel-size", "2", "8"}});
  EXPECT_EQ(out.text, "TP=1\nTP=2\nrun --tensor_model_parallel_size 8\n");
  EXPECT_EQ(out.edits.front().key, "--tensor_model_parallel_size");
}

// A value that the shell would split is quoted, but not inside a string that is split later. Quotes around a value
// stay; a list in quotes is replaced whole.
TEST(FlagEdits, Quotes) {
  const std::vector<WantedValue> layout = {{"--layout", "", "Et|t*2|tL"}};
  EXPECT_EQ(edit_flags("A=(\n  --tp 2 # don't\n)\n", layout, {"--tp"}).text, "A=(\n  --tp 2 --layout 'Et|t*2|tL' # don't\n)\n");
  EXPECT_EQ(edit_flags("A=\"--pp 4 \\\n --tp 2\"\n", layout, {"--tp"}).text, "A=\"--pp 4 \\\n --tp 2 --layout Et|t*2|tL\"\n");
  EXPECT_EQ(edit_flags("run --layout \"E|t\" --tp 2\n", layout).text, "run --layout \"Et|t*2|tL\" --tp 2\n");
  EXPECT_EQ(edit_flags("run --layout=E --tp 2\n", layout).text, "run --layout='Et|t*2|tL' --tp 2\n");
  EXPECT_EQ(edit_flags("run --layout 'E|t' --tp 2\n", {{"--layout", "E|t", ""}}).text, "run --tp 2\n");
  const std::vector<WantedValue> modules = {{"--modules", "mlp moe", "layernorm moe_act", WantedValue::Words::several}};
  EXPECT_EQ(edit_flags("run --modules mlp moe --tp 2\n", modules).text, "run --modules layernorm moe_act --tp 2\n");
  EXPECT_EQ(edit_flags("run --tp 2\n", modules, {"--tp"}).text, "run --tp 2 --modules layernorm moe_act\n");
  EXPECT_EQ(edit_flags("run --modules mlp moe\n", {{"--modules", "mlp moe", "", WantedValue::Words::several}}).text, "run\n");
  EXPECT_EQ(edit_flags("run --modules mlp $MORE\n", modules).text, "run --modules layernorm moe_act $MORE\n");
}

// A switch has no value, so that the following word stays. Lines that held nothing else are removed, together with
// their line continuation.
TEST(FlagEdits, WordsThatAreNoValues) {
  const std::vector<WantedValue> gone = {{"--sp", "on", "", WantedValue::Words::none},
                                         {"--modules", "mlp", "", WantedValue::Words::several}};
  EXPECT_EQ(edit_flags("run --sp $DATA_ARGS\n", gone).text, "run $DATA_ARGS\n");
  EXPECT_EQ(edit_flags("run --tp 4 --sp \"${A[@]}\"\n", gone).text, "run --tp 4 \"${A[@]}\"\n");
  EXPECT_EQ(edit_flags("run --sp && echo ok\n", gone).text, "run && echo ok\n");
  EXPECT_EQ(edit_flags("A+=(\"--sp\")\n", gone).text, "A+=()\n");
  EXPECT_EQ(edit_flags("run --save /ckpt \\\n  --modules mlp \\\n  moe \\\n  --sp\nrm -rf /tmp/x\n", gone).text,
            "run --save /ckpt\nrm -rf /tmp/x\n");
  const std::vector<WantedValue> one = {{"--tp", "4", "1"}};
  EXPECT_EQ(edit_flags("run --tp $((GPUS/2)) --x\n", one).text, "run --tp 1 --x\n");
  EXPECT_EQ(edit_flags("if a; then run --tp 4;fi\n", one).text, "if a; then run --tp 1;fi\n");
  EXPECT_EQ(edit_flags("A=(\"--tp=4\" \"--tp\")\n", one).text, "A=(\"--tp=1\" \"--tp\")\n");
  EXPECT_EQ(edit_flags("A=(--tp=\"$N\")\nN=2\n", one).text, "A=(--tp=\"$N\")\nN=1\n");
  EXPECT_EQ(edit_flags("A=(\"--tp\" \"4\")\n", {{"--tp", "4", "1"}, {"--pp", "", "2"}}, {"--tp"}).text,
            "A=(\"--tp\" \"1\" --pp 2)\n");
  EXPECT_EQ(edit_flags("run --x 1 activation-checkpoint:full\n", {{"--activation_checkpoint.mode", "full", "none"}}).text,
            "run --x 1 activation-checkpoint:none\n");
  const std::vector<WantedValue> recompute = {{"--activation_checkpoint.mode", "selective", "none"}};
  EXPECT_EQ(edit_flags("run --x 1\nnext\n", recompute).text, "run --x 1 activation-checkpoint:none\nnext\n");
  EXPECT_EQ(edit_flags("run --x 1 \"$@\"\n", recompute).text, "run --x 1 \"$@\"\n");
  EXPECT_EQ(edit_flags("run --x 1 \"$@\"\n", recompute).edits.size(), 1U);
  EXPECT_EQ(edit_flags("run --tp \\\n  4\n", one).text, "run --tp \\\n  1\n");
  EXPECT_EQ(edit_flags("run --modules \"mlp\"\n", {{"--modules", "mlp", "layernorm moe", WantedValue::Words::several}}).text,
            "run --modules layernorm moe\n");
  EXPECT_EQ(edit_flags("run --modules \"core_attn\" \"moe\" --save x\n", gone).text, "run --save x\n");
  // Two flags share a variable: the second gets a literal value.
  EXPECT_EQ(edit_flags("N=4\nrun --tp $N --pp $N\n", {{"--tp", "4", "1"}, {"--pp", "4", "2"}}).text, "N=1\nrun --tp $N --pp 2\n");
}

// Without an anchor, new flags appear only as edits.
TEST(FlagEdits, NoAnchor) {
  const EditedFile out = edit_flags("run --tp 2\n", {{"--pp", "", "2"}}, {"--dp"});
  EXPECT_EQ(out.text, "run --tp 2\n");
  EXPECT_EQ(out.edits, (std::vector<ConfigurationEdit>{{"--pp", "", "2", 0}}));
}

// For any text, an empty request changes nothing, and a flag is gone where its removal is listed.
TEST(FlagEdits, OfAnyText) {
  EXPECT_TRUE(rc::check("edits are as listed", [] {
    const auto pieces = *rc::gen::container<std::vector<std::string>>(
        rc::gen::element<std::string>("--tp", "--pp", "--layout", " ", "=", "\"", "'", "\\", "\n", "#", "$TP", "${TP}", "TP=4\n",
                                      "2", "E|t", "A=(", ")", "\t", "run"));
    std::string text;
    for (const std::string& piece : pieces) text += piece;
    RC_ASSERT(edit_flags(text, {}).text == text);
    const std::vector<WantedValue> wanted = {{"--tp", "", "8"}, {"--layout", "", "Et|tL"}, {"--pp", "2", ""}};
    const EditedFile once = edit_flags(text, {wanted[0], wanted[1]}, {"--pp", "--tp"});
    RC_ASSERT(once.edits.size() <= 2);
    const EditedFile without = edit_flags(once.text, {wanted[2]});
    RC_ASSERT(without.edits.empty() == (without.text == once.text));
  }));
}

TEST(TableEdits, TomlKeepsCommentsAndOrder) {
  const std::string text = "[parallelism]\ntensor_parallel_degree = 1  # none\nold = 3\n\n[training]\nseq_len = 8192\n";
  const EditedFile out =
      edit_table(text, true, {{"parallelism.tensor_parallel_degree", 2}, {"parallelism.old", 3}, {"training.seq_len", 6}},
                 {{"parallelism.tensor_parallel_degree", "1", "8"},
                  {"parallelism.old", "3", ""},
                  {"parallelism.pipeline_parallel_schedule", "", "1F1B"},
                  {"activation_checkpoint.mode", "", "full"}});
  EXPECT_EQ(
      out.text,
      "[parallelism]\ntensor_parallel_degree = 8  # none\npipeline_parallel_schedule = \"1F1B\"\n\n[training]\nseq_len = 8192\n"
      "[activation_checkpoint]\nmode = \"full\"\n");
}

TEST(TableEdits, YamlAndJson) {
  const EditedFile yaml = edit_table("fsdp_config:\n  fsdp_version: 2\n", false, {{"fsdp_config.fsdp_version", 2}},
                                     {{"fsdp_config.fsdp_offload_params", "", "True"}});
  EXPECT_EQ(yaml.text, "fsdp_config:\n  fsdp_version: 2\n  fsdp_offload_params: true\n");
  const auto json = edit_json(R"({"a": {"b": 1}, "c": "x"})", "f", {{"a.b", "1", "2"}, {"c", "x", ""}, {"d.e", "", "True"}});
  ASSERT_TRUE(json.ok());
  EXPECT_THAT(json->text, HasSubstr("\"b\": 2"));
  EXPECT_THAT(json->text, HasSubstr("\"e\": true"));
  EXPECT_THAT(json->text, Not(HasSubstr("\"c\"")));
}

const std::string kJob =
    R"({model: {model_type: llama, hidden_size: 1024, intermediate_size: 2816, num_hidden_layers: 8, num_attention_heads: 16, vocab_size: 32000},
        cluster: {nodes: 1, devices_per_node: 8, device: a100-sxm-40gb}, training: {sequence_length: 1024, global_batch: 16}, engine: )";

struct Changed {
  ConfigurationDiff diff;
  Plan wanted;
};

/// Returns the diff from the file's plan to (tp, pp, vpp) with full recomputation.
Changed changed(const std::string& format, const std::string& engine, const std::string& text, std::int32_t tp, std::int32_t pp,
                std::int32_t vpp, ZeroStage zero) {
  const auto job = load_job(kJob + engine + "}", "job", "", {});
  EXPECT_TRUE(job.ok()) << job.error().message();
  ConfigurationRequest request;
  request.name = "file";
  request.text = text;
  request.devices = 8;
  if (format == "deepspeed") {
    request.sequence_length = 1024;
    request.recompute = "none";
  }
  const auto configuration = find_configuration_format(format)->read(request);
  EXPECT_TRUE(configuration.ok()) << configuration.error().message();
  const auto present = plan_of(*job, *configuration);
  EXPECT_TRUE(present.ok()) << present.error().message();
  Strategy s = present->strategy();
  Schedule c = present->only_pipeline().schedule;
  s.tp = tp;
  s.sp = tp > 1 ? SequenceParallel::megatron : SequenceParallel::none;
  s.dp = s.shard = 0;
  s.zero = zero;
  s.recompute = {RecomputeKind::full, 0};
  s.overlap = {};
  s.overlap.p2p = vpp > 1;
  s.overlap.grad_reduce = format == "deepspeed" || format == "torchtitan";
  s.overlap.param_gather = s.overlap.grad_reduce && shards_optimizer(zero);
  c.stages = pp;
  c.virtual_stages = vpp;
  c.kind = vpp > 1 ? ScheduleKind::interleaved : ScheduleKind::one_f_one_b;
  c.microbatches = 0;
  complete_configuration(*job, s, c);
  const auto wanted = estimate(*job, s, c);
  EXPECT_TRUE(wanted.ok()) << wanted.error().message();
  const auto diff = configuration_diff(request, format, *job, &*present, wanted->plan);
  EXPECT_TRUE(diff.ok()) << diff.error().message();
  return {*diff, wanted->plan};
}

TEST(ConfigurationDiff, AMegatronScriptIsReadAgainAsTheWantedPlan) {
  const std::string script =
      "TP=8\ntorchrun pretrain_gpt.py --tensor-model-parallel-size $TP --sequence-parallel \\\n"
      "  --num-layers 8 --hidden-size 1024 --ffn-hidden-size 2816 --num-attention-heads 16 --swiglu \\\n"
      "  --normalization RMSNorm --seq-length 1024 --max-position-embeddings 1024 --vocab-size 32000 \\\n"
      "  --micro-batch-size 1 --global-batch-size 16 --bf16 --position-embedding-type rope\n";
  const Changed c = changed("megatron-args", "megatron-core", script, 2, 2, 2, ZeroStage::optimizer);
  EXPECT_EQ(c.diff.differs, "") << c.diff.text;
  EXPECT_EQ(c.diff.why, "");
  EXPECT_THAT(c.diff.text, HasSubstr("TP=2\n"));
  const std::string text = to_text(c.diff, "launch.sh");
  EXPECT_THAT(text, HasSubstr("Changes in launch.sh"));
  EXPECT_THAT(text, HasSubstr("TP 8 -> 2"));
  EXPECT_THAT(text, HasSubstr("--recompute-granularity full"));
}

TEST(ConfigurationDiff, TorchtitanAndDeepSpeed) {
  const Changed toml =
      changed("torchtitan", "torchtitan",
              "[training]\nlocal_batch_size = 1\nglobal_batch_size = 16\nseq_len = 1024\n[activation_checkpoint]\nmode = "
              "\"none\"\n[parallelism]\ntensor_parallel_degree = 1\n",
              2, 1, 1, ZeroStage::parameters);
  EXPECT_EQ(toml.diff.differs, "") << toml.diff.text;
  EXPECT_THAT(toml.diff.text, HasSubstr("mode = \"full\""));
  // Without a global batch it is 8 ranks times the local batch. With fewer data ranks the file has to state it.
  const Changed derived = changed("torchtitan", "torchtitan",
                                  "[training]\nlocal_batch_size = 2\nseq_len = 1024\n[activation_checkpoint]\nmode = \"none\"\n"
                                  "[parallelism]\ntensor_parallel_degree = 1\n",
                                  2, 1, 1, ZeroStage::parameters);
  EXPECT_EQ(derived.diff.differs, "") << derived.diff.text;
  EXPECT_THAT(derived.diff.text, HasSubstr("global_batch_size = 16"));
  const Changed json = changed(
      "deepspeed", "deepspeed",
      R"({"train_micro_batch_size_per_gpu": 1, "train_batch_size": 16, "bf16": {"enabled": true}, "zero_optimization": {"stage": 1}})",
      1, 1, 1, ZeroStage::parameters);
  EXPECT_EQ(json.diff.differs, "") << json.diff.text;
  EXPECT_THAT(to_text(json.diff, "ds.json"), HasSubstr("zero_optimization.stage 1 -> 3"));
  EXPECT_THAT(to_text(json.diff, "ds.json"), HasSubstr("training script: recompute none -> full"));
}

}  // namespace
}  // namespace espalier::exchange
