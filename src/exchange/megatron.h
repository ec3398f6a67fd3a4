// SPDX-License-Identifier: Apache-2.0
// Writes a plan as the flags of Megatron-LM (core 0.19 and 0.20): parallelism, batch and recomputation from the plan,
// the architecture from the model's config.json. The flags follow megatron/training/arguments.py of these versions.
// Uneven stages use --pipeline-model-parallel-layout: E is the embedding, t a decoder layer, L the loss, and |
// separates the stages of all virtual ranks in pipeline order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "espalier/exchange.h"
#include "exchange/format_rules.h"
#include "exchange/launch_script.h"

namespace espalier::exchange {

Exporter megatron_core();

/// Returns the flags of how the plan runs, without the model, its data and its precision. Requires one strategy for
/// all layers.
std::vector<LaunchFlag> megatron_plan_flags(const WrittenPlan& plan);

/// Returns the modules that selective recomputation of the plan's first layers names, or the engine's default
/// modules.
RecomputeModules modules_said(const WrittenPlan& plan);
/// Returns the layout of a pipeline whose chunks hold whole decoder layers, such as "Et*7|t*9|t*9|t*7L". The
/// embedding is in the first chunk and the head in the last. Encoders of images and sound are built on the first
/// stage and are not layers of the layout.
std::string megatron_layout(const Model& model, const Pipeline& pipeline);
/// Returns whether every chunk has the same number of decoder blocks.
bool evenly_cut(const Model& model, const Pipeline& pipeline);
std::int64_t most_blocks_in_a_chunk(const Model& model, const Pipeline& pipeline);

}  // namespace espalier::exchange
