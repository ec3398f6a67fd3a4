// SPDX-License-Identifier: Apache-2.0
#include "job/pins.h"

#include "job/search_part.h"
#include "plan/engine.h"

namespace espalier::job {
namespace {

std::string listed_values(const std::string& dimension, const std::vector<std::int64_t>& values) {
  std::string out;
  for (const std::int64_t v : values) out += (out.empty() ? "" : ", ") + value_name(dimension, v);
  return values.size() == 1 ? out : "[" + out + "]";
}

}  // namespace

std::vector<Pin> pins_of(const Job& job, const EngineModel& engine) {
  std::vector<Pin> out;
  for (const auto& [name, values] : job.search.allow) out.push_back({Pin::Kind::allow, name});
  for (const auto& [name, values] : job.search.forbid) out.push_back({Pin::Kind::forbid, name});
  for (const auto& [name, most] : job.search.limits) out.push_back({Pin::Kind::limit, name});
  if (engine.family != EngineFamily::generic) out.push_back({Pin::Kind::engine, ""});
  return out;
}

std::string text_of(const Pin& pin, const Job& job, const EngineModel& engine) {
  const SearchSpace& s = job.search;
  switch (pin.kind) {
    case Pin::Kind::allow:
      if (pin.dimension == "recompute" && s.fixed.contains(pin.dimension) && s.recompute_modules.any())
        return "search.fix.recompute: " + to_string(s.recompute_modules);
      return std::string("search.") + (s.fixed.contains(pin.dimension) ? "fix." : "allow.") + pin.dimension + ": " +
             listed_values(pin.dimension, s.allow.at(pin.dimension));
    case Pin::Kind::forbid:
      return "search.forbid." + pin.dimension + ": " + listed_values(pin.dimension, s.forbid.at(pin.dimension));
    case Pin::Kind::limit: return "search.limits." + pin.dimension + ": " + std::to_string(s.limits.at(pin.dimension));
    case Pin::Kind::engine: return "engine: " + engine.name;
  }
  return "";
}

SearchSpace space_of(const std::vector<Pin>& pins, const Job& job) {
  SearchSpace out;
  out.kind = job.search.kind;
  out.fixed = job.search.fixed;
  for (const Pin& pin : pins) {
    if (pin.dimension == "recompute") out.recompute_modules = job.search.recompute_modules;
    if (pin.kind == Pin::Kind::allow) out.allow[pin.dimension] = job.search.allow.at(pin.dimension);
    if (pin.kind == Pin::Kind::forbid) out.forbid[pin.dimension] = job.search.forbid.at(pin.dimension);
    if (pin.kind == Pin::Kind::limit) out.limits[pin.dimension] = job.search.limits.at(pin.dimension);
  }
  return out;
}

}  // namespace espalier::job
