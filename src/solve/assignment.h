// SPDX-License-Identifier: Apache-2.0
// Assignment: n rows to n columns, each once, at the least sum.
//
// Shortest augmenting paths with potentials (Hungarian method; Kuhn 1955, in the form of Jonker and Volgenant 1987):
// O(n³), exact. Among equal sums the answer is the one the order of rows and columns leads to, the same on every run.
#pragma once

#include <cstdint>
#include <vector>

namespace espalier::solve {

/// costs[row][column], square. Returns the column of each row.
std::vector<std::size_t> assignment(const std::vector<std::vector<std::int64_t>>& costs);

}  // namespace espalier::solve
