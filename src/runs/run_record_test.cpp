// SPDX-License-Identifier: Apache-2.0
#include "espalier/measured_runs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace espalier::runs::run_record_test {
namespace {

using testing::HasSubstr;

TEST(RunRecord, ReadsALineAndIgnoresWhatItDoesNotKnow) {
  const auto records = read_all_run_records(R"(
{"id": "a", "source": "s", "model": {"layers": 32, "params": 8e9, "nickname": 1}, "seq": 4096, "gpu": {"type": "H100", "count": "8"}, "tp": 2, "sp": true, "dp": null, "measured": {"iteration_s": 1.5}, "weather": ["sunny"], "extra": {"peak_mem_bytes": 77, "fsdp_size": -1, "args": {"--swiglu": true, "--num-layers": 32, "x": {"y": 1}}}}

{"tp": 4, "sp": 0}
)",
                                            "runs.jsonl");
  ASSERT_TRUE(records) << records.error().message();
  ASSERT_EQ(records->size(), 2u);
  const RunRecord& r = records->front();
  EXPECT_EQ(r.id, "a");
  EXPECT_EQ(r.line, 2);
  EXPECT_EQ(r.model.layers, 32);
  EXPECT_EQ(r.model.params, 8e9);
  EXPECT_EQ(r.gpu.count, 8);
  EXPECT_EQ(r.tp, 2);
  EXPECT_FALSE(r.dp);
  EXPECT_EQ(r.sp, true);
  EXPECT_EQ(r.measured.peak_mem_bytes, 77);
  EXPECT_FALSE(r.shard);
  EXPECT_EQ(r.arguments.at("--swiglu"), "true");
  EXPECT_EQ(r.arguments.count("x"), 0u);
  EXPECT_EQ(records->back().id, "line 4");
  EXPECT_EQ(records->back().sp, false);
}

TEST(RunRecord, SeveralValuesAreSetApart) {
  const auto records = read_all_run_records(R"({"id": "a", "tp": [1, 2]})"
                                            "\n"
                                            R"({"id": "b", "seq": {"encoder": 1, "decoder": 2}})",
                                            "r");
  ASSERT_TRUE(records) << records.error().message();
  EXPECT_EQ((*records)[0].irregular, "tp");
  EXPECT_EQ((*records)[1].irregular, "seq");
}

TEST(RunRecord, ErrorsSayTheLine) {
  const auto place = [](const char* text) {
    const auto records = read_all_run_records(text, "runs.jsonl");
    return records ? std::string("ok") : records.error().where;
  };
  EXPECT_THAT(place("{}\n{\"tp\": }\n"), HasSubstr("runs.jsonl:2:8"));
  EXPECT_THAT(place("{}\n\n{\"tp\": \"two\"}\n"), HasSubstr("runs.jsonl:3:8"));
  EXPECT_THAT(place("{\"tp\": -1}"), HasSubstr("$.tp"));
  EXPECT_THAT(place("{\"tp\": 1.5}"), HasSubstr("$.tp"));
  EXPECT_THAT(place("{\"tp\": 1e300}"), HasSubstr("$.tp"));
  EXPECT_THAT(place("{\"model\": 5}"), HasSubstr("$.model"));
  EXPECT_THAT(place("{\"measured\": {\"iteration_s\": true}}"), HasSubstr("$.measured.iteration_s"));
  EXPECT_THAT(place("[1]"), HasSubstr("runs.jsonl:1"));
  EXPECT_THAT(place("{\"a\": NaN}"), HasSubstr("runs.jsonl:1"));
  EXPECT_THAT(place("{\"tp\": 1, \"tp\": 2}"), HasSubstr("runs.jsonl:1"));
  EXPECT_EQ(place(""), "ok");
}

// Lines 2 and 4 are damaged; the others are still read.
TEST(RunRecord, ABadLineCostsItselfAlone) {
  const auto file = read_run_records("{\"id\": \"a\"}\n{\"tp\": }\n{\"id\": \"b\"}\n{\"tp\": \"two\"}\n", "runs.jsonl");
  ASSERT_TRUE(file) << file.error().message();
  ASSERT_EQ(file->records.size(), 2u);
  EXPECT_EQ(file->records[1].id, "b");
  ASSERT_EQ(file->unreadable.size(), 2u);
  EXPECT_THAT(file->unreadable[0].where, HasSubstr("runs.jsonl:2:8"));
  EXPECT_THAT(file->unreadable[1].where, HasSubstr("runs.jsonl:4:8"));
  EXPECT_THAT(file->unreadable[1].found, HasSubstr("two"));
}

TEST(RunRecord, HowMemoryWasMeasuredAndWhereTheModelLies) {
  const auto records = read_all_run_records(
      R"({"model": {"config": "models/tiny.json"}, "measured": {"peak_mem_gb": 3}, "extra": {"mem_kind": "nvidia-smi", "mem_unit": "GiB"}})",
      "folder/runs.jsonl");
  ASSERT_TRUE(records) << records.error().message();
  EXPECT_EQ(records->front().model.config, "folder/models/tiny.json");
  EXPECT_EQ(records->front().measured.memory_kind, "nvidia-smi");
  EXPECT_EQ(records->front().measured.memory_unit, "GiB");
}

RC_GTEST_PROP(RunRecord, AnyBytesEndInRecordsOrAnError, (const std::string& bytes)) {
  const auto file = read_run_records(bytes, "r");
  RC_ASSERT(file.ok());
  for (const Error& line : file->unreadable) RC_ASSERT(!line.where.empty());
}

}  // namespace
}  // namespace espalier::runs::run_record_test
