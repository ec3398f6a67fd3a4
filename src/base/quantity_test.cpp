// SPDX-License-Identifier: Apache-2.0
// Tests quantities and suggestions: 80GiB = 80·2^30 bytes, 400Gb/s = 400e9/8 bytes per second, 5us = 5e-6 seconds.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "base/document.h"

namespace espalier::base {
namespace {

TEST(ParseBytes, DecimalAndBinaryPrefixes) {
  EXPECT_EQ(parse_bytes("80GiB"), 85899345920);
  EXPECT_EQ(parse_bytes("80 GB"), 80000000000);
  EXPECT_EQ(parse_bytes("1.5TiB"), 1649267441664);
  EXPECT_EQ(parse_bytes("512MiB"), 536870912);
  EXPECT_EQ(parse_bytes("3 kB"), 3000);
  EXPECT_EQ(parse_bytes("3KB"), 3000);
  EXPECT_EQ(parse_bytes("7B"), 7);
  EXPECT_EQ(parse_bytes("9223372036854775807B"), INT64_MAX);
}

TEST(ParseBytes, RefusesWhatIsNotASize) {
  for (const char* text : {"", "80", "GiB", "-1GB", "+1GB", "nanGB", "infGB", "1e400GB", "80Gb", "80G", "80GiBs", "80 GiB/s",
                           "1e30GB", "9223372036854775808B", "10EiB", "0x10B", "1,5GB", "80 G iB", "1iB"}) {
    EXPECT_EQ(parse_bytes(text), std::nullopt) << text;
  }
}

TEST(ParseBandwidth, BitsAndBytes) {
  EXPECT_EQ(parse_bandwidth("400Gb/s"), 50e9);
  EXPECT_EQ(parse_bandwidth("400 Gbit/s"), 50e9);
  EXPECT_EQ(parse_bandwidth("400Gbps"), 50e9);
  EXPECT_EQ(parse_bandwidth("50GB/s"), 50e9);
  EXPECT_EQ(parse_bandwidth("3.35 TB/s"), 3.35e12);
  EXPECT_EQ(parse_bandwidth("1GiB/s"), 1073741824.0);
  EXPECT_EQ(parse_bandwidth("8bit/s"), 1.0);
  for (const char* text : {"", "50", "50GB", "-50GB/s", "50G/s", "nanGB/s", "50GB/h", "1e308TB/s", "GB/s"}) {
    EXPECT_EQ(parse_bandwidth(text), std::nullopt) << text;
  }
}

TEST(ParseDuration, SecondsAndTheirParts) {
  EXPECT_EQ(parse_duration("5us"), 5e-6);
  EXPECT_EQ(parse_duration("5 \xC2\xB5s"), 5e-6);  // micro sign
  EXPECT_EQ(parse_duration("5 \xCE\xBCs"), 5e-6);  // Greek mu
  EXPECT_EQ(parse_duration("1.5ms"), 1.5e-3);
  EXPECT_EQ(parse_duration("2s"), 2.0);
  EXPECT_EQ(parse_duration("1.5min"), 90.0);
  EXPECT_EQ(parse_duration("2 h"), 7200.0);
  EXPECT_EQ(parse_duration("10d"), 864000.0);
  EXPECT_EQ(parse_duration("300ns"), 3e-7);
  for (const char* text : {"", "5", "5m", "-5us", "5Ms", "us", "infs", "5 u s"})
    EXPECT_EQ(parse_duration(text), std::nullopt) << text;
}

RC_GTEST_PROP(Quantities, NeverNegativeNeverCrash, (const std::string& text)) {
  for (const char* unit : {"", "GB", "Gb/s", "us", "EiB"}) {
    if (const auto bytes = parse_bytes(text + unit)) RC_ASSERT(*bytes >= 0);
    if (const auto rate = parse_bandwidth(text + unit)) RC_ASSERT(*rate >= 0);
    if (const auto time = parse_duration(text + unit)) RC_ASSERT(*time >= 0);
  }
}

TEST(DidYouMean, SuggestsNearWordsOnly) {
  const std::vector<std::string> words = {"tp", "pp", "micro_batch", "recompute", "sequence_length"};
  EXPECT_EQ(did_you_mean("tpp", words), "tp");
  EXPECT_EQ(did_you_mean("TP", words), "tp");
  EXPECT_EQ(did_you_mean("micro-batch", words), "micro_batch");
  EXPECT_EQ(did_you_mean("sequence_lenght", words), "sequence_length");
  EXPECT_EQ(did_you_mean("seq_length", words), "sequence_length");
  EXPECT_EQ(did_you_mean("optimizer", words), std::nullopt);
  EXPECT_EQ(did_you_mean("xy", words), std::nullopt);
  EXPECT_EQ(did_you_mean("", words), std::nullopt);
  EXPECT_EQ(did_you_mean(std::string(1'000'000, 'a'), words), std::nullopt);
}

}  // namespace
}  // namespace espalier::base
