// SPDX-License-Identifier: Apache-2.0
// Reads engines as data (schema espalier.engines/1; data/engines.yaml is the file that ships). The file documents its
// keys; the structures of plan/engine.h document units.
//
//   engines[]       name, family, note, and optionally like: an earlier engine, whose statements hold
//                   unless they are stated again
//   split, per_layer, per_stage            a mapping each, with its source
//   runs, memory, kernels, communication, eager   lists of statements: fields with their source. A field is stated
//                   once, or once an era. `since` is the first version of the engine for which a statement holds.
//                   `until` is the last one of which its source speaks (base/era.h)
//   options[]       name, note, and statements of the same parts that hold if the option is switched on. With `sets`
//                   it takes a value, NAME=NUMBER, which sets that number of the engine.
//                   Engines that are `like` another one have its options
//
// The reader is strict and reports errors with their place. Unknown keys and words, statements without a source, and
// fields of one era or engines stated twice are errors. So are layers that may differ in a pipeline whose stages may
// not. These checks hold for each era of an engine.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/document.h"
#include "base/era.h"
#include "espalier/result.h"
#include "plan/engine.h"

namespace espalier {

/// Holds the engines of a file in the newest era that is known, and the statements of their options.
struct EngineFile {
  std::vector<EngineModel> engines;
  std::vector<base::Node> entries;  ///< the entry of each engine
  std::shared_ptr<const base::Document> document;
  std::vector<std::vector<base::Node>> options;  ///< lists each engine's, in the order of EngineModel::options
};
Result<EngineFile> read_engines(std::string_view yaml, const std::string& where);

/// Limits the numbers of elements that a file or the value of an option states.
inline constexpr std::int64_t kMostElements = std::int64_t{1} << 50;

/// Names an option by its index in EngineModel::options, with its value where the option sets a number.
struct ChosenOption {
  std::size_t place = 0;
  std::int64_t value = 0;
  ChosenOption(std::size_t at) : place(at) {}  // NOLINT(google-explicit-constructor): most options have no value
  auto operator<=>(const ChosenOption&) const = default;
};

/// Returns an engine of the file at a version (none: the newest known) with some of its options switched on. `options`
/// rise by place; the statements of a later option replace those of an earlier one.
/// Statements that it inherits (`like`) are the newest of the other engine, whose versions are its own.
EngineModel with_options(const EngineFile& file, const EngineModel& engine, const std::vector<ChosenOption>& options,
                         const std::optional<base::Version>& version = std::nullopt);

}  // namespace espalier
