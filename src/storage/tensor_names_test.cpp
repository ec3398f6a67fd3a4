// SPDX-License-Identifier: Apache-2.0
#include "storage/tensor_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>

#include "data/source_dir.h"
#include "storage/pretrained.h"

namespace espalier::storage {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr const char* kGpt2 =
    R"({"model_type": "gpt2", "n_embd": 4, "n_layer": 2, "n_head": 2, "n_positions": 8, "vocab_size": 10})";
constexpr const char* kQwen2 =
    R"({"model_type": "qwen2", "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
  "intermediate_size": 6, "vocab_size": 10, "tie_word_embeddings": true})";
constexpr const char* kLlama =
    R"({"model_type": "llama", "hidden_size": 8, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 1,
  "intermediate_size": 6, "vocab_size": 10, "attention_bias": true, "mlp_bias": true})";
constexpr const char* kQwen3 =
    R"({"model_type": "qwen3", "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 4,
  "intermediate_size": 6, "vocab_size": 10, "tie_word_embeddings": false})";
constexpr const char* kMixtral =
    R"({"model_type": "mixtral", "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2,
  "intermediate_size": 6, "vocab_size": 10, "num_local_experts": 3, "num_experts_per_tok": 2})";

Model model_of(const char* config) { return load_model(config, "config.json").value(); }

std::vector<TensorBlock> blocks(const Model& model, std::int32_t layer) { return blocks_of(model, layer).value(); }

/// Returns the tensor and the place in it of every element of a layer.
std::map<std::int64_t, std::pair<std::string, std::int64_t>> places(const Model& model, std::int32_t layer) {
  std::map<std::int64_t, std::pair<std::string, std::int64_t>> out;
  const std::int64_t all = numbered_elements(model.layer(static_cast<std::size_t>(layer)));
  for (const TensorBlock& block : blocks(model, layer))
    runs_in(block, {0, all}, [&](const auto& run) {
      for (std::int64_t k = 0; k < run.count; ++k)
        EXPECT_TRUE(
            out.emplace(run.layer_first + k * run.layer_step, std::pair(block.tensor, run.tensor_first + k * run.tensor_step))
                .second)
            << "an element twice";
    });
  return out;
}

/// Checks gpt2 with h = 4. A block begins with ln_1 (4 scales, 4 shifts), then output by output of c_attn four
/// weights and a bias. Output 0 is the first query. c_attn.weight is [inputs 4, outputs 12], so that its input i is
/// at 12·i.
TEST(TensorNames, Gpt2ByHand) {
  const auto at = places(model_of(kGpt2), 1);
  EXPECT_EQ(at.at(0), std::pair(std::string("transformer.h.0.ln_1.weight"), std::int64_t{0}));
  EXPECT_EQ(at.at(7), std::pair(std::string("transformer.h.0.ln_1.bias"), std::int64_t{3}));
  EXPECT_EQ(at.at(8 + 2), std::pair(std::string("transformer.h.0.attn.c_attn.weight"), std::int64_t{24}));
  EXPECT_EQ(at.at(8 + 4), std::pair(std::string("transformer.h.0.attn.c_attn.bias"), std::int64_t{0}));
  // Heads have two features: outputs 4 and 5 are the key of head 0, 6 and 7 its value. The values of head 0 are
  // columns 8 and 9 of c_attn.
  EXPECT_EQ(at.at(8 + 6 * 5), std::pair(std::string("transformer.h.0.attn.c_attn.weight"), std::int64_t{8}));
  EXPECT_EQ(at.at(8 + 8 * 5), std::pair(std::string("transformer.h.0.attn.c_attn.weight"), std::int64_t{6}));
}

/// Checks llama with h = 8. The gated MLP has gate and up in turn, each row with eight weights and a bias.
TEST(TensorNames, LlamaByHand) {
  const Model model = model_of(kLlama);
  const auto at = places(model, 2);
  std::int64_t first = 0;
  for (const Operator& op : model.layer(2).operators) {
    if (op.name == "mlp.gate_up") break;
    first += op.parameters;
  }
  EXPECT_EQ(at.at(first + 9 * 2 + 3), std::pair(std::string("model.layers.1.mlp.gate_proj.weight"), std::int64_t{8 + 3}));
  EXPECT_EQ(at.at(first + 9 * 3 + 8), std::pair(std::string("model.layers.1.mlp.up_proj.bias"), std::int64_t{1}));
}

/// Every element of every layer has one place, and every place of every tensor is taken once.
TEST(TensorNames, ElementsAndPlacesAreOneToOne) {
  for (const char* config : {kGpt2, kQwen2, kLlama, kQwen3, kMixtral}) {
    const Model model = model_of(config);
    std::map<std::string, std::set<std::int64_t>> taken;
    std::map<std::string, std::int64_t> sizes;
    for (std::int32_t l = 0; l < static_cast<std::int32_t>(model.layers.size()); ++l) {
      const auto at = places(model, l);
      EXPECT_EQ(static_cast<std::int64_t>(at.size()), numbered_elements(model.layer(static_cast<std::size_t>(l)))) << config;
      for (const auto& [element, place] : at) EXPECT_TRUE(taken[place.first].insert(place.second).second) << place.first;
      for (const TensorBlock& block : blocks(model, l)) {
        sizes[block.tensor] = 1;
        for (const std::int64_t extent : block.shape) sizes[block.tensor] *= extent;
      }
    }
    for (const auto& [tensor, places_taken] : taken) {
      EXPECT_EQ(static_cast<std::int64_t>(places_taken.size()), sizes.at(tensor)) << tensor;
      EXPECT_LT(*places_taken.rbegin(), sizes.at(tensor)) << tensor;
    }
  }
}

