// SPDX-License-Identifier: Apache-2.0
// Compares golden files: expected text in tests/golden/*.txt. After an intended change, update them all by
//   ESPALIER_UPDATE_GOLDEN=1 ./dev test -R golden
// and read the difference before it is committed.
#pragma once

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "data/source_dir.h"

namespace espalier::golden {

inline std::string golden_path(const std::string& name) { return std::string(ESPALIER_SOURCE_DIR "/tests/golden/") + name; }

inline std::string read_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Returns the first line that differs, with its number.
inline std::string first_difference(const std::string& expected, const std::string& actual) {
  std::istringstream a(expected), b(actual);
  std::string x, y;
  for (int line = 1;; ++line) {
    const bool more_a = static_cast<bool>(std::getline(a, x)), more_b = static_cast<bool>(std::getline(b, y));
    if (!more_a && !more_b) return "no line differs";
    if (more_a != more_b || x != y) {
      return "line " + std::to_string(line) + "\n  expected: " + (more_a ? x : "(end)") +
             "\n  actual:   " + (more_b ? y : "(end)");
    }
  }
}

inline void expect_golden(const std::string& name, const std::string& actual) {
  if (std::getenv("ESPALIER_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(golden_path(name), std::ios::binary) << actual;
    return;
  }
  const std::string expected = read_text(golden_path(name));
  EXPECT_EQ(expected, actual) << name << ": " << first_difference(expected, actual)
                              << "\nIf the change is meant: ESPALIER_UPDATE_GOLDEN=1 ./dev test -R golden";
}

}  // namespace espalier::golden
