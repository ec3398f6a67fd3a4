// SPDX-License-Identifier: Apache-2.0
#include "plan/block_graph.h"

#include <algorithm>
#include <string>
#include <utility>

#include "plan/engine.h"
#include "plan/operator_partition.h"

namespace espalier {

using partition::OperatorShape;
using partition::PartitionSequence;

namespace {

/// Adds the option that every device runs the operator in full.
void allow_replicas(OperatorShape& shape) { shape.dimensions.push_back({'R', std::int64_t{1} << partition::kMaxBits, true}); }

bool runs_beside(const Operator& op, bool before_attention) {
  if (op.kind == OperatorKind::rotary || op.kind == OperatorKind::dropout) return true;
  return op.kind == OperatorKind::norm && op.split == TpSplit::heads && before_attention;
}

Error unsupported(const LayerKind& kind, std::string found) {
  return Error{ErrorKind::bad_input, "layer " + kind.name, std::move(found),
               "a transformer block of linears, norms, activations, attention and residual additions",
               "partition sequences are for dense blocks; other layers are planned only by strategy"};
}

class GraphBuilder {
 public:
  GraphBuilder(const Sequence& sequence, const EngineModel& engine, const LayerKind& kind, std::int64_t samples)
      : engine_(engine), kind_(kind), samples_(samples), positions_(tokens_per_sample(kind, sequence)) {}

  Result<BlockGraph> build() {
    const auto& ops = kind_.operators;
    if (ops.empty() || positions_ <= 0) return unsupported(kind_, "no operators");
    norm_first_ = ops.front().kind == OperatorKind::norm;
    graph_.operators.emplace_back();
    for (std::size_t i = 0; i < ops.size(); ++i)
      if (Status status = add(ops[i], i + 1 < ops.size() ? &ops[i + 1] : nullptr); !status.ok()) return status.error();
    return std::move(graph_);
  }

 private:
  void add_edge(std::int32_t from, std::int32_t to, std::vector<int> tensors) {
    graph_.edges.push_back({from, to, std::move(tensors)});
  }

  Status add(const Operator& op, const Operator* next) {
    auto& nodes = graph_.operators;
    const auto current = static_cast<std::int32_t>(nodes.size()) - 1;
    if (op.cross) return unsupported(kind_, "cross-attention");
    if (runs_beside(op, current > 0 && nodes.back().op->kind == OperatorKind::linear && next != nullptr)) {
      (next != nullptr ? beside_ : nodes.back().beside).push_back(&op);
      return {};
    }
    if (op.kind == OperatorKind::attention)
      add_attention(op);
    else if (Status status = add_plain(op, next); !status.ok())
      return status;
    auto& mine = nodes[static_cast<std::size_t>(current) + 1].beside;
    mine.insert(mine.end(), beside_.begin(), beside_.end());
    beside_.clear();
    return {};
  }

  void add_attention(const Operator& op) {
    auto& nodes = graph_.operators;
    const partition::AttentionSizes sizes{samples_, positions_, positions_, op.heads, op.kv_heads, op.qk_dim, op.v_dim};
    const auto source = static_cast<std::int32_t>(nodes.size()) - 1;
    if (engine_.memory.activations == ActivationPolicy::fused_attention) {
      nodes.push_back({partition::fused_attention_shape(op.name, sizes), &op, OperatorPart::whole, {}, false});
      return add_edge(source, source + 1, {0, 1, 2});
    }
    nodes.push_back({partition::attention_scores_shape(op.name + ".scores", sizes), &op, OperatorPart::scores, {}, false});
    add_edge(source, source + 1, {0, 1});
    nodes.push_back({partition::softmax_shape(op.name + ".softmax", sizes), &op, OperatorPart::softmax, {}, false});
    add_edge(source + 1, source + 2, {0});
    nodes.push_back({partition::attention_values_shape(op.name + ".values", sizes), &op, OperatorPart::values, {}, false});
    add_edge(source + 2, source + 3, {0});
    add_edge(source, source + 3, {1});
  }

