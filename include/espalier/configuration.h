// SPDX-License-Identifier: Apache-2.0
// A configuration is a strategy and a schedule. Few of its fields are a choice; the others follow from the job.
#pragma once

#include <cstdint>
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
/// What does not divide is rounded down and left to violations() and estimate() to name.
void complete_configuration(const Job& job, Strategy& strategy, Schedule& schedule);

/// A configuration in the words of documents and flags: {tp: 8, pp: 4, schedule: "interleaved"}. What is not given is 1
/// or 1F1B (interleaved where vpp is above 1), and for ZeRO, sequence parallelism, recomputation and overlap what the
/// engine does by itself; dp follows from the devices. Not given: 0, where 0 is no value of its own, −1 where it is,
/// and the empty text.
struct ConfigurationWords {
  std::int32_t tp = 0, cp = 0, ep = 0, etp = 0, pp = 0, vpp = 0, dp = 0, shard = 0, zero = -1, micro_batch = 0,
               recompute_layers = 0;
  std::string sp, cp_kind = "ring", schedule, order;
  std::string recompute;  ///< "none", "selective", "full", or modules of a block: "layernorm,moe_act"
  std::string offload;    ///< as plans name it: "none", "optimizer", "parameters+activations", …; none where nothing is
                          ///< said
  std::string overlap;    ///< "grad,param,p2p,tp" or some of them, or "none"
  std::string partition;  ///< operators of a block over the tp devices, as plans name them: "attn.norm R,R; attn.qkv
                          ///< P2; …"
};

struct CompleteConfiguration {
  Strategy strategy;
  Schedule schedule;
};

/// Complete (dp, shard, micro-batches filled in), not yet checked against the rules. usage: a word that no value of its
/// field has; `where` is the field.
Result<CompleteConfiguration> read_configuration(const ConfigurationWords& words, const Job& job);

}  // namespace espalier
