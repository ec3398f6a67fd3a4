// SPDX-License-Identifier: Apache-2.0
// Describes the work of one rank in an operator under a strategy. It is the key under which the operator's time is
// measured and looked up. Two strategies that leave the same features and heads on a rank cost the same, so that one
// measurement serves both.
//
//   linear, router            in × out on this rank: a column linear has out/t outputs, a row linear in/t inputs, with
//                             t ranks splitting weights
//   attention                 heads/t query heads of head_dim over `keys` tokens of a sample, kv_heads/t pairs (at
//                             least 1)
//   embedding, cross_entropy  rows of the vocabulary on this rank, ⌈V/t⌉
//   others                    features they read and write.
//
// Tokens are those of one micro-batch that the operator works on. For operators that tensor parallelism does not
// split, sequence parallelism leaves 1/t.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "espalier/model.h"
#include "espalier/plan.h"
#include "plan/block_graph.h"

namespace espalier::profile {

struct MeasuredShape {
  OperatorKind kind = OperatorKind::linear;
  std::int64_t in = 0, out = 0;
  std::int32_t heads = 0, kv_heads = 0, head_dim = 0;  ///< attention
  std::int64_t keys = 0, window = 0;                   ///< attention: tokens of a sample; 0: no window
  std::int32_t ring = 1;                               ///< attention: ranks among which keys go round
  OperatorPart part = OperatorPart::whole;             ///< attention whose operators are partitioned one by one
  auto operator<=>(const MeasuredShape&) const = default;
};

/// Return names of operator kinds in files and messages, in the order of OperatorKind.
std::span<const std::string_view> kind_names();
std::string_view name_of(OperatorKind kind);
/// Returns "linear 256x768", "attention 4 heads of 64 (2 pairs) over 512".
std::string to_string(const MeasuredShape& shape);

struct OperatorWork {
  MeasuredShape shape;
  std::int64_t tokens = 0;
};

/// Returns the work of an operator of `kind` under `strategy`, for `samples` samples of `sequence` tokens each.
OperatorWork work_on_rank(const LayerKind& kind, const Operator& op, const Strategy& strategy, std::int64_t vocabulary,
                          std::int64_t sequence, std::int64_t samples);

/// Returns the work of an operator of a partitioned block in one step: the product of the tiles that a rank has at a
/// time. The operator is a node's own or one that runs on its tiles.
OperatorWork work_on_tile(const PartitionedOperator& node, const Operator& op, const partition::PartitionSequence& sequence);

}  // namespace espalier::profile
