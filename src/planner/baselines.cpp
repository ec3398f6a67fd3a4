// SPDX-License-Identifier: Apache-2.0
#include "planner/baselines.h"

#include <algorithm>
#include <numeric>

#include "plan/engine.h"
#include "plan/rules.h"
#include "planner/recipes.h"

namespace espalier::planner {
namespace {

using search::Configuration;

std::vector<std::int64_t> divisors(std::int64_t n) {
  std::vector<std::int64_t> out;
  for (std::int64_t d = 1; d <= n; ++d)
    if (n % d == 0) out.push_back(d);
  return out;
}

/// Adds the legal members of a preset: micro-batches 1 … 16 and no, selective or full recomputation.
void add_family(const RuleFacts& facts, const Configuration& preset, Baseline& out) {
  std::string refusal;
  for (const std::int64_t micro_batch : {1, 2, 4, 8, 16}) {
    Configuration c = preset;
    c.schedule.micro_batch = static_cast<std::int32_t>(micro_batch);
    c.schedule.microbatches = static_cast<std::int32_t>(microbatches_of(facts, c.strategy, c.schedule));
    for (const RecomputeKind kind : {RecomputeKind::none, RecomputeKind::selective, RecomputeKind::full}) {
      const auto chunks = static_cast<std::size_t>(c.schedule.stages);
      const std::int32_t most = chunks < facts.largest_chunk.size() ? facts.largest_chunk[chunks] : 0;
      c.strategy.recompute = {kind, kind == RecomputeKind::full ? most : 0};
      if (is_legal(facts, c.strategy, c.schedule)) {
        out.family.push_back(c);
      } else if (refusal.empty()) {
        const auto broken = violations(facts, c.strategy, c.schedule);
        if (!broken.empty()) refusal = broken.front().rule + ": " + broken.front().text;
      }
    }
  }
  if (out.family.empty() && out.refusal.empty()) out.refusal = refusal;
}

Configuration data_parallel(std::int64_t devices, ZeroStage zero, std::int64_t shard) {
  Configuration c;
  c.strategy.dp = static_cast<std::int32_t>(devices);
  c.strategy.zero = zero;
  c.strategy.shard = static_cast<std::int32_t>(shard);
  c.strategy.overlap.grad_reduce = devices > 1;
  c.strategy.overlap.param_gather = shards_optimizer(zero);
  return c;
}

/// Returns the largest tp that divides every head count and fits into a node.
std::int32_t usual_tp(const RuleFacts& facts, std::int64_t node) {
  for (std::int64_t tp = node; tp > 1; --tp) {
    const bool fits =
        facts.devices % tp == 0 && node % tp == 0 && std::all_of(facts.heads.begin(), facts.heads.end(), [&](const HeadFacts& h) {
          return h.heads % tp == 0 && (h.kv_heads % tp == 0 || tp % h.kv_heads == 0);
        });
    if (fits) return static_cast<std::int32_t>(tp);
  }
  return 1;
}

/// Returns the largest ep that divides the experts, the node and the stage's devices: experts of a MoE model are
/// spread over at most a node.
std::int32_t usual_ep(const RuleFacts& facts, std::int64_t node, std::int64_t stage_devices) {
  if (facts.experts.empty()) return 1;
  for (std::int64_t ep = node; ep > 1; --ep) {
    const bool divides = node % ep == 0 && stage_devices % ep == 0 &&
                         std::all_of(facts.experts.begin(), facts.experts.end(), [&](std::int32_t e) { return e % ep == 0; });
    if (divides) return static_cast<std::int32_t>(ep);
  }
  return 1;
}

Baseline megatron(const Job& job, const RuleFacts& facts) {
  Baseline out{"Megatron 3-D default", {}, "", ""};
  const std::int64_t node = job.cluster.groups.front().devices_per_node;
  const std::int32_t tp = usual_tp(facts, node);
  for (const std::int64_t pp : divisors(facts.devices / tp)) {
    if (pp > facts.layers || pp > 128) break;
    Configuration c;
    c.strategy.tp = tp;
    c.strategy.sp = tp > 1 ? SequenceParallel::megatron : SequenceParallel::none;
    c.strategy.dp = static_cast<std::int32_t>(facts.devices / tp / pp);
    c.schedule.stages = static_cast<std::int32_t>(pp);
    c.strategy.ep = usual_ep(facts, node, facts.devices / pp);
    if (c.strategy.dp > 1) {
      c.strategy.zero = ZeroStage::optimizer;
      c.strategy.shard = c.strategy.dp;
      c.strategy.overlap.grad_reduce = true;
    }
    c.strategy.overlap.param_gather = c.strategy.shards_optimizer();
    c.strategy.overlap.p2p = pp > 1;
    add_family(facts, c, out);
  }
  if (!out.family.empty()) out.refusal.clear();
  return out;
}

}  // namespace

Baseline megatron_default(const Job& job) { return megatron(job, rule_facts(job.model, job.cluster, job.training)); }

std::vector<Baseline> baselines(const Job& job, const EngineModel& engine) {
  const RuleFacts facts = rule_facts(job.model, job.cluster, job.training);
  const std::int64_t n = facts.devices, node = std::min(n, job.cluster.groups.front().devices_per_node);
  std::vector<Baseline> out = {{"DDP", {}, "", ""}, {"FSDP (ZeRO-3)", {}, "", ""}, {"HSDP", {}, "", ""}};
  add_family(facts, data_parallel(n, ZeroStage::none, 1), out[0]);
  if (n > 1)
    add_family(facts, data_parallel(n, ZeroStage::parameters, n), out[1]);
  else
    out[1].refusal = "one device cannot shard";
  if (n > node && node > 1)
    add_family(facts, data_parallel(n, ZeroStage::parameters, node), out[2]);
  else
    out[2].refusal = "needs several nodes with several devices each";
  out.push_back(megatron(job, facts));
  for (Baseline& recipe : recipes(job, facts, engine)) out.push_back(std::move(recipe));
  return out;
}

}  // namespace espalier::planner
