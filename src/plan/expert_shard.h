// SPDX-License-Identifier: Apache-2.0
// Over how many ranks ZeRO divides the states of an expert.
//
//     s_e = e · shard / d        e ranks that hold the expert, d data ranks: of each shard group of the dense weights
//                                its part of the e
// Megatron-LM (d98e8a64), core/parallel_state.py: --num-distributed-optimizer-instances divides the expert data ranks
// as it divides the data ranks, and all ranks that hold an expert shard it where there is one instance, tensor ranks
// without tokens of their own included; torchtitan (b5bcd76c): dp_shard · cp · tp / ep. Where that is no whole number
// (a group of expert ranks lies across instances): gcd(shard, e).
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "espalier/plan.h"

namespace espalier {

/// 1 without ZeRO.
inline std::int64_t expert_shard_of(const Strategy& s) {
  if (!s.shards_optimizer()) return 1;
  const std::int64_t shard = std::max<std::int64_t>(1, s.shard), ranks = s.expert_data_ranks(), all = s.data_ranks();
  return std::max<std::int64_t>(1, ranks * shard % all == 0 ? ranks * shard / all : std::gcd(shard, ranks));
}

}  // namespace espalier
