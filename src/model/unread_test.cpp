// SPDX-License-Identifier: Apache-2.0
// Tests keys that nothing reads: they are named, or refused if they would change the model. Also tests unknown
// families.
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/testing.h"

namespace espalier::model {
namespace {

using namespace model::testing;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::string config(const std::string& type, const std::string& more = "") {
  return R"({"model_type": ")" + type +
         R"(", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 8, "intermediate_size": 96,
    "vocab_size": 100)" +
         (more.empty() ? "" : ", " + more) + "}";
}

TEST(Families, AnotherSpellingIsRecognised) {
  for (const auto& [given, meant] : std::vector<std::pair<std::string, std::string>>{{"LLaMA", "llama"},
                                                                                     {"lama", "llama"},
                                                                                     {"llamma", "llama"},
                                                                                     {"GPT-NeoX", "gpt_neox"},
                                                                                     {"gpt-2", "gpt2"},
                                                                                     {"mixtarl", "mixtral"},
                                                                                     {"deepseek-v3", "deepseek_v3"}})
    EXPECT_THAT(error_of(config(given)), HasSubstr("did you mean \"" + meant + "\"?")) << given;
}

// Each of these is a family of its own in transformers, one or two letters away from one that is read here.
TEST(Families, AnotherFamilyIsNeverSuggested) {
  for (const char* type : {"llama5", "mllama", "led", "phi4", "qwen", "gemma5", "deepseek_v4", "siglip2", "deberta", "deit",
                           "opt2", "bertx", "gpt", "olmo4", "granitemoes"})
    EXPECT_THAT(error_of(config(type)), AllOf(Not(HasSubstr("did you mean")), HasSubstr("known model_type values"))) << type;
}

TEST(UnreadKeys, ThatChangeSizesAreRefusedByName) {
  for (const char* more :
       {R"("num_local_experts": 8)", R"("moe_intermediate_size": 512)", R"("interleave_moe_layer_step": 2)",
        R"("shared_expert_intermediate_size": 64)", R"("num_nextn_predict_layers": 1)", R"("vision_config": {"depth": 2})",
        R"("audio_config": {"depth": 2})", R"("attention_chunk_size": 8192)", R"("no_rope_layers": [1, 0])", R"("n_group": 8)",
        R"("use_sliding_window": true)", R"("mlp_layers": 3)"}) {
    const std::string key = std::string(more).substr(1, std::string(more).find('"', 1) - 1);
    EXPECT_THAT(error_of(config("llama", more)), AllOf(HasSubstr(key + " = "), HasSubstr("family llama"))) << more;
  }
}

TEST(UnreadKeys, ThatAreOffOrHarmlessAreNoReasonToRefuse) {
  const Model m = load(config(
      "llama", R"("num_local_experts": 0, "vision_config": null, "moe_layers": [], "use_moe": false, "layer_norm_eps": 1e-5,
    "router_aux_loss_coef": 0.1, "moe_aux_loss_coeff": 0.01, "image_token_id": 5, "mlp_hidden_act": "silu", "moe_backend": "triton")"));
  EXPECT_TRUE(noted(m, ModelNote::Kind::ignored, "moe_backend"));  // text is no size, but is noted anyway
  EXPECT_THAT(unplanned_parts(m), Contains(HasSubstr("moe_backend = \"triton\"")));
}

TEST(UnreadKeys, AreAmongWhatEveryCommandSays) {
  EXPECT_THAT(unplanned_parts(load(config("llama"))), IsEmpty());
  EXPECT_THAT(unplanned_parts(load(config("llama", R"("flux_capacitors": 3)"))),
              Contains(HasSubstr("flux_capacitors is not read for llama")));
  EXPECT_THAT(unplanned_parts(load(config("llama", R"("sliding_window": 32)"))), Contains(HasSubstr("sliding_window = 32")));
  // qwen2 turns its window off by a switch, so nothing is left out.
  EXPECT_THAT(
      unplanned_parts(load(config("qwen2", R"("num_key_value_heads": 8, "sliding_window": 32, "use_sliding_window": false)"))),
      IsEmpty());
}

TEST(UnreadKeys, RoutingGroupsOfDeepSeekAreNamed) {
  const Model m = load(config("deepseek_v3", R"("n_routed_experts": 8, "num_experts_per_tok": 2, "n_group": 4, "topk_group": 2,
    "num_nextn_predict_layers": 1)"));
  EXPECT_TRUE(noted(m, ModelNote::Kind::left_out, "n_group"));
  EXPECT_FALSE(
      noted(load(config("deepseek_v3", R"("n_routed_experts": 8, "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1)")),
            ModelNote::Kind::left_out, "n_group"));
}

TEST(ContextLength, IsWhatThePublishedWeightsHaveSeen) {
  EXPECT_EQ(load(config("llama", R"("max_position_embeddings": 4096)")).context_length, 4096);
  EXPECT_EQ(load(config("llama", R"("max_position_embeddings": 4096)")).max_positions, 0);  // computed, so unbounded
  EXPECT_EQ(load(config("llama", R"("max_position_embeddings": "long")")).context_length, 0);
}

TEST(LoadModelFile, TakesTheFolderOfTheModel) {
  const auto folder = std::filesystem::path(::testing::TempDir()) / "espalier_model_folder";
  std::filesystem::create_directories(folder);
  std::filesystem::remove(folder / "config.json");
  EXPECT_THAT(load_model_file(folder.string()).error().message(), HasSubstr("a folder without config.json"));
  std::ofstream(folder / "config.json") << config("llama");
  const auto model = load_model_file(folder.string());
  ASSERT_TRUE(model.ok()) << model.error().message();
  EXPECT_EQ(model->name, "espalier_model_folder");
}

}  // namespace
}  // namespace espalier::model
