// SPDX-License-Identifier: Apache-2.0
// From one plan to another in the words of the user's own file: which flags or keys change, and the file with those
// changes.
//
//   auto diff = configuration_diff(request, "megatron-args", *job, &present.plan, best.plan);
//   for (const ConfigurationEdit& e : diff->edits) std::cout << e.key << " " << e.before << " -> " << e.after << "\n";
//
// The changed file is read again before it is handed out: `differs` is empty only if it gives the wanted plan.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "espalier/imported_configuration.h"
#include "espalier/job.h"
#include "espalier/plan.h"
#include "espalier/result.h"

namespace espalier {

/// One line of the diff. A switch has the value "on".
struct ConfigurationEdit {
  std::string key;            ///< as the file writes it: "--pipeline-model-parallel-size", "parallelism.tensor_parallel_degree",
                              ///< "TP" of
                              ///< a variable
  std::string before, after;  ///< empty: absent
  std::int64_t line = 0;      ///< of the file; 0: added, or an argument of the training script
  bool operator==(const ConfigurationEdit&) const = default;
};

struct ConfigurationDiff {
  std::vector<ConfigurationEdit> edits;
  std::string text;     ///< the file with them; empty: it cannot be edited (`why`)
  std::string why;      ///< why there are no edits, or no text
  std::string differs;  ///< label of the plan that the text gives when it is read again, where that is not the wanted
                        ///< one; or
                        ///< its error
};

/// `format`: of configuration_formats(); `request`: with which the file was read; `present`: the plan of the file, null
/// where it breaks rules. A plan that the format cannot express is no error: `why` names the rule.
Result<ConfigurationDiff> configuration_diff(const ConfigurationRequest& request, const std::string& format, const Job& job,
                                             const Plan* present, const Plan& wanted);
/// "line 12  --pipeline-model-parallel-size 1 -> 4", one line each, under the name of the file.
std::string to_text(const ConfigurationDiff& diff, const std::string& name);
/// {"edits": [{"key", "before", "after", "line"}], "why", "read_again"}
std::string to_json(const ConfigurationDiff& diff);

}  // namespace espalier
