// SPDX-License-Identifier: Apache-2.0
// A plan as the command line of torchtitan 0.3: parallelism, batch and recomputation from the plan; the model is named
// by the user (MODULE, CONFIG). Flags as in torchtitan/config/configs.py of 0.3.0. Stages are cut by the weights of
// first and last stage, in layers (distributed/pipeline_parallel.py, _generate_llm_fqn_per_model_part): what no pair of
// weights cuts needs module_fqns_per_model_part in Python and is refused there; the recipe writes it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "espalier/exchange.h"
#include "exchange/format_rules.h"
#include "exchange/launch_script.h"

namespace espalier::exchange {

Exporter torchtitan_flags();
/// The same as Python, where stages are lists of modules: any cut can be said.
Exporter torchtitan_recipe();

/// Flags of how the plan runs, without what it recomputes. Requires a plan that torchtitan_flags() can write.
std::vector<LaunchFlag> titan_plan_flags(const WrittenPlan& plan);

/// Values of pipeline_parallel_first_stage_less_layers and …_last_stage_less_layers, and of
/// pipeline_parallel_layers_per_stage.
struct TitanCut {
  std::int64_t first, last;
  std::int64_t layers_per_stage;  ///< 0: not said, where torchtitan takes this number of stages by itself
  bool operator==(const TitanCut&) const = default;
};
/// Blocks of each stage when first and last have so many layers less, the earlier stages one more; nothing: a stage
/// would have none, or less.
std::vector<std::int64_t> titan_blocks(std::int64_t layers, std::int64_t stages, std::int64_t first, std::int64_t last);
/// Those that cut as many blocks for each of the stages in pipeline order, the usual 1 and 1 if they do; nothing: there
/// are none. `usual_stages` is the number of stages that torchtitan takes unasked.
std::optional<TitanCut> titan_cut(const std::vector<std::int64_t>& blocks, std::int64_t usual_stages);

}  // namespace espalier::exchange
