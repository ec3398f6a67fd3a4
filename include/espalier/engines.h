// SPDX-License-Identifier: Apache-2.0
// The training frameworks whose restrictions and memory policies Espalier knows. `generic` restricts nothing. A job
// names its engine; a search then finds what that engine can run, and check_plan names each rule that a plan breaks.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "espalier/job.h"
#include "espalier/plan.h"

namespace espalier {

struct EngineDescription {
  std::string name;  ///< as jobs, plans and flags say it: "megatron-core"
  std::string note;  ///< which version of the framework is described, and where each fact comes from
  std::vector<std::pair<std::string, std::string>> rules;  ///< name and one sentence of every rule ("MEG-VPP-M", …)
  bool known_rules = false;                                ///< false: Espalier does not know what the engine cannot run
};

/// All engines, in the order in which they are listed everywhere.
std::vector<EngineDescription> engines();
/// Their names.
std::vector<std::string> engine_names();
/// The engines with known rules that can run this very plan, in the same order.
std::vector<std::string> engines_that_run(const Job& job, const Plan& plan);

}  // namespace espalier
