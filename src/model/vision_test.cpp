// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/testing.h"

namespace espalier::model {
namespace {

using namespace model::testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kVit = R"({"model_type": "vit", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
  "intermediate_size": 256, "image_size": 32, "patch_size": 8)";

// There are 16 patches of 3·8·8 = 192 features: patch 192·64 + 64, class token 64, positions 17·64, blocks 49984,
// norm 128, classes 10·64 + 10.
TEST(Vit, CountAndTokensByHand) {
  const Model m =
      load(kVit + R"(, "id2label": {"0": "a", "1": "b", "2": "c", "3": "d", "4": "e", "5": "f", "6": "g", "7": "h", "8": "i",
    "9": "j"}})");
  EXPECT_EQ(parameter_count(m), 192 * 64 + 64 + 64 + 17 * 64 + 2 * 49984 + 128 + 650);
  EXPECT_TRUE(m.vision);
  EXPECT_EQ(m.vocabulary, 0);
  EXPECT_EQ(tokens_per_sample(kind(m, "embedding"), {}), 16);
  EXPECT_EQ(tokens_per_sample(kind(m, "encoder"), {}), 17);
  EXPECT_EQ(boundary_elements(kind(m, "embedding"), {}), 17 * 64);
  EXPECT_EQ(boundary_elements(kind(m, "encoder"), {}), 17 * 64);
}

// The patch embedding takes 2·16·192·64; a block 2·17·12·64² + 2·4·(16 + 16)·17²; the classifier 2·64·2 once a
// sample.
TEST(Vit, FlopsByHand) {
  const Model m = load(kVit + R"(, "num_labels": 2})");
  EXPECT_EQ(forward_flops(kind(m, "embedding"), {}, true).count(), 2 * 16 * 192 * 64);
  EXPECT_EQ(forward_flops(kind(m, "encoder"), {}, true).count(), 2 * 17 * 12 * 4096 + 256 * 289);
  EXPECT_EQ(forward_flops(kind(m, "head"), {}, true).count(), 256);
}

TEST(Vit, PatchMustDivideImage) {
  EXPECT_THAT(error_of(R"({"model_type": "vit", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 256, "image_size": 30, "patch_size": 8})"),
              HasSubstr("a divisor of image_size = 30"));
}

const std::string kSwin = R"({"model_type": "swin", "embed_dim": 16, "depths": [1, 2], "num_heads": [2, 4], "window_size": 4,
  "image_size": 32, "patch_size": 4, "num_labels": 10, "drop_path_rate": 0.0)";

// Stage 1 has 8×8 tokens of 16, stage 2 has 4×4 of 32. Relative biases have 7²·heads.
TEST(Swin, CountByHand) {
  const Model m = load(kSwin + "}");
  const auto block = [](std::int64_t h, std::int64_t heads) { return 12 * h * h + 13 * h + 49 * heads; };
  EXPECT_EQ(parameter_count(kind(m, "swin.stage1")), block(16, 2));
  EXPECT_EQ(parameter_count(kind(m, "swin.stage2")), block(32, 4));
  EXPECT_EQ(parameter_count(kind(m, "swin.stage2.merge")), block(32, 4) + 2 * 64 + 64 * 32);
  EXPECT_EQ(parameter_count(m), 48 * 16 + 16 + 32 + block(16, 2) + 2 * block(32, 4) + 128 + 2048 + 64 + 330);
  EXPECT_THAT(order(m), ElementsAre("embedding", "swin.stage1", "swin.stage2.merge", "swin.stage2", "head"));
}

TEST(Swin, BoundariesShrinkWithTheGrid) {
  const Model m = load(kSwin + "}");
  EXPECT_EQ(boundary_elements(kind(m, "swin.stage1"), {}), 64 * 16);
  EXPECT_EQ(boundary_elements(kind(m, "swin.stage2.merge"), {}), 16 * 32);
  EXPECT_EQ(op(kind(m, "swin.stage2.merge"), "merge.reduce").in, 64);
}

// Window attention is linear in tokens: 64 tokens with 16 keys each; in stage 2 one window of 4×4 covers the grid.
TEST(Swin, WindowFlops) {
  const Model m = load(kSwin + "}");
  EXPECT_EQ(op(kind(m, "swin.stage1"), "attn.core").window, 16);
  EXPECT_EQ(forward_flops(kind(m, "swin.stage1"), {}, true).count(), 2 * 64 * 12 * 256 + 2 * 2 * 16 * 64 * 16);
}

TEST(Swin, StagesMustAgree) {
  EXPECT_THAT(error_of(R"({"model_type": "swin", "embed_dim": 16, "depths": [1, 2], "num_heads": [2]})"),
              HasSubstr("one per stage, 2"));
  EXPECT_THAT(error_of(R"({"model_type": "swin", "embed_dim": 16, "num_heads": [2]})"), HasSubstr("depths"));
}

}  // namespace
}  // namespace espalier::model
