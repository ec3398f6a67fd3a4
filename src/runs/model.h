// SPDX-License-Identifier: Apache-2.0
// Finds the architecture of a measured run's model, from its name or, where the name is unknown, from its sizes
// alone.
#pragma once

#include <string>

#include "espalier/measured_runs.h"
#include "job/framework_defaults.h"

namespace espalier::runs {

/// Returns the first entry whose words the model's name holds; nullptr where none does.
const job::ArchitectureDefault* architecture_of(const RunRecord& record, const job::RunDefaults& defaults);

struct SizesChoice {
  DecoderShape shape;  ///< flags only
  std::string name, source;
};

/// Chooses GPT-2's block (GELU, LayerNorm, biases, learned positions, tied) or Llama's (SwiGLU, RMSNorm, rotary, no
/// biases, untied), whichever comes closer to the stated parameters. Without them, it chooses Llama's where the MLP
/// is not 4 · hidden wide, heads share keys, or there are experts. Needs layers, hidden and heads.
SizesChoice architecture_of_sizes(const RunRecord& record);

}  // namespace espalier::runs
