// SPDX-License-Identifier: Apache-2.0
#include "job/words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/document.h"

namespace espalier::job::words_test {
namespace {

using testing::HasSubstr;

TEST(Words, PrecisionsInTheSpellingsOfFrameworks) {
  const std::pair<const char*, Precision> spellings[] = {
      {"bf16", Precision::bf16},           {"BF16", Precision::bf16},           {"bfloat16", Precision::bf16},
      {"torch.bfloat16", Precision::bf16}, {"bf16-mixed", Precision::bf16},     {"float16", Precision::fp16},
      {"half", Precision::fp16},           {"float32", Precision::fp32},        {"torch.float", Precision::fp32},
      {"tf32", Precision::tf32},           {"TensorFloat-32", Precision::tf32}, {"fp8", Precision::fp8},
      {"fp8_e4m3", Precision::fp8},        {"FP8-hybrid", Precision::fp8}};
  for (const auto& [word, meant] : spellings) {
    ASSERT_TRUE(precision_of_word(word)) << word;
    EXPECT_EQ(*precision_of_word(word), meant) << word;
  }
  EXPECT_FALSE(precision_of_word("int8"));
  EXPECT_FALSE(precision_of_word("16")) << "a bare number says no type";
  EXPECT_FALSE(precision_of_word(""));
  EXPECT_FALSE(precision_of_word(std::string(1000, 'b')));
}

TEST(Words, OptimizersWithTheStatesOfAdam) {
  for (const char* word : {"adam", "AdamW", "fused_adam", "adamw_torch", "adamw_torch_fused", "FusedAdamW"})
    EXPECT_EQ(optimizer_of_word(word), Optimizer::adam) << word;
  EXPECT_EQ(optimizer_of_word("SGD"), Optimizer::sgd);
  for (const char* word : {"adafactor", "lion", "adamw_8bit", "muon", "", "adamant"})
    EXPECT_FALSE(optimizer_of_word(word)) << word;
}

/// Returns the message of reading a training; empty where it was read.
std::string message_of(const std::string& training) {
  const auto document = base::read_yaml(training, "job.yaml");
  base::ErrorSink sink;
  base::Reader reader = base::Reader::root(*document, sink);
  (void)read_precision(reader);
  (void)read_optimizer(reader);
  return !sink.ok() ? sink.first().error().message() : "";
}

TEST(Words, WhatIsRefusedSaysWhy) {
  EXPECT_EQ(message_of("{precision: bf16, optimizer: adamw}"), "");
  EXPECT_EQ(message_of("{}"), "");
  EXPECT_THAT(message_of("{precision: bf61}"), HasSubstr("did you mean \"bf16\"?"));
  EXPECT_THAT(message_of("{precision: int4}"), HasSubstr("one of fp32, tf32, fp16, bf16, fp8, mxfp8, nvfp4"));
  EXPECT_THAT(message_of("{precision: 16}"), HasSubstr("job.yaml:1:"));
  EXPECT_THAT(message_of("{optimizer: adan}"), HasSubstr("did you mean \"adam\"?"));
  EXPECT_THAT(message_of("{optimizer: lion}"), HasSubstr("its states differ in size"));
  EXPECT_THAT(message_of("{optimizer: [adam]}"), HasSubstr("adam (AdamW is equivalent for a plan) or sgd"));
}

}  // namespace
}  // namespace espalier::job::words_test
