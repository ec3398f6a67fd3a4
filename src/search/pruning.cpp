// SPDX-License-Identifier: Apache-2.0
#include "search/pruning.h"

namespace espalier::search {

const std::array<PruningRule, kPrunings>& pruning_rules() {
  static constexpr std::array<PruningRule, kPrunings> rules = {{
      {Pruning::layer_memory, "layer-memory", "even the configuration of these degrees with the least memory exceeds the limit"},
      {Pruning::layer_bound, "layer-bound", "the compute of these degrees alone takes longer than the incumbent"},
      {Pruning::schedule_bound, "schedule-bound", "the pipeline of this schedule cannot beat the incumbent"},
      {Pruning::shard_bound, "shard-bound", "this ZeRO stage and shard group cannot beat the incumbent"},
      {Pruning::memory, "memory", "the configuration exceeds the memory limit"},
      {Pruning::recompute_ladder, "recompute-ladder",
       "less recomputation in an otherwise equal configuration is already slower than the incumbent"},
      {Pruning::bound, "bound", "the lower bound of the configuration exceeds the incumbent"},
      {Pruning::pipeline_floor, "pipeline-floor",
       "its pipeline without data-parallel communication is already slower than the incumbent"},
  }};
  return rules;
}

bool PruningState::disable(std::string_view name) {
  for (const PruningRule& rule : pruning_rules()) {
    if (rule.name != name) continue;
    enabled_[static_cast<std::size_t>(rule.id)] = false;
    return true;
  }
  return false;
}

std::map<std::string, double> PruningState::counters() const {
  std::map<std::string, double> out;
  for (const PruningRule& rule : pruning_rules()) out[std::string(rule.name)] = removed(rule.id);
  return out;
}

}  // namespace espalier::search
