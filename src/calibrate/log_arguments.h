// SPDX-License-Identifier: Apache-2.0
// What the argument block of a Megatron-LM log (runlog/argument_block.h) and a configuration both state must be the
// same: model, batch, degrees, schedule, distributed optimizer, recomputation, precision. What only one of them states
// is not compared.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "espalier/job.h"
#include "espalier/plan.h"
#include "espalier/result.h"

namespace espalier::calibrate {

/// What is said to have been trained. `strategy` and `schedule` null: layers or pipelines differ, so that no argument
/// says it.
struct Trained {
  const Job& job;
  const Training& training;
  const Strategy* strategy = nullptr;
  const Schedule* schedule = nullptr;
  std::string who, hint;  ///< of the message: "the plan", and what to do about a difference
};

/// How many arguments of the log were compared; bad_input with every one that contradicts.
Result<std::int64_t> compare_arguments(std::string_view log, const std::string& where, const Trained& trained);

/// What the block says of the configuration; empty: it does not. An expert tensor degree is what Megatron-LM prints,
/// which is tp where nobody gave it.
struct LoggedConfiguration {
  std::optional<std::int32_t> tp, pp, vpp, cp, ep, etp, micro_batch, recompute_layers;
  std::optional<bool> sequence_parallel, distributed_optimizer;
  std::string recompute;  ///< "none", "selective", "full", or modules of a block: "core_attn"
};
Result<LoggedConfiguration> logged_configuration(std::string_view log, const std::string& where);

}  // namespace espalier::calibrate
