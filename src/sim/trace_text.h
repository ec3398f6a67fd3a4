// SPDX-License-Identifier: Apache-2.0
// Writes the text of trace events with integer arithmetic only: microseconds with three decimals are nanoseconds
// exactly. It is internal to sim/.
#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

namespace espalier::sim {

inline void put(std::string& out, std::int64_t value) {
  char digits[24];
  out.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
}

/// Appends nanoseconds as microseconds with three decimals.
inline void put_us(std::string& out, std::int64_t ns) {
  if (ns < 0) {  // before the step of the rank that defines time 0
    out += '-';
    ns = -ns;
  }
  put(out, ns / 1000);
  const auto rest = static_cast<int>(ns % 1000);
  out += '.';
  out += static_cast<char>('0' + rest / 100);
  out += static_cast<char>('0' + rest / 10 % 10);
  out += static_cast<char>('0' + rest % 10);
}

inline void put_quoted(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) >= 0x20) out += c;
  }
  out += '"';
}

/// Appends `,"key":value`.
inline void field(std::string& out, std::string_view key, std::int64_t value) {
  out.append(",\"").append(key).append("\":");
  put(out, value);
}
inline void field(std::string& out, std::string_view key, std::string_view value) {
  out.append(",\"").append(key).append("\":");
  put_quoted(out, value);
}
inline void field_us(std::string& out, std::string_view key, std::int64_t ns) {
  out.append(",\"").append(key).append("\":");
  put_us(out, ns);
}

}  // namespace espalier::sim
