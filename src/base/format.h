// SPDX-License-Identifier: Apache-2.0
// Formats numbers for people and joins pieces of text. All messages, answers and reports of Espalier write
// times, sizes, shares and counts this way. Documents that programs read are written by base/document.h, exactly
// and without units.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace espalier::base {

inline void append(std::string& out, std::string_view piece) { out += piece; }
template <class Integer, std::enable_if_t<std::is_integral_v<Integer>, int> = 0>
void append(std::string& out, Integer piece) {
  out += std::to_string(piece);
}

/// Joins pieces, texts and integers, into one string: "tp ", 6, " does not divide ", 32 -> "tp 6 does not divide 32".
template <class... Pieces>
std::string cat(const Pieces&... pieces) {
  std::string out;
  (append(out, pieces), ...);
  return out;
}

/// Joins words: "a, b, c".
template <class Words>
std::string joined(const Words& words, std::string_view separator = ", ") {
  std::string out;
  for (const auto& word : words) {
    if (!out.empty()) out += separator;
    out += word;
  }
  return out;
}

/// Converts ASCII letters to lower case; leaves everything else unchanged.
std::string lower(std::string_view text);

std::string seconds(std::int64_t nanoseconds);  ///< "5.120 s", "812.4 ms", "93.1 us"
std::string gib(std::int64_t bytes);            ///< "66.3 GiB"
std::string fixed(double value, int decimals);  ///< "40.61"
std::string percent(double fraction);           ///< "40.6 %"
std::string grouped(std::int64_t value);        ///< "8,030,261,248"
std::string count(double value);                ///< grouped below 2^53, else "1.2e+20"
std::string short_count(double value);          ///< "8.03B", "124.4M"
std::string six_digits(double value);           ///< "0.123457": six significant digits, for files and scripts

std::size_t display_width(std::string_view utf8);  ///< number of code points
std::string pad_right(std::string_view s, std::size_t width);
std::string pad_left(std::string_view s, std::size_t width);

}  // namespace espalier::base

namespace espalier {
// All modules compose messages, so these names need no prefix.
using base::cat;
using base::count;
using base::display_width;
using base::fixed;
using base::gib;
using base::grouped;
using base::pad_left;
using base::pad_right;
using base::percent;
using base::seconds;
using base::short_count;
using base::six_digits;
}  // namespace espalier
