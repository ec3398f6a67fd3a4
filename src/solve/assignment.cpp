// SPDX-License-Identifier: Apache-2.0
#include "solve/assignment.h"

#include <limits>

#include "base/invariant.h"

namespace espalier::solve {
namespace {

/// Holds the state of the method: columns 1 … n; column 0 represents the row that is being placed.
struct Paths {
  const std::vector<std::vector<std::int64_t>>& costs;
  std::vector<std::int64_t> of_row, of_column;     // potentials
  std::vector<std::size_t> row_of, column_before;  // by column

  explicit Paths(const std::vector<std::vector<std::int64_t>>& c)
      : costs(c), of_row(c.size() + 1), of_column(c.size() + 1), row_of(c.size() + 1), column_before(c.size() + 1) {}

  /// Finds the shortest path from a row to a free column.
  std::size_t free_column(std::size_t row) {
    constexpr std::int64_t kFar = std::numeric_limits<std::int64_t>::max();
    const std::size_t n = costs.size();
    std::vector<std::int64_t> least(n + 1, kFar);
    std::vector<char> used(n + 1, 0);
    row_of[0] = row;
    std::size_t column = 0;
    do {
      used[column] = 1;
      const std::size_t from = row_of[column];
      std::int64_t step = kFar;
      std::size_t next = 0;
      for (std::size_t j = 1; j <= n; ++j) {
        if (used[j] != 0) continue;
        const std::int64_t reduced = costs[from - 1][j - 1] - of_row[from] - of_column[j];
        if (reduced < least[j]) {
          least[j] = reduced;
          column_before[j] = column;
        }
        if (least[j] < step) {
          step = least[j];
          next = j;
        }
      }
      for (std::size_t j = 0; j <= n; ++j) {
        if (used[j] != 0) {
          of_row[row_of[j]] += step;
          of_column[j] -= step;
        } else {
          least[j] -= step;
        }
      }
      column = next;
    } while (row_of[column] != 0);
    return column;
  }
};

}  // namespace

std::vector<std::size_t> assignment(const std::vector<std::vector<std::int64_t>>& costs) {
  const std::size_t n = costs.size();
  for (const auto& row : costs) ESPALIER_CHECK(row.size() == n);
  Paths paths(costs);
  for (std::size_t row = 1; row <= n; ++row) {
    std::size_t column = paths.free_column(row);
    while (column != 0) {
      const std::size_t before = paths.column_before[column];
      paths.row_of[column] = paths.row_of[before];
      column = before;
    }
  }
  std::vector<std::size_t> out(n);
  for (std::size_t j = 1; j <= n; ++j) out[paths.row_of[j] - 1] = j - 1;
  return out;
}

}  // namespace espalier::solve
