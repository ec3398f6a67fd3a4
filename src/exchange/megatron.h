// SPDX-License-Identifier: Apache-2.0
// A plan as the flags of Megatron-LM (core 0.19 and 0.20): parallelism, batch and recomputation from the plan, the
// architecture from the model's config.json. Flags as in megatron/training/arguments.py of these versions; stages that
// are cut unevenly are said by --pipeline-model-parallel-layout:
// E embedding, t a decoder layer, L loss, | between the stages of all virtual ranks in pipeline order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "espalier/exchange.h"
#include "exchange/format_rules.h"
#include "exchange/launch_script.h"

namespace espalier::exchange {

Exporter megatron_core();

/// Flags of how the plan runs, without the model, its data and its precision. Requires one strategy for all layers.
std::vector<LaunchFlag> megatron_plan_flags(const WrittenPlan& plan);

/// The modules that selective recomputation of the plan's first layers names, or those that its engine means.
RecomputeModules modules_said(const WrittenPlan& plan);
/// "Et*7|t*9|t*9|t*7L": the layout of a pipeline whose chunks hold whole decoder layers, embedding in the first and
/// head in the last. Encoders of images and sound are built on the first stage and are no layers of the layout.
std::string megatron_layout(const Model& model, const Pipeline& pipeline);
/// Whether every chunk has as many blocks of the decoder.
bool evenly_cut(const Model& model, const Pipeline& pipeline);
std::int64_t most_blocks_in_a_chunk(const Model& model, const Pipeline& pipeline);

}  // namespace espalier::exchange
