// SPDX-License-Identifier: Apache-2.0
// Files of data/ that ship inside the library. One that does not read is a bug of this build, not a mistake of its
// user.
#pragma once

#include <utility>

#include "base/invariant.h"
#include "espalier/result.h"

namespace espalier::base {

/// The value of `read`, which comes from the shipped `file`; stops when there is none.
template <class T>
T shipped(Result<T> read, const char* file) {
  if (!read.ok()) check_failed(read.error().message().c_str(), file, 0);
  return std::move(read).value();
}

}  // namespace espalier::base
