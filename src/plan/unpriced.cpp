// SPDX-License-Identifier: Apache-2.0
// What a plan document can say that has no price yet, and what version 1 of the document cannot say: each by its place and name.
#include "base/format.h"
#include "espalier/plan.h"
#include "plan/engine.h"
#include "plan/layer_freedom.h"

namespace espalier {
namespace {

using base::cat;

struct Said {
  std::string where, found, expected;
};
using Answer = std::optional<Said>;

std::string joined(const std::vector<std::int64_t>& values) {
  constexpr std::size_t kShown = 8;
  std::string out;
  for (std::size_t i = 0; i < values.size() && i < kShown; ++i) out += cat(i == 0 ? "" : ", ", values[i]);
  return values.size() > kShown ? out + ", …" : out;
}

Answer of_strategy(const Strategy& s, const std::string& where) {
  if (!s.recompute.modules.empty())
    return Said{where + ".recompute.modules", cat("modules such as \"", s.recompute.modules.front(), "\""),
                "none: kind and layers say what is recomputed"};
  if (s.overlap.ep) return Said{where + ".overlap.ep", "true", "false: expert exchanges are not overlapped"};
  return std::nullopt;
}

Answer of_stage(const Stage& stage, const std::string& where) {
  if (!stage.samples_per_replica.empty())
    return Said{where + ".samples_per_replica", joined(stage.samples_per_replica), "equal shares, which are left out"};
  if (!stage.state_shares.empty())
    return Said{where + ".state_shares", joined(stage.state_shares), "equal shares, which are left out"};
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
    return Said{cat("$.precision.", name), std::string(to_string(found)),
                cat(to_string(expected), ", which the engine keeps under the training's precision")};
  };
  if (auto said = differs("parameters", plan.precision->parameters, kept.parameters)) return said;
  if (auto said = differs("gradients", plan.precision->gradients, kept.gradients)) return said;
  if (auto said = differs("moments", plan.precision->moments, kept.moments)) return said;
  return differs("saved", plan.precision->saved, kept.saved);
}

/// The first thing that goes beyond pipelines of equal replicas.
Answer beyond_equal_replicas(const Plan& plan) {
  if (auto said = of_precision(plan)) return said;
  for (std::size_t p = 0; p < plan.pipelines.size(); ++p)
    for (std::size_t i = 0; i < plan.pipelines[p].stages.size(); ++i)
      if (auto said = of_stage(plan.pipelines[p].stages[i], cat("$.pipelines[", p, "].stages[", i, "]"))) return said;
  return std::nullopt;
}

/// Pipelines beside each other run where stages need not be alike.
Answer several_under_an_engine(const Plan& plan) {
  const EngineModel* engine = find_engine(plan.engine);
  if (plan.pipelines.size() < 2 || engine == nullptr || is_unrestricted(engine->layers)) return std::nullopt;
  return Said{"$.pipelines", cat(plan.pipelines.size(), " pipelines under engine ", plan.engine),
              "one pipeline, or engine generic or espalier"};
}

}  // namespace

Status unpriced(const Plan& plan) {
  Answer said = beyond_equal_replicas(plan);
  if (!said) said = several_under_an_engine(plan);
  if (!said) return std::nullopt;
  return Error{ErrorKind::bad_input, said->where, said->found, said->expected,
               "a plan document can say this, but nothing predicts or checks it yet: docs/file-formats.md"};
}

Status unwritable(const Plan& plan, PlanSchema schema) {
  if (schema != PlanSchema::one) return std::nullopt;
  Answer said;
  if (plan.pipelines.size() != 1) said = Said{"$.pipelines", cat(plan.pipelines.size(), " pipelines"), "one pipeline"};
  if (!said) said = beyond_equal_replicas(plan);
  if (!said && plan.only_pipeline().id != 0) said = Said{"$.pipelines[0].id", cat(plan.only_pipeline().id), "0"};
  if (!said) return std::nullopt;
  return Error{ErrorKind::check_failed, said->where, said->found, said->expected + ": all that espalier.plan/1 can say",
               "write version 2, without --plan-schema 1"};
}

}  // namespace espalier
