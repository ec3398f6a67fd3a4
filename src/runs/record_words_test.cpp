// SPDX-License-Identifier: Apache-2.0
#include "runs/record_words.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace espalier::runs {
namespace {

NetworkWords network(const char* words, std::int64_t devices_per_node = 8) {
  const NetworkReading r = read_network_words(words, devices_per_node);
  EXPECT_EQ(r.unknown, "") << words;
  return r.network.value_or(NetworkWords{});
}

// 8 NICs of 50 GB/s carry 8 · 50 · 8 bits = 8 · 400 Gb/s; "8x50 Gb/s" carries an eighth of it.
TEST(NetworkWords, BytesAreNotBits) {
  EXPECT_EQ(network("8x50 GB/s"), (NetworkWords{8, 400}));
  EXPECT_EQ(network("8x50 Gb/s"), (NetworkWords{8, 50}));
  EXPECT_EQ(network("8 × 50 GBps RoCE"), (NetworkWords{8, 400}));
  EXPECT_EQ(network("4 x 100 Gb/s RoCE per node"), (NetworkWords{4, 100}));
  EXPECT_EQ(network("8x200 Gbps HDR InfiniBand per node (Selene)"), (NetworkWords{8, 200}));
  EXPECT_EQ(network("400 Gbps x4"), (NetworkWords{4, 400}));
  EXPECT_EQ(network("50 GB/s per GPU (400 Gb/s)"), (NetworkWords{8, 400}));
  EXPECT_EQ(network("1.6 Tb/s"), (NetworkWords{1, 1600}));
  EXPECT_EQ(network("100GbE"), (NetworkWords{1, 100}));
}

TEST(NetworkWords, PerDeviceAndPerNode) {
  EXPECT_EQ(network("RDMA 400 Gb/s per GPU"), (NetworkWords{8, 400}));
  EXPECT_EQ(network("400Gb/s/GPU", 4), (NetworkWords{4, 400}));
  EXPECT_EQ(network("400 Gb/s InfiniBand per GPU"), (NetworkWords{8, 400}));
  EXPECT_EQ(network("RoCE 1600 Gbps per node"), (NetworkWords{1, 1600}));
  EXPECT_EQ(network("800 Gbps per node, 4 NICs"), (NetworkWords{4, 200}));
  EXPECT_EQ(network("1600 Gbps per node (8x200 Gbps)"), (NetworkWords{8, 200}));
  EXPECT_EQ(network("InfiniBand 100 Gb/s"), (NetworkWords{1, 100}));
}

// Omni-Path 100 has 100 Gb/s per link. HDR without a count has as many ports as the device's usual node.
TEST(NetworkWords, NamesOfAGeneration) {
  EXPECT_EQ(network("Omni-Path, 4 links per node (Jean Zay A100 partition)"), (NetworkWords{4, 100}));
  EXPECT_EQ(network("8x NDR InfiniBand"), (NetworkWords{8, 400}));
  EXPECT_EQ(network("HDR InfiniBand"), (NetworkWords{std::nullopt, 200}));
  EXPECT_EQ(network("InfiniBand HDR 200 Gb/s"), (NetworkWords{std::nullopt, 200}));
  EXPECT_EQ(network("4x HDR (200 Gb/s) InfiniBand"), (NetworkWords{4, 200}));
  EXPECT_EQ(network("NDR400"), (NetworkWords{std::nullopt, 400}));
}

TEST(NetworkWords, WordsWithoutARateSayNothing) {
  for (const char* words : {"", "InfiniBand (DGX H100)", "RoCE RDMA", "InfiniBand/RoCE (not stated)", "DGX with 80 GB cards"}) {
    const NetworkReading r = read_network_words(words, 8);
    EXPECT_FALSE(r.network) << words;
    EXPECT_EQ(r.unknown, "") << words;
  }
}

TEST(NetworkWords, WhatIsNotUnderstoodIsNamed) {
  EXPECT_EQ(read_network_words("8x 53 GT/s", 8).unknown, "53 GT/s");
  EXPECT_EQ(read_network_words("Ethernet", 8).unknown, "Ethernet");
  EXPECT_EQ(read_network_words("400 Gb/s or 200 Gb/s", 8).unknown, "400 Gb/s or 200 Gb/s");
  EXPECT_EQ(read_network_words("4000x 100 Gb/s", 8).unknown, "4000x 100 Gb/s");
}

TEST(ScheduleWords, NamesAreWhole) {
  EXPECT_EQ(read_schedule_words("1F1B"), ScheduleKind::one_f_one_b);
  EXPECT_EQ(read_schedule_words("1F1B-I"), ScheduleKind::interleaved);
  EXPECT_EQ(read_schedule_words("interleaved-1f1b"), ScheduleKind::interleaved);
  EXPECT_EQ(read_schedule_words("1f1b (interleaved)"), ScheduleKind::interleaved);
  EXPECT_EQ(read_schedule_words("ZB-1p"), ScheduleKind::zb_h1);
  EXPECT_EQ(read_schedule_words("ZB-H1"), ScheduleKind::zb_h1);
  EXPECT_EQ(read_schedule_words("ZB-H2"), ScheduleKind::zb_h2);
  EXPECT_EQ(read_schedule_words("ZB-V"), ScheduleKind::zb_v);
  EXPECT_EQ(read_schedule_words("GPipe"), ScheduleKind::gpipe);
  for (const char* other : {"1f1b-vocab-2", "ZB-2p", "ZB-V-half", "1f1b+offload", "interleaved-zb", "dualpipe", "V-Min", ""})
    EXPECT_FALSE(read_schedule_words(other)) << other;
}

TEST(PrecisionWords, TheFormatOfTheProductsCounts) {
  const auto read = [](const char* words) { return read_precision_words(words).precision; };
  EXPECT_EQ(read("bf16 (fp32 grad accumulation)"), Precision::bf16);
  EXPECT_EQ(read("bf16+fp8(hybrid,tensorwise)"), Precision::fp8);
  EXPECT_EQ(read("amp_bf16"), Precision::bf16);
  EXPECT_EQ(read("FP8-CS"), Precision::fp8);
  EXPECT_EQ(read("FP8-MX"), Precision::mxfp8);
  EXPECT_EQ(read("MXFP8"), Precision::mxfp8);
  EXPECT_EQ(read("bf16 + NVFP4"), Precision::nvfp4);
  EXPECT_EQ(read("fp16 mixed"), Precision::fp16);
  EXPECT_EQ(read("mixed (bf16/fp16 not stated)"), Precision::bf16);
  EXPECT_EQ(read("tf32"), Precision::tf32);
}

TEST(PrecisionWords, OtherFormatsAreNamed) {
  EXPECT_EQ(read_precision_words("bf16 + MXFP6").unknown, "mxfp6");
  EXPECT_EQ(read_precision_words("int8").unknown, "int8");
  EXPECT_EQ(read_precision_words("mixed").unknown, "mixed");
  EXPECT_EQ(read_precision_words("bf16 (fp32 grad accumulation)").unknown, "");
}

TEST(RecomputeWords, OtherModulesAreAnotherChoice) {
  for (const char* words : {"selective", "selective (per-op SAC)", "selective: core_attn", "selective (every 2 matmul)"})
    EXPECT_TRUE(recomputes_attention_alone(words)) << words;
  for (const char* words : {"selective (moe_act)", "selective mlp", "full", "selectively nothing", ""})
    EXPECT_FALSE(recomputes_attention_alone(words)) << words;
}

TEST(NamesDevice, WholeWords) {
  EXPECT_TRUE(names_device("L4-24GB", "l4"));
  EXPECT_TRUE(names_device("8xH100", "h100"));
  EXPECT_TRUE(names_device("A100SXM4", "a100"));
  EXPECT_TRUE(names_device("H100 (96GB HBM2e, 500W, 2.4TB/s)", "h100"));
  EXPECT_FALSE(names_device("L40", "l4"));
  EXPECT_FALSE(names_device("GB200", "b200"));
}

RC_GTEST_PROP(RecordWords, AnyTextIsRead, (const std::string& text)) {
  (void)read_network_words(text, 8);
  (void)read_schedule_words(text);
  (void)read_precision_words(text);
  (void)names_device(text, "l4");
  RC_SUCCEED("read");
}

}  // namespace
}  // namespace espalier::runs
