// SPDX-License-Identifier: Apache-2.0
// Computes over how many ranks ZeRO divides the states of an expert.
//
//     s_e = e · shard / d        e ranks that hold the expert, d data ranks:
//                                of each shard group of the dense weights its part of the e.
//
// Megatron-LM (d98e8a64), core/parallel_state.py: --num-distributed-optimizer-instances divides the expert data ranks
// as it divides the data ranks. With one instance, all ranks that hold an expert shard it, including tensor ranks
// without tokens of their own. torchtitan (b5bcd76c) uses dp_shard · cp · tp / ep. If that is not a whole number (a
// group of expert ranks spans instances), gcd(shard, e) applies.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "espalier/plan.h"

namespace espalier {

/// Returns the number of ranks; 1 without ZeRO.
inline std::int64_t expert_shard_of(const Strategy& s) {
  if (!s.shards_optimizer()) return 1;
  const std::int64_t shard = std::max<std::int64_t>(1, s.shard), ranks = s.expert_data_ranks(), all = s.data_ranks();
  return std::max<std::int64_t>(1, ranks * shard % all == 0 ? ranks * shard / all : std::gcd(shard, ranks));
}

}  // namespace espalier
