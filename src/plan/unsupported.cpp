// SPDX-License-Identifier: Apache-2.0
// Finds features of a plan document that have no price yet, and features that version 1 of the document cannot
// express, each by place and name.
#include <algorithm>

#include "base/format.h"
#include "espalier/plan.h"
#include "plan/engine.h"
#include "plan/layer_freedom.h"
#include "plan/version_1.h"

namespace espalier {
namespace {

struct UnsupportedFeature {
  std::string where, found, expected;
};
using Answer = std::optional<UnsupportedFeature>;

std::string joined(const std::vector<std::int64_t>& values) {
  constexpr std::size_t kShown = 8;
  std::string out;
  for (std::size_t i = 0; i < values.size() && i < kShown; ++i) out += cat(i == 0 ? "" : ", ", values[i]);
  return values.size() > kShown ? out + ", …" : out;
}

Answer of_strategy(const Strategy& s, const std::string& where) {
  if (s.overlap.ep) return UnsupportedFeature{where + ".overlap.ep", "true", "false: expert exchanges are not overlapped"};
  return std::nullopt;
}

bool each_has_some(const std::vector<std::int64_t>& shares) {
  return std::all_of(shares.begin(), shares.end(), [](std::int64_t share) { return share >= 1; });
}

/// Returns whether unequal replicas can be priced: tensor and data parallelism, replicas in the order of the devices,
/// and one dp for all layers of the stage.
bool simple_replicas(const Stage& stage) {
  const Strategy& first = stage.chunks.front().ranges.front().strategy;
  for (const Chunk& chunk : stage.chunks)
    for (const LayerRange& range : chunk.ranges) {
      const Strategy& s = range.strategy;
      if (s.cp != 1 || s.ep != 1 || s.sp == SequenceParallel::ulysses || s.order != RankOrder::tp_cp_dp_pp ||
          !s.partition.empty())
        return false;
      if (s.dp != first.dp) return false;
    }
  return true;
}

/// Returns whether ZeRO shards the states of every layer over all replicas.
bool one_shard_group(const Stage& stage) {
  for (const Chunk& chunk : stage.chunks)
    for (const LayerRange& range : chunk.ranges)
      if (!range.strategy.shards_optimizer() || range.strategy.shard != range.strategy.dp) return false;
  return true;
}

Answer of_shares(const Pipeline& pipeline, const Stage& stage, const std::string& where) {
  if (!stage.samples_per_replica.empty()) {
    const bool alike = std::all_of(pipeline.stages.begin(), pipeline.stages.end(),
                                   [&](const Stage& other) { return other.samples_per_replica == stage.samples_per_replica; });
    if (!alike || !simple_replicas(stage) || !each_has_some(stage.samples_per_replica))
      return UnsupportedFeature{where + ".samples_per_replica", joined(stage.samples_per_replica),
                                "samples for every replica, the same in all stages, with only tp and dp in the order "
                                "tp-cp-dp-pp; or equal shares, which are omitted"};
  }
  if (!stage.state_shares.empty() && (!simple_replicas(stage) || !one_shard_group(stage) || !each_has_some(stage.state_shares)))
    return UnsupportedFeature{where + ".state_shares", joined(stage.state_shares),
                              "some state for every replica, with ZeRO 1 to 3 over all of dp in the order tp-cp-dp-pp; or equal "
                              "shares, which are omitted"};
  return std::nullopt;
}

Answer of_stage(const Pipeline& pipeline, const Stage& stage, const std::string& where) {
  if (auto said = of_shares(pipeline, stage, where)) return said;
  std::size_t position = 0;
  for (const Chunk& chunk : stage.chunks)
    for (const LayerRange& range : chunk.ranges)
      if (auto said = of_strategy(range.strategy, cat(where, ".layers[", position++, "].strategy"))) return said;
  return std::nullopt;
}

Answer of_precision(const Plan& plan) {
  if (!plan.precision) return std::nullopt;
  const StatePrecision kept = state_precision(plan.engine, plan.training);
  const auto differs = [](std::string_view name, Precision found, Precision expected) -> Answer {
    if (found == expected) return std::nullopt;
    return UnsupportedFeature{cat("$.precision.", name), std::string(to_string(found)),
                              cat(to_string(expected), ", which the engine keeps under the training's precision")};
  };
  if (auto said = differs("parameters", plan.precision->parameters, kept.parameters)) return said;
  if (auto said = differs("gradients", plan.precision->gradients, kept.gradients)) return said;
  if (auto said = differs("moments", plan.precision->moments, kept.moments)) return said;
  return differs("saved", plan.precision->saved, kept.saved);
}

/// Returns the first answer of `ask` about a stage of the plan, its pipeline and its place in the document.
template <class Ask>
Answer first_of_stages(const Plan& plan, const Ask& ask) {
  std::size_t p = 0;
  for (const Pipeline& pipeline : plan.pipelines) {
    for (std::size_t i = 0; i < pipeline.stages.size(); ++i)
      if (auto said = ask(pipeline, pipeline.stages[i], cat("$.pipelines[", p, "].stages[", i, "]"))) return said;
    ++p;
  }
  return std::nullopt;
}

/// Finds the first feature beyond pipelines of equal replicas.
Answer beyond_even_replicas(const Plan& plan) {
  if (auto said = of_precision(plan)) return said;
  return first_of_stages(plan, of_stage);
}

/// Returns whether version 1 can express a recomputation: selective with its modules, any other without modules.
bool said_by_version_1(const Recompute& r) {
  return r.kind == RecomputeKind::selective ? r.modules == kModulesOfVersion1 : !r.modules.any();
}

/// Finds features newer than version 1 in the strategies of a stage. The place names all stages.
Answer strategies_beyond_version_1(const Pipeline&, const Stage& stage, const std::string& where) {
  const std::string stages = where.substr(0, where.rfind('['));
  for (const Chunk& chunk : stage.chunks)
    for (const LayerRange& range : chunk.ranges)
      if (const Recompute& r = range.strategy.recompute; !said_by_version_1(r))
        return UnsupportedFeature{stages, cat("recomputation of ", r.modules.any() ? to_string(r.modules) : "unnamed modules"),
                                  to_string(kModulesOfVersion1)};
      else if (range.strategy.offload != Offload::none)
        return UnsupportedFeature{stages, cat("offload ", to_string(range.strategy.offload)), "offload none"};
  return std::nullopt;
}

Answer shares_beyond_version_1(const Pipeline&, const Stage& stage, const std::string& where) {
  if (!uneven_replicas(stage)) return std::nullopt;
  return UnsupportedFeature{cat(where, stage.samples_per_replica.empty() ? ".state_shares" : ".samples_per_replica"),
                            "unequal shares", "equal shares, which are omitted"};
}

/// Finds the first part of a plan that version 1 cannot express.
Answer beyond_version_1(const Plan& plan) {
  if (const std::size_t pipelines = plan.pipelines.size(); pipelines != 1)
    return UnsupportedFeature{"$.pipelines", cat(pipelines, " pipelines"), "one pipeline"};
  if (auto said = beyond_even_replicas(plan)) return said;
  if (freezes_weights(plan.training))
    return UnsupportedFeature{"$.training", "adapters or frozen parts", "training of all weights"};
  if (plan.training.lengths.any()) return UnsupportedFeature{"$.training.lengths", "lengths of sequences", "none"};
  if (auto said = first_of_stages(plan, strategies_beyond_version_1)) return said;
  if (auto said = first_of_stages(plan, shares_beyond_version_1)) return said;
  for (const Pipeline& pipeline : plan.pipelines)
    if (pipeline.id != 0) return UnsupportedFeature{"$.pipelines[0].id", cat(pipeline.id), "0"};
  return std::nullopt;
}

/// Rejects parallel pipelines and unequal replicas under engines whose stages must be alike.
Answer unlike_under_an_engine(const Plan& plan) {
  const EngineModel* engine = find_engine(plan.engine);
  if (engine == nullptr || is_unrestricted(engine->layers)) return std::nullopt;
  const auto shares = [&plan](const Pipeline&, const Stage& stage, const std::string& where) -> Answer {
    if (!uneven_replicas(stage)) return std::nullopt;
    return UnsupportedFeature{where, cat("replicas with unequal shares under engine ", plan.engine),
                              "equal shares, or engine generic or espalier"};
  };
  if (auto said = first_of_stages(plan, shares)) return said;
  const std::size_t pipelines = plan.pipelines.size();
  if (pipelines < 2) return std::nullopt;
  return UnsupportedFeature{"$.pipelines", cat(pipelines, " pipelines under engine ", plan.engine),
                            "one pipeline, or engine generic or espalier"};
}

}  // namespace

Status unsupported(const Plan& plan) {
  Answer said = beyond_even_replicas(plan);
  if (!said) said = unlike_under_an_engine(plan);
  if (!said) return {};
  return Error{ErrorKind::bad_input, said->where, said->found, said->expected,
               "a plan document can express this, but it cannot be predicted or checked yet: docs/file-formats.md"};
}

Status unwritable(const Plan& plan, PlanSchema schema) {
  if (schema != PlanSchema::one) return {};
  const Answer said = beyond_version_1(plan);
  if (!said) return {};
  return Error{ErrorKind::check_failed, said->where, said->found, said->expected + ": the most that espalier.plan/1 expresses",
               "write version 2, without --plan-schema 1"};
}

}  // namespace espalier
