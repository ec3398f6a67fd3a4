// SPDX-License-Identifier: Apache-2.0
// Provides the plans to break: plans of a small model with derived claims, one for each schedule, and six plans of
// real models whose claims are simulated.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/document.h"
#include "data/source_dir.h"
#include "layered_cases.h"
#include "suite.h"

namespace espalier::mutation {

inline std::vector<Case> synthetic_cases() {
  using K = ScheduleKind;
  const Model model = model_of(gpt(6));
  std::vector<Case> cases;
  const auto add = [&](const Strategy& s, const Schedule& schedule) {
    cases.push_back(make_case(model, s, schedule));
    EXPECT_TRUE(cases.back().check().ok()) << broken(cases.back().check());
  };
  Strategy plain;
  plain.dp = 2;
  add(plain, schedule_of(K::one_f_one_b, 4, 1, 8));
  Strategy sharded = plain;
  sharded.zero = ZeroStage::optimizer;
  sharded.shard = 2;
  sharded.overlap = {true, true, true, false};
  add(sharded, schedule_of(K::interleaved, 2, 2, 4));
  sharded.overlap = {};
  sharded.recompute = {RecomputeKind::full, 1};
  add(sharded, schedule_of(K::zb_h1, 2, 1, 4));
  add(plain, schedule_of(K::zb_v, 2, 2, 4));
  Strategy split;
  split.tp = 2;
  split.cp = 2;
  split.sp = SequenceParallel::megatron;
  split.recompute = {RecomputeKind::selective, 0, {RecomputeModule::mlp, RecomputeModule::core_attn}};
  add(split, schedule_of(K::gpipe, 2, 1, 4));
  add(plain, schedule_of(K::one_f_one_b, 1, 1, 4));
  // layers of several strategies: every mutation of a plan applies to it as well
  Strategy tensor;
  tensor.tp = 2;
  tensor.sp = SequenceParallel::megatron;
  cases.push_back(
      make_layered_case(model, {{{0, 2, plain}, {3, 3, tensor}}, {{4, 7, plain}}}, schedule_of(K::one_f_one_b, 2, 1, 4)));
  EXPECT_TRUE(cases.back().check().ok()) << broken(cases.back().check());
  return cases;
}

/// Holds one of the six plans by name, with its job and a true case of it.
struct RealPlan {
  std::string name;
  Job job;
  Case truth;
};

inline Job real_job(const std::string& model, const std::string& cluster, const std::string& training,
                    const std::string& search) {
  const std::string text = "model: " + std::string(ESPALIER_SOURCE_DIR) + "/models/" + model +
                           "/config.json\ncluster: " + cluster + "\ntraining: " + training + "\nsearch: " + search + "\n";
  auto job = load_job(text, model, ESPALIER_SOURCE_DIR, {});
  EXPECT_TRUE(job.ok()) << job.error().message();
  return *job;
}

inline Case truthful_case(const Job& job, const Plan& plan) {
  Case c;
  c.model = job.model;
  c.cluster = job.cluster;
  c.plan = plan;
  c.program = lower(plan, job.model, true);
  const auto claims = planner::claims_of(job, plan);
  EXPECT_TRUE(claims.ok()) << claims.error().message();
  c.claims = *claims;
  return c;
}

/// Makes a plan with embedding and head of a tied model on one stage, in three layers of strategies.
inline Plan layer_wise(const Job& job, const Strategy& outer, const Strategy& inner, const Schedule& schedule) {
  Plan plan = make_uniform_plan(job.model, job.cluster, job.training, job.engine, outer, schedule, SplitPolicy::balanced);
  plan.model_source = job.model_source;
  plan.cluster_source = job.cluster_source;
  Chunk& first = plan.only_pipeline().stages.front().chunks.front();
  const std::int32_t last = first.ranges.back().last, middle = last / 2;
  first.ranges = {{0, middle, outer},
                  {middle + 1, last - (last + 1 == static_cast<std::int32_t>(job.model.layers.size())), inner}};
  if (first.ranges.back().last < last) first.ranges.push_back({last, last, outer});
  return plan;
}

inline Strategy real_strategy(std::int32_t dp, std::int32_t tp, std::int32_t zero = 0) {
  Strategy s;
  s.dp = dp;
  s.tp = tp;
  s.zero = ZeroStage{zero};
  s.shard = zero > 0 ? dp : 1;
  if (tp > 1) s.sp = SequenceParallel::megatron;
  return s;
}

/// Returns plans that are tied, encoder-decoder on four stages, mixture of experts, layer-wise, interleaved and zb-v.
inline const std::vector<RealPlan>& real_plans() {
  static const std::vector<RealPlan> plans = [] {
    std::vector<RealPlan> all;
    const auto add = [&](const std::string& name, const Job& job, Plan plan) {
      plan.model_hash = base::content_hash(job.model_source);
      plan.cluster_hash = base::content_hash(job.cluster_source);
      plan.model_source = job.model_source;
      plan.cluster_source = job.cluster_source;
      all.push_back({name, job, truthful_case(job, plan)});
      EXPECT_TRUE(all.back().truth.check().ok()) << name << "\n" << broken(all.back().truth.check());
    };
    const auto uniform = [&](const std::string& name, const Job& job, const Strategy& s, const Schedule& schedule) {
      add(name, job, make_uniform_plan(job.model, job.cluster, job.training, job.engine, s, schedule, SplitPolicy::balanced));
    };
    using K = ScheduleKind;
    const std::string h100 = "{nodes: 1, devices_per_node: 8, device: h100-sxm-80gb}";
    const Job tied = real_job("llama-3.2-1b", h100, "{sequence_length: 4096, global_batch: 64}", "{}");
    uniform("tied", tied, real_strategy(2, 2, 1), {K::one_f_one_b, 2, 1, 16, 2});
    const Job t5 = real_job("t5-base", h100, "{sequence_length: {encoder: 512, decoder: 512}, global_batch: 64}", "{}");
    uniform("encoder-decoder", t5, real_strategy(2, 1), {K::one_f_one_b, 4, 1, 8, 4});
    const Job moe = real_job("mixtral-8x7b", "{nodes: 4, devices_per_node: 8, device: h100-sxm-80gb}",
                             "{sequence_length: 4096, global_batch: 64}", "{}");
    Strategy experts = real_strategy(8, 2, 1);
    experts.ep = 8;
    uniform("experts", moe, experts, {K::one_f_one_b, 2, 1, 8, 1});
    const Job dense = real_job("llama-3.2-1b", h100, "{sequence_length: 4096, global_batch: 64}", "{}");
    add("layer-wise", dense, layer_wise(dense, real_strategy(8, 1, 1), real_strategy(4, 2, 1), {K::one_f_one_b, 1, 1, 4, 2}));
    const Job llama = real_job("llama-2-7b", h100, "{sequence_length: 4096, global_batch: 32}", "{}");
    uniform("interleaved", llama, real_strategy(2, 2, 1), {K::interleaved, 2, 4, 16, 1});
    uniform("zb-v", tied, real_strategy(2, 1, 1), {K::zb_v, 4, 2, 16, 2});
    return all;
  }();
  return plans;
}

/// Returns the synthetic and the real cases.
inline std::vector<Case> all_cases() {
  std::vector<Case> cases = synthetic_cases();
  for (const RealPlan& real : real_plans()) cases.push_back(real.truth);
  return cases;
}

}  // namespace espalier::mutation
