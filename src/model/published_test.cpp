// SPDX-License-Identifier: Apache-2.0
// Tests the models under models/ for exact numbers of trainable parameters. Tied weights count once; buffers,
// quantisation scales and multi-token prediction do not count. Sources of the counts:
//   hub    number of parameters on the Hugging Face model page for the safetensors files (tied tensors are stored once)
//   code   count of PyTorch for the family's class with this configuration (num_parameters of transformers, timm,
//          torchvision)
//   card   printed in the model's own card or repository
//   sizes  computed by hand from the published sizes; no exact count is published
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "base/document.h"
#include "data/source_dir.h"
#include "espalier/model.h"

namespace espalier::model {
namespace {

struct Published {
  const char* name;
  const char* family;
  std::int64_t parameters;
};
void PrintTo(const Published& p, std::ostream* out) { *out << p.name; }

const Published kPublished[] = {
    // code: BertForMaskedLM (with pooler and next sentence: 110,106,428)
    {"bert-base-uncased", "bert", 109'514'298},
    {"bert-large-uncased", "bert", 335'174'458},  // code: BertForMaskedLM
    {"bloom-176b", "bloom", 176'247'271'424},     // card: bigscience/bloom; hub
    {"bloom-7b1", "bloom", 7'069'016'064},        // card: bigscience/bloom-7b1; hub
    // hub 684,489,845,504 − MTP and its copies of embedding and head − 58·256 router biases, which are buffers
    // (DeepSeekV3.Derivation below)
    {"deepseek-v3", "deepseek_v3", 671'026'404'352},
    {"flan-t5-xxl", "t5", 11'135'332'352},              // code: T5ForConditionalGeneration
    {"gemma-2-27b", "gemma2", 27'227'128'320},          // hub: google/gemma-2-27b
    {"gemma-2-9b", "gemma2", 9'241'705'984},            // hub: google/gemma-2-9b
    {"gemma-3-1b", "gemma3_text", 999'885'952},         // hub: google/gemma-3-1b-pt
    {"gemma-7b", "gemma", 8'537'680'896},               // hub: google/gemma-7b
    {"gpt-neox-20b", "gpt_neox", 20'554'567'680},       // card: EleutherAI/gpt-neox-20b
    {"gpt2", "gpt2", 124'439'808},                      // code: GPT2LMHeadModel
    {"gpt2-xl", "gpt2", 1'557'611'200},                 // code: GPT2LMHeadModel
    {"gpt3-175b", "gpt2", 174'604'259'328},             // sizes: 96·(12h² + 13h) + (50257 + 2048)·h + 2h, h = 12288
    {"llama-2-13b", "llama", 13'015'864'320},           // hub: meta-llama/Llama-2-13b-hf
    {"llama-2-70b", "llama", 68'976'648'192},           // hub: meta-llama/Llama-2-70b-hf
    {"llama-2-7b", "llama", 6'738'415'616},             // hub: meta-llama/Llama-2-7b-hf
    {"llama-3-70b", "llama", 70'553'706'496},           // hub: meta-llama/Meta-Llama-3-70B
    {"llama-3-8b", "llama", 8'030'261'248},             // hub: meta-llama/Meta-Llama-3-8B
    {"llama-3.1-405b", "llama", 405'853'388'800},       // hub: meta-llama/Llama-3.1-405B
    {"llama-3.1-70b", "llama", 70'553'706'496},         // hub: meta-llama/Llama-3.1-70B
    {"llama-3.1-8b", "llama", 8'030'261'248},           // hub: meta-llama/Llama-3.1-8B
    {"llama-3.2-1b", "llama", 1'235'814'400},           // hub: meta-llama/Llama-3.2-1B
    {"llama-3.2-3b", "llama", 3'212'749'824},           // hub: meta-llama/Llama-3.2-3B
    {"mistral-7b", "mistral", 7'241'732'096},           // hub: mistralai/Mistral-7B-v0.1
    {"mistral-nemo-12b", "mistral", 12'247'782'400},    // hub: mistralai/Mistral-Nemo-Base-2407
    {"mixtral-8x22b", "mixtral", 140'620'634'112},      // hub: mistral-community/Mixtral-8x22B-v0.1
    {"mixtral-8x7b", "mixtral", 46'702'792'704},        // hub: mistralai/Mixtral-8x7B-v0.1
    {"opt-175b", "opt", 174'604'468'224},               // sizes: 96·(12h² + 13h) + (50272 + 2050)·h + 2h, h = 12288
    {"opt-6.7b", "opt", 6'658'473'984},                 // sizes: 32·(12h² + 13h) + (50272 + 2050)·h + 2h, h = 4096
    {"phi-3-mini", "phi3", 3'821'079'552},              // hub: microsoft/Phi-3-mini-4k-instruct
    {"qwen2.5-0.5b", "qwen2", 494'032'768},             // hub: Qwen/Qwen2.5-0.5B
    {"qwen2.5-72b", "qwen2", 72'706'203'648},           // hub: Qwen/Qwen2.5-72B
    {"qwen2.5-7b", "qwen2", 7'615'616'512},             // hub: Qwen/Qwen2.5-7B
    {"qwen3-235b-a22b", "qwen3_moe", 235'093'634'560},  // hub: Qwen/Qwen3-235B-A22B
    {"qwen3-30b-a3b", "qwen3_moe", 30'532'122'624},     // hub: Qwen/Qwen3-30B-A3B
    {"qwen3-8b", "qwen3", 8'190'735'360},               // hub: Qwen/Qwen3-8B
    {"swin-base", "swin", 87'768'224},                  // code: torchvision, timm (swin_base_patch4_window7_224)
    {"swin-tiny", "swin", 28'288'354},                  // code: torchvision, timm (swin_tiny_patch4_window7_224)
    {"t5-11b", "t5", 11'307'321'344},                   // code: T5ForConditionalGeneration
    {"t5-base", "t5", 222'903'552},                     // code: T5ForConditionalGeneration
    // sizes: 2·2048·256 + 4·(256·512 + 256² + 3·256·768 + 512) + 256
    {"tiny-llama-test", "llama", 4'196'608},
    // code: timm (vit_base_patch16_224), ViTForImageClassification, 1000 classes
    {"vit-base-patch16-224", "vit", 86'567'656},
};

std::string folder() { return std::string(ESPALIER_SOURCE_DIR) + "/models/"; }

class PublishedModel : public ::testing::TestWithParam<Published> {};

TEST_P(PublishedModel, ParametersAreExact) {
  const Published& p = GetParam();
  const auto m = load_model_file(folder() + p.name + "/config.json");
  ASSERT_TRUE(m.ok()) << m.error().message();
  EXPECT_EQ(m->name, p.name);
  EXPECT_EQ(m->family, p.family);
  EXPECT_EQ(parameter_count(*m) - m->mtp_parameters, p.parameters);
  for (const ModelNote& note : m->notes) {
    EXPECT_FALSE(note.kind == ModelNote::Kind::ignored && note.text.find("is not read for") != std::string::npos) << note.key;
  }
}

TEST_P(PublishedModel, LayersAreWellFormed) {
  const auto m = load_model_file(folder() + GetParam().name + "/config.json");
  ASSERT_TRUE(m.ok());
  std::set<std::int32_t> used(m->layers.begin(), m->layers.end());
  EXPECT_EQ(used.size(), m->kinds.size());
  EXPECT_EQ(m->blocks() + 2, static_cast<std::int64_t>(m->layers.size()));
  EXPECT_EQ(m->layer(0).role, LayerRole::embedding);
  EXPECT_EQ(m->layer(m->layers.size() - 1).role, LayerRole::head);
  for (const LayerKind& layer : m->kinds) {
    std::set<std::string> names;
    for (const Operator& o : layer.operators) {
      EXPECT_TRUE(names.insert(o.name).second) << layer.name << " has two of " << o.name;
      EXPECT_GT(o.in, 0) << o.name;
      EXPECT_GT(o.out, 0) << o.name;
      EXPECT_LE(o.parameters_unsplit, o.parameters) << o.name;
    }
  }
}

std::string test_name(const ::testing::TestParamInfo<Published>& info) {
  std::string name = info.param.name;
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
}
INSTANTIATE_TEST_SUITE_P(Models, PublishedModel, ::testing::ValuesIn(kPublished), test_name);

TEST(PublishedModels, EveryFolderIsTested) {
  std::set<std::string> tested, found;
  for (const Published& p : kPublished) tested.insert(p.name);
  for (const auto& entry : std::filesystem::directory_iterator(folder())) {
    if (entry.is_directory()) found.insert(entry.path().filename().string());
  }
  EXPECT_EQ(found, tested);
}

/// Tests models by their sizes alone, in addition to those with folders (tests/models/published.json states the
/// source of each count).
TEST(PublishedModels, BySizesAreExact) {
  const std::string path = std::string(ESPALIER_SOURCE_DIR) + "/tests/models/published.json";
  const auto text = base::read_file(path);
  ASSERT_TRUE(text.ok());
  const auto document = base::read_json(*text, path);
  ASSERT_TRUE(document.ok());
  const auto member = [](const base::Node& node, std::string_view key) -> const base::Node& {
    const auto at = std::find_if(node.members.begin(), node.members.end(), [&](const auto& m) { return m.first == key; });
    EXPECT_NE(at, node.members.end()) << key;
    return at->second;
  };
  std::set<std::string> names;
  for (const base::Node& row : member(document->root, "models").items) {
    const std::string name = member(row, "name").text;
    const auto m = load_model(base::to_json(member(row, "config")), name);
    ASSERT_TRUE(m.ok()) << m.error().message();
    EXPECT_EQ(parameter_count(*m) - m->mtp_parameters, member(row, "parameters").integer) << name;
    EXPECT_FALSE(member(row, "source").text.empty()) << name;
    EXPECT_TRUE(names.insert(name).second) << name;
  }
  EXPECT_GE(names.size() + std::size(kPublished), 80u);
}

// The files of DeepSeek-V3 hold 684,489,845,504 weights (Hugging Face model page; fp8 scales not counted). They are
// the model, one multi-token-prediction module, that module's copies of embedding and head (2·129280·7168), and 256
// router biases in each of 58 + 1 mixtures of experts.
TEST(PublishedModels, DeepSeekV3Derivation) {
  const auto m = load_model_file(folder() + "deepseek-v3/config.json");
  ASSERT_TRUE(m.ok());
  const std::int64_t copies = 2LL * 129280 * 7168, router_biases = 59LL * 256;
  EXPECT_EQ(parameter_count(*m) + copies + router_biases, 684'489'845'504);
}

// Mixtral 8x7B uses two of eight experts, "12.9B parameters per token" (model announcement). Qwen3: "3.3B" and "22B
// activated" (model cards). DeepSeek-V3: "37B activated for each token" (arXiv 2412.19437).
TEST(PublishedModels, ActiveParameters) {
  const std::map<std::string, double> billions = {
      {"mixtral-8x7b", 12.9}, {"qwen3-30b-a3b", 3.35}, {"qwen3-235b-a22b", 22.2}, {"deepseek-v3", 37.55}};
  for (const auto& [name, expected] : billions) {
    const auto m = load_model_file(folder() + name + "/config.json");
    ASSERT_TRUE(m.ok());
    Model without = *m;  // the card does not count multi-token prediction
    for (LayerKind& kind : without.kinds)
      std::erase_if(kind.operators, [](const Operator& op) { return op.name.starts_with("mtp."); });
    EXPECT_NEAR(static_cast<double>(active_parameter_count(without)) / 1e9, expected, 0.05) << name;
  }
}

// Forward multiply-adds of one image are 17.6 G for ViT-B/16 (Touvron et al. 2021 and timm: 17.56), 4.5 G for Swin-T
// and 15.4 G for Swin-B (Liu et al. 2021, table 1). The papers count windows' scores and the classifier as here. Each
// multiply-add has two FLOPs.
TEST(PublishedModels, VisionFlops) {
  const std::map<std::string, double> giga = {{"vit-base-patch16-224", 17.56}, {"swin-tiny", 4.5}, {"swin-base", 15.4}};
  for (const auto& [name, expected] : giga) {
    const auto m = load_model_file(folder() + name + "/config.json");
    ASSERT_TRUE(m.ok());
    EXPECT_NEAR(training_flops(*m, {}).count() / 3 / 2 / 1e9, expected, 0.02 * expected) << name;
  }
}

// Llama 3 (arXiv 2407.21783) states 3.8e25 FLOPs for 405B parameters on 15.6 T tokens. This is 6·N·tokens without
// attention's scores (12·L·h·s per token). The GEMMs here are 0.5 % below, because the embedding of 2.1 G parameters
// has none.
TEST(PublishedModels, Llama405Flops) {
  const auto m = load_model_file(folder() + "llama-3.1-405b/config.json");
  ASSERT_TRUE(m.ok());
  const double s = 8192, attention = 12.0 * 126 * 16384 * s;
  const double per_token = training_flops(*m, {.main = 8192}).count() / s;
  EXPECT_NEAR((per_token - attention) * 15.6e12, 3.8e25, 0.01 * 3.8e25);
}

}  // namespace
}  // namespace espalier::model
