// SPDX-License-Identifier: Apache-2.0
#include "exchange/python_recipe.h"

#include "base/format.h"
#include "base/invariant.h"

namespace espalier::exchange {

std::string assignments(const std::string& object, const std::vector<PythonSetting>& settings) {
  std::string out;
  for (const PythonSetting& s : settings) {
    ESPALIER_CHECK(!s.path.empty() && !s.literal.empty());  // both sides of an assignment
    out += cat("    ", object, ".", s.path, " = ", s.literal, s.reason.empty() ? "" : cat("  # ", s.reason), "\n");
  }
  return out;
}

std::string python_text(const std::string& text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + "'";
}

std::string python_bool(bool value) { return value ? "True" : "False"; }

}  // namespace espalier::exchange
