// SPDX-License-Identifier: Apache-2.0
// Describes the operators of one transformer block, and every way to partition each over 2^n devices, as a problem
// for operator_search.h.
//
// Nodes and edges come from plan/block_graph.h. The space of an operator comes from partition/operator_splits.h.
// Norms, activations and additions may also be replicated (the letter R, a dimension that no tensor has: Megatron's
// work outside tensor parallelism). Megatron's partition is a point of the same space: B on the outer d bits; inside,
// column and row splits and attention by heads (K, N, H), the rest replicated.
//   time:    steady·(phases and redistributions) + sync·gradient_sync
//   memory:  copies·(parameters·state_bytes + in_flight·saved).
// Layouts are numbered by cost::LayoutTable. An edge costs the redistribution of activations forward and of their
// gradients backward.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cost/partitioned_block.h"
#include "espalier/result.h"
#include "solve/operator_search.h"

namespace espalier::search {

struct PartitionRules {
  bool batch = true;      ///< splits of B; false leaves the number of replicas to an outer data parallelism (3-D mode)
  bool primitive = true;  ///< P; false: spatial partitions alone
};

struct PartitionWeights {
  double steady = 1, sync = 1;
  double state_bytes = 16;     ///< bytes of parameter, gradient and optimizer states, per element
  std::int32_t copies = 1;     ///< blocks that a device holds
  std::int32_t in_flight = 1;  ///< micro-batches whose activations are kept
};

class BlockSpace final : public solve::EdgeCosts {
 public:
  /// Builds the space. `samples` is the micro-batch over all 2^bits devices. Returns an error for a layer or fabric
  /// that has no such space. The context must outlive the space.
  static Result<std::unique_ptr<BlockSpace>> make(const cost::CostContext& context, const LayerKind& kind, std::int64_t samples,
                                                  int bits, const PartitionRules& rules, const PartitionWeights& weights);

  [[nodiscard]] const solve::OperatorProblem& problem() const { return problem_; }
  [[nodiscard]] std::int64_t at(std::int32_t edge, std::int32_t out, std::int32_t in) const override;

  [[nodiscard]] int nodes() const { return static_cast<int>(problem_.nodes.size()); }
  /// Returns the operator of node i ≥ 1; node 0 has none.
  [[nodiscard]] const PartitionedOperator& operation(int node) const { return graph_.operators[static_cast<std::size_t>(node)]; }
  [[nodiscard]] const partition::PartitionSequence& sequence(int node, std::int32_t option) const {
    return sequences_[static_cast<std::size_t>(node)][static_cast<std::size_t>(option)];
  }
  [[nodiscard]] cost::BlockCost cost_of(const solve::OperatorPlan& plan) const;
  /// Returns Megatron's partition with 2^data_bits replicas; nullopt if it is no point of this space (batch or heads
  /// too few).
  [[nodiscard]] std::optional<solve::OperatorPlan> megatron(int data_bits) const;
  /// Returns the option with this sequence.
  [[nodiscard]] std::optional<std::int32_t> option_of(int node, const partition::PartitionSequence& sequence) const;
  /// Returns Strategy::partition (plan/operator_partition.h): "attn.norm R,R; attn.qkv K,P2; …".
  [[nodiscard]] std::string text(const solve::OperatorPlan& plan) const;

 private:
  /// Holds where the consumer reads each tensor of an edge, and where it leaves each gradient.
  using Inputs = std::vector<std::pair<cost::LayoutId, cost::LayoutId>>;
  /// Holds the cost of layouts for all edges with tensors of the same sizes.
  struct EdgeClass {
    std::vector<double> bytes;
    std::vector<Inputs> inputs;  ///< by id
    std::map<Inputs, std::int32_t> ids;
    mutable std::vector<std::vector<std::uint32_t>> known;  ///< [out][in] + 1; 0: not computed yet, or too large
  };

  BlockSpace(const cost::CostContext& context, int bits) : costs_(context, bits), layouts_(costs_.fabric()) {}
  Status add_options(const PartitionRules& rules, const PartitionWeights& weights);
  void add_entering();
  std::int32_t edge_class(std::int32_t edge);
  [[nodiscard]] std::pair<double, double> edge_seconds(std::int32_t edge, std::int32_t out, std::int32_t in) const;

  mutable cost::PartitionCosts costs_;
  mutable cost::BlockLayouts layouts_;
  PartitionWeights weights_;
  BlockGraph graph_;
  std::vector<std::vector<partition::PartitionSequence>> sequences_;
  std::vector<std::int32_t> edge_classes_;  ///< by edge
  std::vector<EdgeClass> classes_;
  solve::OperatorProblem problem_;
};

}  // namespace espalier::search
