// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "espalier/configuration.h"

namespace espalier::job {
namespace {

Job small_job() {
  return load_job(
             "model: {model_type: gpt2, n_layer: 4, n_embd: 64, n_head: 4, n_positions: 128, vocab_size: 256}\n"
             "cluster: {nodes: 1, devices_per_node: 8, device: h100-sxm-80gb}\n"
             "training: {sequence_length: 128, global_batch: 8}\n",
             "job.yaml", ".", {})
      .value();
}

TEST(ReadConfiguration, WhatIsNotSaidFollowsFromTheJob) {
  ConfigurationWords words;
  words.tp = 2;
  words.pp = 2;
  const auto read = read_configuration(words, small_job());
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->strategy.dp, 2);            // 8 devices / (2 · 2)
  EXPECT_EQ(read->schedule.microbatches, 4);  // 8 samples / (1 · 2)
  EXPECT_EQ(read->schedule.kind, ScheduleKind::one_f_one_b);
}

TEST(ReadConfiguration, SeveralChunksMeanInterleaving) {
  ConfigurationWords words;
  words.pp = 2;
  words.vpp = 2;
  const auto read = read_configuration(words, small_job());
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->schedule.kind, ScheduleKind::interleaved);
  EXPECT_EQ(read->schedule.virtual_stages, 2);
}

TEST(ReadConfiguration, ZeroOfTheEngineUnlessOneIsGiven) {
  Job job = small_job();
  job.engine = "fsdp2";
  EXPECT_EQ(read_configuration({}, job)->strategy.zero, ZeroStage::parameters);
  ConfigurationWords words;
  words.zero = 0;
  EXPECT_EQ(read_configuration(words, job)->strategy.zero, ZeroStage::none);
}

TEST(ReadConfiguration, UnknownWordIsAUsageErrorOfItsField) {
  ConfigurationWords words;
  words.schedule = "1f1c";
  const auto read = read_configuration(words, small_job());
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().kind, ErrorKind::usage);
  EXPECT_EQ(read.error().where, "schedule");
  EXPECT_EQ(read.error().found, "\"1f1c\"");
}

}  // namespace
}  // namespace espalier::job
