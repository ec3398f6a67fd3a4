// SPDX-License-Identifier: Apache-2.0
// Parses quantities with units, as people write them in cluster files: "80GiB", "400 Gb/s", "5us".
//
// B is always byte and b is always bit. The prefixes k M G T P E are powers of 1000, and with an i powers of 1024
// (IEC 80000-13), in either case. Rejects a number without unit, a sign, and a unit that could mean two things;
// the caller explains.
#include <charconv>
#include <cmath>
#include <limits>

#include "base/document.h"

namespace espalier::base {
namespace {

struct Split {
  double number = 0;
  std::string_view digits;  // the number as written
  std::string_view unit;
};

std::optional<Split> split(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  // from_chars would also accept "-1", "inf" and "nan".
  if (text.empty() || !((text.front() >= '0' && text.front() <= '9') || text.front() == '.')) return std::nullopt;
  Split out;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), out.number);
  if (code != std::errc() || !std::isfinite(out.number)) return std::nullopt;
  const auto length = static_cast<std::size_t>(end - text.data());
  out.digits = text.substr(0, length);
  out.unit = text.substr(length);
  while (!out.unit.empty() && out.unit.front() == ' ') out.unit.remove_prefix(1);
  return out;
}

/// Removes "k", "Mi", … from the front of `unit` and returns its factor; 1 if there is no prefix.
std::int64_t take_prefix(std::string_view& unit) {
  constexpr std::string_view prefixes = "kmgtpe";
  if (unit.size() < 2) return 1;  // "B" alone
  const char lower = static_cast<char>(unit[0] | 0x20);
  const std::size_t power = prefixes.find(lower);
  if (power == std::string_view::npos) return 1;
  unit.remove_prefix(1);
  const bool binary = unit.size() >= 2 && (unit[0] | 0x20) == 'i';
  // "bit" must keep its i: the i of a binary prefix comes before the b.
  if (binary) unit.remove_prefix(1);
  std::int64_t factor = 1;
  for (std::size_t i = 0; i <= power; ++i) factor *= binary ? 1024 : 1000;
  return factor;
}

}  // namespace

std::optional<std::int64_t> parse_bytes(std::string_view text) {
  const auto parts = split(text);
  if (!parts) return std::nullopt;
  std::string_view unit = parts->unit;
  const std::int64_t factor = take_prefix(unit);
  if (unit != "B") return std::nullopt;
  std::int64_t whole = 0;
  const auto [end, code] = std::from_chars(parts->digits.data(), parts->digits.data() + parts->digits.size(), whole);
  if (code == std::errc() && end == parts->digits.data() + parts->digits.size()) {  // also exact beyond 2^53
    std::int64_t bytes = 0;
    if (__builtin_mul_overflow(whole, factor, &bytes)) return std::nullopt;
    return bytes;
  }
  const double bytes = std::round(parts->number * static_cast<double>(factor));
  if (!(bytes < 9.2e18)) return std::nullopt;
  return static_cast<std::int64_t>(bytes);
}

std::optional<double> parse_bandwidth(std::string_view text) {
  const auto parts = split(text);
  if (!parts) return std::nullopt;
  std::string_view unit = parts->unit;
  if (unit.ends_with("/s")) {
    unit.remove_suffix(2);
  } else if (unit.ends_with("ps")) {  // Gbps
    unit.remove_suffix(2);
  } else {
    return std::nullopt;
  }
  double factor = static_cast<double>(take_prefix(unit));
  if (unit == "b" || unit == "bit") {
    factor /= 8;
  } else if (unit != "B") {
    return std::nullopt;
  }
  const double rate = parts->number * factor;
  if (!std::isfinite(rate)) return std::nullopt;
  return rate;
}

std::optional<double> parse_duration(std::string_view text) {
  const auto parts = split(text);
  if (!parts) return std::nullopt;
  const std::string_view unit = parts->unit;
  // Division by an exact power of ten is correctly rounded; multiplication by 1e-6 is not.
  double seconds = parts->number;
  if (unit == "ns") {
    seconds /= 1e9;
  } else if (unit == "us" || unit == "\u00b5s" || unit == "\u03bcs") {
    seconds /= 1e6;
  } else if (unit == "ms") {
    seconds /= 1e3;
  } else if (unit == "min") {
    seconds *= 60;
  } else if (unit == "h") {
    seconds *= 3600;
  } else if (unit == "d") {
    seconds *= 86400;
  } else if (unit != "s") {
    return std::nullopt;
  }
  return seconds;
}

}  // namespace espalier::base
