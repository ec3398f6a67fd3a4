// SPDX-License-Identifier: Apache-2.0
#include "job/pins.h"

#include "base/format.h"
#include "plan/dimension.h"
#include "plan/engine.h"

namespace espalier::job {
namespace {

std::string listed_values(Dimension dimension, const std::vector<std::int64_t>& values) {
  std::string out;
  for (const std::int64_t v : values) out += (out.empty() ? "" : ", ") + value_text(dimension, v);
  return base::cat(to_string(dimension), values.size() == 1 ? ": " + out : ": [" + out + "]");
}

}  // namespace

std::vector<Pin> pins_of(const Job& job, const EngineModel& engine) {
  std::vector<Pin> out;
  for (const auto& [dimension, values] : job.search.allowed) out.push_back({Pin::Kind::allow, dimension});
  for (const auto& [dimension, values] : job.search.forbidden) out.push_back({Pin::Kind::forbid, dimension});
  for (const auto& [dimension, most] : job.search.limits) out.push_back({Pin::Kind::limit, dimension});
  if (engine.family != EngineFamily::generic) out.push_back({Pin::Kind::engine});
  return out;
}

std::string text_of(const Pin& pin, const Job& job, const EngineModel& engine) {
  if (pin.kind == Pin::Kind::engine) return "engine: " + engine.name;
  const SearchSpace& s = job.search;
  const Dimension d = *pin.dimension;
  if (pin.kind == Pin::Kind::forbid) return "search.forbid." + listed_values(d, s.forbidden.at(d));
  if (pin.kind == Pin::Kind::limit) return base::cat("search.limits.", to_string(d), ": ", s.limits.at(d));
  if (!s.fixed.contains(d)) return "search.allow." + listed_values(d, s.allowed.at(d));
  if (d == Dimension::recompute && s.recompute_modules.any()) return "search.fix.recompute: " + to_string(s.recompute_modules);
  return "search.fix." + listed_values(d, s.allowed.at(d));
}

SearchSpace space_of(const std::vector<Pin>& pins, const Job& job) {
  SearchSpace out;
  out.kind = job.search.kind;
  out.fixed = job.search.fixed;
  for (const Pin& pin : pins) {
    if (pin.kind == Pin::Kind::engine) continue;
    const Dimension d = *pin.dimension;
    if (d == Dimension::recompute) out.recompute_modules = job.search.recompute_modules;
    if (pin.kind == Pin::Kind::allow) out.allowed[d] = job.search.allowed.at(d);
    if (pin.kind == Pin::Kind::forbid) out.forbidden[d] = job.search.forbidden.at(d);
    if (pin.kind == Pin::Kind::limit) out.limits[d] = job.search.limits.at(d);
  }
  return out;
}

}  // namespace espalier::job
