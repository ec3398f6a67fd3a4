// SPDX-License-Identifier: Apache-2.0
// Defines Verdict, which collects the conditions of one named check and becomes one Finding. The Finding is ok with a
// summary, or holds the first broken condition and the number of further ones. Texts are built only when needed.
#pragma once

#include <cstdint>
#include <sstream>
#include <string>
#include <utility>

#include "check/check.h"

namespace espalier::check {

/// Returns all arguments, concatenated as text.
template <class... Parts>
std::string say(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

class Verdict {
 public:
  explicit Verdict(std::string name) : name_(std::move(name)) {}

  /// Returns `condition`. If it is false, keeps the text that `describe()` returns.
  template <class Describe>
  bool require(bool condition, const Describe& describe) {
    if (condition) return true;
    if (broken_++ == 0) first_ = describe();
    return false;
  }
  [[nodiscard]] bool ok() const { return broken_ == 0; }

  [[nodiscard]] Finding finding(const std::string& summary) const {
    if (ok()) return {name_, true, summary};
    return {name_, false, broken_ == 1 ? first_ : say(first_, " (and ", broken_ - 1, " more)")};
  }

 private:
  std::string name_;
  std::string first_;
  std::int64_t broken_ = 0;
};

}  // namespace espalier::check
