// SPDX-License-Identifier: Apache-2.0
// The partition of a block's operators as text, and read: what a BlockPartition (Strategy::partition) holds.
//
//     "attn.norm R,R; attn.qkv K,K; attn.core H,H; …"      operators in the order of the block, each with its partition
//                                                          sequence
//                                                         (partition/sequence.h) over the devices of the tensor group
// In plan.json an object, {"attn.norm": "R,R", "attn.qkv": "K,K", …}. R: a bit that cuts nothing (work done twice).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "espalier/plan.h"
#include "espalier/result.h"
#include "partition/sequence.h"

namespace espalier {

struct OperatorPartition {
  std::string name;
  partition::PartitionSequence sequence;
  bool operator==(const OperatorPartition&) const = default;
};

/// Canonical text; empty for none.
std::string to_string(const std::vector<OperatorPartition>& partition);
/// Reads what to_string writes (spaces and the order of operators as written). Names are distinct.
Result<std::vector<OperatorPartition>> parse_operator_partition(std::string_view text);

/// What is wrong with the partition of a strategy by itself, in one sentence; empty if nothing: text, bits, other
/// degrees.
std::string partition_fault(const Strategy& s);

}  // namespace espalier
