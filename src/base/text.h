// SPDX-License-Identifier: Apache-2.0
// Provides text helpers for the readers and writers of this module: UTF-8 validation, places in a text, quoting.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/document.h"

namespace espalier::base {

/// Holds a place in a text; both numbers count from 1, columns in bytes.
struct TextPosition {
  std::int32_t line = 1, column = 1;
};

/// Returns "file:line:column".
std::string at(const std::string& where, TextPosition place);
/// Returns the place of the byte at `offset` in O(offset), for error messages only.
TextPosition place_of(std::string_view text, std::size_t offset);
/// Returns the length in bytes of the valid UTF-8 sequence at `offset` (1–4); 0 if it is overlong, a surrogate,
/// truncated or above U+10FFFF.
std::size_t utf8_length(std::string_view text, std::size_t offset);
/// Returns the text in double quotes for error messages, with control characters escaped, cut after about 60 bytes.
std::string in_quotes(std::string_view text);
/// Returns the whole text as a JSON string, which YAML also reads.
std::string json_string(std::string_view text);
/// Returns "a, b, c or d", with at most `most` words, then "…".
std::string listed(const std::vector<std::string>& words, std::size_t most = 24);

/// Checks a JSON or YAML text: size, UTF-8, no control characters except tab and line ends, not empty.
Status check_text(std::string_view text, const std::string& where, std::size_t max_bytes);

/// Returns a number literal as a node (kind integer if it is one and fits 64 bits, else real); nullopt if it is
/// beyond double. The caller must ensure that the literal has the form of a number.
std::optional<Node> number_node(std::string_view literal);

/// Returns the shortest text that reads back as the same double, always with '.', 'e' or both, so that it stays a real.
std::string shortest(double number);

}  // namespace espalier::base
