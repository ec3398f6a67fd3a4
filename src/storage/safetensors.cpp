// SPDX-License-Identifier: Apache-2.0
#include "storage/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "base/document.h"
#include "base/format.h"
#include "base/invariant.h"

namespace espalier::storage {
namespace {

constexpr std::size_t kLargestHeader = 100'000'000;  // the format's own limit
constexpr std::array<TensorType, 16> kTypes{{{"F32", 4, true},
                                             {"BF16", 2, true},
                                             {"F16", 2, true},
                                             {"F64", 8, true},
                                             {"I64", 8, false},
                                             {"I32", 4, false},
                                             {"I16", 2, false},
                                             {"I8", 1, false},
                                             {"U64", 8, false},
                                             {"U32", 4, false},
                                             {"U16", 2, false},
                                             {"U8", 1, false},
                                             {"BOOL", 1, false},
                                             {"F8_E4M3", 1, false},
                                             {"F8_E5M2", 1, false},
                                             {"F8_E8M0", 1, false}}};

std::string type_names() {
  std::vector<std::string_view> names;
  for (const TensorType& type : kTypes) names.push_back(type.name);
  return base::joined(names);
}

Error damaged_file(const std::string& where, std::string found, std::string expected) {
  return {ErrorKind::bad_input, where, std::move(found), std::move(expected), "the file is truncated or not a safetensors file"};
}

/// Returns the number of elements of a shape; nothing where it exceeds what a file can hold.
std::optional<std::int64_t> elements_of_shape(const std::vector<std::int64_t>& shape) {
  std::int64_t n = 1;
  for (const std::int64_t extent : shape)
    if (__builtin_mul_overflow(n, extent, &n) || n > (std::int64_t{1} << 58)) return std::nullopt;
  return n;
}

void read_entry(base::Reader& reader, const std::string& name, std::vector<TensorEntry>& out) {
  constexpr std::int64_t kMost = std::int64_t{1} << 60;
  TensorEntry entry;
  entry.name = name;
  const std::string type = reader.required_string("dtype");
  const base::Node* shape = reader.find("shape");
  entry.shape = reader.optional_int_list("shape", 0, kMost);
  const std::vector<std::int64_t> offsets = reader.optional_int_list("data_offsets", 0, kMost);
  reader.finish();
  if (!reader.sink().ok()) return;
  const auto known = tensor_type(type);
  if (!known) return reader.fail("dtype", type, type_names());
  if (shape == nullptr || shape->kind != base::NodeKind::sequence) return reader.fail("shape", "", "a list of extents");
  if (offsets.size() != 2 || offsets[0] > offsets[1]) return reader.fail("data_offsets", "", "two ascending numbers of bytes");
  entry.type = *known;
  entry.begin = offsets[0];
  entry.end = offsets[1];
  const auto elements = elements_of_shape(entry.shape);
  if (!elements || *elements * known->bytes != entry.end - entry.begin)
    return reader.fail(
        "data_offsets", cat(entry.end - entry.begin, " bytes"),
        elements ? cat(*elements * known->bytes, " bytes, as shape and type require") : "a shape that fits in a file");
  out.push_back(std::move(entry));
}

void read_metadata(base::Reader& root, TensorHeader& out) {
  base::Reader metadata = root.child("__metadata__", false);
  for (const auto& [key, value] : metadata.node().members) out.metadata[key] = metadata.required_string(key);
}

/// Checks that every byte of the buffer belongs to one tensor.
Status check_coverage(std::vector<TensorEntry>& tensors, std::int64_t buffer_bytes, const std::string& where) {
  std::sort(tensors.begin(), tensors.end(),
            [](const TensorEntry& a, const TensorEntry& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
  std::int64_t at = 0;
  for (const TensorEntry& tensor : tensors) {
    if (tensor.begin != at)
      return damaged_file(where, cat("tensor ", tensor.name, " from byte ", tensor.begin),
                          cat("from byte ", at, ", the end of the tensor before it"));
    at = tensor.end;
  }
  if (at != buffer_bytes)
    return damaged_file(where, cat(buffer_bytes, " bytes of tensors"), cat(at, " bytes, as stated in the header"));
  return {};
}

}  // namespace

std::optional<TensorType> tensor_type(std::string_view name) {
  for (const TensorType& type : kTypes)
    if (type.name == name) return type;
  return std::nullopt;
}

// ---- header -------------------------------------------------------------------------------------------------------

Result<TensorHeader> read_tensor_header(std::string_view bytes, const std::string& where) {
  if (bytes.size() < 8) return damaged_file(where, cat(bytes.size(), " bytes"), "a length of 8 bytes and a header");
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < 8; ++i) length |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  if (length > kLargestHeader || length > bytes.size() - 8)
    return damaged_file(where, cat("a header of ", length, " bytes in a file of ", bytes.size()),
                        "a header that fits in the file");
  base::Limits limits;
  limits.max_bytes = kLargestHeader;
  limits.max_nodes = 20'000'000;
  const auto document = base::read_json(bytes.substr(8, length), where, limits);
  if (!document) return document.error();
  base::ErrorSink sink;
  base::Reader root = base::Reader::root(*document, sink);
  TensorHeader out;
  out.buffer = static_cast<std::int64_t>(8 + length);
  if (document->root.kind != base::NodeKind::mapping)
    return damaged_file(where, "a header that is not a mapping", "tensors by name");
  for (const auto& [name, value] : document->root.members) {
    if (name == "__metadata__") continue;
    base::Reader entry = root.child(name, true);
    read_entry(entry, name, out.tensors);
  }
  read_metadata(root, out);
  if (!sink.ok()) return sink.first().error();
  if (Status status = check_coverage(out.tensors, static_cast<std::int64_t>(bytes.size()) - out.buffer, where); !status.ok())
    return status.error();
  return out;
}

TensorEntry following(const std::vector<TensorEntry>& tensors, std::string name, const TensorType& type,
                      std::vector<std::int64_t> shape) {
  TensorEntry entry;
  entry.name = std::move(name);
  entry.type = type;
  entry.begin = tensors.empty() ? 0 : tensors.back().end;
  const auto elements = elements_of_shape(shape);
  ESPALIER_CHECK(elements.has_value());
  entry.end = entry.begin + *elements * type.bytes;
  entry.shape = std::move(shape);
  return entry;
}

std::string tensor_header_text(const std::vector<TensorEntry>& tensors, const std::map<std::string, std::string>& metadata) {
  base::JsonWriter json(0);
  json.compact_next().begin_object();
  if (!metadata.empty()) {
    json.key("__metadata__").begin_object();
    for (const auto& [key, value] : metadata) json.key(key).value(value);
    json.end_object();
  }
  for (const TensorEntry& tensor : tensors) {
    json.key(tensor.name).begin_object().key("dtype").value(tensor.type.name).key("shape").begin_array();
    for (const std::int64_t extent : tensor.shape) json.value(extent);
    json.end_array().key("data_offsets").begin_array().value(tensor.begin).value(tensor.end).end_array().end_object();
  }
  json.end_object();
  std::string text = json.text();
  while (!text.empty() && text.back() == '\n') text.pop_back();
  text.append((8 - text.size() % 8) % 8, ' ');  // the buffer begins aligned
  std::string out;
  for (std::size_t i = 0; i < 8; ++i) out += static_cast<char>(text.size() >> (8 * i) & 0xff);
  return out + text;
}

// ---- values -------------------------------------------------------------------------------------------------------

namespace {

template <class T>
T loaded(const char* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

/// Converts IEEE 754 half precision: 1 sign, 5 exponent, 10 fraction bits.
float of_half(std::uint16_t half) {
  const std::uint32_t sign = std::uint32_t{half & 0x8000u} << 16, exponent = half >> 10 & 31u, fraction = half & 1023u;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | fraction << 13);
  if (exponent > 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
  const float small = static_cast<float>(fraction) * 0x1p-24f;
  return sign != 0 ? -small : small;
}

}  // namespace

float TensorValues::operator[](std::int64_t index) const {
  const char* from = bytes_.data() + index * type_.bytes;
  if (type_.name == "F32") return loaded<float>(from);
  if (type_.name == "BF16") return std::bit_cast<float>(std::uint32_t{loaded<std::uint16_t>(from)} << 16);
  if (type_.name == "F16") return of_half(loaded<std::uint16_t>(from));
  ESPALIER_CHECK(type_.name == "F64");
  return static_cast<float>(loaded<double>(from));
}

// ---- files and folders --------------------------------------------------------------------------------------------

Result<TensorFile> TensorFile::open(const std::string& path) {
  auto file = MappedFile::open(path);
  if (!file) return file.error();
  auto header = read_tensor_header(file->bytes(), path);
  if (!header) return header.error();
  TensorFile out;
  out.file_ = std::move(*file);
  out.header_ = std::move(*header);
  return out;
}

std::string_view TensorFile::bytes(const TensorEntry& tensor) const {
  return file_.bytes().substr(static_cast<std::size_t>(header_.buffer + tensor.begin),
                              static_cast<std::size_t>(tensor.end - tensor.begin));
}

void TensorFolder::add(const TensorFile& file, const std::function<bool(const std::string&)>& wanted) {
  for (std::size_t i = 0; i < file.header().tensors.size(); ++i) {
    const TensorEntry& tensor = file.header().tensors[i];
    if (wanted(tensor.name)) tensors_[tensor.name] = {files_.size(), i};
  }
  files_.push_back(file);
}

Status TensorFolder::add_index(const std::string& folder, const std::string& index) {
  const auto text = base::read_file(index, kLargestHeader);
  if (!text) return text.error();
  base::Limits limits;
  limits.max_bytes = kLargestHeader;
  const auto document = base::read_json(*text, index, limits);
  if (!document) return document.error();
  base::ErrorSink sink;
  base::Reader map = base::Reader::root(*document, sink).child("weight_map", true);
  std::map<std::string, std::string> files;                 // by tensor
  std::map<std::string, std::vector<std::string>> tensors;  // by file
  for (const auto& [name, value] : map.node().members) {
    const std::string file = map.required_string(name);
    if (file.empty() || file.find('/') != std::string::npos) map.fail(name, file, "the name of a file in this folder");
    tensors[file].push_back(name);
    files[name] = file;
  }
  if (!sink.ok()) return sink.first();
  for (const auto& [file, names] : tensors) {
    const auto opened = TensorFile::open((std::filesystem::path(folder) / file).string());
    if (!opened) return opened.error();
    add(*opened, [&files, in = file](const std::string& name) {
      const auto at = files.find(name);
      return at != files.end() && at->second == in;
    });
    for (const std::string& name : names)
      if (tensors_.count(name) == 0)
        return Error{ErrorKind::bad_input, opened->path(), cat("no tensor ", name), "the tensor that the index lists", index};
  }
  return {};
}

Result<TensorFolder> TensorFolder::open(const std::string& path) {
  namespace fs = std::filesystem;
  TensorFolder out;
  std::error_code none;
  const fs::path index = fs::path(path) / "model.safetensors.index.json", whole = fs::path(path) / "model.safetensors";
  if (fs::is_directory(path, none) && !fs::exists(whole, none) && fs::exists(index, none)) {
    if (Status status = out.add_index(path, index.string()); !status.ok()) return status.error();
    return out;
  }
  if (fs::is_directory(path, none) && !fs::exists(whole, none))
    return Error{ErrorKind::bad_input, path, "neither model.safetensors nor model.safetensors.index.json", "one of them", ""};
  const auto file = TensorFile::open(fs::is_directory(path, none) ? whole.string() : path);
  if (!file) return file.error();
  out.add(*file, [](const std::string&) { return true; });
  return out;
}

const TensorEntry* TensorFolder::find(const std::string& name) const {
  const auto at = tensors_.find(name);
  return at == tensors_.end() ? nullptr : &files_[at->second.first].header().tensors[at->second.second];
}

TensorValues TensorFolder::values(const std::string& name) const {
  const auto& [file, place] = tensors_.at(name);
  const TensorEntry& tensor = files_[file].header().tensors[place];
  return {tensor.type, files_[file].bytes(tensor)};
}

std::string TensorFolder::file_of(const std::string& name) const { return files_[tensors_.at(name).first].path(); }

std::vector<std::string> TensorFolder::names() const {
  std::vector<std::string> out;
  for (const auto& [name, place] : tensors_) out.push_back(name);
  return out;
}

}  // namespace espalier::storage
