// SPDX-License-Identifier: Apache-2.0
#include "base/format.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>

namespace espalier::base {

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

std::string fixed(double value, int decimals) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, "%.*f", decimals, value);
  return buffer;
}

std::string seconds(std::int64_t nanoseconds) {
  const double s = static_cast<double>(nanoseconds) * 1e-9;
  const double size = std::fabs(s);
  if (size >= 100) return fixed(s, 1) + " s";
  if (size >= 1) return fixed(s, 3) + " s";
  if (size >= 1e-3) return fixed(s * 1e3, 1) + " ms";
  if (size > 0) return fixed(s * 1e6, 1) + " us";
  return "0 s";
}

std::string gib(std::int64_t bytes) {
  constexpr std::int64_t kMiB = 1 << 20;
  // Below 0.05 GiB one decimal would show nothing.
  if (bytes > 0 && bytes < 52 * kMiB) {
    const double mib = static_cast<double>(bytes) / static_cast<double>(kMiB);
    return mib >= 0.1 ? fixed(mib, 1) + " MiB" : fixed(mib * 1024, 1) + " KiB";
  }
  return fixed(static_cast<double>(bytes) / 1073741824.0, 1) + " GiB";
}

std::string percent(double fraction) { return fixed(fraction * 100, 1) + " %"; }

std::string grouped(std::int64_t value) {
  std::string digits = std::to_string(value);
  for (std::size_t at = digits.size(); at > (value < 0 ? 4u : 3u);) {
    at -= 3;
    digits.insert(at, 1, ',');
  }
  return digits;
}

std::string count(double value) {
  if (std::fabs(value) < 9007199254740992.0) return grouped(std::llround(value));
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, "%.3g", value);
  return buffer;
}

std::string short_count(double value) {
  struct Scale {
    double unit;
    const char* suffix;
    int decimals;
  };
  static constexpr Scale kScales[] = {{1e12, "T", 2}, {1e9, "B", 2}, {1e6, "M", 1}, {1e3, "k", 1}};
  for (const Scale& s : kScales) {
    if (value >= s.unit) return fixed(value / s.unit, s.decimals) + s.suffix;
  }
  return fixed(value, 0);
}

std::string six_digits(double value) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, "%.6g", value);
  return buffer;
}

std::size_t display_width(std::string_view utf8) {
  return static_cast<std::size_t>(
      std::count_if(utf8.begin(), utf8.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string pad_right(std::string_view s, std::size_t width) {
  const std::size_t w = display_width(s);
  return std::string(s) + std::string(width > w ? width - w : 0, ' ');
}

std::string pad_left(std::string_view s, std::size_t width) {
  const std::size_t w = display_width(s);
  return std::string(width > w ? width - w : 0, ' ') + std::string(s);
}

}  // namespace espalier::base
