// SPDX-License-Identifier: Apache-2.0
// Reads published operator times as tables: comma-separated values under two comment lines. These give the source
// with its licence, and what was measured. The folder data/operators/ holds a thinned copy of each, so that a clean
// clone can fit; the rest of the full table is then held out.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/result.h"

namespace espalier::lab {

struct OperatorTable {
  std::string name;                   ///< file name without directory
  std::vector<std::string> comments;  ///< lines that begin with #
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> lines;  ///< rows as written

  [[nodiscard]] const std::string& text(std::size_t row, std::string_view column) const;
  [[nodiscard]] double number(std::size_t row, std::string_view column) const;
  [[nodiscard]] bool has(std::string_view column) const;
};

Result<OperatorTable> parse_table(std::string_view text, const std::string& name);
/// Reads DIRECTORY/name; returns an empty table if the file is missing.
Result<OperatorTable> load_table(const std::string& directory, const std::string& name);

/// Hashes the text of a row (FNV-1a, 64 bits). Whether a row is kept or held out therefore does not depend on the
/// order of the rows.
std::uint64_t row_hash(std::string_view line);
/// Returns the rows whose hash is a multiple of `step`, which are the same on every machine.
OperatorTable thinned(const OperatorTable& table, std::uint64_t step);
std::string to_text(const OperatorTable& table);

}  // namespace espalier::lab
