// SPDX-License-Identifier: Apache-2.0
// The catalogue of engines for people and programs: what each runs, and in what layers and stages of one plan may
// differ.
#pragma once

#include <string>
#include <vector>

#include "plan/engine.h"

namespace espalier::report {

/// One row an engine, with a head: name, schedules, ZeRO stages, what it does not have, layers may differ in, stages.
std::vector<std::vector<std::string>> engine_rows(const std::vector<EngineModel>& engines);
std::string engines_text(const std::vector<EngineModel>& engines);
/// Schema espalier.engines/1.
std::string engines_json(const std::vector<EngineModel>& engines);

}  // namespace espalier::report
