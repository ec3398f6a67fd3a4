// SPDX-License-Identifier: Apache-2.0
// Checks what every fuzz target demands of a reader in addition to not crashing: an error states where, what was
// found and what was expected.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "espalier/result.h"

namespace espalier::fuzz {

inline void expect(bool condition, const char* what, std::string_view detail = {}) {
  if (condition) return;
  std::fprintf(stderr, "fuzz expectation failed: %s\n%.*s\n", what, static_cast<int>(detail.size()), detail.data());
  std::abort();
}

/// Checks that a rejection of untrusted text is a bad_input error that helps.
inline void expect_helpful(const Error& error) {
  expect(error.kind == ErrorKind::bad_input, "a bad text is bad_input", error.message());
  expect(!error.where.empty() && !error.found.empty() && !error.expected.empty(), "where, found and expected are filled in",
         error.message());
}

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

}  // namespace espalier::fuzz
