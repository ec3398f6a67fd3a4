// SPDX-License-Identifier: Apache-2.0
// A plan as the flags of Megatron-LM (core 0.19 and 0.20): parallelism, batch and recomputation from the plan, the architecture from the model's
// config.json. Flags as in megatron/training/arguments.py of these versions; stages that are cut unevenly are said by --pipeline-model-parallel-layout:
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
std::vector<LaunchFlag> megatron_plan_flags(const Job& job, const Plan& plan);

/// "flex-dispatcher", "cuda-graphs" of the engine "megatron-core+flex-dispatcher+cuda-graphs".
std::vector<std::string> engine_options(const Plan& plan);
/// Megatron's offload is a part of its distributed optimizer and of Adam alone (OptimizerConfig.__post_init__ of core 0.19); empty: it can.
std::string offload_of_whole_states(const Job& job, const Plan& plan);
inline constexpr FormatRow kOffloadRow = {"OFFLOAD-STATES",
                                          "optimizer states in host memory are Adam's, sharded over the data ranks",
                                          offload_of_whole_states, "ZeRO 1 or one data rank, and Adam"};

/// "Et*7|t*9|t*9|t*7L". Of a pipeline whose chunks hold whole decoder layers, embedding in the first and head in the last.
std::string megatron_layout(const Model& model, const Pipeline& pipeline);
/// Whether every chunk has as many blocks.
bool evenly_cut(const Model& model, const Pipeline& pipeline);
std::int64_t most_blocks_in_a_chunk(const Model& model, const Pipeline& pipeline);

}  // namespace espalier::exchange
