// SPDX-License-Identifier: Apache-2.0
// Versions, and rows that hold since a version. A fact about a program of others changes with its releases, so a fact
// is a list of rows, each with its era. The newest row at or below a version holds for it. The newest known row also
// holds for versions that are newer, and where no version is named.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/document.h"

namespace espalier::base {

/// Holds the numbers of a version: 0.19.2, 25.02, 2024-12. They are compared one by one; an absent one is 0.
class Version {
 public:
  /// Reads one to four numbers, joined by dots or hyphens; nothing for any other text.
  static std::optional<Version> parse(std::string_view text);
  /// Returns the text that was read.
  [[nodiscard]] const std::string& text() const { return text_; }
  std::strong_ordering operator<=>(const Version& other) const { return numbers_ <=> other.numbers_; }
  bool operator==(const Version& other) const { return numbers_ == other.numbers_; }

 private:
  std::array<std::int32_t, 4> numbers_{};
  std::string text_;
};

/// Holds the versions of which the source of a row speaks, both ends included. Without `since` they begin with the
/// first one; without `until` the source names no last one. Lookup reads `since` alone: a row holds until the next.
struct Era {
  std::optional<Version> since, until;
};

/// Returns whether a row of an era can hold for a version.
inline bool begins_by(const Era& era, const std::optional<Version>& version) {
  return !version || !era.since || *era.since <= *version;
}

/// Returns whether an era begins before another.
inline bool begins_before(const Era& a, const Era& b) { return b.since && (!a.since || *a.since < *b.since); }

/// Returns the row that holds for a version (nothing: none is named); null if all rows are newer. Rows have a member
/// `era`, in any order.
template <class Row>
const Row* row_at(std::span<const Row> rows, const std::optional<Version>& version) {
  const Row* newest = nullptr;
  for (const Row& row : rows)
    if (begins_by(row.era, version) && (newest == nullptr || begins_before(newest->era, row.era))) newest = &row;
  return newest;
}

/// Reads `since` and `until` of a row. A text that is no version, and an era that ends before it begins, are errors.
Era read_era(Reader& row);

/// Returns whether the sources of two rows speak of one version, so that they contradict each other.
bool overlap(const Era& a, const Era& b);

}  // namespace espalier::base
