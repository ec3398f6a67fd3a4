// SPDX-License-Identifier: Apache-2.0
// Writes a plan as the command line of torchtitan 0.3: parallelism, batch and recomputation from the plan. The user
// names the model (MODULE, CONFIG). Flags are those of torchtitan/config/configs.py of 0.3.0. Stages are cut by the
// weights of first and last stage, in layers (distributed/pipeline_parallel.py, _generate_llm_fqn_per_model_part).
// Cuts that no pair of weights gives need module_fqns_per_model_part in Python and are rejected there; the recipe
// writes them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "espalier/exchange.h"
#include "exchange/format_rules.h"
#include "exchange/launch_script.h"

namespace espalier::exchange {

Exporter torchtitan_flags();
/// Writes the plan as Python, where stages are lists of modules, so that any cut can be expressed.
Exporter torchtitan_recipe();

/// Returns the flags of how the plan runs, without its recomputation. Requires a plan that torchtitan_flags() can
/// write.
std::vector<LaunchFlag> titan_plan_flags(const WrittenPlan& plan);

/// Holds values of pipeline_parallel_first_stage_less_layers and …_last_stage_less_layers, and of
/// pipeline_parallel_layers_per_stage.
struct TitanCut {
  std::int64_t first, last;
  std::int64_t layers_per_stage;  ///< 0: not given, where torchtitan takes this number of stages by itself
  bool operator==(const TitanCut&) const = default;
};
/// Returns the blocks of each stage, where first and last have this many layers less and the earlier stages one more.
/// Returns nothing where a stage would have none, or less.
std::vector<std::int64_t> titan_blocks(std::int64_t layers, std::int64_t stages, std::int64_t first, std::int64_t last);
/// Returns the weights that give these blocks for the stages in pipeline order, the usual 1 and 1 if they do; nothing
/// where none exist. `usual_stages` is the default number of stages of torchtitan.
std::optional<TitanCut> titan_cut(const std::vector<std::int64_t>& blocks, std::int64_t usual_stages);

}  // namespace espalier::exchange
