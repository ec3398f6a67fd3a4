// SPDX-License-Identifier: Apache-2.0
#include "plan/recompute_modules.h"

#include <gmock/gmock.h>

#include "plan/engine.h"

namespace espalier::plan_test::recompute_modules_test {
namespace {

using enum RecomputeModule;

Operator op(OperatorKind kind, const char* name, std::int64_t in, std::int64_t out, TpSplit split = TpSplit::none) {
  Operator o;
  o.kind = kind;
  o.name = name;
  o.in = in;
  o.out = out;
  o.split = split;
  return o;
}

/// Returns attention of 64 features and an MLP of 256.
LayerKind dense() {
  LayerKind kind;
  kind.hidden = 64;
  kind.operators = {op(OperatorKind::norm, "attn.norm", 64, 64),
                    op(OperatorKind::linear, "attn.qkv", 64, 192, TpSplit::column),
                    op(OperatorKind::attention, "attn.core", 192, 64, TpSplit::heads),
                    op(OperatorKind::linear, "attn.out", 64, 64, TpSplit::row),
                    op(OperatorKind::residual, "attn.residual", 64, 64),
                    op(OperatorKind::norm, "mlp.norm", 64, 64),
                    op(OperatorKind::linear, "mlp.up", 64, 256, TpSplit::column),
                    op(OperatorKind::activation, "mlp.activation", 256, 256, TpSplit::heads),
                    op(OperatorKind::linear, "mlp.down", 256, 64, TpSplit::row),
                    op(OperatorKind::residual, "mlp.residual", 64, 64)};
  return kind;
}

/// Returns the same attention with four experts and a shared one.
LayerKind mixture() {
  LayerKind kind = dense();
  kind.operators.resize(6);
  for (const Operator& o :
       {op(OperatorKind::router, "mlp.router", 64, 4), op(OperatorKind::dispatch, "mlp.dispatch", 64, 64),
        op(OperatorKind::expert_linear, "mlp.expert_up", 64, 32, TpSplit::column),
        op(OperatorKind::expert_activation, "mlp.expert_activation", 32, 32),
        op(OperatorKind::expert_linear, "mlp.expert_down", 32, 64, TpSplit::row),
        op(OperatorKind::combine, "mlp.combine", 64, 64), op(OperatorKind::linear, "mlp.shared_up", 64, 32, TpSplit::column),
        op(OperatorKind::activation, "mlp.shared_activation", 32, 32, TpSplit::heads),
        op(OperatorKind::linear, "mlp.shared_down", 32, 64, TpSplit::row), op(OperatorKind::residual, "mlp.shared_add", 64, 64),
        op(OperatorKind::residual, "mlp.residual", 64, 64)})
    kind.operators.push_back(o);
  return kind;
}

/// Returns the names of the operators that run again, with a "<" in front if their input is recomputed.
std::vector<std::string> again(const LayerKind& kind, RecomputeModules modules, bool fuses_norms = false, bool exchanges = true) {
  std::vector<std::string> out;
  BlockWalk walk(kind, modules, fuses_norms, exchanges, 0.5);
  for (std::size_t i = 0; i < kind.operators.size(); ++i) {
    const OperatorAgain a = walk.next(i);
    if (a.share > 0) out.push_back((a.input_again ? "<" : "") + kind.operators[i].name);
  }
  return out;
}
using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::IsSupersetOf;
using testing::Not;
using testing::UnorderedElementsAre;

TEST(RecomputeModules, OfADenseBlock) {
  EXPECT_THAT(again(dense(), {}), ElementsAre());
  EXPECT_THAT(again(dense(), {core_attn}), ElementsAre("attn.core"));
  EXPECT_THAT(again(dense(), {layernorm}), ElementsAre("attn.norm", "mlp.norm"));
  EXPECT_THAT(again(dense(), {act}), ElementsAre("mlp.activation"));
  EXPECT_THAT(again(dense(), {mlp}), ElementsAre("mlp.up", "mlp.activation", "<mlp.down"));
  EXPECT_THAT(again(dense(), {mlp, layernorm}), ElementsAre("attn.norm", "mlp.norm", "<mlp.up", "mlp.activation", "<mlp.down"));
  EXPECT_THAT(again(dense(), {moe, moe_act, shared_experts, mla_up_proj, grouped_mm}), ElementsAre());
  EXPECT_THAT(again(dense(), {every_second_mm}), ElementsAre("attn.qkv", "attn.out", "mlp.up", "mlp.down"));
}

// If norms run inside the products behind them, they are no module: they run again only with the MLP.
TEST(RecomputeModules, FusedNorms) {
  EXPECT_THAT(again(dense(), {layernorm}, true), ElementsAre());
  EXPECT_THAT(again(dense(), {mlp}, true), ElementsAre("mlp.norm", "<mlp.up", "mlp.activation", "<mlp.down"));
  EXPECT_THAT(again(mixture(), {layernorm}, true), ElementsAre("mlp.norm"));  // before a router no norm is fused
}

TEST(RecomputeModules, OfAMixture) {
  EXPECT_THAT(again(mixture(), {mlp}), ElementsAre());
  EXPECT_THAT(again(mixture(), {moe_act}), ElementsAre("mlp.expert_activation"));
  EXPECT_THAT(again(mixture(), {shared_experts}), ElementsAre("mlp.shared_up", "mlp.shared_activation", "<mlp.shared_down"));
  EXPECT_THAT(again(mixture(), {moe}),
              ElementsAre("mlp.router", "mlp.dispatch", "mlp.expert_up", "mlp.expert_activation", "<mlp.expert_down",
                          "mlp.combine", "mlp.shared_up", "mlp.shared_activation", "<mlp.shared_down"));
  EXPECT_THAT(again(mixture(), {grouped_mm}),
              ElementsAre("mlp.dispatch", "mlp.expert_up", "mlp.expert_activation", "<mlp.expert_down"));
}

// Exchanges run again only with the whole mixture. Token copies that were not exchanged are dropped with the
// products of experts.
TEST(RecomputeModules, Exchanges) {
  const auto dispatch = [](RecomputeModules modules, bool exchanges) {
    const LayerKind kind = mixture();
    BlockWalk walk(kind, modules, false, exchanges, 0.5);
    for (std::size_t i = 0; i < 7; ++i) (void)walk.next(i);
    return walk.next(7);
  };
  EXPECT_TRUE(dispatch({moe}, true).traffic);
  EXPECT_TRUE(dispatch({moe}, true).inside);
  EXPECT_FALSE(dispatch({grouped_mm}, true).traffic);
  EXPECT_FALSE(dispatch({grouped_mm}, true).inside);
  EXPECT_TRUE(dispatch({grouped_mm}, false).inside);
}

// An MLP parallel to attention, behind the same norm, begins after the projection of attention.
TEST(RecomputeModules, ParallelBlocks) {
  LayerKind kind = dense();
  kind.operators.erase(kind.operators.begin() + 4, kind.operators.begin() + 6);
  kind.operators[4].parallel = true;
  EXPECT_THAT(again(kind, {mlp}), ElementsAre("mlp.up", "mlp.activation", "<mlp.down"));
}

// Latents have 16 features. Queries come from the layer, keys and values from the latent, which is normalised.
TEST(RecomputeModules, LatentAttention) {
  LayerKind kind;
  kind.hidden = 64;
  kind.operators = {op(OperatorKind::norm, "attn.norm", 64, 64),
                    op(OperatorKind::linear, "attn.q", 64, 64, TpSplit::column),
                    op(OperatorKind::linear, "attn.kv_a", 64, 16),
                    op(OperatorKind::norm, "attn.kv_norm", 16, 16),
                    op(OperatorKind::linear, "attn.kv_b", 16, 128, TpSplit::column),
                    op(OperatorKind::attention, "attn.core", 192, 64, TpSplit::heads),
                    op(OperatorKind::linear, "attn.out", 64, 64, TpSplit::row),
                    op(OperatorKind::residual, "attn.residual", 64, 64)};
  EXPECT_THAT(again(kind, {mla_up_proj}), ElementsAre("attn.kv_norm", "<attn.kv_b"));
  // The norm of the latent is part of its product.
  EXPECT_THAT(again(kind, {layernorm}, true), ElementsAre("attn.norm"));
  EXPECT_THAT(again(kind, {layernorm}, false), ElementsAre("attn.norm", "attn.kv_norm"));
}

TEST(RecomputeModules, Names) {
  EXPECT_EQ(to_string(RecomputeModules{moe_act, layernorm}), "layernorm,moe_act");
  EXPECT_EQ(to_string(kPerOperator), "op");
  EXPECT_EQ(to_string(RecomputeModules{}), "");
  EXPECT_EQ(parse_recompute_modules("op"), kPerOperator);
  EXPECT_EQ(parse_recompute_modules("moe_act, layernorm"), (RecomputeModules{layernorm, moe_act}));
  EXPECT_EQ(parse_recompute_modules(" moe_act layernorm moe_act"), (RecomputeModules{layernorm, moe_act}));
  EXPECT_FALSE(parse_recompute_modules(""));
  EXPECT_FALSE(parse_recompute_modules("layernorm,attention"));
  for (int i = 0; i < kRecomputeModules; ++i) {
    const auto m = static_cast<RecomputeModule>(i);
    EXPECT_EQ(parse_recompute_module(to_string(m)), m);
  }
}

// Megatron has names for the modules that it reruns; torchtitan has one policy.
TEST(RecomputeModules, WhatSelectiveMeans) {
  Model model;
  model.kinds = {dense()};
  model.layers = {0};
  EXPECT_EQ(modules_of(model, false), (RecomputeModules{core_attn, layernorm, act, mlp, every_second_mm}));
  EXPECT_EQ(modules_of(model, true), (RecomputeModules{core_attn, act, mlp, every_second_mm}));
  EXPECT_EQ(selective_modules(*find_engine("megatron-core"), model), RecomputeModules{mlp});
  EXPECT_EQ(selective_modules(*find_engine("megatron-lm-2021"), model), RecomputeModules{core_attn});
  EXPECT_EQ(selective_modules(*find_engine("generic"), model), (RecomputeModules{layernorm, act}));
  model.kinds = {mixture()};
  EXPECT_EQ(selective_modules(*find_engine("megatron-core"), model), (RecomputeModules{layernorm, moe_act}));
  EXPECT_EQ(selective_modules(*find_engine("torchtitan"), model), kPerOperator);
  EXPECT_EQ(selective_modules(*find_engine("generic+recompute-modules"), model), (RecomputeModules{layernorm, act, moe_act}));
}

Model model_of(const LayerKind& kind) {
  Model model;
  model.kinds = {kind};
  return model;
}

std::vector<std::string> sets_of(const char* engine, const LayerKind& kind) {
  std::vector<std::string> out;
  for (const RecomputeModules set : module_sets(*find_engine(engine), model_of(kind))) out.push_back(to_string(set));
  return out;
}

// Megatron-Core runs both norms inside products, so they are no modules of their own.
TEST(ModuleSets, AreThoseThatEngineAndModelHave) {
  EXPECT_THAT(sets_of("megatron-core", dense()), UnorderedElementsAre("core_attn", "mlp", "core_attn,mlp"));
  for (const char* one_policy : {"torchtitan", "fsdp2", "megatron-lm-2021", "ddp"})
    EXPECT_THAT(sets_of(one_policy, dense()), IsEmpty()) << one_policy;
}

// The whole mixture contains its activations and shared experts, so moe_act and shared_experts add nothing to moe.
// Attention is in or out, and so is the norm before the router. The mixture is one of {}, moe, moe_act, shared experts
// and both of the last. These are 2 · 2 · 5 sets less the empty one.
TEST(ModuleSets, WithTheSameEffectAreListedOnce) {
  const std::vector<std::string> sets = sets_of("megatron-core", mixture());
  EXPECT_EQ(sets.size(), 19U);
  EXPECT_THAT(sets, IsSupersetOf({"moe", "core_attn,layernorm,moe", "layernorm,moe_act", "moe_act,shared_experts"}));
  EXPECT_THAT(sets, Not(Contains("moe,moe_act")));
}

}  // namespace
}  // namespace espalier::plan_test::recompute_modules_test
