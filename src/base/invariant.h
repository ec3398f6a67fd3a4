// SPDX-License-Identifier: Apache-2.0
// Defines ESPALIER_CHECK for conditions that only a bug can violate. It is always on and throws InternalError (exit
// code 1 at the command line).
#pragma once

#include <stdexcept>
#include <string>

namespace espalier::base {

class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

[[noreturn]] inline void check_failed(const char* condition, const char* file, int line) {
  throw InternalError(std::string(file) + ":" + std::to_string(line) + ": internal check failed: " + condition);
}

}  // namespace espalier::base

#define ESPALIER_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::espalier::base::check_failed(#condition, __FILE__, __LINE__))
