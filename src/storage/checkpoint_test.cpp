// SPDX-License-Identifier: Apache-2.0
#include "storage/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace espalier::storage {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string text_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void put(const fs::path& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

/// Element e of a layer has the value layer·100 + e; its moments are a tenth and a hundredth of that.
std::vector<float> values_of(std::int32_t layer, const Intervals& elements, float scale) {
  std::vector<float> out;
  for (const Interval& piece : elements)
    for (std::int64_t e = piece.first; e < piece.last; ++e)
      out.push_back(scale * static_cast<float>(std::int64_t{layer} * 100 + e));
  return out;
}

CheckpointPiece piece_of(std::int32_t layer, const Intervals& elements) {
  return {layer, elements, {values_of(layer, elements, 1), values_of(layer, elements, 0.1f), values_of(layer, elements, 0.01f)}};
}

class Checkpoints : public ::testing::Test {
 protected:
  Checkpoints() {
    std::string pattern = (fs::temp_directory_path() / "espalier-test-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~Checkpoints() override { fs::remove_all(path_); }

  /// Writes two ranks: elements 0 … 9 and 10 … 19 of layer 0, and the odd and the even ones of four of layer 3.
  void write(std::int64_t step, std::int64_t keep = 2) const {
    const std::string partial = partial_folder(folder(), step);
    ASSERT_TRUE(make_folder(partial).ok());
    Manifest manifest{step, "plan", "model", {8, 16, 1, ""}, {}};
    const std::vector<std::vector<CheckpointPiece>> ranks{{piece_of(0, {{0, 10}}), piece_of(3, {{1, 2}, {3, 4}})},
                                                          {piece_of(0, {{10, 20}}), piece_of(3, {{0, 1}, {2, 3}})}};
    for (int rank = 0; rank < 2; ++rank) {
      const auto checksum = write_rank(partial, rank, ranks[static_cast<std::size_t>(rank)]);
      ASSERT_TRUE(checksum.ok()) << checksum.error().message();
      manifest.ranks.push_back(*checksum);
    }
    const Status failed = complete(folder(), manifest, keep);
    ASSERT_TRUE(failed.ok()) << failed.error().message();
  }
  [[nodiscard]] std::string folder() const { return (path_ / "c").string(); }

  /// Returns the first error while everything is read; empty without one.
  [[nodiscard]] std::string refusal(std::int64_t step) const {
    auto opened = Checkpoint::open(step_folder(folder(), step));
    if (!opened) return opened.error().message();
    for (const auto& [layer, all] : {std::pair(0, Interval{0, 20}), std::pair(3, Interval{0, 4})})
      for (const StateArray array : kStateArrays)
        if (const auto read = opened->read(layer, {all}, array); !read) return read.error().message();
    return "";
  }

  fs::path path_;
};

/// A rank of another plan reads elements 5 … 14 of layer 0 and 1 and 2 of layer 3, which come from both ranks.
TEST_F(Checkpoints, PiecesAreFoundByTheirElements) {
  write(7);
  auto opened = Checkpoint::open(step_folder(folder(), 7));
  ASSERT_TRUE(opened.ok()) << opened.error().message();
  EXPECT_EQ(opened->manifest().step, 7);
  EXPECT_EQ(opened->manifest().training, (TrainingFacts{8, 16, 1, ""}));
  const Intervals wanted{{2, 4}, {5, 15}};
  EXPECT_EQ(*opened->read(0, wanted, StateArray::values), values_of(0, wanted, 1));
  EXPECT_EQ(*opened->read(0, wanted, StateArray::first), values_of(0, wanted, 0.1f));
  EXPECT_EQ(*opened->read(3, {{1, 3}}, StateArray::second), values_of(3, {{1, 3}}, 0.01f));
  EXPECT_THAT(*opened->read(3, {}, StateArray::values), IsEmpty());
}

TEST_F(Checkpoints, ElementsThatNobodyWroteAreMissed) {
  write(7);
  auto opened = Checkpoint::open(step_folder(folder(), 7));
  ASSERT_TRUE(opened.ok());
  EXPECT_THAT(opened->read(0, {{15, 25}}, StateArray::values).error().message(), HasSubstr("5 of 10 elements"));
  EXPECT_THAT(opened->read(1, {{0, 1}}, StateArray::values).error().message(), HasSubstr("0 of 1 elements"));
}

TEST_F(Checkpoints, TheLastOnesStay) {
  for (const std::int64_t step : {5, 10, 15}) write(step);
  EXPECT_THAT(steps_in(folder()), ElementsAre(15, 10));
  write(15);  // again: a run that resumed from 10
  EXPECT_THAT(steps_in(folder()), ElementsAre(15, 10));
  EXPECT_EQ(refusal(15), "");
  write(20, 1);
  EXPECT_THAT(steps_in(folder()), ElementsAre(20));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder()), fs::directory_iterator()), 1);
}

/// A renamed folder holds the updates that its manifest counts, and sorts by them.
TEST_F(Checkpoints, TheManifestCountsTheSteps) {
  for (const std::int64_t step : {5, 10}) write(step);
  fs::rename(step_folder(folder(), 5), step_folder(folder(), 40));
  EXPECT_THAT(steps_in(folder()), ElementsAre(10, 40));
  EXPECT_EQ(Checkpoint::open(step_folder(folder(), 40))->manifest().step, 5);
  write(15);
  EXPECT_THAT(steps_in(folder()), ElementsAre(15, 10)) << "the oldest went";
  put(fs::path(step_folder(folder(), 15)) / "manifest.json", "");
  EXPECT_THAT(steps_in(folder()), ElementsAre(15, 10)) << "damaged: the name counts, so that it is seen and passed over";
}

