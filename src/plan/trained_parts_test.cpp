// SPDX-License-Identifier: Apache-2.0
// Tests adapters: a pair on a linear of in -> out features has r·(in + out) weights. In Llama 3 8B with r = 16, q and
// o have 16·(4096 + 4096), k and v 16·(4096 + 1024), gate, up and down 16·(4096 + 14336). That is 1,310,720 per block
// and 41,943,040 in 32 blocks, the count of PEFT for all-linear.
#include <gmock/gmock.h>

#include "data/source_dir.h"
#include "espalier/plan.h"

namespace espalier::plan_test::trained_parts_test {
namespace {

Model llama() { return load_model_file(ESPALIER_SOURCE_DIR "/models/llama-3-8b/config.json").value(); }

Training adapters(std::vector<std::string> targets, std::int32_t rank = 16) {
  Training t;
  t.sequence.main = 2048;
  t.adapter.rank = rank;
  t.adapter.targets = std::move(targets);
  return t;
}

std::int64_t trained(const Training& t) {
  Model model = llama();
  EXPECT_TRUE(mark_trained(model, t, "training").ok());
  return trained_parameter_count(model);
}

std::string refusal(const Training& t) {
  Model model = llama();
  const Status status = mark_trained(model, t, "training");
  return !status.ok() ? status.error().where + ": " + status.error().found : "";
}

TEST(TrainedParts, AllOfAModelUnlessATrainingSaysOtherwise) {
  Model model = llama();
  const Model before = model;
  EXPECT_TRUE(mark_trained(model, Training{}, "training").ok());
  EXPECT_EQ(model, before);
  EXPECT_EQ(trained_parameter_count(model), parameter_count(model));
}

TEST(TrainedParts, PairsAsPeftCountsThem) {
  EXPECT_EQ(trained(adapters({"all-linear"})), 41'943'040);
  EXPECT_EQ(trained(adapters({"q_proj", "v_proj"}, 8)), 3'407'872);  // PEFT's default for Llama
  EXPECT_EQ(trained(adapters({"q_proj", "k_proj", "v_proj", "o_proj"})), 13'631'488);
}

// The fused projection has one pair: 16·(4096 + 6144) in each of 32 blocks.
TEST(TrainedParts, OnePairBesideAFusedProjection) {
  EXPECT_EQ(trained(adapters({"attn.qkv"})), 32 * 16 * (4096 + 6144));
  EXPECT_EQ(trained(adapters({"linear_qkv"})), trained(adapters({"attn.qkv"})));
  EXPECT_LT(trained(adapters({"attn.qkv"})), trained(adapters({"q_proj", "k_proj", "v_proj"})));
}

/// Returns two experts of width 12 and a shared one of width 20 in each of two blocks of width 16.
Model mixture() {
  return load_model(R"({"model_type": "qwen2_moe", "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2,
    "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 32, "num_experts": 2, "num_experts_per_tok": 1,
    "moe_intermediate_size": 12, "shared_expert_intermediate_size": 20})",
                    "test")
      .value();
}

// Shared experts have the MLP's names: gate, up and down 4·(16 + 20) each in two blocks. Routed ones take no
// adapters: names that Megatron also uses for them, and names of theirs alone, are rejected.
TEST(TrainedParts, SharedExpertsTakeAdaptersRoutedOnesDoNot) {
  Model model = mixture();
  EXPECT_TRUE(mark_trained(model, adapters({"gate_proj", "up_proj", "down_proj"}, 4), "training").ok());
  EXPECT_EQ(trained_parameter_count(model), 2 * 3 * 4 * (16 + 20));
  for (const char* word : {"linear_fc1", "linear_fc2", "mlp.expert_gate_up", "mlp.expert_down"}) {
    Model again = mixture();
    const Status status = mark_trained(again, adapters({word}), "training");
    ASSERT_FALSE(status.ok()) << word;
    EXPECT_THAT(status.error().hint, testing::HasSubstr("routed experts")) << word;
  }
}

