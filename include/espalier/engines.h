// SPDX-License-Identifier: Apache-2.0
// Lists the training frameworks whose restrictions and memory policies are modelled; `generic` restricts
// nothing. A job names its engine. A search then finds the plans that the engine can run, and check_plan names
// each rule that a plan breaks.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "espalier/job.h"
#include "espalier/plan.h"

namespace espalier {

/// Describes an engine and its rules.
struct EngineDescription {
  std::string name;                                        ///< as in jobs, plans and flags: "megatron-core"
  std::string note;                                        ///< framework version, and the source of each fact
  std::vector<std::pair<std::string, std::string>> rules;  ///< name and sentence of every rule ("MEG-VPP-M", …)
  bool known_rules = false;                                ///< false: the restrictions of the engine are unknown
};

/// Returns all engines, in the order of every list of engines.
std::vector<EngineDescription> engines();
/// Returns the names of all engines.
std::vector<std::string> engine_names();
/// Returns the engines with known rules that can run exactly this plan, in the same order.
std::vector<std::string> engines_that_run(const Job& job, const Plan& plan);

}  // namespace espalier