  Status add_plain(const Operator& op, const Operator* next) {
    auto& nodes = graph_.operators;
    const auto current = static_cast<std::int32_t>(nodes.size()) - 1;
    const bool gated = op.kind == OperatorKind::linear && next != nullptr && next->kind == OperatorKind::activation &&
                       next->in == 2 * next->out && op.out == next->in;
    auto shape = gated ? Result<OperatorShape>(partition::linear_shape(op.name, samples_, positions_, op.in, op.out / 2, 2))
                       : partition::shape_of(op, samples_, positions_);
    if (!shape) return shape.error();
    if (op.kind != OperatorKind::linear) allow_replicas(*shape);
    const bool kept = op.kind == OperatorKind::linear && current > 0 && nodes.back().part == OperatorPart::whole &&
                      nodes.back().op->kind == OperatorKind::attention;
    nodes.push_back({std::move(*shape), &op, OperatorPart::whole, {}, kept});
    add_edge(current, current + 1, {0});
    if (op.kind == OperatorKind::residual) {
      if (stream_ == current) return unsupported(kind_, "an addition without a branch");
      add_edge(stream_, current + 1, {1});
      stream_ = current + 1;
    }
    if (op.kind == OperatorKind::norm && !norm_first_ && stream_ == current) stream_ = current + 1;
    return {};
  }

  const EngineModel& engine_;
  const LayerKind& kind_;
  std::int64_t samples_, positions_;
  bool norm_first_ = true;
  std::int32_t stream_ = 0;
  std::vector<const Operator*> beside_;
  BlockGraph graph_;
};

}  // namespace

Result<BlockGraph> block_graph(const Sequence& sequence, const EngineModel& engine, const LayerKind& kind, std::int64_t samples) {
  return GraphBuilder(sequence, engine, kind, samples).build();
}

int output_tensor(const OperatorShape& shape) {
  int output = 0;
  while (shape.tensors[static_cast<std::size_t>(output)].role != partition::TensorRole::output) ++output;
  return output;
}

Result<std::vector<PartitionSequence>> sequences_of(const BlockGraph& graph, const LayerKind& kind, int bits,
                                                    const BlockPartition& partition) {
  const auto& named = partition.operators();
  if (!named) return named.error();
  std::vector<PartitionSequence> sequences;
  const auto refuse = [&](std::string found, std::string expected) {
    return Error{ErrorKind::bad_input, "partition of layer " + kind.name, std::move(found), std::move(expected), ""};
  };
  for (int n = 1; n < graph.nodes(); ++n) {
    const auto& shape = graph.operators[static_cast<std::size_t>(n)].shape;
    if (static_cast<std::size_t>(n) > named->size() || (*named)[static_cast<std::size_t>(n) - 1].name != shape.name)
      return refuse(static_cast<std::size_t>(n) > named->size() ? "nothing" : (*named)[static_cast<std::size_t>(n) - 1].name,
                    "operator " + shape.name + ", in the order of the block");
    const PartitionSequence& s = (*named)[static_cast<std::size_t>(n) - 1].sequence;
    if (s.bits() != bits)
      return refuse(shape.name + " " + partition::to_string(s),
                    std::to_string(bits) + " bits for tp " + std::to_string(1 << bits));
    if (!partition::is_legal(shape, s))
      return refuse(shape.name + " " + partition::to_string(s), "dimensions of {" + partition::splittable_dimensions(shape) +
                                                                    "} in equal slices" + (shape.primitive ? ", or P" : ""));
    sequences.push_back(s);
  }
  if (named->size() >= static_cast<std::size_t>(graph.nodes()))
    return refuse(named->back().name, std::to_string(graph.nodes() - 1) + " operators");
  return sequences;
}

}  // namespace espalier
