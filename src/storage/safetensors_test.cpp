// SPDX-License-Identifier: Apache-2.0
#include "storage/safetensors.h"

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

/// Returns a file as the format's page describes it, byte by byte.
std::string file_of(const std::string& json, const std::string& buffer) {
  std::string out;
  for (std::size_t i = 0; i < 8; ++i) out += static_cast<char>(json.size() >> (8 * i) & 0xff);
  return out + json + buffer;
}

class Folder {
 public:
  Folder() {
    std::string pattern = (fs::temp_directory_path() / "espalier-test-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] std::string path(const std::string& name = "") const { return (path_ / name).string(); }
  void write(const std::string& name, const std::string& bytes) const { std::ofstream(path_ / name, std::ios::binary) << bytes; }

 private:
  fs::path path_;
};

/// Reads the smallest file: one number, 1.5, whose bytes are 00 00 C0 3F.
TEST(Safetensors, OneNumber) {
  const std::string bytes = file_of(R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", std::string("\0\0\xC0\x3F", 4));
  const auto header = read_tensor_header(bytes, "file");
  ASSERT_TRUE(header.ok()) << header.error().message();
  ASSERT_EQ(header->tensors.size(), 1u);
  EXPECT_EQ(header->tensors[0].name, "x");
  EXPECT_THAT(header->tensors[0].shape, ElementsAre(1));
  EXPECT_EQ(header->buffer, 8 + 54);
  EXPECT_EQ(TensorValues(header->tensors[0].type, std::string_view(bytes).substr(62))[0], 1.5f);
}

/// A scalar has no extents, an empty tensor no bytes; the header may end with spaces.
TEST(Safetensors, ScalarsAndEmptyTensors) {
  const auto header =
      read_tensor_header(file_of(R"({"__metadata__":{"format":"pt"},"s":{"dtype":"U8","shape":[],"data_offsets":[0,1]},)"
                                 R"("e":{"dtype":"F64","shape":[0,3],"data_offsets":[1,1]}}   )",
                                 "7"),
                         "file");
  ASSERT_TRUE(header.ok()) << header.error().message();
  EXPECT_EQ(header->tensors.size(), 2u);
  EXPECT_EQ(header->metadata.at("format"), "pt");
}

TEST(Safetensors, WhatIsWrittenIsRead) {
  std::vector<TensorEntry> tensors;
  tensors.push_back(following(tensors, "a \"quoted\" name", *tensor_type("F32"), {2, 3}));
  tensors.push_back(following(tensors, "b", *tensor_type("BF16"), {5}));
  const std::string text = tensor_header_text(tensors, {{"step", "3"}});
  EXPECT_EQ(text.size() % 8, 0u);
  const auto header = read_tensor_header(text + std::string(34, '\0'), "file");
  ASSERT_TRUE(header.ok()) << header.error().message();
  EXPECT_EQ(header->tensors, tensors);
  EXPECT_EQ(header->metadata.at("step"), "3");
}

/// Reads 1, −2 and the smallest positive number of each type, by their bits.
TEST(Safetensors, RealNumbersOfEveryType) {
  const TensorValues half(*tensor_type("F16"), std::string_view("\x00\x3C\x00\xC0\x01\x00", 6));
  EXPECT_EQ(half[0], 1.0f);
  EXPECT_EQ(half[1], -2.0f);
  EXPECT_EQ(half[2], 0x1p-24f);
  const TensorValues brain(*tensor_type("BF16"), std::string_view("\x80\x3F\x00\xC0", 4));
  EXPECT_EQ(brain[0], 1.0f);
  EXPECT_EQ(brain[1], -2.0f);
  const TensorValues wide(*tensor_type("F64"), std::string_view("\0\0\0\0\0\0\xF0\x3F", 8));
  EXPECT_EQ(wide[0], 1.0f);
}

struct Wrong {
  const char *name, *json, *says;
  std::size_t bytes;
};

TEST(Safetensors, EveryDamageIsRefused) {
  const Wrong all[] = {
      {"cut", R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "4 bytes of tensors", 4},
      {"long", R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "12 bytes of tensors", 12},
      {"size", R"({"x":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", "12 bytes, as shape and type require", 8},
      {"overlap", R"({"x":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"y":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})",
       "tensor y from byte 2", 6},
      {"hole", R"({"x":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"y":{"dtype":"U8","shape":[2],"data_offsets":[4,6]}})",
       "from byte 2, the end", 6},
      {"backwards", R"({"x":{"dtype":"U8","shape":[2],"data_offsets":[2,0]}})", "ascending", 2},
      {"type", R"({"x":{"dtype":"F31","shape":[1],"data_offsets":[0,4]}})", "F31", 4},
      {"no shape", R"({"x":{"dtype":"F32","data_offsets":[0,4]}})", "a list of extents", 4},
      {"huge", R"({"x":{"dtype":"U8","shape":[1099511627776,1099511627776],"data_offsets":[0,4]}})",
       "a shape that fits in a file", 4},
      {"twice", R"({"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
       "x", 1},
      {"unknown key", R"({"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"stride":[1]}})", "stride", 1},
      {"no mapping", R"([1])", "not a mapping", 0},
      {"no JSON", R"({"x")", "", 0},
  };
  for (const Wrong& wrong : all) {
    const auto header = read_tensor_header(file_of(wrong.json, std::string(wrong.bytes, 'x')), "FILE");
    ASSERT_FALSE(header.ok()) << wrong.name;
    EXPECT_EQ(header.error().kind, ErrorKind::bad_input) << wrong.name;
    EXPECT_THAT(header.error().message(), HasSubstr("FILE")) << wrong.name;
    EXPECT_THAT(header.error().message(), HasSubstr(wrong.says)) << wrong.name;
  }
}

TEST(Safetensors, LengthsThatTheFileDoesNotHold) {
  for (const std::string& bytes : {std::string(), std::string("\x10\0\0\0\0\0\0", 7), std::string("\xff\0\0\0\0\0\0\0{}", 10),
                                   std::string(8, '\xff') + "{}"})
    EXPECT_FALSE(read_tensor_header(bytes, "file").ok()) << bytes.size();
}

TEST(SafetensorsFolder, SeveralFilesByTheirIndex) {
  const Folder folder;
  folder.write("a.safetensors", file_of(R"({"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "1"));
  folder.write("b.safetensors", file_of(R"({"y":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", "23"));
  folder.write("model.safetensors.index.json",
               R"({"metadata":{"total_size":3},"weight_map":{"x":"a.safetensors","y":"b.safetensors"}})");
  const auto opened = TensorFolder::open(folder.path());
  ASSERT_TRUE(opened.ok()) << opened.error().message();
  EXPECT_THAT(opened->names(), ElementsAre("x", "y"));
  EXPECT_EQ(opened->values("y").bytes(), "23");
  EXPECT_THAT(opened->file_of("y"), HasSubstr("b.safetensors"));
}

TEST(SafetensorsFolder, IndexAndFilesMustAgree) {
  const Folder folder;
  EXPECT_THAT(TensorFolder::open(folder.path()).error().message(), HasSubstr("neither model.safetensors nor"));
  folder.write("a.safetensors", file_of(R"({"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "1"));
  const auto index = [&](const std::string& map) {
    folder.write("model.safetensors.index.json", R"({"weight_map":)" + map + "}");
    return TensorFolder::open(folder.path()).error().message();
  };
  EXPECT_THAT(index(R"({"y":"a.safetensors"})"), HasSubstr("no tensor y"));
  EXPECT_THAT(index(R"({"x":"../a.safetensors"})"), HasSubstr("a file in this folder"));
  EXPECT_THAT(index(R"({"x":"c.safetensors"})"), HasSubstr("No such file"));
  EXPECT_THAT(index(R"([])"), HasSubstr("weight_map"));
}

TEST(NewFile, IsThereWholeOrNotAtAll) {
  const Folder folder;
  {
    NewFile file(folder.path("x"));
    file.write("abc");
  }
  EXPECT_TRUE(fs::is_empty(folder.path()));
  NewFile file(folder.path("x"));
  file.write("abc");
  EXPECT_TRUE(file.commit().ok());
  EXPECT_EQ(MappedFile::open(folder.path("x"))->bytes(), "abc");
}

/// /dev/full accepts nothing. The error of a full disk is one of the run (exit code 6), not of an input.
TEST(NewFile, AFullDiskIsNamed) {
  const Folder folder;
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  fs::create_symlink("/dev/full", folder.path("x.partial"));
  NewFile file(folder.path("x"));
  file.write("abc");
  const Status failed = file.commit();
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().kind, ErrorKind::limit);
  EXPECT_THAT(failed.error().message(), HasSubstr("the disk is full"));
}

}  // namespace
}  // namespace espalier::storage
