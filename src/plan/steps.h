// SPDX-License-Identifier: Apache-2.0
// The words for communication that programs, costs and network models share: what is done, and among whom.
#pragma once

#include <cstdint>
#include <string_view>

#include "espalier/instruction.h"

namespace espalier {

/// Which ranks a collective joins, in words of the strategy under which it runs.
enum class GroupKind : std::uint8_t {
  tensor,
  context,
  expert,          ///< ranks that hold different experts
  expert_tensor,   ///< ranks that split one expert
  data_shard,      ///< ranks over which ZeRO shards dense states; all ranks with the same dense weights without ZeRO
  data_replica,    ///< ranks that hold the same shard (hybrid sharding)
  expert_shard,    ///< as data_shard, of experts
  expert_replica,  ///< as data_replica, of experts
  table_copies,    ///< ranks of several stages that hold the same part of a shared token table
  operators,       ///< the tensor group of a block whose operators are partitioned one by one
};
std::string_view to_string(GroupKind kind);

}  // namespace espalier
