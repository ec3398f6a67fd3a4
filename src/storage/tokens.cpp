// SPDX-License-Identifier: Apache-2.0
#include "storage/tokens.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/format.h"
#include "base/invariant.h"

namespace espalier::storage {
namespace {

constexpr std::string_view kMagic("MMIDIDX\0\0", 9);

Error refused(const std::string& where, std::string found, std::string expected) {
  return {ErrorKind::bad_input, where, std::move(found), std::move(expected), "docs/runtime.md lists the supported token files"};
}

template <class T>
T number_at(std::string_view bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

bool is_token_type(std::uint8_t code) { return (code >= 1 && code <= 5) || code == 8; }

/// Holds the counts of an index, and derives where its tables are.
struct IndexTables {
  static constexpr std::size_t kBegin = 9 + 8 + 1 + 8 + 8;
  std::uint64_t sequences = 0, documents = 0;
  [[nodiscard]] std::size_t lengths() const { return kBegin; }
  [[nodiscard]] std::size_t places() const { return kBegin + 4 * sequences; }
  [[nodiscard]] std::size_t end() const { return places() + 8 * sequences + 8 * documents; }
};

}  // namespace

std::int64_t bytes_of(TokenType type) {
  switch (type) {
    case TokenType::u8:
    case TokenType::i8: return 1;
    case TokenType::i16:
    case TokenType::u16: return 2;
    case TokenType::i32: return 4;
    case TokenType::i64: return 8;
  }
  ESPALIER_CHECK(false);
  return 0;
}

Result<TokenIndex> read_token_index(std::string_view bytes, std::int64_t file_bytes, const std::string& where) {
  if (bytes.size() < IndexTables::kBegin || bytes.substr(0, kMagic.size()) != kMagic)
    return refused(where, cat("an unknown header, in ", bytes.size(), " bytes"), "an index of Megatron-LM");
  if (const auto version = number_at<std::uint64_t>(bytes, 9); version != 1)
    return refused(where, cat("version ", version), "version 1");
  const auto code = number_at<std::uint8_t>(bytes, 17);
  if (!is_token_type(code)) return refused(where, cat("tokens of type ", int{code}), "integers: 1, 2, 3, 4, 5 or 8");
  const IndexTables tables{number_at<std::uint64_t>(bytes, 18), number_at<std::uint64_t>(bytes, 26)};
  if (tables.sequences > bytes.size() || tables.documents > bytes.size() ||
      (tables.end() != bytes.size() && tables.end() + tables.sequences != bytes.size()))
    return refused(where, cat(bytes.size(), " bytes"),
                   cat("tables of ", tables.sequences, " sequences and ", tables.documents, " documents"));
  TokenIndex out;
  out.type = static_cast<TokenType>(code);
  out.first.push_back(0);
  for (std::uint64_t s = 0; s < tables.sequences; ++s) {
    const std::int64_t length = number_at<std::int32_t>(bytes, tables.lengths() + 4 * s);
    const auto place = number_at<std::int64_t>(bytes, tables.places() + 8 * s);
    if (length < 0 || place < 0 || place > file_bytes || length * bytes_of(out.type) > file_bytes - place)
      return refused(where, cat("sequence ", s, ": ", length, " tokens from byte ", place),
                     cat("tokens inside the ", file_bytes, " bytes of the .bin file"));
    out.place.push_back(place);
    out.first.push_back(out.first.back() + length);
  }
  if (out.first.back() < 2) return refused(where, cat(out.first.back(), " tokens"), "at least two");
  return out;
}

Result<TokenFile> TokenFile::open(const std::string& path, std::int64_t vocabulary) {
  std::error_code none;
  const std::string prefix =
      path.size() > 4 && path.compare(path.size() - 4, 4, ".bin") == 0 ? path.substr(0, path.size() - 4) : path;
  const bool indexed = std::filesystem::exists(prefix + ".idx", none);
  auto file = MappedFile::open(indexed ? prefix + ".bin" : path);
  if (!file) return file.error();
  const auto bytes = static_cast<std::int64_t>(file->bytes().size());
  TokenFile out;
  if (indexed) {
    const auto index = MappedFile::open(prefix + ".idx");
    if (!index) return index.error();
    auto read = read_token_index(index->bytes(), bytes, prefix + ".idx");
    if (!read) return read.error();
    out.index_ = std::move(*read);
  } else {
    if (bytes < 4 || bytes % 2 != 0) return refused(path, cat(bytes, " bytes"), "16-bit tokens, at least two");
    out.index_.first = {0, bytes / 2};
    out.index_.place = {0};
  }
  out.file_ = std::move(*file);
  std::int64_t place = 0;
  for (std::size_t s = 0; s < out.index_.place.size(); ++s) {
    place = out.index_.place[s];
    for (std::int64_t k = out.index_.first[s]; k < out.index_.first[s + 1]; ++k, place += bytes_of(out.index_.type))
      if (const std::int64_t token = out.at(place); token < 0 || token >= vocabulary)
        return refused(out.file_.path(), cat("token ", token), cat("tokens below the vocabulary, ", vocabulary));
  }
  return out;
}

std::int64_t TokenFile::at(std::int64_t byte) const {
  const auto from = static_cast<std::size_t>(byte);
  switch (index_.type) {
    case TokenType::u8: return number_at<std::uint8_t>(file_.bytes(), from);
    case TokenType::i8: return number_at<std::int8_t>(file_.bytes(), from);
    case TokenType::i16: return number_at<std::int16_t>(file_.bytes(), from);
    case TokenType::u16: return number_at<std::uint16_t>(file_.bytes(), from);
    case TokenType::i32: return number_at<std::int32_t>(file_.bytes(), from);
    case TokenType::i64: return number_at<std::int64_t>(file_.bytes(), from);
  }
  ESPALIER_CHECK(false);
  return 0;
}

std::int64_t TokenFile::operator[](std::int64_t number) const {
  const auto next = std::upper_bound(index_.first.begin(), index_.first.end(), number);
  const auto sequence = static_cast<std::size_t>(next - index_.first.begin()) - 1;
  return at(index_.place[sequence] + (number - index_.first[sequence]) * bytes_of(index_.type));
}

}  // namespace espalier::storage
