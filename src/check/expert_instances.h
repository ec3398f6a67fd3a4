// SPDX-License-Identifier: Apache-2.0
// Returns over how many of the ranks that hold an expert ZeRO divides its states, derived again from the rule in
// plan/expert_shard.h. Dense weights have n = data ranks / shard instances of their states. Experts have as many if n
// divides their replicas.
#pragma once

#include <cstdint>
#include <numeric>

#include "espalier/plan.h"

namespace espalier::check {

inline std::int64_t expert_shard(const Strategy& s) {
  const std::int64_t replicas = s.expert_data_ranks(), shard = s.shard < 1 ? 1 : s.shard;
  if (replicas > 0 && s.data_ranks() % shard == 0 && replicas % (s.data_ranks() / shard) == 0)
    return replicas / (s.data_ranks() / shard);
  return std::gcd(shard, replicas);
}

}  // namespace espalier::check
