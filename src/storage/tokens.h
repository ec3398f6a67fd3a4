// SPDX-License-Identifier: Apache-2.0
// Reads tokenised text on disk as one stream of tokens.
//
//   FILE                    tokens of 16 bits one after the other (nanoGPT's train.bin).
//   PREFIX.bin, PREFIX.idx  Megatron-LM's indexed data set (megatron/core/datasets/indexed_dataset.py). The stream is
//                           its sequences in their order.
//
// An index has, with all numbers least significant byte first:
//   - "MMIDIDX\0\0" and version 1 (8 bytes);
//   - the type of a token (1 byte: 1 u8, 2 i8, 3 i16, 4 i32, 5 i64, 8 u16; 6 and 7, real numbers, are not tokens);
//   - the number of sequences s and of documents d (8 bytes each);
//   - s lengths in tokens (4 bytes each);
//   - s places in PREFIX.bin in bytes (8 each);
//   - d first sequences of documents (8 each);
//   - in some data sets, a byte for each sequence.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/result.h"
#include "storage/files.h"

namespace espalier::storage {

enum class TokenType : std::uint8_t { u8 = 1, i8 = 2, i16 = 3, i32 = 4, i64 = 5, u16 = 8 };
std::int64_t bytes_of(TokenType type);

/// Describes sequences that lie anywhere in a file of tokens.
struct TokenIndex {
  TokenType type = TokenType::u16;
  /// This holds the position of each sequence in the stream, and after the last one the length of the stream.
  std::vector<std::int64_t> first;
  std::vector<std::int64_t> place;  ///< in the file, in bytes
};
/// Reads an index. `file_bytes` is the size of the file that it describes.
Result<TokenIndex> read_token_index(std::string_view bytes, std::int64_t file_bytes, const std::string& where);

class TokenFile {
 public:
  /// Opens a file. Rejects tokens outside the vocabulary. `path` may be PREFIX, PREFIX.bin or a file without index.
  static Result<TokenFile> open(const std::string& path, std::int64_t vocabulary);
  [[nodiscard]] std::int64_t size() const { return index_.first.back(); }
  [[nodiscard]] std::int64_t operator[](std::int64_t number) const;

 private:
  [[nodiscard]] std::int64_t at(std::int64_t byte) const;
  MappedFile file_;
  TokenIndex index_;
};

}  // namespace espalier::storage
