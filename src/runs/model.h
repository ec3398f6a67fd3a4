// SPDX-License-Identifier: Apache-2.0
// Which architecture the model of a measured run has: by its name, or, where the name says nothing, by its sizes alone.
#pragma once

#include <string>

#include "espalier/measured_runs.h"
#include "job/framework_defaults.h"

namespace espalier::runs {

/// The first entry whose words the model's name holds; nullptr: none.
const job::ArchitectureDefault* architecture_of(const RunRecord& record, const job::RunDefaults& defaults);

struct SizesChoice {
  DecoderShape shape;  ///< flags alone
  std::string name, source;
};

/// GPT-2's block (GELU, LayerNorm, biases, learned positions, tied) or Llama's (SwiGLU, RMSNorm, rotary, no biases,
/// untied): whichever comes closer to the stated parameters; without them Llama's where the MLP is not 4 · hidden wide,
/// or heads share keys, or there are experts. Needs layers, hidden and heads.
SizesChoice architecture_of_sizes(const RunRecord& record);

}  // namespace espalier::runs
