// SPDX-License-Identifier: Apache-2.0
#include "runtime/architecture.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numbers>
#include <string>

namespace espalier::runtime {
namespace {

std::string config(const std::string& family, const std::string& more) {
  std::string text = R"({"model_type": ")" + family + R"(", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "intermediate_size": 64, "vocab_size": 96)";
  if (family == "mixtral") text += R"(, "num_local_experts": 4, "num_experts_per_tok": 2)";
  if (family == "qwen3_moe") text += R"(, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16)";
  return text + (more.empty() ? "" : ", " + more) + "}";
}

Result<Architecture> read(const std::string& family, const std::string& more = "") {
  Plan plan;
  plan.model_source = config(family, more);
  const auto model = load_model(plan.model_source, "config.json");
  EXPECT_TRUE(model.ok());
  return architecture_of(plan, *model);
}

// With θ = 10000 and four features, pairs turn by 1 and 10000^(−1/2) = 0.01 per position.
TEST(RotaryRates, SmallestExample) {
  const auto rates = rotary_rates({}, 4);
  ASSERT_EQ(rates.size(), 2u);
  EXPECT_DOUBLE_EQ(rates[0], 1);
  EXPECT_NEAR(rates[1], 0.01, 1e-15);
}

TEST(RotaryRates, LinearDividesAll) {
  const auto a = read("llama", R"("rope_scaling": {"type": "linear", "factor": 4})");
  ASSERT_TRUE(a.ok());
  EXPECT_NEAR(rotary_rates(*a, 4)[1], 0.0025, 1e-15);
}

// The old context is 100, low 1, high 4. A pair of wavelength 2π turns 100/2π = 15.9 times in it and is kept. A pair
// of wavelength 2π·100 turns 0.16 times and is divided by 8. Between them, 100/λ = 2 turns give u = (2 − 1)/(4 − 1)
// and rate (2/3·1/8 + 1/3)·r.
TEST(RotaryRates, Llama3StretchesLongWaves) {
  Architecture a;
  a.rotary_stretch = {RotaryStretch::Kind::llama3, 8, 1, 4, 100};
  const auto rates = rotary_rates(a, 4);
  EXPECT_DOUBLE_EQ(rates[0], 1);
  EXPECT_NEAR(rates[1], 0.01 / 8, 1e-15);
  const double two_turns = 2 * 2 * std::numbers::pi / 100;
  a.rotary_base = 1 / (two_turns * two_turns);
  EXPECT_NEAR(rotary_rates(a, 4)[1], (2.0 / 3 / 8 + 1.0 / 3) * two_turns, 1e-12);
}

TEST(Architecture, DefaultsOfTheFamily) {
  const auto mixtral = read("mixtral"), qwen = read("qwen3_moe");
  ASSERT_TRUE(mixtral.ok() && qwen.ok());
  EXPECT_EQ(mixtral->rotary_base, 1e6);
  EXPECT_EQ(mixtral->norm_epsilon, 1e-5);
  EXPECT_TRUE(mixtral->normalised_experts);
  EXPECT_EQ(qwen->norm_epsilon, 1e-6);
  EXPECT_FALSE(qwen->normalised_experts);
}

TEST(Architecture, WhatIsNotComputedIsRefusedByName) {
  const auto refused = [](const std::string& family, const std::string& more) {
    const auto a = read(family, more);
    return a.ok() ? std::string("taken") : a.error().message();
  };
  EXPECT_NE(refused("llama", R"("rope_scaling": {"rope_type": "yarn", "factor": 4})").find("yarn"), std::string::npos);
  EXPECT_NE(refused("llama", R"("rope_scaling": {"rope_type": "llama3", "factor": 4})").find("low_freq_factor"),
            std::string::npos);
  EXPECT_NE(refused("mixtral", R"("output_router_logits": true)").find("output_router_logits"), std::string::npos);
  EXPECT_NE(refused("mixtral", R"("router_jitter_noise": 0.1)").find("router_jitter_noise"), std::string::npos);
  EXPECT_NE(refused("gemma", "").find("gemma"), std::string::npos);
}

// Four experts cannot be spread over 3 ranks. With weights split in 2, each expert is split in 1 or 2.
TEST(NotRunnable, ExpertDegrees) {
  Plan plan;
  plan.training.precision = Precision::fp32;
  const Model model = load_model(config("mixtral", ""), "config.json").value();
  Strategy s;
  s.tp = 2;
  const auto found = [&] {
    plan.pipelines.front().stages = {{{{0, 2}}, {{{{0, 3, s}}}}}};
    const Status status = not_runnable(plan, model);
    return !status.ok() ? status.error().found : "";
  };
  EXPECT_EQ(found(), "");
  s.ep = 3;
  EXPECT_EQ(found(), "ep 3");
  s.ep = 1;
  s.etp = 4;
  EXPECT_EQ(found(), "etp 4");
}

// Each feature that no rank runs is refused with its place in the plan; the plan without it is accepted.
TEST(NotRunnable, FeaturesOfPlansByPlace) {
  const Model model = load_model(config("llama", ""), "config.json").value();
  Plan plan;
  const auto refused = [&](const std::function<void(Plan&, Strategy&, Stage&)>& change) {
    plan = Plan();
    plan.training.precision = Precision::fp32;
    Strategy s;
    s.tp = 2;
    Stage stage;
    stage.devices = {{0, 2}};
    change(plan, s, stage);
    stage.chunks = {{{{0, 3, s}}}};
    plan.pipelines.front().stages = {stage};
    const Status status = not_runnable(plan, model);
    return status.ok() ? "" : status.error().where + ": " + status.error().found;
  };
  EXPECT_EQ(refused([](Plan&, Strategy&, Stage&) {}), "");
  EXPECT_EQ(refused([](Plan& p, Strategy&, Stage&) { p.training.precision = Precision::fp16; }),
            "plan: $.training.precision: fp16");
  EXPECT_EQ(refused([](Plan&, Strategy& s, Stage&) { s.offload = Offload::optimizer; }),
            "plan: $.pipelines[0].stages[0]: offload optimizer");
  EXPECT_EQ(refused([](Plan&, Strategy& s, Stage&) { s.tp = 3; }), "plan: $.pipelines[0].stages[0]: heads over 3 ranks");
  EXPECT_EQ(refused([](Plan&, Strategy&, Stage& stage) {
              stage.samples_per_replica = {2, 0};
            }),
            "plan: $.pipelines[0].stages[0].samples_per_replica: a replica without samples");
  EXPECT_EQ(refused([](Plan& p, Strategy&, Stage&) { p.training.optimizer = Optimizer::sgd; }),
            "plan: $.training.optimizer: sgd");
}

TEST(Architecture, ActivationsByName) {
  const auto activation = [](const std::string& family, const std::string& more) {
    const auto a = read(family, more);
    return a.ok() ? static_cast<int>(a->activation) : -1;
  };
  EXPECT_EQ(activation("llama", ""), static_cast<int>(Activation::silu));
  EXPECT_EQ(activation("llama", R"("hidden_act": "gelu")"), static_cast<int>(Activation::gelu));
  EXPECT_EQ(activation("llama", R"("hidden_act": "gelu_pytorch_tanh")"), static_cast<int>(Activation::gelu_tanh));
  EXPECT_EQ(activation("llama", R"("hidden_act": "relu")"), static_cast<int>(Activation::relu));
  EXPECT_EQ(activation("llama", R"("hidden_act": "swiglu")"), -1);
}

}  // namespace
}  // namespace espalier::runtime
