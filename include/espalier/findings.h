// SPDX-License-Identifier: Apache-2.0
// What a check of a plan or of a result found.
#pragma once

#include <string>
#include <vector>

namespace espalier {

/// One named check and its outcome.
struct Finding {
  std::string name;  ///< e.g. "coverage", "devices-once", "static-memory", "deadlock", "time-lower-bound", or a rule of
                     ///< an engine
  bool ok = false;
  std::string text;  ///< what was found against what was derived
};

struct CheckReport {
  std::vector<Finding> findings;
  /// What the document holds and nothing checks, by key: "notes". `ok` covers everything else.
  std::vector<std::string> not_verified = {};
  /// Whether every check holds.
  [[nodiscard]] bool ok() const;
};

}  // namespace espalier
