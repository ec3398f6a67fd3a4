// SPDX-License-Identifier: Apache-2.0
// The findings of a check on a plan or a result.
#pragma once

#include <string>
#include <vector>

namespace espalier {

/// Describes one named check and its outcome.
struct Finding {
  /// Names the check, e.g. "coverage", "devices-once", "static-memory", "deadlock",
  /// "time-lower-bound", or a rule of an engine.
  std::string name;
  bool ok = false;
  std::string text;  ///< the value found, compared with the value derived
};

/// Holds all findings of one document.
struct CheckReport {
  std::vector<Finding> findings;
  /// Lists the keys of the document that nothing checks, e.g. "notes". `ok` covers everything else.
  std::vector<std::string> not_verified = {};
  /// Returns whether every check holds.
  [[nodiscard]] bool ok() const;
};

}  // namespace espalier
