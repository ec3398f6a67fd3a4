// SPDX-License-Identifier: Apache-2.0
// Tests what load_model refuses, and its messages. Hostile values end in an error, never in a crash or an overflow.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <rapidcheck.h>

#include "base/document.h"
#include "model/testing.h"

namespace espalier::model {
namespace {

using namespace model::testing;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(LoadModel, AnUnknownTypeIsToldWhatHelps) {
  EXPECT_THAT(error_of(R"({"model_type": "rwkv"})"),
              AllOf(HasSubstr("\"rwkv\""), HasSubstr("test.json:1:"), HasSubstr("docs/models.md#blocks")));
  EXPECT_THAT(error_of(R"({"model_type": "lama"})"), HasSubstr("did you mean \"llama\""));
  // The remedies are the known part, the name in later releases, the known twin, and a class of diffusers.
  EXPECT_THAT(error_of(R"({"model_type": "my_vlm", "text_config": {"model_type": "qwen3"}})"),
              HasSubstr("text_config is a known one, \"qwen3\""));
  EXPECT_THAT(error_of(R"({"model_type": "Yi"})"), HasSubstr("--set model.model_type=llama"));
  EXPECT_THAT(error_of(R"({"model_type": "mine", "architectures": ["LlamaForCausalLM"]})"), HasSubstr("that of llama"));
  EXPECT_THAT(error_of(R"({"_class_name": "FluxTransformer2DModel"})"),
              AllOf(HasSubstr("DiTTransformer2DModel"), HasSubstr("blocks")));
  EXPECT_THAT(error_of("{}"), AllOf(HasSubstr("model_type"), HasSubstr("docs/models.md#blocks")));
  EXPECT_THAT(error_of(R"({"architectures": ["RwkvForCausalLM"]})"), HasSubstr("RwkvForCausalLM"));
}

TEST(LoadModel, FamiliesAreSortedAndDistinct) {
  const auto names = known_model_families();
  EXPECT_GE(names.size(), 100u);
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
}

TEST(LoadModel, ArchitectureStandsInForTheType) {
  const std::string sizes = R"("hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 8, "intermediate_size": 96,
    "vocab_size": 100})";
  const Model m = load(R"({"architectures": ["LlamaForCausalLM"], )" + sizes);
  EXPECT_EQ(m.family, "llama");
  EXPECT_TRUE(noted(m, ModelNote::Kind::derived, "model_type"));
  EXPECT_EQ(load(R"({"architectures": ["Gemma3ForCausalLM"], )" + sizes).family, "gemma3_text");
}

TEST(LoadModel, NameComesFromThePath) {
  const std::string text = R"({"model_type": "gpt2", "n_embd": 64, "n_layer": 1, "n_head": 4, "vocab_size": 10})";
  EXPECT_EQ(load_model(text, "models/gpt2/config.json")->name, "gpt2");
  EXPECT_EQ(load_model(text, "config.json")->name, "config");
  EXPECT_EQ(load_model(text, "/a/b/mine.json")->name, "mine");
}

TEST(LoadModel, MissingSizesAreNamed) {
  EXPECT_THAT(error_of(R"({"model_type": "llama", "num_hidden_layers": 1})"),
              AllOf(HasSubstr("hidden_size"), HasSubstr("not guessed")));
  EXPECT_THAT(error_of(R"({"model_type": "gpt2", "n_embd": null})"), AllOf(HasSubstr("n_embd"), HasSubstr("null")));
  EXPECT_THAT(error_of(R"({"model_type": "gemma3"})"), HasSubstr("hidden_size"));
}

TEST(LoadModel, WrongTypesAndNotAnObject) {
  EXPECT_THAT(error_of("[1, 2]"), HasSubstr("JSON object"));
  EXPECT_THAT(error_of("3"), HasSubstr("JSON object"));
  error_of("");
  error_of("{");
  error_of(R"({"model_type": 7})");
  error_of(R"({"model_type": "llama", "hidden_size": "4096"})");
  error_of(R"({"model_type": "llama", "hidden_size": 4096.5})");
  error_of(R"({"model_type": "llama", "model_type": "gpt2"})");
  EXPECT_FALSE(load_model_file("/no/such/file/config.json").ok());
}

