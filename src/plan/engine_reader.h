// SPDX-License-Identifier: Apache-2.0
// Reads engines as data (schema espalier.engines/1; data/engines.yaml is the file that ships). The file says what each
// key means; the structures of plan/engine.h say units.
//
//   engines[]            name, family, note, and optionally like: an earlier engine, whose statements hold unless they
//                        are said again
//   split, per_layer, per_stage   a mapping each, with its source
//   runs, memory, kernels, communication   lists of statements: fields beside the source that they are from; a field is
//                                          stated once
//
//   options[]            name, note, and statements that hold where the option is switched on: kernels, communication,
//                        memory. Engines that are
//                        `like` another one have its options
//
// Strict: unknown keys, words, a statement without a source, a field stated twice, an engine stated twice, and layers
// that may differ in a pipeline whose stages may not, are errors with their place.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "espalier/result.h"
#include "plan/engine.h"

namespace espalier {

/// The engines of a file, and each of them with every combination of its options.
struct EngineFile {
  std::vector<EngineModel> engines;
  std::vector<EngineModel> with_options;
};
Result<EngineFile> read_engines(std::string_view yaml, const std::string& where);

}  // namespace espalier
