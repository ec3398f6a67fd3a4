// SPDX-License-Identifier: Apache-2.0
#include "cost/block_graph.h"

#include <algorithm>
#include <array>
#include <utility>

namespace espalier::cost {

using partition::OperatorShape;
using partition::PartitionSequence;

namespace {

/// Operators that every device may also do in full.
void allow_replicas(OperatorShape& shape) { shape.dimensions.push_back({'R', std::int64_t{1} << partition::kMaxBits, true}); }

bool runs_beside(const Operator& op, bool before_attention) {
  if (op.kind == OperatorKind::rotary || op.kind == OperatorKind::dropout) return true;
  return op.kind == OperatorKind::norm && op.split == TpSplit::heads && before_attention;
}

Error unsupported(const LayerKind& kind, std::string found) {
  return Error{ErrorKind::bad_input, "layer " + kind.name, std::move(found),
               "a transformer block of linears, norms, activations, attention and residual additions",
               "partition sequences are for dense blocks; other layers are planned by their strategies"};
}

class GraphBuilder {
 public:
  GraphBuilder(const Workload& workload, const EngineModel& engine, const LayerKind& kind, std::int64_t samples)
      : engine_(engine), kind_(kind), samples_(samples), positions_(tokens_per_sample(kind, workload.training.sequence)) {}

  Result<BlockGraph> build() {
    const auto& ops = kind_.operators;
    if (ops.empty() || positions_ <= 0) return unsupported(kind_, "no operators");
    norm_first_ = ops.front().kind == OperatorKind::norm;
    graph_.operators.emplace_back();
    for (std::size_t i = 0; i < ops.size(); ++i)
      if (Status failed = add(ops[i], i + 1 < ops.size() ? &ops[i + 1] : nullptr)) return *failed;
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
      return std::nullopt;
    }
    if (op.kind == OperatorKind::attention)
      add_attention(op);
    else if (Status failed = add_plain(op, next))
      return failed;
    auto& mine = nodes[static_cast<std::size_t>(current) + 1].beside;
    mine.insert(mine.end(), beside_.begin(), beside_.end());
    beside_.clear();
    return std::nullopt;
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
    return std::nullopt;
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

Result<BlockGraph> block_graph(const Workload& workload, const EngineModel& engine, const LayerKind& kind, std::int64_t samples) {
  return GraphBuilder(workload, engine, kind, samples).build();
}

int output_tensor(const OperatorShape& shape) {
  int output = 0;
  while (shape.tensors[static_cast<std::size_t>(output)].role != partition::TensorRole::output) ++output;
  return output;
}

/// Layouts of a sequence with P are counted device by device: kept for all linears, whose axes are the same.
LayoutId BlockLayouts::of(const PartitionedOperator& node, const PartitionSequence& sequence, int tensor, bool gradient) {
  const auto& axes = node.shape.tensors[static_cast<std::size_t>(tensor)].axes;
  const bool primitive = std::any_of(sequence.begin(), sequence.end(), [](const auto& part) { return part.primitive(); });
  if (!primitive) {
    AxisMasks masks{};
    std::array<int, partition::kMaxAxes> digits{};
    int bit = sequence.bits();
    for (const auto& part : sequence) {
      --bit;
      for (std::size_t axis = 0; axis < axes.size(); ++axis) {
        if (axes[axis].letter != part.dimension || std::int64_t{1} << (digits[axis] + 1) > axes[axis].size) continue;
        masks[axis] = static_cast<std::uint16_t>(masks[axis] | (1u << bit));
        ++digits[axis];
      }
    }
    return table_.plain(masks);
  }
  std::uint64_t key = static_cast<std::uint64_t>(tensor) * 2 + gradient + 1;
  for (const auto& part : sequence)
    key = key * 32 + static_cast<std::uint64_t>(part.primitive() ? part.k : part.dimension - 'A' + 6);
  const auto [found, added] = primitive_.try_emplace(key, 0);
  if (added) {
    const bool output = node.shape.tensors[static_cast<std::size_t>(tensor)].role == partition::TensorRole::output;
    found->second = table_.intern(output     ? gradient ? partition::backward_needed(node.shape, sequence)
                                                        : partition::forward_held(node.shape, sequence)
                                      : gradient ? partition::backward_held(node.shape, sequence, tensor)
                                             : partition::forward_needed(node.shape, sequence, tensor));
  }
  return found->second;
}

}  // namespace espalier::cost
