// SPDX-License-Identifier: Apache-2.0
// Holds the settings of a model's config.json that decide the arithmetic but no cost: the kind of norm and its ε, the
// activation, the base of the rotary frequencies. A Model holds shapes alone.
//
//   RMSNorm     y = w · x / √(mean(x²) + ε)                         LayerNorm  y = w · (x − mean) / √(var + ε) + b
//   rotary      feature pair (i, i + d/2) of a head at position p turns by p · r_i, r_i = θ^(−2i/d)
//               (Su et al. 2021; Hugging Face's split into halves)
//   stretched   linear: r_i / f (Chen et al. 2023).
//               llama3: with wavelength λ = 2π/r_i and the old context L, r_i where λ < L/high, r_i/f where λ > L/low,
//               between them (1−u)·r_i/f + u·r_i, u = (L/λ − low)/(high − low) (Llama 3.1)
//   gated MLP   activation(gate) · up, silu in llama
//   experts     the top_k of softmax(router · x); their weights are the softmax values, or are normalised to sum 1.
//               No loss balances the experts: Hugging Face adds one only with output_router_logits, which is rejected
#pragma once

#include <cstdint>
#include <vector>

#include "espalier/model.h"
#include "espalier/plan.h"
#include "espalier/result.h"

namespace espalier::runtime {

enum class Activation : std::uint8_t { silu, gelu, gelu_tanh, relu };

/// Describes how rotary rates are stretched for contexts longer than those of the first training.
struct RotaryStretch {
  enum class Kind : std::uint8_t { none, linear, llama3 } kind = Kind::none;
  double factor = 1, low = 1, high = 4, context = 8192;
};

struct Architecture {
  bool rms_norm = false;
  double norm_epsilon = 1e-5;
  Activation activation = Activation::silu;
  double rotary_base = 10000;
  RotaryStretch rotary_stretch;
  bool normalised_experts = true;  ///< the weights of a token's experts sum to 1
};

/// Returns the radians per position of each of the `dim` / 2 feature pairs of a head.
std::vector<double> rotary_rates(const Architecture& architecture, std::int64_t dim);

/// Reads the configuration that the plan embeds. Rejects, by name, model families and features that the runtime does
/// not compute, so that the trained model always matches its configuration.
Result<Architecture> architecture_of(const Plan& plan, const Model& model);

/// Rejects a plan with features that no rank can run yet, such as precisions or operator partitions. The error names
/// their place in the plan.
Status not_runnable(const Plan& plan, const Model& model);

}  // namespace espalier::runtime
