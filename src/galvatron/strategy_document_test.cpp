// SPDX-License-Identifier: Apache-2.0
#include "galvatron/strategy_document.h"

#include <gtest/gtest.h>

namespace espalier::galvatron::strategy_document_test {
namespace {

// Three layers are on two stages: two in tensor-parallel pairs, the last with Ulysses, ZeRO-3 and recomputed.
constexpr const char* kSmall = R"({
    "pp_deg": 2,
    "tp_sizes_enc": "2,2,4",
    "tp_consecutive_flags": "1,0,1",
    "dp_types_enc": "0,0,1",
    "use_sp": "0,0,1",
    "checkpoint": "0,0,1",
    "global_bsz": 64,
    "chunks": 8,
    "pp_division": "2,1",
    "pipeline_type": "pipedream_flush",
    "default_dp_type": "zero2",
    "vtp": 2,
    "vsp": 1,
    "embed_sdp": 1
})";

std::string message_of(const std::string& json) {
  const auto read = read_strategy_document(json, "s.json");
  return read.ok() ? "" : read.error().message();
}

/// Returns kSmall with one text replaced.
std::string with(const std::string& from, const std::string& to) {
  std::string json = kSmall;
  return json.replace(json.find(from), from.size(), to);
}

TEST(StrategyDocument, ReadsEveryField) {
  const auto d = read_strategy_document(kSmall, "s.json");
  ASSERT_TRUE(d.ok()) << d.error().message();
  EXPECT_EQ(d->pp, 2);
  EXPECT_EQ(d->division, (std::vector<std::int32_t>{2, 1}));
  ASSERT_EQ(d->layers.size(), 3u);
  EXPECT_EQ(d->layers[1], (DocumentLayer{2, 1, false, false, false, 0}));
  EXPECT_EQ(d->layers[2], (DocumentLayer{4, 1, true, true, true, 1}));
  EXPECT_EQ(d->default_type, DataParallelType::zero2);
  EXPECT_EQ(d->global_batch, 64);
  EXPECT_EQ(d->chunks, 8);
  EXPECT_TRUE(d->one_f_one_b);
  EXPECT_EQ(d->vocab_tp, 2);
  EXPECT_TRUE(d->vocab_ulysses);
  EXPECT_TRUE(d->vocab_zero3);
}

TEST(StrategyDocument, WrittenAndReadBackEqual) {
  const auto d = read_strategy_document(kSmall, "s.json");
  const std::string text = to_json(*d);
  const auto again = read_strategy_document(text, "again.json");
  ASSERT_TRUE(again.ok()) << again.error().message();
  EXPECT_EQ(*again, *d);
  EXPECT_EQ(to_json(*again), text);
  EXPECT_NE(text.find("\"embed_sdp\": 1"), std::string::npos) << text;
  EXPECT_NE(text.find("\"vocab_sdp\": 1"), std::string::npos);
  EXPECT_NE(text.find("\"tp_sizes_enc\": \"2,2,4\""), std::string::npos);
}

// Version 1 wrote no schedule and no checkpoints, and equal stages with the remainder at the end.
TEST(StrategyDocument, AbsentFieldsAreThoseOfVersion1) {
  const auto d = read_strategy_document(R"({"pp_deg": 2, "tp_sizes_enc": "1,1,1", "tp_consecutive_flags": "1,1,1",
    "dp_types_enc": "0,1,1", "global_bsz": 8, "chunks": 1})",
                                        "v1.json");
  ASSERT_TRUE(d.ok()) << d.error().message();
  EXPECT_EQ(d->division, (std::vector<std::int32_t>{1, 2}));
  EXPECT_FALSE(d->one_f_one_b);
  EXPECT_EQ(d->default_type, DataParallelType::ddp);
  EXPECT_EQ(d->layers[2], (DocumentLayer{1, 1, true, false, true, 0}));
}

TEST(StrategyDocument, EitherNameOfTheVocabularySetting) {
  EXPECT_TRUE(read_strategy_document(with("embed_sdp", "vocab_sdp"), "s.json")->vocab_zero3);
  const std::string both = message_of(with("\"embed_sdp\": 1", "\"embed_sdp\": 1, \"vocab_sdp\": 0"));
  EXPECT_NE(both.find("both name the same setting"), std::string::npos) << both;
}

TEST(StrategyDocument, UnknownKeysAreReported) {
  std::vector<std::string> unread;
  ASSERT_TRUE(read_strategy_document(with("\"vsp\": 1,", "\"vsp\": 1, \"throughput\": 3,"), "s.json", &unread).ok());
  EXPECT_EQ(unread, std::vector<std::string>{"throughput"});
}

TEST(StrategyDocument, ErrorsSayWhereWhatAndWhatElse) {
  const auto expect = [](const std::string& json, const std::string& part) {
    const std::string message = message_of(json);
    EXPECT_NE(message.find(part), std::string::npos) << "wanted \"" << part << "\" in: " << message;
    EXPECT_NE(message.find("s.json:"), std::string::npos) << message;
  };
  expect(with("2,2,4", "2,x,4"), "entry 1, \"x\"");
  expect(with("2,2,4", "2,0,4"), "entry 1, \"0\"");
  expect(with("2,2,4", ""), "entry 0, \"\"");
  expect(with("\"2,2,4\"", "4"), "text");
  expect(with("1,0,1", "1,0"), "3 numbers");
  expect(with("2,1", "2,2"), "4 layers in all");
  expect(with("\"2,1\"", "\"3\""), "1 stages");
  expect(with("\"pp_deg\": 2", "\"pp_deg\": 4"), "at most one stage per layer");
  expect(with("\"chunks\": 8", "\"chunks\": 65"), "at most global_bsz");
  expect(with("pipedream_flush", "pipedream_flash"), "did you mean");
  expect(with("\"global_bsz\": 64,", ""), "global_bsz");
  expect("[]", "a mapping");
}

}  // namespace
}  // namespace espalier::galvatron::strategy_document_test