/// Sets every integer size of every family to hostile values: the result is an error, or a model within the limits.
TEST(LoadModel, HostileNumbersNeverOverflow) {
  const char* const files[] = {
      R"({"model_type": "llama", "hidden_size": @, "num_hidden_layers": @, "num_attention_heads": @, "num_key_value_heads": @,
         "head_dim": @, "intermediate_size": @, "vocab_size": @})",
      R"({"model_type": "qwen3_moe", "hidden_size": @, "num_hidden_layers": @, "num_attention_heads": @, "num_key_value_heads": @,
         "head_dim": @, "intermediate_size": @, "vocab_size": @, "num_experts": @, "num_experts_per_tok": @,
         "moe_intermediate_size": @, "decoder_sparse_step": @, "mlp_only_layers": [@]})",
      R"({"model_type": "deepseek_v3", "hidden_size": @, "num_hidden_layers": @, "num_attention_heads": @, "intermediate_size": @,
         "vocab_size": @, "q_lora_rank": @, "kv_lora_rank": @, "qk_rope_head_dim": @, "qk_nope_head_dim": @, "v_head_dim": @,
         "n_routed_experts": @, "num_experts_per_tok": @, "n_shared_experts": @, "moe_intermediate_size": @,
         "first_k_dense_replace": @, "moe_layer_freq": @, "num_nextn_predict_layers": @})",
      R"({"model_type": "gpt2", "n_embd": @, "n_layer": @, "n_head": @, "n_positions": @, "n_inner": @, "vocab_size": @})",
      R"({"model_type": "opt", "hidden_size": @, "num_hidden_layers": @, "num_attention_heads": @, "ffn_dim": @,
         "max_position_embeddings": @, "word_embed_proj_dim": @, "vocab_size": @})",
      R"({"model_type": "bert", "hidden_size": @, "num_hidden_layers": @, "num_attention_heads": @, "intermediate_size": @,
         "max_position_embeddings": @, "type_vocab_size": @, "vocab_size": @})",
      R"({"model_type": "t5", "d_model": @, "d_kv": @, "d_ff": @, "num_layers": @, "num_decoder_layers": @, "num_heads": @,
         "relative_attention_num_buckets": @, "vocab_size": @})",
      R"({"model_type": "vit", "hidden_size": @, "num_hidden_layers": @, "num_attention_heads": @, "intermediate_size": @,
         "image_size": @, "patch_size": @, "num_channels": @, "num_labels": @})",
      R"({"model_type": "swin", "embed_dim": @, "depths": [@, @], "num_heads": [@, @], "window_size": @, "image_size": @,
         "patch_size": @, "num_channels": @, "mlp_ratio": @, "num_labels": @})"};
  const std::vector<std::string> values = {
      "1",  "2",         "64",   "4096",  "65536", "16777216", "2147483648", "9223372036854775807",
      "-1", "0",         "null", "1e300", "0.5",   "true",     "\"8\"",      "99999999999999999999",
      "[]", "{\"a\": 1}"};
  rc::check([&] {
    std::string text = files[*rc::gen::inRange<std::size_t>(0, std::size(files))];
    // Most values are legal, so that deep combinations are reached.
    const bool tame = *rc::gen::arbitrary<bool>();
    for (std::size_t at = text.find('@'); at != std::string::npos; at = text.find('@')) {
      text.replace(at, 1, values[*rc::gen::inRange<std::size_t>(0, tame ? 6 : values.size())]);
    }
    const auto result = load_model(text, "hostile.json");
    if (!result.ok()) {
      RC_ASSERT(!result.error().where.empty());
      RC_ASSERT(!result.error().expected.empty());
      return;
    }
    RC_ASSERT(parameter_count(*result) > 0);
    RC_ASSERT(parameter_count(*result) <= std::int64_t{1} << 50);
    RC_ASSERT(active_parameter_count(*result) <= parameter_count(*result));
    for (const LayerKind& layer : result->kinds) {
      for (const Operator& o : layer.operators) {
        RC_ASSERT(o.in >= 0 && o.out >= 0 && o.parameters >= o.parameters_unsplit && o.parameters_unsplit >= 0);
      }
    }
  });
}

TEST(LoadModel, TooManyParametersIsAnError) {
  EXPECT_THAT(
      error_of(R"({"model_type": "mixtral", "hidden_size": 16777216, "num_hidden_layers": 4096, "num_attention_heads": 65536,
    "num_key_value_heads": 65536, "head_dim": 65536, "intermediate_size": 16777216, "vocab_size": 16777216,
    "num_local_experts": 65536})"),
      HasSubstr("2^50"));
}

TEST(LoadModel, UnknownKeysAreBounded) {
  std::string text = R"({"model_type": "gpt2", "n_embd": 64, "n_layer": 1, "n_head": 4, "vocab_size": 10)";
  for (int i = 0; i < 1000; ++i) text += ", \"key" + std::to_string(i) + "\": 1";
  EXPECT_LE(load(text + "}").notes.size(), 60u);
}

/// Models are well formed: one embedding in front, one head at the end, unique operator names, and only used kinds.
TEST(LoadModel, ModelsAreWellFormed) {
  const Model m = load(R"({"model_type": "gpt2", "n_embd": 64, "n_layer": 3, "n_head": 4, "vocab_size": 10})");
  EXPECT_EQ(m.layer(0).role, LayerRole::embedding);
  EXPECT_EQ(m.layer(m.layers.size() - 1).role, LayerRole::head);
  EXPECT_EQ(m.blocks(), 3);
}

}  // namespace
}  // namespace espalier::model
