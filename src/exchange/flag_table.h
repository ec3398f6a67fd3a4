// SPDX-License-Identifier: Apache-2.0
// What engines call the things that a plan says, as data (data/engine_flags.yaml, schema espalier.engine-flags/1, compiled in): names drift from
// release to release, so that each has the versions that know it and its source. The code asks for a thing by what it says ("tensor-parallel").
//
//   engines[]    engine, product, versions (oldest first), source, flags[]
//   flags[]      says, name, and where it matters: value (what a switch is written as), since, until (versions, both inclusive), source
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "espalier/result.h"

namespace espalier::exchange {

struct EngineFlag {
  std::string says;   ///< "tensor-parallel"
  std::string name;   ///< "--tensor-model-parallel-size"
  std::string value;  ///< of a switch that is written with one, "false"; empty: what the plan says, or nothing
  std::string since, until;  ///< empty: all versions of the table on that side
  std::string source;
};

/// The names of one version.
struct FlagTable {
  std::string product;  ///< "Megatron-LM core"
  std::string version;  ///< "0.20"
  std::vector<EngineFlag> flags;
  /// nullptr: this version has no such thing.
  [[nodiscard]] const EngineFlag* find(std::string_view says) const;
};

struct EngineFlags {
  std::string engine, product;
  std::vector<std::string> versions;
  std::vector<EngineFlag> flags;
};
Result<std::vector<EngineFlags>> read_engine_flags(std::string_view yaml, const std::string& where);
/// Those that ship.
const std::vector<EngineFlags>& engine_flags();
/// Of a version, the newest if it is empty. usage: the table does not know the version. The engine must be in the table.
Result<FlagTable> flags_of(std::string_view engine, const std::string& version);

}  // namespace espalier::exchange
