// SPDX-License-Identifier: Apache-2.0
#include "exchange/leave_out.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/format.h"
#include "plan/dimension.h"
#include "plan/rules.h"

namespace espalier::exchange {
namespace {

using base::cat;
using D = Dimension;

/// What has substitutes, in the order in which they are tried.
constexpr std::array kReplaceable = {D::overlap_tp, D::overlap_p2p,      D::overlap_param, D::overlap_grad, D::order,    D::cp_kind,
                                     D::sp,         D::recompute_layers, D::recompute,     D::shard,        D::schedule, D::zero};

struct Configuration {
  Strategy strategy;
  Schedule schedule;
};

/// What follows from a value that was set: shard groups from the ZeRO stage, chunks from the schedule, counts from the kind of recomputation.
void settle(D changed, const RuleFacts& facts, Configuration& c) {
  Strategy& s = c.strategy;
  if (changed == D::zero) s.shard = shards_optimizer(s.zero) ? (s.shard > 1 ? s.shard : static_cast<std::int32_t>(s.data_ranks())) : 1;
  if (!shards_optimizer(s.zero)) s.overlap.param_gather = false;
  if (s.sp != SequenceParallel::megatron) s.overlap.tp = false;
  if (changed == D::schedule) {
    const ScheduleKind kind = c.schedule.kind;
    c.schedule.virtual_stages = kind == ScheduleKind::zb_v           ? 2
                                : kind == ScheduleKind::interleaved ? std::max(2, c.schedule.virtual_stages)
                                                                    : 1;
  }
  const std::int64_t chunks = std::int64_t{c.schedule.stages} * c.schedule.virtual_stages;
  const std::int32_t fullest =
      chunks <= facts.layers ? facts.largest_chunk[static_cast<std::size_t>(chunks)] : facts.blocks;
  if (s.recompute.kind != RecomputeKind::full)
    s.recompute.layers = 0;
  else if (changed == D::recompute || s.recompute.layers == 0 || s.recompute.layers > fullest)
    s.recompute.layers = fullest;
}

/// Values to try, nearest first for counts.
std::vector<std::int64_t> values_of(D d, const RuleFacts& facts, const Configuration& c) {
  std::vector<std::int64_t> out;
  const std::int64_t now = get(d, c.strategy, c.schedule);
  if (d == D::shard) return {c.strategy.data_ranks()};
  if (d == D::recompute_layers) {
    const std::int64_t chunks = std::int64_t{c.schedule.stages} * c.schedule.virtual_stages;
    return {chunks <= facts.layers ? facts.largest_chunk[static_cast<std::size_t>(chunks)] : facts.blocks};
  }
  const std::int64_t end = d == D::zero ? 4 : enum_size(d);
  for (std::int64_t v = 0; v < end; ++v)
    if (v != now) out.push_back(v);
  std::sort(out.begin(), out.end(), [now](std::int64_t a, std::int64_t b) {
    return std::pair(std::abs(a - now), a) < std::pair(std::abs(b - now), b);
  });
  return out;
}

struct Substitute {
  Configuration configuration;
  std::string text;  ///< "zero 1"
};

/// The first substitute with which the rule holds and no more rules are broken than before.
std::optional<Substitute> substitute(const EngineModel& engine, const RuleFacts& facts, const Configuration& now,
                                     const std::string& rule) {
  const auto broken = [&](const Configuration& c) { return engine_violations(engine, facts, c.strategy, c.schedule); };
  const std::size_t before = broken(now).size();
  for (const D d : kReplaceable)
    for (const std::int64_t value : values_of(d, facts, now)) {
      Configuration c = now;
      set(d, value, c.strategy, c.schedule);
      settle(d, facts, c);
      if (!is_legal(facts, c.strategy, c.schedule)) continue;
      const std::vector<RuleViolation> left = broken(c);
      const bool helps = std::none_of(left.begin(), left.end(), [&](const RuleViolation& v) { return v.rule == rule; });
      if (helps && left.size() < before) return Substitute{c, cat(to_string(d), " ", value_text(d, value))};
    }
  return std::nullopt;
}

/// The strategy that most blocks have, and the micro-batch that goes with it; nothing where the batch does not divide.
std::optional<Configuration> majority(const RuleFacts& facts, const Plan& plan) {
  Configuration out{{}, plan.only_pipeline().schedule};
  const std::vector<StrategyCount> counts = strategy_counts(plan);
  out.strategy = counts.front().strategy;
  const std::int64_t samples = plan.samples_per_microbatch();
  if (samples % out.strategy.dp != 0) return std::nullopt;
  out.schedule.micro_batch = static_cast<std::int32_t>(samples / out.strategy.dp);
  if (out.strategy.recompute.kind == RecomputeKind::full) out.strategy.recompute.layers = 0;
  settle(D::recompute_layers, facts, out);
  return out;
}

bool places_alike(const Schedule& a, const Schedule& b) {
  if (a.stages != b.stages || a.virtual_stages != b.virtual_stages) return false;
  for (std::int32_t k = 0; k < a.virtual_stages; ++k)
    if (pipeline_chunk(a, 0, k) != pipeline_chunk(b, 0, k)) return false;
  return true;
}

void without_shares(Plan& plan) {
  for (Pipeline& pipeline : plan.pipelines)
    for (Stage& stage : pipeline.stages) {
      stage.samples_per_replica.clear();
      stage.state_shares.clear();
    }
}

bool ends_with(const std::string& text, std::string_view end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

void leave_strategy_out(const EngineModel& engine, const RuleFacts& facts, const Plan& plan, ExportFault& fault) {
  if (plan.pipelines.size() != 1 || !plan.uniform()) return;
  const Configuration now{plan.strategy(), plan.only_pipeline().schedule};
  const auto found = substitute(engine, facts, now, fault.rule);
  if (!found) return;
  fault.instead = found->text;
  const std::string name = engine.name;
  fault.leave_out = [name, c = found->configuration](const Job& job, Plan& of) {
    of = with_strategy(*find_engine(name), job, of, c.strategy, c.schedule);
  };
}

void leave_layers_out(const EngineModel& engine, const RuleFacts& facts, const Plan& plan, ExportFault& fault) {
  if (plan.pipelines.size() != 1) return;
  const auto one = majority(facts, plan);
  if (!one || !is_legal(facts, one->strategy, one->schedule)) return;
  fault.instead = cat("one strategy for all layers, ", label(one->strategy));
  const std::string name = engine.name;
  fault.leave_out = [name, c = *one](const Job& job, Plan& of) {
    of = with_strategy(*find_engine(name), job, of, c.strategy, c.schedule);
  };
}

}  // namespace

Plan with_strategy(const EngineModel& engine, const Job& job, const Plan& plan, const Strategy& strategy, const Schedule& schedule) {
  Plan out = plan;
  const Plan cut = make_uniform_plan(job.model, job.cluster, plan.training, plan.engine, strategy, schedule, engine.split);
  const bool keep = places_alike(plan.only_pipeline().schedule, schedule);
  out.pipelines = cut.pipelines;
  out.only_pipeline().id = plan.only_pipeline().id;
  out.only_pipeline().samples = plan.only_pipeline().samples;
  if (!keep) return out;
  for (std::size_t i = 0; i < out.only_pipeline().stages.size(); ++i)
    for (std::size_t k = 0; k < out.only_pipeline().stages[i].chunks.size(); ++k) {
      const Chunk& own = plan.only_pipeline().stages[i].chunks[k];
      out.only_pipeline().stages[i].chunks[k].ranges = {{own.first(), own.last(), strategy}};
    }
  return out;
}

ExportFault fault_of(const EngineModel& engine, const Job& job, const Plan& plan, const RuleViolation& violation) {
  ExportFault fault{violation.rule, violation.text, violation.hint, nullptr, ""};
  const RuleFacts facts = rule_facts(job.model, job.cluster, job.training, engine.split);
  if (ends_with(violation.rule, "-LAYERS")) {
    leave_layers_out(engine, facts, plan, fault);
  } else if (ends_with(violation.rule, "-REPLICAS")) {
    fault.instead = "equal replicas";
    fault.leave_out = [](const Job&, Plan& of) { without_shares(of); };
  } else if (ends_with(violation.rule, "-DEVICES") && plan.pipelines.size() == 1 && plan.uniform()) {
    fault.instead = "ranks in the order of the devices";
    fault.leave_out = [name = engine.name](const Job& of_job, Plan& of) {
      of = with_strategy(*find_engine(name), of_job, of, of.strategy(), of.only_pipeline().schedule);
    };
  } else {
    leave_strategy_out(engine, facts, plan, fault);
  }
  return fault;
}

}  // namespace espalier::exchange
