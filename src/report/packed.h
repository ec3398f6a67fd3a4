// SPDX-License-Identifier: Apache-2.0
// Columns of integers in little room, for the page: each number as 7-bit groups, the lowest first, all but the last
// with the high bit set (LEB128); the whole compressed by gzip and written in base64. src/report/page/src/packed.ts
// reads it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace espalier::report {

class Packed {
 public:
  /// 0 and above.
  void add(std::int64_t value);
  /// Any sign: 0, −1, 1, −2, … as 0, 1, 2, 3, …
  void add_signed(std::int64_t value);
  [[nodiscard]] std::string base64() const;
  [[nodiscard]] const std::string& bytes() const { return bytes_; }  ///< not compressed yet

 private:
  std::string bytes_;
};

/// RFC 4648, with padding.
std::string base64(std::string_view bytes);

}  // namespace espalier::report
