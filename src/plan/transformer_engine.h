// SPDX-License-Identifier: Apache-2.0
// Describes 8-bit training in engines with layers of Transformer Engine (EngineMemory::workspace.transformer_engine >
// 0). It follows our reading of github.com/NVIDIA/TransformerEngine, transformer_engine/pytorch/module.
//   layernorm_linear.py   (with_quantized_all_gather) and base.py (grad_output_preprocess):
//                         inputs and output gradients are cast before sequence parallelism gathers them.
//                         They take one byte per element; sums stay in 16 bits.
//   grouped_linear.py     inputs and output gradients of experts are split and cast with a quantizer per expert.
//                         Assumed: each takes the host as long as a kernel of eager PyTorch,
//                         EngineFacts::eager_kernel_launches bare launches, while the device waits
#pragma once

#include "plan/engine.h"

namespace espalier {

inline bool of_transformer_engine(const EngineModel& engine) { return engine.memory.workspace.transformer_engine > 0; }

/// Returns the launches of the engine's own kind (host_launches bare ones) in one of eager PyTorch; 0 if graphs launch.
inline double eager_share(const EngineModel& engine) {
  return engine.kernels.host_launches > 0 ? engine.facts.eager_kernel_launches / engine.kernels.host_launches : 0.0;
}

}  // namespace espalier
