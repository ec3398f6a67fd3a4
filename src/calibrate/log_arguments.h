// SPDX-License-Identifier: Apache-2.0
// Compares the argument block of a Megatron-LM log (runlog/argument_block.h) with a configuration. Values that both
// state must be equal: model, batch, degrees, schedule, distributed optimizer, recomputation, and the overlap of
// reductions and gathers. Values that only one of them states are not compared.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "espalier/configuration.h"
#include "espalier/job.h"
#include "espalier/plan.h"
#include "espalier/result.h"

namespace espalier::calibrate {

/// Describes what was trained. `strategy` and `schedule` are null where layers or pipelines differ, so that no
/// argument can state them.
struct Trained {
  const Job& job;
  const Training& training;
  const Strategy* strategy = nullptr;
  const Schedule* schedule = nullptr;
  std::string who, hint;  ///< in messages: "the plan", and what to do about a difference
};

/// Returns how many arguments of the log were compared, or bad_input with every contradicting one.
Result<std::int64_t> compare_arguments(std::string_view log, const std::string& where, const Trained& trained);

/// Holds the configuration of the block; empty where it has none. The expert tensor degree is the one that
/// Megatron-LM prints, which is tp where it was not set.
struct LoggedConfiguration {
  std::optional<std::int32_t> tp, pp, vpp, cp, ep, etp, micro_batch, recompute_layers;
  std::optional<bool> sequence_parallel, distributed_optimizer, overlap_gradients, overlap_parameters;
  std::string recompute;  ///< "none", "selective", "full", or modules of a block: "core_attn"
};
Result<LoggedConfiguration> logged_configuration(std::string_view log, const std::string& where);

/// Sets the overlaps that the log states, as far as the configuration has something to overlap. All others stay.
void overlap_as_logged(const Job& job, const LoggedConfiguration& logged, CompleteConfiguration& configuration);

}  // namespace espalier::calibrate
