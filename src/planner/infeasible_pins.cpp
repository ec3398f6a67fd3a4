// SPDX-License-Identifier: Apache-2.0
#include "planner/infeasible_pins.h"

#include <algorithm>

#include "base/division.h"
#include "base/format.h"
#include "base/invariant.h"
#include "job/pins.h"
#include "job/search_part.h"
#include "job/space_values.h"
#include "plan/engine.h"
#include "planner/broken_rule.h"
#include "planner/pin_space.h"

namespace espalier::planner {
namespace {

using job::Pin;

/// Returns pins that exclude everything, each of them necessary; empty if the rules do so without any pin.
std::vector<Pin> conflicting(const Job& job, const EngineModel& engine) {
  std::vector<Pin> pins = job::pins_of(job, engine);
  for (std::size_t i = 0; i < pins.size();) {
    auto fewer = without(pins, i);
    if (any_legal(job, engine, fewer))
      ++i;
    else
      pins = std::move(fewer);
  }
  return pins;
}

// ---- suggested changes --------------------------------------------------------------------------------------------

constexpr std::size_t kMostSuggestions = 4;

/// Sorts candidates by their ratio to a value, nearest first.
std::vector<std::int64_t> nearest_first(std::vector<std::int64_t> values, std::int64_t from) {
  const auto distance = [from](std::int64_t v) {
    const double low = static_cast<double>(std::min(v, from)) + 1, high = static_cast<double>(std::max(v, from)) + 1;
    return high / low;
  };
  std::stable_sort(values.begin(), values.end(), [&](std::int64_t a, std::int64_t b) { return distance(a) < distance(b); });
  return values;
}

/// Returns "search.fix.pp: 1" to replace the job's value of that dimension; if no single value works, the suggestion
/// to drop the pin, or an empty text.
std::string changed_pin(const Job& job, const EngineModel& engine, const Pin& pin) {
  const Dimension d = *pin.dimension;
  SearchSpace space = job.search;
  const bool fixed = pin.kind == Pin::Kind::allow && space.fixed.contains(d);
  const std::int64_t now = pin.kind == Pin::Kind::allow    ? space.allowed.at(d).front()
                           : pin.kind == Pin::Kind::forbid ? space.forbidden.at(d).front()
                                                           : space.limits.at(d);
  for (const std::int64_t v : nearest_first(job::possible_values(d, job), now)) {
    space = job.search;
    if (pin.kind == Pin::Kind::allow) space.allowed[d] = {v};
    if (pin.kind == Pin::Kind::limit) space.limits[d] = v;
    if (pin.kind == Pin::Kind::forbid && std::erase(space.forbidden[d], v) == 0) continue;
    if (job.search.admits(d, v) || !any_legal(job, engine, space)) continue;
    const std::string value = value_text(d, v), name(to_string(d));
    if (pin.kind == Pin::Kind::forbid) return "search.forbid." + name + " without " + value;
    return std::string("search.") + (pin.kind == Pin::Kind::limit ? "limits." : fixed ? "fix." : "allow.") + name + ": " + value;
  }
  space = job.search;
  if (pin.kind == Pin::Kind::allow) space.allowed.erase(d);
  if (pin.kind == Pin::Kind::forbid) space.forbidden.erase(d);
  if (pin.kind == Pin::Kind::limit) space.limits.erase(d);
  return any_legal(job, engine, space) ? "no " + job::text_of(pin, job, engine) : "";
}

/// Returns the versions of the job's engine that may differ from the one it names: newer ones first, each time the
/// nearest first; nothing where it names none.
std::vector<const EngineModel*> other_versions(const Job& job) {
  std::vector<const EngineModel*> newer, older;
  const EngineModel* asked = find_engine(job.engine);
  if (asked == nullptr || !asked->version) return newer;
  for (const base::Version& version : asked->eras) {
    const EngineModel* at = find_engine(base::cat(asked->base, "@", version.text()));
    if (at != nullptr && version != *asked->version) (version > *asked->version ? newer : older).push_back(at);
  }
  newer.insert(newer.end(), older.rbegin(), older.rend());
  return newer;
}

std::vector<std::string> suggestions(const Job& job, const EngineModel& engine, const std::vector<Pin>& pins) {
  std::vector<std::string> out;
  for (const Pin& pin : pins) {
    const std::string change =
        pin.kind == Pin::Kind::engine ? other_engines(job, other_versions(job)) : changed_pin(job, engine, pin);
    if (!change.empty() && out.size() < kMostSuggestions) out.push_back(change);
  }
  return out;
}

/// Suggests multiples of the devices near the batch, and fewer or more nodes: changes of the job if no pin is to blame.
std::vector<std::string> other_sizes(const Job& job, const EngineModel& engine) {
  std::vector<std::string> out;
  const std::int64_t devices = job.cluster.devices(), batch = job.training.global_batch;
  for (const std::int64_t b : nearest_first({batch / devices * devices, round_up(batch, devices)}, batch)) {
    Job changed = job;
    changed.training.global_batch = b;
    if (b < 1 || b == batch || !any_legal(changed, engine, job.search)) continue;
    out.push_back("training.global_batch: " + std::to_string(b));
    break;
  }
  const std::int64_t nodes = job.cluster.groups.front().nodes;
  constexpr std::int64_t kFarthest = 8;
  for (std::int64_t step = 1; step <= kFarthest; ++step) {
    for (const std::int64_t n : {nodes - step, nodes + step}) {
      Job changed = job;
      changed.cluster.groups.front().nodes = n;
      if (n < 1 || !any_legal(changed, engine, job.search)) continue;
      out.push_back("cluster.nodes: " + std::to_string(n));
      return out;
    }
  }
  return out;
}

std::string hint_of(const std::vector<std::string>& changes) {
  std::string out;
  for (const std::string& change : changes) out += (out.empty() ? "" : ", or ") + change;
  return out.empty() ? "remove restrictions under search one at a time" : out + " would do";
}

std::string listed_pins(const std::vector<Pin>& pins, const Job& job, const EngineModel& engine) {
  std::string out;
  for (std::size_t i = 0; i < pins.size(); ++i) {
    out += (i == 0 ? "" : i + 1 == pins.size() ? " and " : ", ") + job::text_of(pins[i], job, engine);
  }
  return out;
}

}  // namespace

std::string other_engines(const Job& job, const std::vector<const EngineModel*>& versions) {
  constexpr std::size_t kMost = 3;
  std::vector<std::string> found;
  const auto runs = [&](const EngineModel& engine) { return any_legal(job, engine, job.search); };
  const auto version = std::find_if(versions.begin(), versions.end(), [&](const EngineModel* at) { return runs(*at); });
  if (version != versions.end()) found.push_back((*version)->name);
  const std::string_view own = base_engine(job.engine);
  const bool names_version = job.engine.substr(own.size()).starts_with('@');
  for (const EngineModel& engine : engine_catalogue()) {
    if (found.size() == kMost) break;
    if (engine.name == job.engine || (names_version && engine.name == own) || !runs(engine)) continue;
    found.push_back(engine.name);
  }
  std::string out;
  for (const std::string& name : found) out += (out.empty() ? "engine: " : " or ") + name;
  return out;
}

Error nothing_legal(const Job& job, const EngineModel& engine) {
  const std::vector<Pin> pins = conflicting(job, engine);
  if (pins.empty())
    return Error{ErrorKind::infeasible, "search", "no legal configuration, with any restrictions: " + broken_by_each(job, engine),
                 "a number of devices over which the batch, the heads or the layers can be divided",
                 hint_of(other_sizes(job, engine))};
  const std::string why = broken_rule(job, engine, pins), listed = listed_pins(pins, job, engine);
  auto changes = suggestions(job, engine, pins);
  if (changes.empty()) changes = other_sizes(job, engine);
  return Error{ErrorKind::infeasible, "search",
               (pins.size() == 1 ? listed + " excludes every configuration" : listed + " exclude each other") +
                   (why.empty() ? "" : " (" + why + ")"),
               pins.size() == 1 ? "a value that allows some configuration" : "values that occur together in some configuration",
               hint_of(changes)};
}

}  // namespace espalier::planner
