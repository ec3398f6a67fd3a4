// SPDX-License-Identifier: Apache-2.0
// Packs columns of integers compactly for the page. Each number is written as 7-bit groups, the lowest first, all but
// the last with the high bit set (LEB128). The whole is compressed by gzip and written in base64.
// src/report/page/src/packed.ts reads it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace espalier::report {

class Packed {
 public:
  /// Adds a number ≥ 0.
  void add(std::int64_t value);
  /// Adds a number of any sign: 0, −1, 1, −2, … are written as 0, 1, 2, 3, …
  void add_signed(std::int64_t value);
  [[nodiscard]] std::string base64() const;
  [[nodiscard]] const std::string& bytes() const { return bytes_; }  ///< not compressed yet

 private:
  std::string bytes_;
};

/// Encodes bytes by RFC 4648, with padding.
std::string base64(std::string_view bytes);

}  // namespace espalier::report