// A layer whose keys are also values has no v_proj: 2·(16 + 16) for q, 2·(16 + 8) for k in the second block, and
// 2·(16 + 8) for v only in the first.
TEST(TrainedParts, KeysThatAreValuesHaveNoProjectionOfValues) {
  const Model gemma =
      load_model(R"({"model_type": "gemma4_text", "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2,
    "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 8, "global_head_dim": 8, "attention_k_eq_v": true, "vocab_size": 32,
    "hidden_size_per_layer_input": 0, "layer_types": ["sliding_attention", "full_attention"]})",
                 "test")
          .value();
  for (const auto& [words, expected] : std::vector<std::pair<std::vector<std::string>, std::int64_t>>{
           {{"v_proj"}, 2 * (16 + 8)},
           {{"k_proj"}, 2 * 2 * (16 + 8)},
           {{"q_proj", "k_proj", "v_proj"}, 2 * 2 * (16 + 16) + 3 * 2 * (16 + 8)}}) {
    Model model = gemma;
    EXPECT_TRUE(mark_trained(model, adapters(words, 2), "training").ok());
    EXPECT_EQ(trained_parameter_count(model), expected) << words.front();
  }
}

/// Returns a Qwen2.5-VL with two tower blocks and two text blocks.
Model with_images() {
  return load_model(R"({"model_type": "qwen2_5_vl", "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2,
    "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 32, "vision_config": {"depth": 2, "hidden_size": 8,
    "intermediate_size": 10, "num_heads": 2, "patch_size": 2, "fullatt_block_indexes": [0, 1], "out_hidden_size": 16}})",
                    "test")
      .value();
}

/// Returns a model with an additional audio tower: neither tower reads the output of the other.
Model with_images_and_sound() {
  return load_model(R"({"model_type": "qwen2_5_omni_thinker", "text_config": {"hidden_size": 16, "intermediate_size": 24,
    "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 32}, "vision_config": {"depth": 1,
    "hidden_size": 8, "intermediate_size": 10, "num_heads": 2, "patch_size": 2, "out_hidden_size": 16}, "audio_config": {"d_model": 8,
    "encoder_layers": 1, "encoder_ffn_dim": 12, "encoder_attention_heads": 2, "output_dim": 16}})",
                    "test")
      .value();
}

std::vector<bool> passes_back(std::vector<std::string> freeze, Model model = with_images()) {
  Training t;
  t.freeze = std::move(freeze);
  EXPECT_TRUE(mark_trained(model, t, "training").ok());
  std::vector<bool> out;
  for (std::size_t i = 0; i < model.layers.size(); ++i) out.push_back(model.layer(i).backward);
  return out;
}

// The layers are embedding, two of the tower, projector, two of the text, head. A trained embedding before a frozen
// tower needs no backward pass through it.
TEST(TrainedParts, FrozenTowersHaveNoBackwardPass) {
  using testing::ElementsAre;
  EXPECT_THAT(passes_back({"tower"}), ElementsAre(true, false, false, true, true, true, true));
  EXPECT_THAT(passes_back({"tower", "projector"}), ElementsAre(true, false, false, false, true, true, true));
  EXPECT_THAT(passes_back({"layers 0-0"}), ElementsAre(true, false, true, true, true, true, true));
  EXPECT_THAT(passes_back({"embedding"}), ElementsAre(false, true, true, true, true, true, true));
}

// The layers are embedding, tower, projector, audio tower, its projector, text, head. Trained parts of one tower need
// no backward pass through the other.
TEST(TrainedParts, TowersBesideEachOtherAreFrozenAlone) {
  using testing::ElementsAre;
  const Model both = with_images_and_sound();
  EXPECT_THAT(passes_back({"tower"}, both), ElementsAre(true, false, true, false, true, true, true));
  EXPECT_THAT(passes_back({"tower", "projector"}, both), ElementsAre(true, false, false, false, false, true, true));
  EXPECT_THAT(passes_back({"layers 1"}, both), ElementsAre(true, true, true, false, true, true, true));
}

