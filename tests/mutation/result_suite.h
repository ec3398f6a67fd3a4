// SPDX-License-Identifier: Apache-2.0
// Mutations of result.json: a document that plan() wrote is changed in one value, and the check of results must name
// it.
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
  std::string finding;                     ///< that must fail
  std::function<bool(base::Node&)> apply;  ///< changes the document; false: nothing to change there
};

/// Answers to the jobs of the six plans: pinned to their configurations or near them.
const std::vector<ResultCase>& result_cases();

/// The value at "a.b[2].c"; nullptr when there is none.
base::Node* value_at(base::Node& root, const std::string& path);

/// Findings of the whole check of a document under a digest computed again, reading included ("reader" when it cannot
/// be read).
std::vector<Finding> findings_of(const ResultCase& c, const std::string& text);

/// Every mutation applies to some case; wherever it applies, its finding fails.
void expect_rejected(const std::vector<ResultMutation>& mutations);
void expect_rejected(const std::vector<ResultMutation>& mutations, const std::vector<ResultCase>& cases);

}  // namespace espalier::mutation
