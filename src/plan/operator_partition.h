// SPDX-License-Identifier: Apache-2.0
// Writes and reads the partition of a block's operators, the content of a BlockPartition
// (Strategy::partition), as text.
//
//     "attn.norm R,R; attn.qkv K,K; attn.core H,H; …"      operators in the order of the block, each with
//                                                          its partition sequence (partition/sequence.h)
//                                                          over the devices of the tensor group.
//
// In plan.json it is an object, {"attn.norm": "R,R", "attn.qkv": "K,K", …}. R is a bit that cuts nothing
// (work done twice).
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

/// Returns the canonical text; empty for none.
std::string to_string(const std::vector<OperatorPartition>& partition);
/// Reads the format of to_string (spaces and the order of operators as written). Names are distinct.
Result<std::vector<OperatorPartition>> parse_operator_partition(std::string_view text);

/// Returns what is wrong with the partition of a strategy by itself, in one sentence: text, bits or other degrees.
/// Empty if nothing is.
std::string partition_fault(const Strategy& s);

}  // namespace espalier
