// SPDX-License-Identifier: Apache-2.0
#include "runs/remarks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace espalier::runs::remarks_test {
namespace {

RunRecord record(const std::string& line) {
  auto records = read_all_run_records(line, "runs.jsonl");
  EXPECT_TRUE(records) << records.error().message();
  return records ? records->front() : RunRecord{};
}

// The list of a record is complete: its text is for people.
TEST(Techniques, AListedRecordIsNotReadForWords) {
  const RunTechniques none =
      record(R"({"techniques": [], "table": "LoRA results", "notes": "DeepEP, HSDP, CPU offload, torch.compile"})").techniques;
  EXPECT_FALSE(none.lora || none.deepep || none.hsdp || none.offload || none.compile);
  const RunTechniques two = record(R"({"techniques": ["LoRA", "hsdp"], "extra": {"torch_compile": true}})").techniques;
  EXPECT_TRUE(two.lora && two.hsdp);
  EXPECT_FALSE(two.compile);
  EXPECT_EQ(two.unknown, "");
}

TEST(Techniques, OptionsOfEngines) {
  EXPECT_THAT(listed_techniques({"lora", "moe-graphs"}).options, testing::ElementsAre("moe-graphs"));
  EXPECT_EQ(listed_techniques({"lora", "moe-graphs"}).unknown, "");
}

TEST(Techniques, AdaptersAndRelease) {
  const RunRecord r =
      record(R"({"techniques": ["lora"], "adapter": {"rank": 16, "targets": ["all-linear"]}, "release": "25.02"})");
  EXPECT_EQ(r.adapter.rank, 16);
  EXPECT_THAT(r.adapter.targets, testing::ElementsAre("all-linear"));
  EXPECT_EQ(r.release, "25.02");
  EXPECT_FALSE(record("{}").adapter.rank);
}

TEST(Techniques, NamesThatAreNotKnownAreKept) { EXPECT_EQ(listed_techniques({"lora", "galore", "dora"}).unknown, "galore"); }

TEST(Techniques, AListIsAList) {
  for (const char* wrong : {R"({"techniques": "lora"})", R"({"techniques": [1]})", R"({"techniques": {"lora": true}})"}) {
    const auto file = read_run_records(wrong, "runs.jsonl");
    ASSERT_TRUE(file);
    EXPECT_EQ(file->unreadable.size(), 1u) << wrong;
  }
}

}  // namespace
}  // namespace espalier::runs::remarks_test
