// SPDX-License-Identifier: Apache-2.0
#include "solve/device_group_runs.h"

#include <map>
#include <utility>

namespace espalier::solve::device_groups {

LayerRuns::LayerRuns(const std::vector<std::int32_t>& types) : side_(types.size() + 1), of_(types.size() * side_, -1) {
  // By a run and the type of one additional layer.
  std::map<std::pair<std::int32_t, std::int32_t>, std::int32_t> longer;
  const auto layers = static_cast<std::int32_t>(types.size());
  for (std::int32_t a = 0; a < layers; ++a) {
    std::int32_t run = -1;
    for (std::int32_t e = a + 1; e <= layers; ++e) {
      const std::int32_t type = types[static_cast<std::size_t>(e - 1)];
      const auto [found, added] = longer.try_emplace({run, type}, static_cast<std::int32_t>(runs_.size()));
      if (added) runs_.push_back({a, e, type, run});
      run = found->second;
      of_[static_cast<std::size_t>(a) * side_ + static_cast<std::size_t>(e)] = run;
    }
  }
}

}  // namespace espalier::solve::device_groups
