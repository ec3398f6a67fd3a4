// SPDX-License-Identifier: Apache-2.0
// Reads lines of logs as people paste them. It removes colours, launcher prefixes and thousands separators, and finds
// fields by name.
//
// Logs of many ranks are interleaved and cut. A reader of one line therefore answers "not mine", "mine" or "mine, but
// damaged". The reader of the file decides what that means.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/result.h"

namespace espalier::runlog {

/// Returns the text without ANSI escape sequences and carriage returns.
std::string without_colour(std::string_view line);
/// Calls f(line number from 1, line without colour) for every line; an over-long one is cut at 64 KiB. Text that a
/// carriage return overwrites, as in progress bars, is a separate line with the same number.
void each_line(std::string_view text, const std::function<void(std::int64_t, std::string_view)>& f);

inline bool is_digit(char c) { return c >= '0' && c <= '9'; }
std::string_view trimmed(std::string_view text);
/// Returns the words between blanks.
std::vector<std::string_view> words_of(std::string_view line);

/// Returns the number at the front of `text` (blanks before it skipped), thousands separators allowed: "2,793
/// tflops" -> 2793.
std::optional<double> leading_number(std::string_view text);
/// Returns the whole word as a number.
std::optional<double> whole_number(std::string_view word);
std::optional<std::int64_t> whole_integer(std::string_view word);
/// Returns 1200 for "1.2K": three significant digits and a power of 1000 (K M G B T P), as nanotron prints.
std::optional<double> human_number(std::string_view text);
/// Returns the relative half step of such a number: how far the printed value may be from the true one ("1.2K": 3
/// digits, 0.42 %).
double human_resolution(std::string_view text);

/// Returns the text after `name` in the line, blanks skipped; nullopt when the name does not occur.
std::optional<std::string_view> after(std::string_view line, std::string_view name);
/// Returns the value of `key: value` in a line of fields separated by '|'; nullopt when there is no such field.
std::optional<std::string_view> bar_field(std::string_view line, std::string_view key);

/// Rejects a text that is too large: bad_input with `where`.
Status check_size(std::string_view text, const std::string& where);

}  // namespace espalier::runlog
