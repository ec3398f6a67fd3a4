// SPDX-License-Identifier: Apache-2.0
#include "espalier/engines.h"

#include "plan/engine.h"
#include "plan/engine_rules.h"
#include "planner/runs_on.h"

namespace espalier {

using namespace planner;

std::vector<EngineDescription> engines() {
  std::vector<EngineDescription> out;
  for (const EngineModel& engine : engine_catalogue())
    out.push_back({engine.name, engine.note, engine_rule_catalogue(engine), has_rules(engine)});
  return out;
}

std::vector<std::string> engine_names() {
  std::vector<std::string> out;
  for (const EngineModel& engine : engine_catalogue()) out.push_back(engine.name);
  return out;
}

std::vector<std::string> engines_that_run(const Job& job, const Plan& plan) {
  std::vector<std::string> out;
  for (const EngineModel& engine : engine_catalogue())
    if (has_rules(engine) && !engine.planned && accepts(engine, job, plan)) out.push_back(engine.name);
  return out;
}

}  // namespace espalier
