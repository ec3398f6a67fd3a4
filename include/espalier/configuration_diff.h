// SPDX-License-Identifier: Apache-2.0
// Turns the difference between two plans into edits of the user's own file: the flags or keys that change, and the
// file with those changes.
//
//   auto diff = exchange::configuration_diff(request, "megatron-args", *job, &present.plan, best.plan);   // the edits
//   for (const exchange::ConfigurationEdit& e : diff->edits)
//     std::cout << e.key << " " << e.before << " -> " << e.after << "\n";   // --pipeline-model-parallel-size 1 -> 4.
//
// The changed file is read again before it is returned: `differs` is empty only if the file yields the wanted plan.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "espalier/imported_configuration.h"
#include "espalier/job.h"
#include "espalier/plan.h"
#include "espalier/result.h"

namespace espalier::exchange {

/// Describes one line of the diff. A switch has the value "on".
struct ConfigurationEdit {
  /// Names the key as the file spells it: "--pipeline-model-parallel-size",
  /// "parallelism.tensor_parallel_degree", or "TP" for a variable.
  std::string key;
  std::string before, after;  ///< empty: absent
  std::int64_t line = 0;      ///< line of the file; 0: added, or an argument of the training script
  bool operator==(const ConfigurationEdit&) const = default;
};

/// Holds the edits from one plan to another, and the edited file.
struct ConfigurationDiff {
  std::vector<ConfigurationEdit> edits;
  std::string text;  ///< the edited file; empty: it cannot be edited (`why`)
  std::string why;   ///< why there are no edits, or no text
  /// Holds the label of the plan that the edited text yields when it is read again, if that is not the wanted plan;
  /// or the error.
  std::string differs;
};

/// Returns the edits that turn the file into the plan `wanted`. `format` is one of configuration_formats(), and
/// `request` is the request with which the file was read. `present` is the plan of the file, null where it breaks
/// rules. A plan that the format cannot express is not an error: `why` names the rule.
Result<ConfigurationDiff> configuration_diff(const ConfigurationRequest& request, const std::string& format, const Job& job,
                                             const Plan* present, const Plan& wanted);
/// Returns one line per edit, "line 12  --pipeline-model-parallel-size 1 -> 4", below the name of the file.
std::string to_text(const ConfigurationDiff& diff, const std::string& name);
/// Returns {"edits": [{"key", "before", "after", "line"}], "why", "read_again"}.
std::string to_json(const ConfigurationDiff& diff);

}  // namespace espalier::exchange
