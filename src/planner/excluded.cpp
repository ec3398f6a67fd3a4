// SPDX-License-Identifier: Apache-2.0
#include "planner/excluded.h"

#include <algorithm>
#include <optional>

#include "base/check.h"
#include "job/pins.h"
#include "job/space.h"
#include "job/space_values.h"
#include "plan/rules.h"
#include "search/space.h"

namespace espalier {
namespace {

using job::Pin;

bool any_legal(const Job& job, const EngineModel& engine, const SearchSpace& restriction) {
  search::Space space(job.model, job.cluster, job.training, engine, restriction);
  bool found = false;
  space.layer_group([&](const search::Configuration& c) { found = found || space.leaves(c) > 0; });
  return found;
}

/// One legal configuration, the first in the order of choice.
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

/// The pins with one taken back.
std::vector<Pin> without(const std::vector<Pin>& pins, std::size_t i) {
  std::vector<Pin> out = pins;
  out.erase(out.begin() + static_cast<std::ptrdiff_t>(i));
  return out;
}

bool has_engine(const std::vector<Pin>& pins) {
  return std::any_of(pins.begin(), pins.end(), [](const Pin& p) { return p.kind == Pin::Kind::engine; });
}

/// The engine whose rules hold under these pins.
const EngineModel& engine_under(const std::vector<Pin>& pins, const EngineModel& engine) {
  return has_engine(pins) ? engine : *find_engine("generic");
}

bool any_legal(const Job& job, const EngineModel& engine, const std::vector<Pin>& pins) {
  return any_legal(job, engine_under(pins, engine), job::space_of(pins, job));
}

/// Pins that exclude everything, none of which can be spared for that; empty when the rules do so without any pin.
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

// ---- the rule that they break together -----------------------------------------------------------------------------------------

bool names(const std::vector<Pin>& pins, Dimension d) {
  return std::any_of(pins.begin(), pins.end(), [d](const Pin& p) { return p.dimension == to_string(d); });
}

std::int64_t ranks_of(const search::Configuration& c) {
  return std::int64_t{c.strategy.tp} * c.strategy.cp * c.strategy.dp * c.schedule.stages;
}

/// Changes dimensions that no pin names to what goes with the others, so that only rules about the pins stay broken.
void adapt(search::Configuration& c, const std::vector<Pin>& pins, const RuleFacts& facts) {
  const auto free = [&](Dimension d) { return !names(pins, d); };
  const auto put = [&](Dimension d, std::int64_t value) {
    if (free(d)) set(d, value, c.strategy, c.schedule);
  };
  if (c.strategy.tp == 1) put(Dimension::sp, static_cast<std::int64_t>(SequenceParallel::none));
  if (c.strategy.cp == 1) put(Dimension::cp_kind, static_cast<std::int64_t>(ContextParallelKind::ring));
  for (const Dimension d : {Dimension::dp, Dimension::pp, Dimension::tp, Dimension::cp}) {
    const std::int64_t ranks = ranks_of(c);
    const std::int64_t others = ranks / std::max<std::int64_t>(1, get(d, c.strategy, c.schedule));
    if (ranks == facts.devices || !free(d) || others < 1 || facts.devices % others != 0) continue;
    put(d, facts.devices / others);
    break;
  }
  if (ranks_of(c) > facts.devices) {  // the pins alone are too many ranks: nothing is to be added to them
    for (const Dimension d : {Dimension::dp, Dimension::pp, Dimension::tp, Dimension::cp}) put(d, 1);
  }
  if (c.schedule.stages == 1) put(Dimension::schedule, static_cast<std::int64_t>(ScheduleKind::one_f_one_b));
  const bool several = c.schedule.kind == ScheduleKind::interleaved || c.schedule.kind == ScheduleKind::zb_v;
  put(Dimension::vpp, several ? 2 : 1);
  put(Dimension::micro_batch, 1);
  put(Dimension::order, static_cast<std::int64_t>(RankOrder::tp_cp_dp_pp));
  put(Dimension::zero, c.strategy.shard > 1 && !free(Dimension::shard) ? 1 : 0);
  put(Dimension::shard, c.strategy.zero > 0 ? c.strategy.data_ranks() : 1);
  for (const Dimension d : {Dimension::overlap_grad, Dimension::overlap_param, Dimension::overlap_p2p, Dimension::overlap_tp})
    put(d, 0);
  put(Dimension::recompute,
      static_cast<std::int64_t>(c.strategy.recompute.layers > 0 && !free(Dimension::recompute_layers) ? RecomputeKind::full
                                                                                                      : RecomputeKind::none));
  put(Dimension::recompute_layers, c.strategy.recompute.kind == RecomputeKind::full ? 1 : 0);
  const std::int64_t m = microbatches_of(facts, c.strategy, c.schedule);
  c.schedule.microbatches = static_cast<std::int32_t>(std::max<std::int64_t>(m, 1));
}

/// Where too few ranks are left, degrees that are only limited take their limits: what is said is then the most that they allow.
void use_limits(search::Configuration& c, const Job& job, const std::vector<Pin>& pins, const RuleFacts& facts) {
  const bool limited = std::all_of(pins.begin(), pins.end(), [](const Pin& p) { return p.kind == Pin::Kind::limit; });
  if (!limited) return;
  for (const Pin& pin : pins) {
    const Dimension d = *parse_dimension(pin.dimension);
    if (d != Dimension::tp && d != Dimension::cp && d != Dimension::pp && d != Dimension::dp) continue;
    for (const std::int64_t v : job::possible_values(d, job)) {
      const std::int64_t others = ranks_of(c) / get(d, c.strategy, c.schedule);
      if (job.search.admits(pin.dimension, v) && others * v <= facts.devices) set(d, v, c.strategy, c.schedule);
    }
  }
}

/// The value nearest to `from` that the job admits for the dimension; nullopt: it admits none of those that are possible here.
std::optional<std::int64_t> admitted_value(const Job& job, Dimension d, std::int64_t from) {
  std::optional<std::int64_t> best;
  for (const std::int64_t v : job::possible_values(d, job)) {
    if (job.search.admits(std::string(to_string(d)), v) && (!best || std::abs(v - from) < std::abs(*best - from))) best = v;
  }
  return best;
}

std::string joined(const std::vector<RuleViolation>& broken) {
  std::string out;
  for (const RuleViolation& v : broken) out += (out.empty() ? "" : "; ") + v.rule + ": " + v.text;
  return out;
}

/// What breaks when a pin is put into a configuration that is legal under the other pins: of all pins, where least breaks.
std::string broken_rule(const Job& job, const EngineModel& engine, const std::vector<Pin>& pins) {
  const RuleFacts facts = rule_facts(job.model, job.cluster, job.training, engine.split);
  std::vector<RuleViolation> least;
  std::string none;
  for (std::size_t i = 0; i < pins.size(); ++i) {
    const std::vector<Pin> others = without(pins, i);
    auto c = first_legal(job, engine_under(others, engine), job::space_of(others, job));
    if (!c) continue;
    if (pins[i].kind != Pin::Kind::engine) {
      const Dimension d = *parse_dimension(pins[i].dimension);
      const auto value = admitted_value(job, d, get(d, c->strategy, c->schedule));
      if (!value) {
        none = "no value of " + pins[i].dimension + " is left";
        continue;
      }
      set(d, *value, c->strategy, c->schedule);
      use_limits(*c, job, pins, facts);
      adapt(*c, pins, facts);
    }
    auto broken = violations(facts, c->strategy, c->schedule);
    if (broken.empty() && has_engine(pins)) broken = engine_violations(engine, facts, c->strategy, c->schedule);
    if (!broken.empty() && (least.empty() || broken.size() < least.size())) least = std::move(broken);
  }
  return none.empty() ? joined(least) : none;
}

// ---- changes that would do ------------------------------------------------------------------------------------------------------

constexpr std::size_t kMostSuggestions = 4;

/// Candidates around a value, nearest first by ratio.
std::vector<std::int64_t> nearest_first(std::vector<std::int64_t> values, std::int64_t from) {
  const auto distance = [from](std::int64_t v) {
    const double low = static_cast<double>(std::min(v, from)) + 1, high = static_cast<double>(std::max(v, from)) + 1;
    return high / low;
  };
  std::stable_sort(values.begin(), values.end(), [&](std::int64_t a, std::int64_t b) { return distance(a) < distance(b); });
  return values;
}

/// "search.fix.pp: 1" in place of what the job says of that dimension; empty when no one value would do.
std::string changed_pin(const Job& job, const EngineModel& engine, const Pin& pin) {
  const Dimension d = *parse_dimension(pin.dimension);
  SearchSpace space = job.search;
  const bool fixed = pin.kind == Pin::Kind::allow && space.fixed.contains(pin.dimension);
  const std::int64_t now = pin.kind == Pin::Kind::allow    ? space.allow.at(pin.dimension).front()
                           : pin.kind == Pin::Kind::forbid ? space.forbid.at(pin.dimension).front()
                                                           : space.limits.at(pin.dimension);
  for (const std::int64_t v : nearest_first(job::possible_values(d, job), now)) {
    space = job.search;
    if (pin.kind == Pin::Kind::allow) space.allow[pin.dimension] = {v};
    if (pin.kind == Pin::Kind::limit) space.limits[pin.dimension] = v;
    if (pin.kind == Pin::Kind::forbid && std::erase(space.forbid[pin.dimension], v) == 0) continue;
    if (job.search.admits(pin.dimension, v) || !any_legal(job, engine, space)) continue;
    const std::string value = job::value_name(pin.dimension, v);
    if (pin.kind == Pin::Kind::forbid) return "search.forbid." + pin.dimension + " without " + value;
    return std::string("search.") +
           (pin.kind == Pin::Kind::limit ? "limits."
            : fixed                      ? "fix."
                                         : "allow.") +
           pin.dimension + ": " + value;
  }
  space = job.search;
  if (pin.kind == Pin::Kind::allow) space.allow.erase(pin.dimension);
  if (pin.kind == Pin::Kind::forbid) space.forbid.erase(pin.dimension);
  if (pin.kind == Pin::Kind::limit) space.limits.erase(pin.dimension);
  return any_legal(job, engine, space) ? "no " + job::text_of(pin, job, engine) : "";
}

/// "engine: megatron-core or nemo": engines that can run what the job asks for.
std::string other_engines(const Job& job) {
  constexpr std::size_t kMost = 3;
  std::string out;
  std::size_t found = 0;
  for (const EngineModel& engine : engine_catalogue()) {
    if (found == kMost) break;
    if (engine.name == job.engine || !any_legal(job, engine, job.search)) continue;
    out += (found++ == 0 ? "engine: " : " or ") + engine.name;
  }
  return out;
}

std::vector<std::string> suggestions(const Job& job, const EngineModel& engine, const std::vector<Pin>& pins) {
  std::vector<std::string> out;
  for (const Pin& pin : pins) {
    const std::string change = pin.kind == Pin::Kind::engine ? other_engines(job) : changed_pin(job, engine, pin);
    if (!change.empty() && out.size() < kMostSuggestions) out.push_back(change);
  }
  return out;
}

/// Multiples of the devices around the batch, and fewer or more nodes: changes of the job when no pin is to blame.
std::vector<std::string> other_sizes(const Job& job, const EngineModel& engine) {
  std::vector<std::string> out;
  const std::int64_t devices = job.cluster.devices(), batch = job.training.global_batch;
  for (const std::int64_t b : nearest_first({batch / devices * devices, (batch + devices - 1) / devices * devices}, batch)) {
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

/// What each kind of parallelism breaks when it has all devices: the rules that leave nothing, without any pin.
std::string broken_by_each(const Job& job, const EngineModel& engine) {
  const RuleFacts facts = rule_facts(job.model, job.cluster, job.training, engine.split);
  std::string out;
  for (const Dimension d : {Dimension::dp, Dimension::tp, Dimension::pp, Dimension::cp}) {
    search::Configuration c;
    set(d, facts.devices, c.strategy, c.schedule);
    c.schedule.microbatches =
        static_cast<std::int32_t>(std::max<std::int64_t>(1, microbatches_of(facts, c.strategy, c.schedule)));
    auto broken = violations(facts, c.strategy, c.schedule);
    if (broken.empty()) broken = engine_violations(engine, facts, c.strategy, c.schedule);
    if (broken.empty()) continue;
    out += (out.empty() ? "" : "; ") + std::string(to_string(d)) + " " + std::to_string(facts.devices) + " breaks " +
           broken.front().rule + " (" + broken.front().text + ")";
  }
  return out;
}

std::string hint_of(const std::vector<std::string>& changes) {
  std::string out;
  for (const std::string& change : changes) out += (out.empty() ? "" : ", or ") + change;
  return out.empty() ? "take pins under search back one at a time" : out + " would do";
}

std::string listed_pins(const std::vector<Pin>& pins, const Job& job, const EngineModel& engine) {
  std::string out;
  for (std::size_t i = 0; i < pins.size(); ++i) {
    out += (i == 0 ? "" : i + 1 == pins.size() ? " and " : ", ") + job::text_of(pins[i], job, engine);
  }
  return out;
}

}  // namespace

Error nothing_legal(const Job& job, const EngineModel& engine) {
  const std::vector<Pin> pins = conflicting(job, engine);
  if (pins.empty())
    return Error{ErrorKind::infeasible, "search", "no legal configuration, whatever is pinned: " + broken_by_each(job, engine),
                 "devices that the batch, the heads or the layers can be divided over", hint_of(other_sizes(job, engine))};
  const std::string why = broken_rule(job, engine, pins), listed = listed_pins(pins, job, engine);
  auto changes = suggestions(job, engine, pins);
  if (changes.empty()) changes = other_sizes(job, engine);
  return Error{ErrorKind::infeasible, "search",
               (pins.size() == 1 ? listed + " excludes every configuration" : listed + " exclude each other") +
                   (why.empty() ? "" : " (" + why + ")"),
               pins.size() == 1 ? "a value that leaves some configuration" : "values that some configuration has together",
               hint_of(changes)};
}

}  // namespace espalier
