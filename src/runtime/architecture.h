// SPDX-License-Identifier: Apache-2.0
// What of a model's config.json decides the arithmetic and no cost: which norm and its ε, which activation, the base of the rotary
// frequencies. A Model holds shapes alone.
//
//   RMSNorm     y = w · x / √(mean(x²) + ε)                         LayerNorm  y = w · (x − mean) / √(var + ε) + b
//   rotary      feature pair (i, i + d/2) of a head at position p turns by p · θ^(−2i/d)         (Su et al. 2021; the halves of Hugging Face)
//   gated MLP   activation(gate) · up, silu in llama
#pragma once

#include <cstdint>

#include "espalier/model.h"
#include "espalier/plan.h"
#include "espalier/result.h"

namespace espalier::runtime {

enum class Activation : std::uint8_t { silu, gelu, gelu_tanh, relu };

struct Architecture {
  bool rms_norm = false;
  double norm_epsilon = 1e-5;
  Activation activation = Activation::silu;
  double rotary_base = 10000;
};

/// Reads the configuration that the plan embeds. Refused, by name: families and parts of them that the runtime does not compute, so that
/// nothing is trained that the configuration does not describe.
Result<Architecture> architecture_of(const Plan& plan, const Model& model);

/// What of the plan no rank can run yet, by its place: precision, expert and context parallelism, operator partitions and such.
Status not_runnable(const Plan& plan, const Model& model);

}  // namespace espalier::runtime
