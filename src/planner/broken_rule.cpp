// SPDX-License-Identifier: Apache-2.0
#include "planner/broken_rule.h"

#include <algorithm>
#include <optional>

#include "job/space_values.h"
#include "plan/engine.h"
#include "plan/engine_rules.h"
#include "plan/rules.h"
#include "planner/legality.h"
#include "planner/pin_space.h"

namespace espalier::planner {
namespace {

using job::Pin;

bool names(const std::vector<Pin>& pins, Dimension d) {
  return std::any_of(pins.begin(), pins.end(), [d](const Pin& p) { return p.dimension == d; });
}

std::int64_t ranks_of(const search::Configuration& c) { return c.strategy.devices() * c.schedule.stages; }

/// Adapts the dimensions that no pin names to the others, so that only rules about the pins stay broken.
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
  if (ranks_of(c) > facts.devices) {  // the pins alone need too many ranks: add none
    for (const Dimension d : {Dimension::dp, Dimension::pp, Dimension::tp, Dimension::cp}) put(d, 1);
  }
  if (c.schedule.stages == 1) put(Dimension::schedule, static_cast<std::int64_t>(ScheduleKind::one_f_one_b));
  const bool several = has_chunks(c.schedule.kind);
  put(Dimension::vpp, several ? 2 : 1);
  put(Dimension::micro_batch, 1);
  put(Dimension::order, static_cast<std::int64_t>(RankOrder::tp_cp_dp_pp));
  put(Dimension::zero, c.strategy.shard > 1 && !free(Dimension::shard) ? 1 : 0);
  put(Dimension::shard, c.strategy.shards_optimizer() ? c.strategy.data_ranks() : 1);
  for (const Dimension d : {Dimension::overlap_grad, Dimension::overlap_param, Dimension::overlap_p2p, Dimension::overlap_tp})
    put(d, 0);
  put(Dimension::recompute,
      static_cast<std::int64_t>(c.strategy.recompute.layers > 0 && !free(Dimension::recompute_layers) ? RecomputeKind::full
                                                                                                      : RecomputeKind::none));
  put(Dimension::recompute_layers, c.strategy.recompute.kind == RecomputeKind::full ? 1 : 0);
  const std::int64_t m = microbatches_of(facts, c.strategy, c.schedule);
  c.schedule.microbatches = static_cast<std::int32_t>(std::max<std::int64_t>(m, 1));
}

/// Sets limited degrees to their limits if too few ranks are left. The message then states the most that they allow.
void use_limits(search::Configuration& c, const Job& job, const std::vector<Pin>& pins, const RuleFacts& facts) {
  const bool limited = std::all_of(pins.begin(), pins.end(), [](const Pin& p) { return p.kind == Pin::Kind::limit; });
  if (!limited) return;
  for (const Pin& pin : pins) {
    const Dimension d = *pin.dimension;
    if (d != Dimension::tp && d != Dimension::cp && d != Dimension::pp && d != Dimension::dp) continue;
    for (const std::int64_t v : job::possible_values(d, job)) {
      const std::int64_t others = ranks_of(c) / get(d, c.strategy, c.schedule);
      if (job.search.admits(d, v) && others * v <= facts.devices) set(d, v, c.strategy, c.schedule);
    }
  }
}

/// Returns the value nearest to `from` that the job admits for the dimension; nullopt if it admits none of
/// the possible values.
std::optional<std::int64_t> admitted_value(const Job& job, Dimension d, std::int64_t from) {
  std::optional<std::int64_t> best;
  for (const std::int64_t v : job::possible_values(d, job)) {
    if (job.search.admits(d, v) && (!best || std::abs(v - from) < std::abs(*best - from))) best = v;
  }
  return best;
}

}  // namespace

std::string broken_rule(const Job& job, const EngineModel& engine, const std::vector<Pin>& pins) {
  const RuleFacts facts = rule_facts(job.model, job.cluster, job.training, engine.split);
  std::vector<RuleViolation> least;
  std::string none;
  for (std::size_t i = 0; i < pins.size(); ++i) {
    const std::vector<Pin> others = without(pins, i);
    auto c = first_legal(job, engine_under(others, engine), job::space_of(others, job));
    if (!c) continue;
    if (pins[i].kind != Pin::Kind::engine) {
      const Dimension d = *pins[i].dimension;
      const auto value = admitted_value(job, d, get(d, c->strategy, c->schedule));
      if (!value) {
        none = "no value of " + std::string(to_string(d)) + " is left";
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
  return none.empty() ? named_rules(least) : none;
}

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

}  // namespace espalier::planner
