// SPDX-License-Identifier: Apache-2.0
#include "solve/min_plus.h"

#include <algorithm>

// The version is chosen when the program is loaded; sanitizers and libraries other than glibc do not support this.
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define ESPALIER_WIDE __attribute__((target_clones("avx2", "default")))
#else
#define ESPALIER_WIDE
#endif

namespace espalier::solve {

ESPALIER_WIDE void least_sums(std::int64_t* __restrict out, const std::int64_t* __restrict a, std::int64_t more, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) out[i] = std::min(out[i], a[i] + more);
}

ESPALIER_WIDE void least_sums(std::int64_t* __restrict out, const std::int64_t* __restrict a, const std::int64_t* __restrict b,
                              std::int64_t more, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) out[i] = std::min(out[i], a[i] + b[i] + more);
}

}  // namespace espalier::solve