/// An incomplete checkpoint does not count. A run that is killed while it writes leaves the previous one unchanged.
TEST_F(Checkpoints, HalfWrittenOnesAreNone) {
  write(5);
  ASSERT_TRUE(make_folder(partial_folder(folder(), 10)).ok());
  ASSERT_TRUE(write_rank(partial_folder(folder(), 10), 0, {piece_of(0, {{0, 20}})}).ok());
  put(fs::path(folder()) / "step-notes", "x");
  ASSERT_TRUE(make_folder(step_folder(folder(), 12)).ok());  // without manifest
  EXPECT_THAT(steps_in(folder()), ElementsAre(5));
  EXPECT_THAT(steps_in((path_ / "none").string()), IsEmpty());
}

/// Every bit of every file is part of a checksum, or changes nothing (white space of a document).
TEST_F(Checkpoints, EveryFlippedBitIsSeen) {
  write(7);
  const fs::path step = step_folder(folder(), 7);
  ASSERT_EQ(refusal(7), "");
  int flipped = 0;
  for (const auto& entry : fs::directory_iterator(step)) {
    const std::string whole = text_of(entry.path());
    for (std::size_t at = 0; at < whole.size(); at += 1 + whole.size() / 40) {
      std::string bytes = whole;
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << at % 8));
      put(entry.path(), bytes);
      const bool blank = entry.path().filename() == "manifest.json" && (whole[at] == ' ' || whole[at] == '\n');
      EXPECT_TRUE(blank || !refusal(7).empty()) << entry.path() << " byte " << at;
      ++flipped;
    }
    put(entry.path(), whole);
  }
  EXPECT_GT(flipped, 150);
  EXPECT_EQ(refusal(7), "");
}

/// A rank that counts nothing still has a file, and it is verified.
TEST_F(Checkpoints, FilesWithoutElementsAreVerified) {
  const std::string partial = partial_folder(folder(), 3);
  ASSERT_TRUE(make_folder(partial).ok());
  const auto all = write_rank(partial, 0, {piece_of(0, {{0, 20}})}), none = write_rank(partial, 1, {});
  ASSERT_TRUE(complete(folder(), {3, "plan", "model", {8, 16, 1, ""}, {*all, *none}}, 2).ok());
  const fs::path file = fs::path(step_folder(folder(), 3)) / "rank-00001.safetensors";
  for (const bool whole : {true, false}) {
    if (!whole) fs::resize_file(file, 6);
    auto opened = Checkpoint::open(step_folder(folder(), 3));
    ASSERT_TRUE(opened.ok());
    ASSERT_EQ(opened->ranks(), 2u);
    EXPECT_TRUE(opened->verify(0).ok());
    EXPECT_EQ(opened->verify(1).ok(), whole);
  }
}

TEST_F(Checkpoints, CutFilesAreRefused) {
  write(7);
  for (const auto& entry : fs::directory_iterator(step_folder(folder(), 7))) {
    const std::string whole = text_of(entry.path());
    for (const std::size_t size : {std::size_t{0}, std::size_t{7}, whole.size() / 2, whole.size() - 2}) {
      put(entry.path(), whole.substr(0, size));
      EXPECT_NE(refusal(7), "") << entry.path() << " cut to " << size;
    }
    fs::remove(entry.path());
    EXPECT_NE(refusal(7), "") << entry.path() << " gone";
    put(entry.path(), whole);
  }
}

TEST(CheckpointDocuments, ThereAndBack) {
  const Manifest manifest{3, "a\"b", "c", {8, 16, 77, "data file"}, {"0123456789abcdef", "x"}};
  EXPECT_EQ(*read_manifest(to_json(manifest), "manifest"), manifest);
  const RankIndex index{"h", {{2, {{0, 4}, {6, 7}}, {"a", "b", "c"}}, {0, {}, {"", "", ""}}}};
  EXPECT_EQ(*read_rank_index(to_json(index), "index"), index);
}

TEST(CheckpointDocuments, WhatIsRefused) {
  const std::string text = to_json(Manifest{3, "a", "c", {8, 16, 77, ""}, {"x"}});
  std::string other = text;
  other.replace(other.find("\"step\": 3"), 9, "\"step\": 4");
  EXPECT_THAT(read_manifest(other, "m").error().message(), HasSubstr("checksum"));
  EXPECT_THAT(read_manifest("{}", "m").error().message(), HasSubstr("schema"));
  const auto index = [](const std::string& pieces) {
    return read_rank_index(R"({"schema": "espalier.checkpoint_rank/1", "header": "", "pieces": [)" + pieces + "]}", "i")
        .error()
        .message();
  };
  EXPECT_THAT(index(R"({"layer": 0, "elements": [3, 1], "checksums": ["", "", ""]})"), HasSubstr("ascending"));
  EXPECT_THAT(index(R"({"layer": 0, "elements": [0, 3, 2, 4], "checksums": ["", "", ""]})"), HasSubstr("ascending"));
  EXPECT_THAT(index(R"({"layer": 0, "elements": [0], "checksums": ["", "", ""]})"), HasSubstr("ascending"));
  EXPECT_THAT(index(R"({"layer": 0, "elements": [], "checksums": [""]})"), HasSubstr("three checksums"));
  EXPECT_THAT(index(R"({"layer": -1, "elements": [], "checksums": ["", "", ""]})"), HasSubstr("layer"));
}

}  // namespace
}  // namespace espalier::storage
