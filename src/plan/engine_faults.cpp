// SPDX-License-Identifier: Apache-2.0
#include "plan/engine_faults.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "base/format.h"
#include "plan/engine.h"
#include "plan/engine_rules.h"
#include "plan/listed_devices.h"

namespace espalier {
namespace {

/// Returns whether every chunk has the same number of blocks. The rule PP-EVEN checks whether this is possible; this
/// plan may still be uneven.
bool even_chunks(const Model& model, const Pipeline& pipeline) {
  std::set<std::int64_t> counts;
  for (const Stage& stage : pipeline.stages)
    for (const Chunk& chunk : stage.chunks) {
      std::int64_t blocks = 0;
      for (std::int32_t l = chunk.first(); l <= chunk.last(); ++l)
        blocks += model.layer(static_cast<std::size_t>(l)).role == LayerRole::block ? 1 : 0;
      counts.insert(blocks);
    }
  return counts.size() == 1;
}

/// Returns whether a rule counts recomputed blocks. Whole plans check this elsewhere: their layers may or may not
/// differ in recompute.
bool counts_recomputed(const std::string& id) { return id.ends_with("-RECOMP-LAYERS") || id.ends_with("-RECOMP-ALL"); }

/// Returns the broken rules of one of several strategies, as if all layers had it. The micro-batch of a layer follows
/// from its dp.
std::vector<RuleViolation> faults_of_strategy(const EngineModel& engine, const RuleFacts& facts, const Pipeline& pipeline,
                                              Strategy s) {
  Schedule schedule = pipeline.schedule;
  schedule.micro_batch = static_cast<std::int32_t>(pipeline.samples_per_microbatch() / s.dp);
  if (s.recompute.kind == RecomputeKind::full) s.recompute.layers = 1;
  std::vector<RuleViolation> out = engine_violations(engine, facts, s, schedule);
  std::erase_if(out, [](const RuleViolation& v) { return counts_recomputed(v.rule); });
  for (RuleViolation& v : out) v.text = cat(label(s), ": ", v.text);
  return out;
}

std::vector<RuleViolation> faults_of_strategies(const EngineModel& engine, const Model& model, const Cluster& cluster,
                                                const Training& training, const Plan& plan, const Pipeline& pipeline) {
  const Schedule& schedule = pipeline.schedule;
  const RuleFacts facts =
      rule_facts(model, cluster, training, std::int64_t{schedule.stages} * schedule.virtual_stages, engine.split);
  if (plan.uniform()) return engine_violations(engine, facts, pipeline.strategy(), schedule);
  std::vector<RuleViolation> out;
  std::set<std::pair<std::string, std::string>> known;
  for (const StrategyCount& count : strategy_counts(plan))
    for (RuleViolation& v : faults_of_strategy(engine, facts, pipeline, count.strategy))
      if (known.emplace(v.rule, v.text).second) out.push_back(std::move(v));
  return out;
}

void add_uneven_chunks(const EngineModel& engine, const Model& model, const Pipeline& pipeline, std::vector<RuleViolation>& out) {
  if (!engine.runs.uneven_stages && !even_chunks(model, pipeline))
    out.push_back({engine_rule_id(engine, "PP-EVEN"), "chunks have unequal numbers of blocks", ""});
}

/// Requires all devices: an engine with restricted layers starts a process on each.
void add_unused_devices(const EngineModel& engine, const Cluster& cluster, std::int64_t used, std::vector<RuleViolation>& out) {
  const bool restricted = engine.family != EngineFamily::generic && !is_unrestricted(engine.layers);
  if (restricted && used != cluster.devices())
    out.push_back({engine_rule_id(engine, "ALL-DEVICES"),
                   cat("the plan uses ", used, " of ", cluster.devices(), " devices; ", engine.base, " starts a process on each"),
                   "describe only the nodes that are used"});
}

}  // namespace

std::string engine_rule_id(const EngineModel& engine, std::string_view name) {
  for (const auto& [id, sentence] : engine_rule_catalogue(engine))
    if (id.size() > name.size() && id.ends_with(name) && id[id.size() - name.size() - 1] == '-') return id;
  return std::string(name);
}

std::vector<RuleViolation> engine_faults(const EngineModel& engine, const Model& model, const Cluster& cluster,
                                         const Training& training, const Plan& plan) {
  std::vector<RuleViolation> whole = engine_plan_violations(engine, model, plan);
  if (plan.pipelines.size() != 1) return whole;  // the other rules are about one pipeline
  const Pipeline& pipeline = plan.only_pipeline();
  std::vector<RuleViolation> out = faults_of_strategies(engine, model, cluster, training, plan, pipeline);
  std::move(whole.begin(), whole.end(), std::back_inserter(out));
  add_uneven_chunks(engine, model, pipeline, out);
  add_unused_devices(engine, cluster, device_count(plan), out);
  return out;
}

}  // namespace espalier
