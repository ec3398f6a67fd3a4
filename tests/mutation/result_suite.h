// SPDX-License-Identifier: Apache-2.0
// Mutates result.json: a document that plan() wrote is changed in one value, and the check of results must name it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/document.h"
#include "report/result_check.h"

namespace espalier::mutation {

struct ResultCase {
  std::string name;
  Job job;
  std::string text;  ///< result.json
};

struct ResultMutation {
  std::string name;
  std::string finding;                     ///< name of the finding that must fail
  std::function<bool(base::Node&)> apply;  ///< changes the document; false: nothing to change there
};

/// Returns answers to the jobs of the six plans, pinned to their configurations or near them.
const std::vector<ResultCase>& result_cases();

/// Returns the value at "a.b[2].c"; nullptr if there is none.
base::Node* value_at(base::Node& root, const std::string& path);

/// Returns the findings of the whole check of a document under a recomputed digest. Reading is included: "reader" if
/// it cannot be read.
std::vector<Finding> findings_of(const ResultCase& c, const std::string& text);

/// Checks that every mutation applies to some case, and that its finding fails wherever it applies.
void expect_rejected(const std::vector<ResultMutation>& mutations);
void expect_rejected(const std::vector<ResultMutation>& mutations, const std::vector<ResultCase>& cases);

}  // namespace espalier::mutation
