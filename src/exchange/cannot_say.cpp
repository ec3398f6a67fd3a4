// SPDX-License-Identifier: Apache-2.0
#include "exchange/cannot_say.h"

#include <utility>

#include "base/check.h"
#include "plan/rule_book.h"

namespace espalier::exchange {

ExportFault cannot_say(const std::string& rule, const std::string& found, const std::string& expected) {
  const RuleEntry* entry = find_rule_entry(rule);
  ESPALIER_CHECK(entry != nullptr && entry->kept == RuleKeeper::exporter);  // what is refused is explained
  return {rule, found, expected, nullptr, ""};
}

ExportFault can_leave_out(const std::string& rule, const std::string& found, const std::string& expected, const std::string& instead,
                          std::function<void(Strategy&)> change) {
  ExportFault fault = cannot_say(rule, found, expected);
  fault.instead = instead;
  fault.leave_out = [change = std::move(change)](const Job&, Plan& plan) {
    for (Pipeline& pipeline : plan.pipelines)
      for (Stage& stage : pipeline.stages)
        for (Chunk& chunk : stage.chunks)
          for (LayerRange& range : chunk.ranges) change(range.strategy);
  };
  return fault;
}

}  // namespace espalier::exchange
