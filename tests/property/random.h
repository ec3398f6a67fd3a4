// SPDX-License-Identifier: Apache-2.0
// Generates small random choices from a seed, the same on every machine. std::mt19937_64 is specified to the bit; the
// standard's distributions are not, so none is used.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <random>
#include <vector>

namespace espalier::property {

/// Returns true if ESPALIER_LONG_TESTS=1 asks for many more random cases than the default tests have time for.
inline bool long_run() {
  const char* asked = std::getenv("ESPALIER_LONG_TESTS");
  return asked != nullptr && *asked != '\0' && *asked != '0';
}

/// Returns `usual` cases by default and `many` in a long run. Under a sanitizer, which is ten times as slow, it
/// returns a tenth of the usual ones. A test that demands a minimum number of cases must also compute it here.
/// Otherwise the test would fail when the cases become fewer.
inline int cases(int usual, int many) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return usual / 10;
#endif
  return long_run() ? many : usual;
}

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}

  /// Returns 0 … n−1; the slight bias of the remainder does not matter here.
  std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(n)); }
  std::int64_t between(std::int64_t low, std::int64_t high) { return low + below(high - low + 1); }
  /// Returns true once in `n` times on average.
  bool one_in(std::int64_t n) { return below(n) == 0; }
  template <class T>
  const T& of(const std::vector<T>& values) {
    return values[static_cast<std::size_t>(below(static_cast<std::int64_t>(values.size())))];
  }
  template <class T>
  void shuffle(std::vector<T>& values) {
    for (std::size_t i = values.size(); i > 1; --i)
      std::swap(values[i - 1], values[static_cast<std::size_t>(below(static_cast<std::int64_t>(i)))]);
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace espalier::property
