// SPDX-License-Identifier: Apache-2.0
// Edits plan documents for tests, and reads the resulting errors.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "espalier/plan.h"

namespace espalier::plan_test {

/// Returns `text` with the first `from` replaced by `to`.
inline std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

/// Returns the error of a plan document that must not be read.
inline Error error_of(const std::string& text) {
  const Result<Plan> plan = plan_from_json(text, "plan.json");
  EXPECT_FALSE(plan.ok());
  return plan.ok() ? Error{} : plan.error();
}

}  // namespace espalier::plan_test
