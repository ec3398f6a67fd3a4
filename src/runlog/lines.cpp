// SPDX-License-Identifier: Apache-2.0
#include "runlog/lines.h"

#include <charconv>
#include <cmath>

namespace espalier::runlog {
namespace {

constexpr std::size_t kMaxLine = std::size_t{64} << 10;
constexpr std::size_t kMaxText = std::size_t{256} << 20;

bool is_blank(char c) { return c == ' ' || c == '\t'; }

std::string_view without_blanks(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  return text;
}

/// Returns digits, sign, point and exponent, without separators between digits.
std::string number_literal(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool sign = (c == '-' || c == '+') && (out.empty() || out.back() == 'e' || out.back() == 'E');
    const bool exponent = (c == 'e' || c == 'E') && !out.empty() && i + 1 < text.size() &&
                          (is_digit(text[i + 1]) || ((text[i + 1] == '-' || text[i + 1] == '+') && i + 2 < text.size()));
    if (c == ',' && !out.empty() && is_digit(out.back()) && i + 3 < text.size() && is_digit(text[i + 1]) &&
        is_digit(text[i + 2]) && is_digit(text[i + 3]))
      continue;  // 2,793
    if (!is_digit(c) && c != '.' && !sign && !exponent) break;
    if (c != '+') out += c;
  }
  return out;
}

std::optional<double> parsed(std::string_view literal) {
  double value = 0;
  if (literal.empty()) return std::nullopt;
  const auto [end, code] = std::from_chars(literal.data(), literal.data() + literal.size(), value);
  if (code != std::errc{} || end != literal.data() + literal.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

/// Returns the power of 1000 that a letter means; 0 for other letters.
double scale_of(char letter) {
  switch (letter) {
    case 'K': return 1e3;
    case 'M': return 1e6;
    case 'G':
    case 'B': return 1e9;
    case 'T': return 1e12;
    case 'P': return 1e15;
    default: return 0;
  }
}

std::string_view first_word(std::string_view text) {
  text = without_blanks(text);
  std::size_t end = 0;
  while (end < text.size() && !is_blank(text[end])) ++end;
  return text.substr(0, end);
}

}  // namespace

std::string without_colour(std::string_view line) {
  std::string out;
  out.reserve(line.size());
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\x1b' && i + 1 < line.size() && line[i + 1] == '[') {
      i += 2;
      while (i < line.size() && (line[i] < '@' || line[i] > '~')) ++i;  // parameters, then one final letter
      continue;
    }
    if (line[i] != '\r') out += line[i];
  }
  return out;
}

void each_line(std::string_view text, const std::function<void(std::int64_t, std::string_view)>& f) {
  for (std::int64_t number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    while (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    for (std::size_t begin = 0; begin != std::string_view::npos;) {
      const std::size_t again = line.find('\r', begin);
      const std::string_view part = line.substr(begin, again - begin);
      if (!part.empty() || line.empty()) f(number, without_colour(part.substr(0, kMaxLine)));
      begin = again == std::string_view::npos ? again : again + 1;
    }
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
}

std::string_view trimmed(std::string_view text) {
  text = without_blanks(text);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> out;
  for (std::string_view rest = without_blanks(line); !rest.empty(); rest = without_blanks(rest)) {
    out.push_back(first_word(rest));
    rest.remove_prefix(out.back().size());
  }
  return out;
}

std::optional<double> leading_number(std::string_view text) { return parsed(number_literal(without_blanks(text))); }

std::optional<double> whole_number(std::string_view word) {
  double value = 0;
  const auto [end, code] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (word.empty() || code != std::errc{} || end != word.data() + word.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::optional<std::int64_t> whole_integer(std::string_view word) {
  std::int64_t value = 0;
  const auto [end, code] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (word.empty() || code != std::errc{} || end != word.data() + word.size()) return std::nullopt;
  return value;
}

std::optional<double> human_number(std::string_view text) {
  std::string_view word = first_word(text);
  if (word.empty()) return std::nullopt;
  double scale = 1;
  if (!is_digit(word.back()) && word.back() != '.') {
    scale = scale_of(word.back());
    word.remove_suffix(1);
  }
  const auto value = whole_number(word);
  if (!value || scale == 0) return std::nullopt;
  return *value * scale;
}

double human_resolution(std::string_view text) {
  const std::string_view word = first_word(text);
  double value = 0;
  if (std::from_chars(word.data(), word.data() + word.size(), value).ec != std::errc{} || value <= 0) return 0;
  // With three significant digits and trailing zeros dropped, 1.2 was between 1.195 and 1.205.
  const double step = std::pow(10.0, std::floor(std::log10(value)) - 2);
  return 0.5 * step / value;
}

std::optional<std::string_view> after(std::string_view line, std::string_view name) {
  const std::size_t at = line.find(name);
  if (at == std::string_view::npos) return std::nullopt;
  return without_blanks(line.substr(at + name.size()));
}

std::optional<std::string_view> bar_field(std::string_view line, std::string_view key) {
  while (!line.empty()) {
    const std::size_t bar = line.find('|');
    const std::string_view field = trimmed(line.substr(0, bar));
    if (field.starts_with(key)) {
      const std::string_view rest = trimmed(field.substr(key.size()));
      if (rest.starts_with(":")) return trimmed(rest.substr(1));
    }
    line.remove_prefix(bar == std::string_view::npos ? line.size() : bar + 1);
  }
  return std::nullopt;
}

Status check_size(std::string_view text, const std::string& where) {
  if (text.size() <= kMaxText) return {};
  return Error{ErrorKind::bad_input, where, std::to_string(text.size()) + " bytes", "at most 256 MiB",
               "cut the log to a few dozen steps"};
}

}  // namespace espalier::runlog
