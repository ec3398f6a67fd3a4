// SPDX-License-Identifier: Apache-2.0
// Text helpers shared by the readers and writers of this module: UTF-8 validation, places in a text, quoting.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/document.h"

namespace espalier::base {

/// A place in a text; both counted from 1, columns in bytes.
struct TextPosition {
  std::int32_t line = 1, column = 1;
};

/// "file:line:column".
std::string at(const std::string& where, TextPosition place);
/// The place of the byte at `offset` (O(offset): for error messages only).
TextPosition place_of(std::string_view text, std::size_t offset);
/// Length in bytes of the valid UTF-8 sequence at `offset` (1–4), or 0 (overlong, surrogate, truncated, above
/// U+10FFFF).
std::size_t utf8_length(std::string_view text, std::size_t offset);
/// The text in double quotes, control characters escaped, cut after about 60 bytes: for error messages.
std::string in_quotes(std::string_view text);
/// The whole text as a JSON string, which YAML reads as well.
std::string json_string(std::string_view text);
/// "a, b, c or d", at most `most` of them, then "…".
std::string listed(const std::vector<std::string>& words, std::size_t most = 24);

/// Checks that hold for JSON and YAML alike: size, UTF-8, no control characters except tab and line ends, not empty.
Status check_text(std::string_view text, const std::string& where, std::size_t max_bytes);

/// A number literal as a node (kind integer if it is one and fits 64 bits, else real); nullopt if it is beyond double.
/// The caller has made sure that the literal has the form of a number.
std::optional<Node> number_node(std::string_view literal);

/// Shortest text that reads back as the same double, always with '.', 'e' or both, so that it stays a real.
std::string shortest(double number);

}  // namespace espalier::base
