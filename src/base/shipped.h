// SPDX-License-Identifier: Apache-2.0
// Reads files of data/ that ship inside the library. A file that cannot be read is a bug of this build, not a mistake
// of its user.
#pragma once

#include <utility>

#include "base/invariant.h"
#include "espalier/result.h"

namespace espalier::base {

/// Returns the value of `read`, which comes from the shipped `file`. An error is an internal one.
template <class T>
T shipped(Result<T> read, const char* file) {
  if (!read.ok()) check_failed(read.error().message().c_str(), file, 0);
  return std::move(read).value();
}

}  // namespace espalier::base
