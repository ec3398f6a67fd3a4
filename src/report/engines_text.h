// SPDX-License-Identifier: Apache-2.0
// Writes the catalogue of engines for people and programs: what each runs, and in what layers and stages of one plan
// may differ.
#pragma once

#include <string>
#include <vector>

#include "plan/engine.h"

namespace espalier::report {

/// Returns one row per engine, after a header: name, schedules, ZeRO stages, missing features, layers may differ in,
/// stages.
std::vector<std::vector<std::string>> engine_rows(const std::vector<EngineModel>& engines);
std::string engines_text(const std::vector<EngineModel>& engines);
/// Writes schema espalier.engines/1.
std::string engines_json(const std::vector<EngineModel>& engines);

}  // namespace espalier::report
