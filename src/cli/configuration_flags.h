// SPDX-License-Identifier: Apache-2.0
// One configuration as flags: --tp 8 --pp 4 … What no flag says is 1 or 1F1B, and for ZeRO, sequence parallelism, recomputation and overlap
// what the engine does by itself (job/engine_defaults.h); dp follows.
#pragma once

#include <cstdint>
#include <string>

#include "cli/flags.h"
#include "espalier/planner.h"

namespace espalier::cli {

/// 0 = not given, where 0 is no value of its own, −1 where it is; empty text = not given.
struct ConfigurationFlags {
  std::int32_t tp = 1, cp = 1, ep = 1, etp = 1, pp = 1, vpp = 0, dp = 0, shard = 0, zero = -1, micro_batch = 1,
               recompute_layers = 0;
  std::string sp, cp_kind = "ring", recompute, schedule, order, overlap, offload, partition;
};

struct Configuration {
  Strategy strategy;
  Schedule schedule;
};

void add_configuration_flags(Command& command, ConfigurationFlags& flags);
/// What the engines do where no flag says otherwise, one line each.
std::string configuration_defaults_help();
/// Complete (dp, shard, micro-batches filled in), not yet checked against the rules.
Result<Configuration> read_configuration(const ConfigurationFlags& flags, const Job& job);

}  // namespace espalier::cli
