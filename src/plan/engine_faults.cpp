// SPDX-License-Identifier: Apache-2.0
#include "plan/engine_faults.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/format.h"
#include "plan/engine.h"
#include "plan/engine_rules.h"

namespace espalier {
namespace {

/// Whether every chunk has as many blocks. The rule PP-EVEN asks whether it could; this plan may not.
bool even_chunks(const Model& model, const Plan& plan) {
  std::set<std::int64_t> counts;
  for (const Stage& stage : plan.only_pipeline().stages)
    for (const Chunk& chunk : stage.chunks) {
      std::int64_t blocks = 0;
      for (std::int32_t l = chunk.first(); l <= chunk.last(); ++l)
        blocks += model.layer(static_cast<std::size_t>(l)).role == LayerRole::block ? 1 : 0;
      counts.insert(blocks);
    }
  return counts.size() == 1;
}

std::int64_t devices_of(const Plan& plan) {
  std::int64_t used = 0;
  for (const Pipeline& pipeline : plan.pipelines)
    for (const Stage& stage : pipeline.stages)
      for (const DeviceRange& range : stage.devices) used += range.count;
  return used;
}

/// How many blocks are recomputed is asked of a whole plan elsewhere: layers differ in recompute, or they do not.
bool counts_recomputed(const std::string& id) { return id.ends_with("-RECOMP-LAYERS") || id.ends_with("-RECOMP-ALL"); }

/// The rules for a strategy of several, as if all layers had it. The micro-batch of a layer follows from its dp.
std::vector<RuleViolation> faults_of_strategy(const EngineModel& engine, const RuleFacts& facts, const Plan& plan, Strategy s) {
  Schedule schedule = plan.only_pipeline().schedule;
  schedule.micro_batch = static_cast<std::int32_t>(plan.samples_per_microbatch() / s.dp);
  if (s.recompute.kind == RecomputeKind::full) s.recompute.layers = 1;
  std::vector<RuleViolation> out = engine_violations(engine, facts, s, schedule);
  std::erase_if(out, [](const RuleViolation& v) { return counts_recomputed(v.rule); });
  for (RuleViolation& v : out) v.text = cat(label(s), ": ", v.text);
  return out;
}

std::vector<RuleViolation> faults_of_strategies(const EngineModel& engine, const Model& model, const Cluster& cluster,
                                                const Training& training, const Plan& plan) {
  const Schedule& schedule = plan.only_pipeline().schedule;
  const RuleFacts facts =
      rule_facts(model, cluster, training, std::int64_t{schedule.stages} * schedule.virtual_stages, engine.split);
  if (plan.uniform()) return engine_violations(engine, facts, plan.strategy(), schedule);
  std::vector<RuleViolation> out;
  std::set<std::pair<std::string, std::string>> known;
  for (const StrategyCount& count : strategy_counts(plan))
    for (RuleViolation& v : faults_of_strategy(engine, facts, plan, count.strategy))
      if (known.emplace(v.rule, v.text).second) out.push_back(std::move(v));
  return out;
}

void add_whole_plan(const EngineModel& engine, const Model& model, const Cluster& cluster, const Plan& plan,
                    std::vector<RuleViolation>& out) {
  for (RuleViolation& v : engine_plan_violations(engine, model, plan)) out.push_back(std::move(v));
  if (plan.pipelines.size() != 1) return;
  if (!engine.runs.uneven_stages && !even_chunks(model, plan))
    out.push_back({engine_rule_id(engine, "PP-EVEN"), "chunks have unequal numbers of blocks", ""});
  const bool restricted = engine.family != EngineFamily::generic && !is_unrestricted(engine.layers);
  if (restricted && devices_of(plan) != cluster.devices())
    out.push_back({engine_rule_id(engine, "ALL-DEVICES"),
                   cat("the plan uses ", devices_of(plan), " of ", cluster.devices(), " devices; ", engine.base,
                       " starts a process on each"),
                   "describe the nodes that are used alone"});
}

}  // namespace

std::string engine_rule_id(const EngineModel& engine, std::string_view name) {
  for (const auto& [id, sentence] : engine_rule_catalogue(engine))
    if (id.size() > name.size() && id.ends_with(name) && id[id.size() - name.size() - 1] == '-') return id;
  return std::string(name);
}

std::vector<RuleViolation> engine_faults(const EngineModel& engine, const Model& model, const Cluster& cluster,
                                         const Training& training, const Plan& plan) {
  std::vector<RuleViolation> out;
  if (plan.pipelines.size() == 1)
    out = faults_of_strategies(engine, model, cluster, training, plan);  // the rules speak of one pipeline
  add_whole_plan(engine, model, cluster, plan, out);
  return out;
}

}  // namespace espalier
