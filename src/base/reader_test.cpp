// SPDX-License-Identifier: Apache-2.0
// Tests Reader: a straight list of fields, and the messages for users if one of them is wrong.
#include "base/document.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>

namespace espalier::base {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

struct Read {
  Document document;
  ErrorSink sink;
  explicit Read(const std::string& yaml) {
    auto read = read_yaml(yaml, "job.yaml");
    EXPECT_TRUE(read.ok());
    if (read.ok()) document = std::move(*read);
  }
  Reader root() { return Reader::root(document, sink); }
  std::string message() { return sink.ok() ? "" : sink.first().error().message(); }
};

TEST(Reader, ReadsFieldsInAStraightList) {
  Read file("{tp: 8, ratio: 1, name: x, flag: true, list: [1, 2], memory: 80GiB, link: 400Gb/s, delay: 5us, kind: ring}");
  Reader reader = file.root();
  EXPECT_EQ(reader.required_int("tp", 1, 64), 8);
  EXPECT_EQ(reader.optional_int("pp", 1, 64, 1), 1);
  EXPECT_DOUBLE_EQ(reader.required_real("ratio", 0, 1), 1.0);
  EXPECT_EQ(reader.required_string("name"), "x");
  EXPECT_TRUE(reader.optional_bool("flag", false));
  EXPECT_THAT(reader.optional_int_list("list", 0, 9), ElementsAre(1, 2));
  EXPECT_EQ(reader.optional_bytes("memory", 0), 80ll << 30);
  EXPECT_DOUBLE_EQ(reader.optional_bandwidth("link", 0), 50e9);  // 400 Gb/s = 50 GB/s
  EXPECT_DOUBLE_EQ(reader.optional_duration("delay", 0), 5e-6);
  EXPECT_EQ(reader.optional_choice("kind", {"all-to-all", "ring"}, 0), 1u);
  reader.finish();
  EXPECT_EQ(file.message(), "");
}

TEST(Reader, UnknownKeySuggestsTheClosestKnownOne) {
  Read file("tpp: 8");
  Reader reader = file.root();
  static_cast<void>(reader.optional_int("tp", 1, 8, 1));
  static_cast<void>(reader.optional_int("pp", 1, 8, 1));
  reader.finish();
  EXPECT_EQ(file.message(), "job.yaml:1:6 ($.tpp): found the unknown key \"tpp\"; expected tp or pp; hint: did you mean \"tp\"?");
}

std::string message_of(const std::string& yaml, const std::function<void(Reader&)>& read) {
  Read file(yaml);
  Reader reader = file.root();
  read(reader);
  return file.message();
}

TEST(Reader, MessagesSayWhereWhatAndHow) {
  EXPECT_EQ(message_of("tp: 0", [](Reader& r) { r.required_int("tp", 1, 64); }),
            "job.yaml:1:5 ($.tp): found 0; expected an integer from 1 to 64; hint: choose a larger number");
  EXPECT_EQ(message_of("tp: \"8\"", [](Reader& r) { r.required_int("tp", 1, 64); }),
            "job.yaml:1:5 ($.tp): found \"8\"; expected an integer from 1 to 64; hint: remove the quotes");
  EXPECT_EQ(message_of("n: 1e3", [](Reader& r) { r.required_int("n", 1, INT64_MAX); }),
            "job.yaml:1:4 ($.n): found 1e3; expected an integer of at least 1; hint: write 1000");
  EXPECT_EQ(message_of("nodess: 1", [](Reader& r) { r.required_int("nodes", 1, 9); }),
            "job.yaml:1:9 ($.nodess): found the unknown key \"nodess\" and no \"nodes\"; expected an integer from 1 to 9; "
            "hint: rename \"nodess\" to \"nodes\"");
  EXPECT_EQ(message_of("a: 1", [](Reader& r) { r.required_string("model"); }),
            "job.yaml:1:1 ($.model): found no \"model\"; expected text; hint: add it to the file: model: …");
  EXPECT_EQ(message_of("x: [1]", [](Reader& r) { r.required_real("x", 0, 1); }),
            "job.yaml:1:4 ($.x): found a list of 1 value; expected a number from 0 to 1; hint: write one number, not a list");
  EXPECT_EQ(message_of("k: rnig",
                       [](Reader& r) {
                         r.optional_choice("k", {"ring", "all-to-all"}, 0);
                       }),
            "job.yaml:1:4 ($.k): found \"rnig\"; expected ring or all-to-all; hint: did you mean \"ring\"?");
  EXPECT_EQ(
      message_of("m: 80", [](Reader& r) { r.optional_bytes("m", 0); }),
      "job.yaml:1:4 ($.m): found 80; expected a size such as 80GiB; hint: a unit is missing; write, for example, \"80GiB\"");
  EXPECT_THAT(message_of("m: -80GB", [](Reader& r) { r.optional_bytes("m", 0); }), HasSubstr("it cannot be negative"));
  EXPECT_THAT(message_of("m: 36-GiB", [](Reader& r) { r.optional_bytes("m", 0); }), Not(HasSubstr("negative")));
  EXPECT_THAT(message_of("b: 0Gb/s", [](Reader& r) { r.optional_bandwidth("b", 0); }), HasSubstr("instead of setting it to 0"));
  EXPECT_THAT(message_of("l: [1, x]", [](Reader& r) { r.optional_int_list("l", 0, 9); }),
              HasSubstr("job.yaml:1:8 ($.l[1]): found \"x\""));
  EXPECT_THAT(message_of("[1]", [](Reader&) {}), HasSubstr("job.yaml:1:1 ($): found a list of 1 value; expected a mapping"));
}

TEST(Reader, FailFillsInWhatTheCallerLeavesOut) {
  EXPECT_EQ(message_of("span: \"\"", [](Reader& r) { r.fail("span", "", "a number of devices"); }),
            "job.yaml:1:7 ($.span): found \"\"; expected a number of devices; hint: docs/file-formats.md explains \"span\"");
  EXPECT_THAT(message_of("a: 1", [](Reader& r) { r.fail("b", "", "b"); }), HasSubstr("($.b): found nothing; expected b"));
}

TEST(Reader, ChildrenAndListsCarryTheirPath) {
  Read file("groups:\n  - {nodes: 2}\n  - {nodes: x}\n");
  Reader reader = file.root();
  int seen = 0;
  reader.each("groups", true, [&](Reader& group) {
    ++seen;
    group.required_int("nodes", 1, 9);
    group.finish();
  });
  EXPECT_EQ(seen, 2);
  EXPECT_THAT(file.message(), HasSubstr("job.yaml:3:13 ($.groups[1].nodes): found \"x\""));
}

TEST(Reader, AbsentChildIsEmptyAndPointsAtItsParent) {
  Read file("a: 1\nouter:\n  b: 1\n");
  Reader outer = file.root().child("outer", true);
  Reader inner = outer.child("inner", false);
  EXPECT_FALSE(inner.has("x"));
  EXPECT_EQ(inner.optional_int("x", 0, 9, 4), 4);
  EXPECT_TRUE(file.sink.ok());
  inner.required_int("x", 0, 9);
  EXPECT_THAT(file.message(), HasSubstr("job.yaml:3:3 ($.outer.inner.x): found no \"x\""));
}

TEST(Reader, NullIsAbsentForOptionalFieldsOnly) {
  Read file("a: null\nb: ~");
  Reader reader = file.root();
  EXPECT_FALSE(reader.has("a"));
  EXPECT_EQ(reader.optional_int("a", 0, 9, 5), 5);
  EXPECT_TRUE(file.sink.ok());
  reader.required_int("b", 0, 9);
  EXPECT_THAT(file.message(), HasSubstr("found null"));
}

TEST(Reader, UnreadKeysAreListedInFileOrder) {
  Read file("{z: 1, a: 2, m: 3}");
  Reader reader = file.root();
  reader.ignore({"a", "not there"});
  EXPECT_THAT(reader.unread(), ElementsAre("z", "m"));
}

TEST(DidYouMean, KnowsTheWordsOfOtherTools) {
  EXPECT_EQ(did_you_mean("seq_len", {"precision", "sequence_length"}), "sequence_length");
  // The suggestion also works in the other direction: for the key in the file.
  EXPECT_EQ(did_you_mean("sequence_length", {"seq_len", "global_batch"}), "seq_len");
  EXPECT_EQ(did_you_mean("tensor-model-parallel-size", {"pp", "tp"}), "tp");
  EXPECT_EQ(did_you_mean("seq_len", {"precision"}), std::nullopt);
  EXPECT_EQ(suggestion("megatron", {"deepspeed", "megatron-core", "megatron-lm-2021"}),
            "did you mean \"megatron-core\" or \"megatron-lm-2021\"?");
  EXPECT_EQ(suggestion("qqq", {"deepspeed"}), "");
}

TEST(SimilarPath, MendsTheFirstPartThatIsMissing) {
  const auto folder = std::filesystem::path(::testing::TempDir()) / "espalier_similar_path";
  std::filesystem::create_directories(folder / "models" / "llama");
  std::ofstream(folder / "models" / "llama" / "config.json") << "{}";
  EXPECT_EQ(similar_path(folder.string(), "models/lama/config.json"), "models/llama/config.json");
  EXPECT_EQ(similar_path(folder.string(), "model/llama/config.json"), "models/llama/config.json");
  EXPECT_EQ(similar_path(folder.string(), "models/llama/confg.json"), "models/llama/config.json");
  EXPECT_EQ(similar_path(folder.string(), "models/llama/config.json"), "");  // nothing to correct
  EXPECT_EQ(similar_path(folder.string(), "models/lama/tokenizer.json"), "");
}

TEST(ReadFile, RefusesWhatIsNotASmallFile) {
  const auto directory = std::filesystem::temp_directory_path();
  EXPECT_THAT(read_file((directory / "espalier-no-such-file").string()).error().message(), HasSubstr("no such file"));
  EXPECT_THAT(read_file(directory.string()).error().message(), HasSubstr("a directory"));
  EXPECT_THAT(read_file("/dev/zero", 1000).error().message(), HasSubstr("more than 1000 bytes"));
  const auto path =
      directory / ("espalier-reader-test-" + std::to_string(::testing::UnitTest::GetInstance()->random_seed()) + ".txt");
  std::ofstream(path) << "hello";
  EXPECT_EQ(*read_file(path.string()), "hello");
  EXPECT_FALSE(read_file(path.string(), 4).ok());
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace espalier::base
