// SPDX-License-Identifier: Apache-2.0
// Reads and writes files and folders of tensors in the safetensors format
// (https://github.com/huggingface/safetensors, "Format"). Start here to understand what a run reads and leaves on
// disk.
//
//   8 bytes    n, the length of the header, least significant byte first
//   n bytes    JSON: {"NAME": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, …,
//              "__metadata__": {"KEY": "TEXT"}}, which may end with spaces
//   the rest   the tensors' elements in C order, least significant byte first; data_offsets count from here.
//
// Files are read strictly: every byte of the rest belongs to exactly one tensor, whose shape and type give its size.
// A folder holds model.safetensors, or model.safetensors.index.json ({"weight_map": {"NAME": "FILE"}}) and the files
// that it names.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "espalier/result.h"
#include "storage/files.h"

namespace espalier::storage {

/// Describes a type by name and size. Only types that hold real numbers can be read as such.
struct TensorType {
  std::string_view name;  ///< as in the header: "F32"
  std::int64_t bytes = 0;
  bool real = false;  ///< F64, F32, F16, BF16
  bool operator==(const TensorType&) const = default;
};
/// Returns the type; nothing for a name outside the format.
std::optional<TensorType> tensor_type(std::string_view name);

struct TensorEntry {
  std::string name;
  TensorType type;
  std::vector<std::int64_t> shape;
  std::int64_t begin = 0, end = 0;  ///< bytes of the buffer
  bool operator==(const TensorEntry&) const = default;
};

struct TensorHeader {
  std::vector<TensorEntry> tensors;  ///< in the order of the buffer
  std::map<std::string, std::string> metadata;
  std::int64_t buffer = 0;  ///< where it begins in the file
};

/// Reads the header of a file whose bytes are given; `where` names it.
Result<TensorHeader> read_tensor_header(std::string_view bytes, const std::string& where);
/// Returns the first bytes of a file of these tensors, up to the buffer; begin and end are those of the entries,
/// which follow each other.
std::string tensor_header_text(const std::vector<TensorEntry>& tensors, const std::map<std::string, std::string>& metadata);
/// Returns an entry after the last one of a list.
TensorEntry following(const std::vector<TensorEntry>& tensors, std::string name, const TensorType& type,
                      std::vector<std::int64_t> shape);

/// Reads elements of one tensor, in C order, as real numbers.
class TensorValues {
 public:
  TensorValues(TensorType type, std::string_view bytes) : type_(type), bytes_(bytes) {}
  [[nodiscard]] float operator[](std::int64_t index) const;
  [[nodiscard]] std::string_view bytes() const { return bytes_; }

 private:
  TensorType type_;
  std::string_view bytes_;
};

/// Reads one file.
class TensorFile {
 public:
  static Result<TensorFile> open(const std::string& path);
  [[nodiscard]] const TensorHeader& header() const { return header_; }
  [[nodiscard]] const std::string& path() const { return file_.path(); }
  [[nodiscard]] std::string_view bytes(const TensorEntry& tensor) const;
  [[nodiscard]] std::string_view header_bytes() const {
    return file_.bytes().substr(0, static_cast<std::size_t>(header_.buffer));
  }

 private:
  MappedFile file_;
  TensorHeader header_;
};

/// Reads all tensors of a folder, or of one file.
class TensorFolder {
 public:
  static Result<TensorFolder> open(const std::string& path);
  [[nodiscard]] const TensorEntry* find(const std::string& name) const;
  /// Returns the values of a tensor, which must exist.
  [[nodiscard]] TensorValues values(const std::string& name) const;
  /// Returns the file that holds a tensor, for messages.
  [[nodiscard]] std::string file_of(const std::string& name) const;
  [[nodiscard]] std::vector<std::string> names() const;

 private:
  void add(const TensorFile& file, const std::function<bool(const std::string&)>& wanted);
  Status add_index(const std::string& folder, const std::string& index);

  std::vector<TensorFile> files_;
  std::map<std::string, std::pair<std::size_t, std::size_t>> tensors_;  ///< file, and place in its header
};

}  // namespace espalier::storage
