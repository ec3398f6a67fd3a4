// SPDX-License-Identifier: Apache-2.0
// Tests a timeline of a few bars, packed by hand.
#include "report/page_timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/packed.h"

namespace espalier::report {
namespace {

using testing::HasSubstr;
using testing::Not;

/// Returns one rank with forward 0 … 10 and 10 … 20, then a send 12 … 15 of 64 bytes to rank 4. It holds 100 bytes,
/// and 5 and 7 more.
Timeline two_microbatches() {
  Timeline t;
  t.iteration_ns = 20;
  t.microbatches = 2;
  TimelineRank rank;
  rank.device = 3;
  rank.represents = 2;
  rank.static_bytes = 100;
  for (std::int32_t m = 0; m < 2; ++m) {
    TimelineSpan forward;
    forward.instruction = m;
    forward.microbatch = m;
    forward.first_layer = 0;
    forward.last_layer = 4;
    forward.start_ns = 10 * m;
    forward.end_ns = 10 * m + 10;
    rank.spans.push_back(forward);
  }
  TimelineSpan send;
  send.instruction = 2;
  send.kind = InstructionKind::send;
  send.stream = Stream::send;
  send.microbatch = 0;
  send.bytes = 64;
  send.group_size = 2;
  send.peer = 4;
  send.start_ns = 12;
  send.end_ns = 15;
  rank.spans.push_back(send);
  rank.memory = {{0, 0, 5}, {1, 10, 7}};
  t.ranks = {rank};
  return t;
}

std::string written(const Timeline& timeline, const ShownPart& shown) {
  base::JsonWriter w(0);
  write_timeline(w, timeline, shown);
  return w.text();
}

std::string packed(const std::vector<std::int64_t>& values) {
  Packed out;
  for (const std::int64_t value : values) out.add(value);
  return out.base64();
}

TEST(PageTimeline, RowsAndColumns) {
  const std::string text = written(two_microbatches(), {2, true});
  EXPECT_TRUE(base::read_json(text, "timeline"));
  // Compute has starts 0 and +10 (twice that: signed), lengths, name 0, micro-batches 1 and 2, chunk 0 + 1, no layer,
  // bytes, group, peer − 1 + 1. The send has start 12, length 3, name 1, micro-batch 0 + 1, chunk 0 + 1, no layer, 64
  // bytes, 2 members, peer 4 + 1.
  const std::string bars = packed({0, 20, 10, 10, 0, 0, 1, 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 24, 3, 1, 1, 1, 0, 64, 2, 5});
  EXPECT_THAT(text, HasSubstr("\"bars\": \"" + bars + "\""));
  EXPECT_THAT(text, HasSubstr(R"({"name": "forward", "category": "forward"})"));
  EXPECT_THAT(text, HasSubstr(R"({"name": "send activation", "category": "pipeline"})"));
  EXPECT_THAT(text, HasSubstr(R"({"rank": 0, "stream": "compute", "bars": 2})"));
  EXPECT_THAT(text, HasSubstr(R"({"rank": 0, "stream": "send", "bars": 1})"));
  EXPECT_THAT(text, HasSubstr(R"("chunks": [[0, 0, 4]])"));
  EXPECT_THAT(text, HasSubstr("\"memory\": \"" + packed({0, 20, 10, 4}) + "\""));  // moments 0, +10; bytes 5, +2
}

TEST(PageTimeline, FewerMicrobatchesShowTheFirst) {
  const std::string text = written(two_microbatches(), {1, true});
  EXPECT_THAT(text, HasSubstr(R"("stream": "compute", "bars": 1)"));
  EXPECT_THAT(text, HasSubstr(R"("microbatches_shown": 1)"));
}

TEST(PageTimeline, StepsHaveRowsOfTheirOwnByWhatTheyServe) {
  Timeline t = two_microbatches();
  TimelineStep step;
  step.name = "attn.qkv";
  step.part = "forward";
  step.layer = 1;
  step.end_ns = 4;
  t.ranks[0].steps.push_back(step);
  step.track = 1;
  step.times = 3;
  step.bytes = 10;
  step.group = "tensor";
  step.collective = CollectiveKind::all_gather;
  t.ranks[0].steps.push_back(step);
  step.track = 2;
  step.microbatch = 1;
  step.group = "data_shard";
  t.ranks[0].steps.push_back(step);
  const std::string all = written(t, {2, true}), first = written(t, {2, false});
  EXPECT_THAT(all, HasSubstr(R"({"name": "attn.qkv, forward", "category": "forward"})"));
  EXPECT_THAT(all, HasSubstr(R"({"name": "attn.qkv all_gather, tensor", "category": "tensor"})"));
  EXPECT_THAT(all, HasSubstr(R"({"name": "attn.qkv all_gather, data_shard", "category": "data"})"));
  EXPECT_THAT(all, HasSubstr(R"("stream": "ZeRO")"));
  EXPECT_THAT(first, HasSubstr(R"("stream": "collectives")"));
  EXPECT_THAT(first, Not(HasSubstr(R"("stream": "ZeRO")")));  // from the second micro-batch
  EXPECT_THAT(all, HasSubstr(R"("all_steps": true)"));
  EXPECT_THAT(first, HasSubstr(R"("all_steps": false)"));
  t.ranks[0].steps.resize(2);  // only those of the first micro-batch
  EXPECT_THAT(written(t, {2, true}), HasSubstr(R"("all_steps": false)"));
}

TEST(PageTimeline, ShowsAsMuchAsThereIsRoomFor) {
  Timeline t = two_microbatches();
  t.microbatches = 4000;
  t.iteration_ns = 80'000'000;
  t.ranks[0].spans.resize(1);
  for (std::int32_t m = 1; m < 4000; ++m) {
    TimelineSpan span = t.ranks[0].spans[0];
    span.microbatch = m;
    span.start_ns = m * 20'000LL + (m * 7919LL) % 4001;  // incompressible values
    span.end_ns = span.start_ns + 10'000 + (m * 104'729LL) % 3001;
    t.ranks[0].spans.push_back(span);
  }
  const ShownPart all = shown_part(t, 1'000'000), part = shown_part(t, 10'000), none = shown_part(t, 10);
  EXPECT_EQ(all.microbatches, 4000);
  EXPECT_TRUE(all.all_steps);
  EXPECT_LT(part.microbatches, 4000);
  EXPECT_GT(part.microbatches, 200);
  EXPECT_FALSE(part.all_steps);
  EXPECT_LE(written(t, part).size(), 10'000u);
  EXPECT_EQ(none.microbatches, 1);
}

TEST(PageTimeline, OfManySamplesOfMemoryTheHighestOfEachPartOfTheStepStays) {
  Timeline t = two_microbatches();
  t.iteration_ns = 1'000'000;
  t.ranks[0].memory.clear();
  for (std::int64_t i = 0; i < 10'000; ++i) t.ranks[0].memory.push_back({0, i * 100, i == 5003 ? 999 : i % 3});
  const std::string text = written(t, {2, true});
  const auto at = text.find("\"samples\": ");
  ASSERT_NE(at, std::string::npos);
  const long samples = std::stol(text.substr(at + 11));
  EXPECT_LE(samples, static_cast<long>(kMemorySamples));
  EXPECT_GT(samples, 1500);
}

}  // namespace
}  // namespace espalier::report
