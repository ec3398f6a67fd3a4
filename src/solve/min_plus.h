// SPDX-License-Identifier: Apache-2.0
// The inner step of dynamic programs over counts of layers: of sums of figures
// the least, row by row. On processors that have wider registers than x86-64
// promises they are used; integers come out the same.
#pragma once

#include <cstddef>
#include <cstdint>

namespace espalier::solve {

/// out[i] = min(out[i], a[i] + more) for i < n; rows do not overlap.
void least_sums(std::int64_t* out, const std::int64_t* a, std::int64_t more, std::size_t n);
/// out[i] = min(out[i], a[i] + b[i] + more) for i < n; `out` overlaps neither
/// of them.
void least_sums(std::int64_t* out, const std::int64_t* a, const std::int64_t* b, std::int64_t more, std::size_t n);

}  // namespace espalier::solve
