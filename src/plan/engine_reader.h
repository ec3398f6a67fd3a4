// SPDX-License-Identifier: Apache-2.0
// Reads engines as data (schema espalier.engines/1; data/engines.yaml is the file that ships). The file says what each key means; the
// structures of plan/engine.h say units.
//
//   engines[]            name, family, note, and optionally like: an earlier engine, whose statements hold unless they are said again
//   split, per_layer, per_stage   a mapping each, with its source
//   runs, memory, kernels, communication   lists of statements: fields beside the source that they are from; a field is stated once
//
// Strict: unknown keys, words, a statement without a source, a field stated twice, an engine stated twice, and layers that may differ in a
// pipeline whose stages may not, are errors with their place.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "espalier/result.h"
#include "plan/engine.h"

namespace espalier {

Result<std::vector<EngineModel>> read_engines(std::string_view yaml, const std::string& where);

}  // namespace espalier
