// SPDX-License-Identifier: Apache-2.0
// Reads tables in comma-separated files: a header line with column names, then rows. Lines that begin with '#' and
// empty lines are skipped; a cell in double quotes may hold commas. Cells that read as a number become numbers, empty
// ones null, all others text. Each keeps its place, so that messages point into the file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/document.h"

namespace espalier::cluster {

inline constexpr std::size_t kMaxTableRows = 100'000;

/// Holds the cells of one line.
struct TableRow {
  std::int32_t line = 1;
  std::vector<base::Node> cells;
};

/// Reads the rows of a text without header, as in foreign traces. Errors are text that is not UTF-8, an open quote,
/// and too many rows.
Result<std::vector<TableRow>> read_rows(std::string_view text, const std::string& where);

/// Returns {key: [{column: cell, …}, …]}, as if it had been written in place. The header must hold exactly `columns`,
/// in any order.
Result<base::Document> read_table(std::string_view text, const std::string& where, const std::string& key,
                                  const std::vector<std::string>& columns);

}  // namespace espalier::cluster