/// Runs of a part are the part of the runs.
TEST(TensorNames, PartsOfBlocks) {
  const Model model = model_of(kLlama);
  const auto whole = places(model, 1);
  const auto all = static_cast<std::int64_t>(whole.size());
  for (std::int64_t first = 0; first < all; first += 37)
    for (const std::int64_t size : {std::int64_t{1}, std::int64_t{5}, std::int64_t{90}}) {
      std::int64_t found = 0;
      for (const TensorBlock& block : blocks(model, 1))
        runs_in(block, {first, std::min(all, first + size)}, [&](const auto& run) {
          for (std::int64_t k = 0; k < run.count; ++k, ++found)
            EXPECT_EQ(whole.at(run.layer_first + k * run.layer_step),
                      std::pair(block.tensor, run.tensor_first + k * run.tensor_step));
        });
      EXPECT_EQ(found, std::min(all, first + size) - first);
    }
}

class PretrainedFolder : public ::testing::Test {
 protected:
  PretrainedFolder() {
    std::string pattern = (fs::temp_directory_path() / "espalier-test-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~PretrainedFolder() override { fs::remove_all(path_); }

  static float value(std::int32_t layer, std::int64_t element) {
    return static_cast<float>(layer * 1000) + static_cast<float>(element);
  }
  void write(const Model& model, std::int64_t part_bytes) const {
    auto writer = PretrainedWriter::create(path_.string(), model, "{}", part_bytes);
    ASSERT_TRUE(writer.ok()) << writer.error().message();
    for (std::int32_t l = 0; l < static_cast<std::int32_t>(model.layers.size()); ++l) {
      std::vector<float> elements;
      for (std::int64_t e = 0; e < numbered_elements(model.layer(static_cast<std::size_t>(l))); ++e)
        elements.push_back(value(l, e));
      ASSERT_TRUE(writer->add(l, elements).ok());
    }
    ASSERT_TRUE(writer->finish().ok());
  }

  fs::path path_;
};

TEST_F(PretrainedFolder, WhatIsSavedIsLoadedPieceByPiece) {
  for (const char* config : {kGpt2, kQwen2, kLlama, kQwen3, kMixtral})
    for (const std::int64_t part : {std::int64_t{1} << 30, std::int64_t{1000}}) {
      const Model model = model_of(config);
      fs::remove_all(path_);
      write(model, part);
      EXPECT_EQ(fs::exists(path_ / "model.safetensors.index.json"), part == 1000);
      const auto folder = Pretrained::open(path_.string(), model);
      ASSERT_TRUE(folder.ok()) << folder.error().message();
      const Intervals held{{0, 3}, {5, 30}};
      const std::vector<float> found = folder->elements(1, held);
      ASSERT_EQ(found.size(), 28u);
      std::size_t at = 0;
      for (const Interval& piece : held)
        for (std::int64_t e = piece.first; e < piece.last; ++e) EXPECT_EQ(found[at++], value(1, e));
    }
}

/// After two saves into one folder, the last one is read, whichever had several files.
TEST_F(PretrainedFolder, ASaveReplacesTheOneBefore) {
  const Model model = model_of(kLlama);
  for (const std::int64_t part : {std::int64_t{1} << 30, std::int64_t{1000}, std::int64_t{1} << 30}) {
    write(model, part);
    EXPECT_EQ(fs::exists(path_ / "model.safetensors"), part > 1000);
    EXPECT_EQ(fs::exists(path_ / "model.safetensors.index.json"), part == 1000);
  }
}

TEST_F(PretrainedFolder, WeightsOfAnotherModelAreRefused) {
  write(model_of(kLlama), 1 << 30);
  const std::string wide = R"({"model_type": "llama", "hidden_size": 8, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 1, "intermediate_size": 12, "vocab_size": 10, "attention_bias": true, "mlp_bias": true})";
  const auto refused = Pretrained::open(path_.string(), model_of(wide.c_str()));
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message(), HasSubstr("mlp.gate_proj.weight"));
  EXPECT_THAT(refused.error().message(), HasSubstr("[6, 8]"));
  const std::string deep = R"({"model_type": "llama", "hidden_size": 8, "num_hidden_layers": 4, "num_attention_heads": 4,
    "num_key_value_heads": 1, "intermediate_size": 6, "vocab_size": 10, "attention_bias": true, "mlp_bias": true})";
  EXPECT_THAT(Pretrained::open(path_.string(), model_of(deep.c_str())).error().message(), HasSubstr("no tensor model.layers.3"));
  const std::string flat = R"({"model_type": "llama", "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 1, "intermediate_size": 6, "vocab_size": 10, "attention_bias": true, "mlp_bias": true})";
  EXPECT_THAT(Pretrained::open(path_.string(), model_of(flat.c_str())).error().message(), HasSubstr("model.layers.2"));
}

/// Checks the names and shapes that transformers itself writes (tests/runtime/reference).
TEST(TensorNames, AreThoseOfTransformers) {
  for (const char* family : {"gpt2", "llama", "qwen2", "mixtral"}) {
    const fs::path folder = fs::path(ESPALIER_SOURCE_DIR) / "tests" / "runtime" / "reference" / family;
    const auto model = load_model_file(folder.string());
    ASSERT_TRUE(model.ok()) << model.error().message();
    const auto opened = Pretrained::open(folder.string(), *model);
    EXPECT_TRUE(opened.ok()) << opened.error().message();
  }
}

TEST(TensorNames, FamiliesThatAreNotKnownAreNamed) {
  const Model model = model_of(R"({"model_type": "bloom", "hidden_size": 8, "n_layer": 1, "n_head": 2, "vocab_size": 10})");
  EXPECT_THAT(blocks_of(model, 0).error().message(), HasSubstr("family bloom"));
}

}  // namespace
}  // namespace espalier::storage
