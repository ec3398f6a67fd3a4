// SPDX-License-Identifier: Apache-2.0
// Hashes a few integers, for keys of unordered containers: FNV-1a word by word, with the high bits folded
// down after each.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace espalier::base {

struct WordHash {
  template <class Word, std::size_t kWords>
  std::size_t operator()(const std::array<Word, kWords>& key) const {
    std::uint64_t value = 0xcbf29ce484222325ULL;
    for (const Word word : key) {
      value = (value ^ static_cast<std::make_unsigned_t<Word>>(word)) * 0x100000001b3ULL;
      value ^= value >> 29;
    }
    return value;
  }
};

}  // namespace espalier::base
