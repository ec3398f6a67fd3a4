// SPDX-License-Identifier: Apache-2.0
// Assigns n rows to n columns, each once, at the least sum.
//
// The method is shortest augmenting paths with potentials (Hungarian method; Kuhn 1955, in the form of Jonker and
// Volgenant 1987). It is exact and takes O(n³). Among equal sums the order of rows and columns decides, in the same
// way on every run.
#pragma once

#include <cstdint>
#include <vector>

namespace espalier::solve {

/// Returns the column of each row. `costs` is [row][column] and square.
std::vector<std::size_t> assignment(const std::vector<std::vector<std::int64_t>>& costs);

}  // namespace espalier::solve
