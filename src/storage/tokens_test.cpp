// SPDX-License-Identifier: Apache-2.0
#include "storage/tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace espalier::storage {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string number(std::uint64_t value, std::size_t bytes) {
  std::string out;
  for (std::size_t i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
  return out;
}

struct Sequence {
  std::int32_t length = 0;
  std::int64_t place = 0;
};

std::string index_of(const std::vector<Sequence>& sequences, int type, std::uint64_t version = 1) {
  std::string out = std::string("MMIDIDX\0\0", 9) + number(version, 8) + number(static_cast<std::uint64_t>(type), 1) +
                    number(sequences.size(), 8) + number(2, 8);
  for (const Sequence& s : sequences) out += number(static_cast<std::uint64_t>(std::int64_t{s.length}), 4);
  for (const Sequence& s : sequences) out += number(static_cast<std::uint64_t>(s.place), 8);
  return out + number(0, 8) + number(sequences.size(), 8);
}

class Tokens : public ::testing::Test {
 protected:
  Tokens() {
    std::string pattern = (fs::temp_directory_path() / "espalier-test-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~Tokens() override { fs::remove_all(path_); }
  std::string write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path_ / name, std::ios::binary) << bytes;
    return (path_ / name).string();
  }
  static std::vector<std::int64_t> all(const TokenFile& file) {
    std::vector<std::int64_t> out;
    for (std::int64_t i = 0; i < file.size(); ++i) out.push_back(file[i]);
    return out;
  }

  fs::path path_;
};

TEST_F(Tokens, SixteenBitsOneAfterTheOther) {
  const auto file = TokenFile::open(write("train.bin", number(7, 2) + number(300, 2) + number(0, 2)), 301);
  ASSERT_TRUE(file.ok()) << file.error().message();
  EXPECT_THAT(all(*file), ElementsAre(7, 300, 0));
}

TEST_F(Tokens, WhatIsNoFileOfTokens) {
  EXPECT_THAT(TokenFile::open((path_ / "none").string(), 10).error().message(), HasSubstr("No such file"));
  EXPECT_THAT(TokenFile::open(write("odd", "abc"), 10).error().message(), HasSubstr("3 bytes"));
  EXPECT_THAT(TokenFile::open(write("one", "ab"), 10).error().message(), HasSubstr("at least two"));
  EXPECT_THAT(TokenFile::open(write("large", number(7, 2) + number(300, 2)), 300).error().message(), HasSubstr("token 300"));
}

/// Reads two sequences of 32-bit tokens, the second one first in the file, and an empty one between them.
TEST_F(Tokens, MegatronSequencesInTheOrderOfTheIndex) {
  std::string bytes;
  for (const std::uint64_t token : {4, 5, 1, 2, 3}) bytes += number(token, 4);
  write("text.bin", bytes);
  write("text.idx", index_of({{3, 8}, {0, 20}, {2, 0}}, 4));
  for (const char* name : {"text", "text.bin"}) {
    const auto file = TokenFile::open((path_ / name).string(), 6);
    ASSERT_TRUE(file.ok()) << file.error().message();
    EXPECT_THAT(all(*file), ElementsAre(1, 2, 3, 4, 5));
  }
}

TEST_F(Tokens, EveryTypeOfToken) {
  const std::pair<int, std::size_t> types[] = {{1, 1}, {2, 1}, {3, 2}, {4, 4}, {5, 8}, {8, 2}};
  for (const auto& [type, bytes] : types) {
    write("t.bin", number(100, bytes) + number(3, bytes));
    write("t.idx", index_of({{2, 0}}, type));
    const auto file = TokenFile::open((path_ / "t").string(), 101);
    ASSERT_TRUE(file.ok()) << file.error().message();
    EXPECT_THAT(all(*file), ElementsAre(100, 3));
  }
  write("t.bin", std::string(2, '\xff'));
  write("t.idx", index_of({{2, 0}}, 2));
  EXPECT_THAT(TokenFile::open((path_ / "t").string(), 300).error().message(), HasSubstr("token -1"));
}

/// Data sets of several modes have a byte for each sequence after the tables.
TEST_F(Tokens, ModesArePassedOver) {
  EXPECT_TRUE(read_token_index(index_of({{1, 0}, {1, 2}}, 8) + "ab", 4, "index").ok());
  EXPECT_FALSE(read_token_index(index_of({{1, 0}, {1, 2}}, 8) + "a", 4, "index").ok());
}

TEST_F(Tokens, DamagedIndices) {
  const auto says = [](const std::string& bytes, std::int64_t file_bytes) {
    const auto index = read_token_index(bytes, file_bytes, "INDEX");
    EXPECT_FALSE(index.ok());
    return index.ok() ? "" : index.error().message();
  };
  const std::string good = index_of({{2, 0}}, 8);
  EXPECT_TRUE(read_token_index(good, 4, "INDEX").ok());
  EXPECT_THAT(says("", 4), HasSubstr("an index of Megatron-LM"));
  EXPECT_THAT(says("x" + good.substr(1), 4), HasSubstr("an index of Megatron-LM"));
  EXPECT_THAT(says(good.substr(0, good.size() - 1), 4), HasSubstr("tables of 1 sequences"));
  EXPECT_THAT(says(index_of({{2, 0}}, 8, 2), 4), HasSubstr("version 2"));
  EXPECT_THAT(says(index_of({{2, 0}}, 7), 8), HasSubstr("type 7"));
  EXPECT_THAT(says(good, 3), HasSubstr("sequence 0: 2 tokens from byte 0"));
  EXPECT_THAT(says(index_of({{2, -1}}, 8), 4), HasSubstr("from byte -1"));
  EXPECT_THAT(says(index_of({{-2, 0}}, 8), 4), HasSubstr("-2 tokens"));
  EXPECT_THAT(says(index_of({{1, 0}}, 8), 4), HasSubstr("at least two"));
  std::string huge = good;
  huge.replace(18, 8, std::string(8, '\xff'));
  EXPECT_THAT(says(huge, 4), HasSubstr("tables of"));
}

}  // namespace
}  // namespace espalier::storage
