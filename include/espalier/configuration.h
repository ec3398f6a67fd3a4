// SPDX-License-Identifier: Apache-2.0
// A configuration is a strategy and a schedule. Only a few of its fields are choices; the others follow from the job.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "espalier/job.h"
#include "espalier/plan.h"
#include "espalier/result.h"

namespace espalier {

/// Fills in the fields that are left open, that is, 0:
///   dp              devices / (tp · cp · pp)
///   shard           the whole data group when zero > 0, else 1
///   microbatches    global_batch / (micro_batch · dp)
///   recompute.layers, kind full   every block of the fullest chunk
/// Quotients with a remainder are rounded down; violations() and estimate() report the broken rule.
void complete_configuration(const Job& job, Strategy& strategy, Schedule& schedule);

/// Holds a configuration in the words of documents and flags: {tp: 8, pp: 4, schedule: "interleaved"}. A field that
/// is not given defaults to 1, and the schedule to 1F1B (interleaved where vpp is above 1). ZeRO, sequence
/// parallelism, recomputation and overlap default to those of the engine; dp follows from the devices. A word that is
/// not given is empty.
struct ConfigurationWords {
  std::optional<std::int32_t> tp, cp, ep, etp, pp, vpp, dp, shard, zero, micro_batch, recompute_layers;
  std::string sp, cp_kind = "ring", schedule, order;
  std::string recompute;  ///< "none", "selective", "full", or modules of a block: "layernorm,moe_act"
  /// Names the offload as plans do: "none", "optimizer", "parameters+activations", …. Empty: none.
  std::string offload;
  std::string overlap;  ///< "grad,param,p2p,tp", some of them, or "none"
  /// States how the operators of a block are partitioned over the tp devices, in the notation of plans: "attn.norm
  /// R,R; attn.qkv P2; …".
  std::string partition;
};

/// Holds a configuration with all its fields filled in.
struct CompleteConfiguration {
  Strategy strategy;
  Schedule schedule;
};

/// Parses the words and fills in dp, shard and micro-batches, without checking the rules. Fails with usage for a word
/// that is not a value of its field; Error::where names the field.
Result<CompleteConfiguration> read_configuration(const ConfigurationWords& words, const Job& job);

}  // namespace espalier
