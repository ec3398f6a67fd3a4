// SPDX-License-Identifier: Apache-2.0
// The catalogue of engine rules as data (data/engine_rules.yaml, schema espalier.engine-rules/1, compiled in): of every id what it says, of which
// versions of the engine, from which source, and who keeps it. docs/engine-rules.md is written from the same file, one anchor an id.
//
//   families[]   prefix, engines, versions, source: what holds for the ids of a prefix that do not say otherwise
//   rules[]      ids, kept, statement, and where they differ from the family's: versions, source
//   kept         plan: a rule of plan/engine_rules.cpp, which `check --engine`, the search and `export` ask
//                export: a limit of what an exporter writes (src/exchange), which `export` asks
//                writer: what an exporter always writes as the engine asks, so that no plan can break it
//                unused: of a mode that no plan uses; stated for those who add the mode by hand
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/result.h"

namespace espalier {

enum class RuleKeeper : std::uint8_t { plan, exporter, writer, unused };

struct RuleEntry {
  std::string id;  ///< "MEG-VPP"
  RuleKeeper kept = RuleKeeper::plan;
  std::string statement, versions, source;
};

Result<std::vector<RuleEntry>> read_rule_book(std::string_view yaml, const std::string& where);
/// The one that ships, in the order of the file.
const std::vector<RuleEntry>& rule_book();
/// nullptr: there is no such id.
const RuleEntry* find_rule_entry(std::string_view id);

}  // namespace espalier
