// SPDX-License-Identifier: Apache-2.0
// Represents failures. A failure that a user can cause (a bad file, an impossible cluster) is an Error value with its
// place, what was found, what was expected, and a hint. Faults that only a bug can cause are caught by ESPALIER_CHECK
// (src/base/invariant.h), which is always on.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace espalier {

/// Classifies errors; the class decides the exit code of the command line (docs/file-formats.md).
enum class ErrorKind {
  internal,      ///< exit 1: a bug
  usage,         ///< exit 2: bad flag or combination of flags
  bad_input,     ///< exit 3: a file or value is wrong
  infeasible,    ///< exit 4: no plan fits
  check_failed,  ///< exit 5: a verification failed
  limit,         ///< exit 6: a search limit was reached
};

/// Describes a failure. Every field is a sentence fragment without a final full stop. `where` is "file:line:column"
/// or "file: $.json.path".
struct Error {
  ErrorKind kind = ErrorKind::bad_input;
  std::string where;
  std::string found;
  std::string expected;
  std::string hint;

  /// Returns "where: found …; expected …; hint: …" without the empty parts.
  [[nodiscard]] std::string message() const;
};

/// Holds a value or an Error, like std::expected (C++23).
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: implicit by design
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit by design

  [[nodiscard]] bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  [[nodiscard]] const T& value() const& { return std::get<0>(state_); }
  [[nodiscard]] T& value() & { return std::get<0>(state_); }
  [[nodiscard]] T&& value() && { return std::get<0>(std::move(state_)); }
  [[nodiscard]] const Error& error() const { return std::get<1>(state_); }
  const T& operator*() const { return value(); }
  T& operator*() { return value(); }
  const T* operator->() const { return &value(); }
  T* operator->() { return &value(); }

 private:
  std::variant<T, Error> state_;
};

/// Holds success, or the Error of a failure. It has no conversion to bool, so that no test can be read the wrong way.
class [[nodiscard]] Status {
 public:
  Status() = default;                                  ///< success
  Status(Error error) : failure_(std::move(error)) {}  // NOLINT: implicit by design

  [[nodiscard]] bool ok() const { return !failure_.has_value(); }
  /// Returns the failure; only for a Status that is not ok().
  [[nodiscard]] const Error& error() const { return failure_.value(); }

 private:
  std::optional<Error> failure_;
};

}  // namespace espalier
