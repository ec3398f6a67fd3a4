// SPDX-License-Identifier: Apache-2.0
// Reads names with a number: "node:3", "rank:17".
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

namespace espalier::cluster {

/// Returns the number after "word:"; nullopt for anything else ("node:", "node:+3", "node:3x").
inline std::optional<std::int64_t> numbered(std::string_view word, std::string_view text) {
  if (!text.starts_with(word) || text.size() <= word.size() + 1 || text[word.size()] != ':') return std::nullopt;
  text.remove_prefix(word.size() + 1);
  std::int64_t number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code != std::errc() || end != text.data() + text.size() || text.front() < '0' || text.front() > '9') return std::nullopt;
  return number;
}

}  // namespace espalier::cluster
