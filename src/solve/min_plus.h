// SPDX-License-Identifier: Apache-2.0
// Implements the inner step of dynamic programs over counts of layers: the least of sums, row by row. It uses wider
// registers than x86-64 guarantees where the processor has them; integer results are the same.
#pragma once

#include <cstddef>
#include <cstdint>

namespace espalier::solve {

/// Sets out[i] = min(out[i], a[i] + more) for i < n; rows do not overlap.
void least_sums(std::int64_t* out, const std::int64_t* a, std::int64_t more, std::size_t n);
/// Sets out[i] = min(out[i], a[i] + b[i] + more) for i < n; `out` overlaps neither of them.
void least_sums(std::int64_t* out, const std::int64_t* a, const std::int64_t* b, std::int64_t more, std::size_t n);

}  // namespace espalier::solve
