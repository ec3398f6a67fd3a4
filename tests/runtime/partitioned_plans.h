// SPDX-License-Identifier: Apache-2.0
// Builds small plans whose blocks are partitioned operator by operator.
#pragma once

#include <functional>
#include <random>
#include <string>
#include <vector>

#include "plan/block_graph.h"
#include "plan/engine.h"
#include "plan/operator_partition.h"
#include "runtime/small_plans.h"

namespace espalier::runtime::testing {

/// Returns a sequence for every operator of the model's first block.
inline BlockPartition partition_of(const char* config, const char* engine, std::int64_t samples,
                                   const std::function<partition::PartitionSequence(const PartitionedOperator&)>& sequence_of) {
  const Model model = model_of(config);
  Sequence sequence;
  sequence.main = kTokens;
  const BlockGraph graph = block_graph(sequence, *find_engine(engine), model.layer(1), samples).value();
  std::vector<OperatorPartition> all;
  for (int n = 1; n < graph.nodes(); ++n) {
    const PartitionedOperator& node = graph.operators[static_cast<std::size_t>(n)];
    all.push_back({node.shape.name, sequence_of(node)});
  }
  return BlockPartition(to_string(all));
}

/// Holds sequences by kind of operator, as text.
struct ByKind {
  const char *linear, *norm, *attention, *activation, *residual;
};
inline BlockPartition partition_of(const char* config, std::int64_t samples, const ByKind& kinds) {
  return partition_of(config, "generic", samples, [&](const PartitionedOperator& node) {
    const char* text = kinds.norm;
    if (node.op->kind == OperatorKind::linear) text = kinds.linear;
    if (node.op->kind == OperatorKind::attention) text = kinds.attention;
    if (node.op->kind == OperatorKind::activation) text = kinds.activation;
    if (node.op->kind == OperatorKind::residual) text = kinds.residual;
    return partition::parse_sequence(text, "BMNKHLR", true).value();
  });
}

/// Returns any legal sequence for every operator. A seed gives the same result with any libstdc++.
inline BlockPartition random_partition(const char* config, const char* engine, std::int64_t samples, int bits,
                                       std::uint32_t seed) {
  std::mt19937 random(seed);
  return partition_of(config, engine, samples, [&](const PartitionedOperator& node) {
    const auto space = partition::partition_space(node.shape, bits);
    return space[random() % space.size()];
  });
}

inline Strategy partitioned(Strategy s, BlockPartition partition) {
  s.partition = std::move(partition);
  return s;
}

}  // namespace espalier::runtime::testing
