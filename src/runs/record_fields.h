// SPDX-License-Identifier: Apache-2.0
// Provides typed look-ups in a record of a measured run. Unknown keys are ignored and any field may be null. The
// first field of a wrong type is the error of its line (espalier/measured_runs.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/document.h"
#include "espalier/measured_runs.h"

namespace espalier::runs {

/// Reads one mapping of a record. The values that it refers to outlive it.
class RecordFields {
 public:
  RecordFields(const base::Node& node, std::string path, RunRecord& record, Status& status, const std::string& where)
      : node_(node), path_(std::move(path)), record_(record), status_(status), where_(where) {}

  /// Returns a mapping inside this one; an empty one where there is none.
  [[nodiscard]] RecordFields child(const char* key) const;
  /// Returns the mappings of a list; none where there is no list.
  [[nodiscard]] std::vector<RecordFields> children(const char* key) const;
  [[nodiscard]] std::optional<double> real(const char* key) const;
  [[nodiscard]] std::optional<std::int64_t> count(const char* key) const;
  /// Returns a list of whole numbers.
  [[nodiscard]] std::vector<std::int64_t> counts(const char* key) const;
  [[nodiscard]] std::optional<bool> flag(const char* key) const;
  [[nodiscard]] std::string word(const char* key) const;
  /// Returns a list of words.
  [[nodiscard]] std::vector<std::string> names(const char* key) const;
  /// Returns the node; nullptr when absent or null.
  [[nodiscard]] const base::Node* find(const char* key) const;

 private:
  /// Marks a value per stage, or two sequences, as not uniform. This is not an error.
  [[nodiscard]] bool set_apart(const base::Node& node, const char* key) const;
  void fail(const base::Node& node, const char* key, std::string expected) const;

  const base::Node& node_;
  std::string path_;
  RunRecord& record_;
  Status& status_;
  const std::string& where_;
};

}  // namespace espalier::runs
