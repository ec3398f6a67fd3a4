// SPDX-License-Identifier: Apache-2.0
#include "base/era.h"

#include <charconv>

namespace espalier::base {
namespace {

std::optional<Version> read_version(Reader& row, std::string_view key) {
  if (!row.has(key)) return std::nullopt;
  // A version like 25.02 is a number to YAML, whose text is kept as it was written.
  const std::string text = row.find(key)->text;
  std::optional<Version> version = Version::parse(text);
  if (!version) row.fail(key, "", "a version, like 0.19.2 or 2024-12");
  return version;
}

}  // namespace

std::optional<Version> Version::parse(std::string_view text) {
  Version version;
  version.text_ = text;
  std::size_t part = 0;
  for (const char *at = text.data(), *end = at + text.size(); part < version.numbers_.size(); ++part) {
    const auto [next, fault] = std::from_chars(at, end, version.numbers_[part]);
    if (fault != std::errc{} || *at == '-') return std::nullopt;
    if (next == end) return version;
    if (*next != '.' && *next != '-') return std::nullopt;
    at = next + 1;
  }
  return std::nullopt;
}

Era read_era(Reader& row) {
  Era era{read_version(row, "since"), read_version(row, "until")};
  if (era.since && era.until && *era.until < *era.since) row.fail("until", "", "a version from `since` on");
  return era;
}

bool overlap(const Era& a, const Era& b) {
  if (!begins_before(a, b) && !begins_before(b, a)) return true;
  const Era &first = begins_before(a, b) ? a : b, &second = begins_before(a, b) ? b : a;
  return first.until && *second.since <= *first.until;
}

}  // namespace espalier::base
