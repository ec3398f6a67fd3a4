// SPDX-License-Identifier: Apache-2.0
// Implements text helpers: UTF-8 (RFC 3629), places, quoting, number literals. See text.h.
#include "base/text.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace espalier::base {
namespace {

constexpr std::size_t kQuoteBytes = 60;

bool is_continuation(unsigned char byte) { return (byte & 0xC0u) == 0x80u; }

/// Holds the number of bytes that a lead byte announces and the allowed range of the second byte (RFC 3629, section 4).
struct LeadByte {
  std::size_t length = 0;
  unsigned char low = 0x80, high = 0xBF;
};

LeadByte classify(unsigned char lead) {
  if (lead < 0x80) return {1};
  if (lead >= 0xC2 && lead <= 0xDF) return {2};
  if (lead == 0xE0) return {3, 0xA0, 0xBF};  // below would be overlong
  if (lead == 0xED) return {3, 0x80, 0x9F};  // above would be a surrogate
  if (lead >= 0xE1 && lead <= 0xEF) return {3};
  if (lead == 0xF0) return {4, 0x90, 0xBF};
  if (lead >= 0xF1 && lead <= 0xF3) return {4};
  if (lead == 0xF4) return {4, 0x80, 0x8F};  // above would be beyond U+10FFFF
  return {0};
}

std::string hex_byte(unsigned char byte) {
  constexpr std::string_view digits = "0123456789abcdef";
  return std::string("0x") + digits[byte >> 4u] + digits[byte & 15u];
}

}  // namespace

std::string at(const std::string& where, TextPosition place) {
  return where + ":" + std::to_string(place.line) + ":" + std::to_string(place.column);
}

TextPosition place_of(std::string_view text, std::size_t offset) {
  TextPosition place;
  const std::string_view before = text.substr(0, std::min(offset, text.size()));
  place.line = 1 + static_cast<std::int32_t>(std::count(before.begin(), before.end(), '\n'));
  const std::size_t newline = before.rfind('\n');
  place.column = 1 + static_cast<std::int32_t>(before.size() - (newline == std::string_view::npos ? 0 : newline + 1));
  return place;
}

std::size_t utf8_length(std::string_view text, std::size_t offset) {
  const LeadByte lead = classify(static_cast<unsigned char>(text[offset]));
  if (lead.length <= 1) return lead.length;
  if (offset + lead.length > text.size()) return 0;
  const auto second = static_cast<unsigned char>(text[offset + 1]);
  if (second < lead.low || second > lead.high) return 0;
  for (std::size_t i = 2; i < lead.length; ++i) {
    if (!is_continuation(static_cast<unsigned char>(text[offset + i]))) return 0;
  }
  return lead.length;
}

std::string json_string(std::string_view text) {
  JsonWriter writer;
  writer.value(text);
  return writer.text();
}

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  std::size_t i = 0;
  while (i < text.size() && i < kQuoteBytes) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const std::size_t length = utf8_length(text, i);
    if (length == 0 || byte < 0x20 || byte == 0x7F) {
      out += byte == '\n' ? "\\n" : byte == '\t' ? "\\t" : "\\x" + hex_byte(byte).substr(2);
      ++i;
    } else {
      out += text.substr(i, length);
      i += length;
    }
  }
  return out + (i < text.size() ? "…\"" : "\"");
}

std::string listed(const std::vector<std::string>& words, std::size_t most) {
  std::string out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i == most) return out + ", … (" + std::to_string(words.size()) + " in all)";
    if (i > 0) out += i + 1 == words.size() ? " or " : ", ";
    out += words[i];
  }
  return out;
}

Status check_text(std::string_view text, const std::string& where, std::size_t max_bytes) {
  if (text.size() > max_bytes) {
    return Error{ErrorKind::bad_input, at(where, {}), std::to_string(text.size()) + " bytes of text",
                 "at most " + std::to_string(max_bytes) + " bytes", "is this the right file?"};
  }
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const std::size_t length = utf8_length(text, i);
    const bool control = byte < 0x20 && byte != '\n' && byte != '\r' && byte != '\t';
    if (length == 0 || control) {
      return Error{ErrorKind::bad_input, at(where, place_of(text, i)),
                   (control ? "the control character " : "the byte ") + hex_byte(byte) + (control ? "" : ", which is not UTF-8"),
                   "text in UTF-8", "is this a text file? save it as UTF-8"};
    }
    i += length;
  }
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) {
    return Error{ErrorKind::bad_input, at(where, {}), "an empty file", "a JSON or YAML value",
                 "was the file written completely?"};
  }
  return {};
}

std::optional<Node> number_node(std::string_view literal) {
  Node node;
  node.text = std::string(literal);
  if (!literal.empty() && literal.front() == '+') literal.remove_prefix(1);
  const char* const end = literal.data() + literal.size();
  std::int64_t integer = 0;
  const auto as_integer = std::from_chars(literal.data(), end, integer);
  if (as_integer.ec == std::errc() && as_integer.ptr == end) {
    node.kind = NodeKind::integer;
    node.integer = integer;
    node.real = static_cast<double>(integer);
    return node;
  }
  const auto as_real = std::from_chars(literal.data(), end, node.real);
  if (as_real.ec != std::errc() || as_real.ptr != end || !std::isfinite(node.real)) return std::nullopt;
  node.kind = NodeKind::real;
  return node;
}

std::string shortest(double number) {
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), number).ptr;
  std::string text(buffer, end);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

}  // namespace espalier::base