// Blocks 0 and 1 are the tower's, 2 and 3 the text's: the projector between them has no number.
TEST(TrainedParts, ProjectorsAreNoBlocks) {
  Model model = with_images();
  Training t;
  t.freeze = {"embedding", "tower", "layers 2-3", "head"};
  EXPECT_TRUE(mark_trained(model, t, "training").ok());
  std::vector<std::string> trained;
  for (const std::int32_t kind : model.layers)
    for (const Operator& op : model.kinds[static_cast<std::size_t>(kind)].operators)
      if (op.parameters > 0 && !op.frozen) trained.push_back(op.name);
  ASSERT_FALSE(trained.empty());
  for (const std::string& name : trained) EXPECT_TRUE(name.starts_with("projector")) << name;
  t.freeze = {"layers 4"};
  EXPECT_EQ(mark_trained(model, t, "training").error().hint, "the model has 4 blocks, counted from 0");
}

TEST(TrainedParts, OnlyModelsWithImagesHaveATower) {
  Training t;
  t.freeze = {"tower"};
  EXPECT_EQ(refusal(t), "training.freeze: \"tower\"");
}

TEST(TrainedParts, BlocksBeforeTheFirstTrainedOneHaveNoBackwardPass) {
  Model model = llama();
  Training t;
  t.freeze = {"embedding", "layers 0-15"};
  ASSERT_TRUE(mark_trained(model, t, "training").ok());
  EXPECT_FALSE(model.layer(0).backward);
  EXPECT_FALSE(model.layer(16).backward);
  EXPECT_TRUE(model.layer(17).backward);
  EXPECT_EQ(model.kinds.size(), 4U);  // embedding, frozen blocks, trained blocks, head
  const Model whole = llama();
  EXPECT_EQ(trained_parameter_count(model),
            parameter_count(whole) - parameter_count(whole.layer(0)) - 16 * parameter_count(whole.layer(1)));
  EXPECT_EQ(parameter_count(model), parameter_count(whole));
}

// Frozen blocks between trained layers pass gradients on.
TEST(TrainedParts, FrozenBlocksPassGradientsToWhatLiesBefore) {
  Model model = llama();
  Training t;
  t.freeze = {"layers 3", "head"};
  ASSERT_TRUE(mark_trained(model, t, "training").ok());
  for (std::size_t i = 0; i < model.layers.size(); ++i) EXPECT_TRUE(model.layer(i).backward) << i;
  EXPECT_TRUE(model.layer(4).operators.front().frozen);
  EXPECT_FALSE(model.layer(5).operators.front().frozen);
}

// The table of a tied model is one weight: frozen with the embedding, it also gets no gradient from the head.
TEST(TrainedParts, ATiedTableIsFrozenOnce) {
  Model model = load_model_file(ESPALIER_SOURCE_DIR "/models/llama-3.2-1b/config.json").value();
  ASSERT_TRUE(model.tied_embeddings);
  Training t;
  t.freeze = {"embedding"};
  ASSERT_TRUE(mark_trained(model, t, "training").ok());
  for (const Operator& op : model.layer(model.layers.size() - 1).operators) {
    if (op.name == "head.logits") {
      EXPECT_TRUE(op.frozen);
    }
  }
}

TEST(TrainedParts, WhatTheModelDoesNotHaveIsRefused) {
  EXPECT_EQ(refusal(adapters({"query_key_value"})), "training.adapter.targets: \"query_key_value\"");
  EXPECT_EQ(refusal(adapters({})), "training.adapter.targets: no targets");
  EXPECT_EQ(refusal(adapters({"attn.qkv", "q_proj"})), "training.adapter.targets: overlapping names in attn.qkv");
  Training t;
  t.freeze = {"layers 30-32"};
  EXPECT_EQ(refusal(t), "training.freeze: \"layers 30-32\"");
  for (const char* wrong : {"layers", "layers 3-", "layers 5-3", "layers -1", "Embedding", "layers 1 "}) {
    t.freeze = {wrong};
    EXPECT_THAT(refusal(t), testing::StartsWith("training.freeze"));
  }
  t.freeze = {"embedding", "layers 0-31", "head"};
  EXPECT_EQ(refusal(t), "training.freeze: no trained parts");
}

}  // namespace
}  // namespace espalier::plan_test::trained_parts_test
