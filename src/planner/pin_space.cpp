// SPDX-License-Identifier: Apache-2.0
#include "planner/pin_space.h"
#include "plan/engine.h"

#include <algorithm>

namespace espalier::planner {

using job::Pin;

bool any_legal(const Job& job, const EngineModel& engine, const SearchSpace& restriction) {
  search::Space space(job.model, job.cluster, job.training, engine, restriction);
  bool found = false;
  space.layer_group([&](const search::Configuration& c) { found = found || space.leaves(c) > 0; });
  return found;
}

std::optional<search::Configuration> first_legal(const Job& job, const EngineModel& engine, const SearchSpace& restriction) {
  search::Space space(job.model, job.cluster, job.training, engine, restriction);
  std::optional<search::Configuration> first;
  const auto keep = [&](const search::Configuration& c) {
    if (!first) first = c;
  };
  space.layer_group([&](const search::Configuration& a) {
    if (first || space.leaves(a) == 0) return;
    space.schedule_group(a, [&](const search::Configuration& b) {
      if (first) return;
      space.shard_group(b, [&](const search::Configuration& s) {
        if (first) return;
        space.overlap_group(s, [&](const search::Configuration& o) {
          if (!first) space.recompute_group(o, keep);
        });
      });
    });
  });
  return first;
}

std::vector<Pin> without(const std::vector<Pin>& pins, std::size_t i) {
  std::vector<Pin> out = pins;
  out.erase(out.begin() + static_cast<std::ptrdiff_t>(i));
  return out;
}

bool has_engine(const std::vector<Pin>& pins) {
  return std::any_of(pins.begin(), pins.end(), [](const Pin& p) { return p.kind == Pin::Kind::engine; });
}

const EngineModel& engine_under(const std::vector<Pin>& pins, const EngineModel& engine) {
  return has_engine(pins) ? engine : *find_engine("generic");
}

bool any_legal(const Job& job, const EngineModel& engine, const std::vector<Pin>& pins) {
  return any_legal(job, engine_under(pins, engine), job::space_of(pins, job));
}

}  // namespace espalier::planner
