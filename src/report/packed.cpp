// SPDX-License-Identifier: Apache-2.0
#include "report/packed.h"

#include "base/invariant.h"
#include "sim/trace.h"

namespace espalier::report {

void Packed::add(std::int64_t value) {
  ESPALIER_CHECK(value >= 0);
  auto rest = static_cast<std::uint64_t>(value);
  while (rest >= 0x80) {
    bytes_ += static_cast<char>((rest & 0x7f) | 0x80);
    rest >>= 7;
  }
  bytes_ += static_cast<char>(rest);
}

void Packed::add_signed(std::int64_t value) {
  ESPALIER_CHECK(value > INT64_MIN / 2 && value < INT64_MAX / 2);
  add(value < 0 ? -2 * value - 1 : 2 * value);
}

std::string Packed::base64() const {
  constexpr int kSmallest = 9;  // a page is written once and sent often
  return report::base64(sim::gzip(bytes_, kSmallest));
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t three = 0;
    for (std::size_t k = 0; k < 3; ++k)
      three = three << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0u);
    for (std::size_t k = 0; k < 4; ++k) out += i + k <= bytes.size() ? kDigits[three >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

}  // namespace espalier::report
