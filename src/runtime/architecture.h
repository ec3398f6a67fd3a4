// SPDX-License-Identifier: Apache-2.0
// What of a model's config.json decides the arithmetic and no cost: which norm and its ε, which activation, the base of
// the rotary frequencies. A Model holds shapes alone.
//
//   RMSNorm     y = w · x / √(mean(x²) + ε)                         LayerNorm  y = w · (x − mean) / √(var + ε) + b
//   rotary      feature pair (i, i + d/2) of a head at position p turns by p · r_i, r_i = θ^(−2i/d)    (Su et al. 2021; the halves of Hugging Face)
//   stretched   linear: r_i / f (Chen et al. 2023).  llama3: with wavelength λ = 2π/r_i and the old context L, r_i
//               where λ < L/high, r_i/f where
//               λ > L/low, between them (1−u)·r_i/f + u·r_i, u = (L/λ − low)/(high − low) (Llama 3.1)
//   gated MLP   activation(gate) · up, silu in llama
//   experts     the top_k of softmax(router · x); their weights sum to 1, or are what the softmax says. No loss
//               balances the experts: Hugging
//               Face adds one only with output_router_logits, which is refused
#pragma once

#include <cstdint>
#include <vector>

#include "espalier/model.h"
#include "espalier/plan.h"
#include "espalier/result.h"

namespace espalier::runtime {

enum class Activation : std::uint8_t { silu, gelu, gelu_tanh, relu };

/// How rotary rates are stretched for contexts longer than those of the first training.
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

/// Radians a position of each of the `dim` / 2 feature pairs of a head.
std::vector<double> rotary_rates(const Architecture& architecture, std::int64_t dim);

/// Reads the configuration that the plan embeds. Refused, by name: families and parts of them that the runtime does not
/// compute, so that nothing is trained that the configuration does not describe.
Result<Architecture> architecture_of(const Plan& plan, const Model& model);

/// What of the plan no rank can run yet, by its place: precision, operator partitions and such.
Status not_runnable(const Plan& plan, const Model& model);

}  // namespace espalier::runtime
