// SPDX-License-Identifier: Apache-2.0
// Tests tables, where "512 3.5" means sequences of 512 tokens with weight 3.5.
#include "job/training_lengths.h"

#include <gmock/gmock.h>

#include "espalier/job.h"

namespace espalier::job::training_lengths_test {
namespace {

TEST(LengthTable, TwoColumnsAndComments) {
  const auto table = read_length_table("# made up\n16\t3\r\n\n512 3.5\n", "t.tsv");
  ASSERT_TRUE(table.ok());
  EXPECT_EQ(*table, (std::vector<LengthShare>{{16, 3}, {512, 3.5}}));
}

TEST(LengthTable, WhatIsNoTableIsRefusedByLine) {
  const auto refused = [](std::string_view text) {
    const auto table = read_length_table(text, "t.tsv");
    return table.ok() ? std::string() : table.error().where + " " + table.error().found;
  };
  EXPECT_EQ(refused("16\t3\n16\t1\n"), "t.tsv:2 16 tokens after 16");
  EXPECT_EQ(refused("# nothing\n"), "t.tsv:1 no lengths");
  for (const char* wrong : {"16", "16\t", "16\t0", "16\t-1", "0\t1", "16,3", "x\t3", "16\t3 4", "16\tinf", "16\tnan"})
    EXPECT_THAT(refused(wrong), testing::StartsWith("t.tsv:1 ")) << wrong;
}

std::string job_text(const std::string& training) {
  return R"({"model": {"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "num_hidden_layers": 2,
    "vocab_size": 256}, "cluster": {"nodes": 1, "devices_per_node": 1, "device": "h100-sxm-80gb"}, "training": )" +
         training + "}";
}

Result<Job> loaded(const std::string& training) { return load_job(job_text(training), "job.json", "/nonexistent", {}); }

// Longer sequences are cut to a sample.
TEST(TrainingLengths, AreCutToTheSample) {
  const auto job = loaded(
      R"({"sequence_length": 512, "global_batch": 4, "lengths": {"histogram": [[2048, 1], [64, 2], [512, 1]], "packing": "packed"}})");
  ASSERT_TRUE(job.ok()) << job.error().message();
  EXPECT_EQ(job->training.lengths.histogram, (std::vector<LengthShare>{{64, 2}, {512, 2}}));
  EXPECT_EQ(job->training.lengths.packing, Packing::packed);
}

TEST(TrainingLengths, WrongOnesAreRefused) {
  for (const char* wrong :
       {R"({"packing": "packed"})", R"({"histogram": []})", R"({"histogram": [[64]]})", R"({"histogram": [[64, 0]]})",
        R"({"histogram": [[64, 1], [64, 2]]})", R"({"histogram": "none.tsv"})", R"({"histogram": [[64, 1]], "packing": "full"})"})
    EXPECT_FALSE(loaded(std::string(R"({"sequence_length": 512, "global_batch": 4, "lengths": )") + wrong + "}").ok()) << wrong;
}

TEST(TrainedParts, OfAJobAreMarkedInItsModel) {
  const auto job = loaded(R"({"sequence_length": 512, "global_batch": 4, "adapter": {"rank": 2, "targets": ["attn.qkv"]}})");
  ASSERT_TRUE(job.ok()) << job.error().message();
  EXPECT_EQ(trained_parameter_count(job->model), 2 * 2 * (64 + 192));
  const auto wrong = loaded(R"({"sequence_length": 512, "global_batch": 4, "adapter": {"rank": 2, "targets": ["attn.qvk"]}})");
  ASSERT_FALSE(wrong.ok());
  EXPECT_THAT(wrong.error().where, testing::HasSubstr("$.training.adapter.targets"));
}

// PEFT writes the word alone. Parts that a dense model has no use for are rejected.
TEST(TrainingParts, AllLinearIsAWordOrAList) {
  const auto word = loaded(R"({"sequence_length": 512, "global_batch": 4, "adapter": {"rank": 2, "targets": "all-linear"}})");
  const auto list = loaded(R"({"sequence_length": 512, "global_batch": 4, "adapter": {"rank": 2, "targets": ["all-linear"]}})");
  ASSERT_TRUE(word.ok()) << word.error().message();
  ASSERT_TRUE(list.ok());
  EXPECT_EQ(word->training.adapter, list->training.adapter);
  EXPECT_FALSE(loaded(R"({"sequence_length": 512, "global_batch": 4, "adapter": {"rank": 2, "targets": "attn.qkv"}})").ok());
}

TEST(TrainingParts, ImbalanceIsOfExperts) {
  const auto dense = loaded(R"({"sequence_length": 512, "global_batch": 4, "moe_imbalance": 2})");
  ASSERT_FALSE(dense.ok());
  EXPECT_THAT(dense.error().where, testing::HasSubstr("moe_imbalance"));
  EXPECT_TRUE(loaded(R"({"sequence_length": 512, "global_batch": 4, "moe_imbalance": 1})").ok());
}

}  // namespace
}  // namespace espalier::job::training_lengths_test
