// SPDX-License-Identifier: Apache-2.0
#include "search/operator_space.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/check.h"
#include "cost/state_memory.h"

namespace espalier::search {

using cost::LayoutId;
using cost::OperatorPart;
using cost::PartitionedOperator;
using partition::OperatorShape;
using partition::PartitionSequence;

namespace {

constexpr int kRememberedBits = 5;  ///< up to here every edge cost is computed once; beyond, tables would be too large

std::int64_t nanoseconds(double seconds) { return std::llround(seconds * 1e9); }

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

}  // namespace

void BlockSpace::add_node(PartitionedOperator node) {
  operators_.push_back(std::move(node));
  problem_.nodes.emplace_back();
}

void BlockSpace::add_edge(std::int32_t from, std::int32_t to, std::vector<int> tensors) {
  problem_.edges.push_back({from, to});
  edge_tensors_.push_back(std::move(tensors));
}

void BlockSpace::add_attention(const Operator& op, std::int64_t samples, std::int64_t positions) {
  const partition::AttentionSizes sizes{samples, positions, positions, op.heads, op.kv_heads, op.qk_dim, op.v_dim};
  const auto source = static_cast<std::int32_t>(operators_.size()) - 1;
  if (costs_.context().engine->activations == ActivationPolicy::fused_attention) {
    add_node({partition::fused_attention_shape(op.name, sizes), &op, OperatorPart::whole, {}, false});
    return add_edge(source, source + 1, {0, 1, 2});
  }
  add_node({partition::attention_scores_shape(op.name + ".scores", sizes), &op, OperatorPart::scores, {}, false});
  add_edge(source, source + 1, {0, 1});
  add_node({partition::softmax_shape(op.name + ".softmax", sizes), &op, OperatorPart::softmax, {}, false});
  add_edge(source + 1, source + 2, {0});
  add_node({partition::attention_values_shape(op.name + ".values", sizes), &op, OperatorPart::values, {}, false});
  add_edge(source + 2, source + 3, {0});
  add_edge(source, source + 3, {1});
}

Status BlockSpace::build_graph(const LayerKind& kind, std::int64_t samples) {
  const std::int64_t positions = tokens_per_sample(kind, costs_.context().training.sequence);
  const auto& ops = kind.operators;
  if (ops.empty() || positions <= 0) return unsupported(kind, "no operators");
  const bool norm_first = ops.front().kind == OperatorKind::norm;
  add_node({});
  std::int32_t stream = 0;
  std::vector<const Operator*> beside;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const Operator& op = ops[i];
    const Operator* next = i + 1 < ops.size() ? &ops[i + 1] : nullptr;
    const auto current = static_cast<std::int32_t>(operators_.size()) - 1;
    if (op.cross) return unsupported(kind, "cross-attention");
    if (runs_beside(op, current > 0 && operators_.back().op->kind == OperatorKind::linear && next != nullptr)) {
      if (next != nullptr)
        beside.push_back(&op);
      else
        operators_.back().beside.push_back(&op);
      continue;
    }
    if (op.kind == OperatorKind::attention) {
      add_attention(op, samples, positions);
    } else {
      const bool gated = op.kind == OperatorKind::linear && next != nullptr && next->kind == OperatorKind::activation &&
                         next->in == 2 * next->out && op.out == next->in;
      auto shape = gated ? Result<OperatorShape>(partition::linear_shape(op.name, samples, positions, op.in, op.out / 2, 2))
                         : partition::shape_of(op, samples, positions);
      if (!shape) return shape.error();
      if (op.kind != OperatorKind::linear) allow_replicas(*shape);
      const bool kept = op.kind == OperatorKind::linear && current > 0 && operators_.back().part == OperatorPart::whole &&
                        operators_.back().op->kind == OperatorKind::attention;
      add_node({std::move(*shape), &op, OperatorPart::whole, {}, kept});
      add_edge(current, current + 1, {0});
      if (op.kind == OperatorKind::residual) {
        if (stream == current) return unsupported(kind, "an addition without a branch");
        add_edge(stream, current + 1, {1});
        stream = current + 1;
      }
      if (op.kind == OperatorKind::norm && !norm_first && stream == current) stream = current + 1;
    }
    auto& mine = operators_[static_cast<std::size_t>(current) + 1].beside;
    mine.insert(mine.end(), beside.begin(), beside.end());
    beside.clear();
  }
  return std::nullopt;
}

/// Layouts of a sequence with P are counted device by device: kept for all linears, whose axes are the same.
LayoutId BlockSpace::layout_id(const PartitionedOperator& node, const PartitionSequence& sequence, int tensor, bool gradient) {
  const auto& axes = node.shape.tensors[static_cast<std::size_t>(tensor)].axes;
  const bool primitive = std::any_of(sequence.begin(), sequence.end(), [](const auto& part) { return part.primitive(); });
  if (!primitive) {
    cost::AxisMasks masks{};
    std::array<int, partition::kMaxAxes> digits{};
    int bit = sequence.bits();
    for (const auto& part : sequence) {
      --bit;
      for (std::size_t axis = 0; axis < axes.size(); ++axis) {
        if (axes[axis].letter != part.dimension || std::int64_t{1} << (digits[axis] + 1) > axes[axis].size) continue;
        masks[axis] = static_cast<std::uint16_t>(masks[axis] | (1u << bit)), ++digits[axis];
      }
    }
    return layouts_.plain(masks);
  }
  std::uint64_t key = static_cast<std::uint64_t>(tensor) * 2 + gradient + 1;
  for (const auto& part : sequence)
    key = key * 32 + static_cast<std::uint64_t>(part.primitive() ? part.k : part.dimension - 'A' + 6);
  const auto [found, added] = primitive_layouts_.try_emplace(key, 0);
  if (added) {
    const bool output = node.shape.tensors[static_cast<std::size_t>(tensor)].role == partition::TensorRole::output;
    found->second = layouts_.intern(output     ? gradient ? partition::backward_needed(node.shape, sequence)
                                                          : partition::forward_held(node.shape, sequence)
                                        : gradient ? partition::backward_held(node.shape, sequence, tensor)
                                               : partition::forward_needed(node.shape, sequence, tensor));
  }
  return found->second;
}

std::int32_t BlockSpace::edge_class(std::int32_t edge) {
  const auto at = static_cast<std::size_t>(edge);
  const auto& consumer = operators_[static_cast<std::size_t>(problem_.edges[at].to)];
  std::vector<double> bytes;
  for (const int tensor : edge_tensors_[at])
    bytes.push_back(costs_.context().element_bytes *
                    static_cast<double>(partition::elements(consumer.shape.tensors[static_cast<std::size_t>(tensor)])));
  for (std::size_t c = 0; c < classes_.size(); ++c)
    if (classes_[c].bytes == bytes) return static_cast<std::int32_t>(c);
  classes_.push_back({std::move(bytes), {}, {}, {}});
  return static_cast<std::int32_t>(classes_.size()) - 1;
}

Status BlockSpace::add_options(const PartitionRules& rules, const PartitionWeights& weights) {
  const int bits = costs_.fabric().bits();
  for (std::size_t e = 0; e < problem_.edges.size(); ++e) edge_classes_.push_back(edge_class(static_cast<std::int32_t>(e)));
  sequences_.resize(operators_.size());
  for (std::size_t n = 1; n < operators_.size(); ++n) {
    const PartitionedOperator& node = operators_[n];
    std::string letters = partition::splittable_dimensions(node.shape);
    if (!rules.batch) std::erase(letters, 'B');
    auto& sequences = sequences_[n];
    sequences = partition::enumerate_sequences(bits, letters, rules.primitive && node.shape.primitive);
    std::erase_if(sequences, [&](const PartitionSequence& s) { return !partition::is_legal(node.shape, s); });
    if (sequences.empty())
      return Error{ErrorKind::infeasible, "operator " + node.shape.name,
                   "no partition over " + std::to_string(1 << bits) + " devices", "dimensions that 2, 4, 8 … divide",
                   "fewer devices, or a batch that a power of two divides"};
    int output = 0;
    while (node.shape.tensors[static_cast<std::size_t>(output)].role != partition::TensorRole::output) ++output;
    auto& options = problem_.nodes[n];
    options.reserve(sequences.size());
    for (const PartitionSequence& sequence : sequences) {
      const cost::PartitionCost c = costs_.cost(node, sequence);
      OperatorOption option;
      option.time = nanoseconds(weights.steady * c.steady() + weights.sync * c.gradient_sync);
      option.memory =
          weights.copies * (std::llround(static_cast<double>(c.parameters) * weights.state_bytes) + weights.in_flight * c.saved);
      option.transient = std::max(c.forward_transient, c.backward_transient);
      option.out = layout_id(node, sequence, output, false);
      options.push_back(option);
    }
    for (std::size_t e = 0; e < problem_.edges.size(); ++e) {
      if (problem_.edges[e].to != static_cast<std::int32_t>(n)) continue;
      EdgeClass& shared = classes_[static_cast<std::size_t>(edge_classes_[e])];
      for (std::size_t o = 0; o < options.size(); ++o) {
        Inputs inputs;
        for (const int tensor : edge_tensors_[e])
          inputs.push_back({layout_id(node, sequences[o], tensor, false), layout_id(node, sequences[o], tensor, true)});
        const auto [found, added] = shared.ids.try_emplace(inputs, static_cast<std::int32_t>(shared.inputs.size()));
        if (added) shared.inputs.push_back(inputs);
        (problem_.edges[e].is_long() ? options[o].side : options[o].in) = found->second;
      }
    }
  }
  return std::nullopt;
}

/// What may enter is what may leave.
void BlockSpace::add_entering() {
  std::set<std::int32_t> outs;
  for (const OperatorOption& option : problem_.nodes.back()) outs.insert(option.out);
  for (const std::int32_t out : outs) problem_.nodes.front().push_back({0, 0, 0, out, out, out});
}

Result<std::unique_ptr<BlockSpace>> BlockSpace::make(const cost::CostContext& context, const LayerKind& kind,
                                                     std::int64_t samples, int bits, const PartitionRules& rules,
                                                     const PartitionWeights& weights) {
  if (!cost::PartitionFabric::supports(context.tensor_levels, bits) ||
      !cost::PartitionFabric::supports(context.data_levels, bits))
    return Error{ErrorKind::bad_input, "cluster", "nodes or levels that do not hold a power of two of devices",
                 "2, 4, 8 … devices at every level", "partition sequences split by bits of the device number"};
  std::unique_ptr<BlockSpace> space(new BlockSpace(context, bits));
  space->weights_ = weights;
  if (Status failed = space->build_graph(kind, samples)) return *failed;
  if (Status failed = space->add_options(rules, weights)) return *failed;
  space->add_entering();
  space->problem_.costs = space.get();
  return space;
}

std::pair<double, double> BlockSpace::edge_seconds(std::int32_t edge, std::int32_t out, std::int32_t in) const {
  const EdgeClass& shared = classes_[static_cast<std::size_t>(edge_classes_[static_cast<std::size_t>(edge)])];
  const Inputs& inputs = shared.inputs[static_cast<std::size_t>(in)];
  cost::Exchange forward, backward;
  for (std::size_t t = 0; t < inputs.size(); ++t) {
    if (inputs[t].first != out) forward.add(layouts_.moved(out, inputs[t].first), shared.bytes[t]);
    if (inputs[t].second != out) backward.add(layouts_.moved(inputs[t].second, out), shared.bytes[t]);
  }
  return {costs_.fabric().seconds(forward), costs_.fabric().seconds(backward)};
}

std::int64_t BlockSpace::at(std::int32_t edge, std::int32_t out, std::int32_t in) const {
  const EdgeClass& shared = classes_[static_cast<std::size_t>(edge_classes_[static_cast<std::size_t>(edge)])];
  const auto compute = [&] {
    const auto [forward, backward] = edge_seconds(edge, out, in);
    return nanoseconds(weights_.steady * (forward + backward));
  };
  if (costs_.fabric().bits() > kRememberedBits) return compute();
  if (shared.known.empty()) shared.known.resize(static_cast<std::size_t>(layouts_.size()));
  auto& row = shared.known[static_cast<std::size_t>(out)];
  if (row.empty()) row.assign(shared.inputs.size(), 0);
  std::int64_t& known = row[static_cast<std::size_t>(in)];
  if (known == 0) known = compute() + 1;
  return known - 1;
}

BlockCost BlockSpace::cost_of(const OperatorPlan& plan) const {
  BlockCost block;
  cost::PhaseSeconds forward, input, weight;
  for (std::size_t n = 1; n < operators_.size(); ++n) {
    const cost::PartitionCost c = costs_.cost(operators_[n], sequence(static_cast<int>(n), plan.options[n]));
    forward += c.forward, input += c.backward_input, weight += c.backward_weight;
    block.gradient_sync += c.gradient_sync, block.parameters += c.parameters, block.saved += c.saved;
    block.forward_transient = std::max(block.forward_transient, c.forward_transient);
    block.backward_transient = std::max(block.backward_transient, c.backward_transient);
    block.operators.push_back(c);
  }
  double moved_forward = 0, moved_backward = 0;
  for (std::size_t e = 0; e < problem_.edges.size(); ++e) {
    const OperatorEdge& edge = problem_.edges[e];
    const auto option = [&](std::int32_t node) -> const OperatorOption& {
      return problem_
          .nodes[static_cast<std::size_t>(node)][static_cast<std::size_t>(plan.options[static_cast<std::size_t>(node)])];
    };
    const auto [f, b] = edge_seconds(static_cast<std::int32_t>(e), option(edge.from).out,
                                     edge.is_long() ? option(edge.to).side : option(edge.to).in);
    moved_forward += f, moved_backward += b;
  }
  const double launch = costs_.context().rates.launch * costs_.context().engine->eager_launches;
  const auto phase = [&](const cost::PhaseSeconds& p, double moved) {
    cost::PhaseTime t;
    t.compute_ns = nanoseconds(p.compute), t.exposed_ns = nanoseconds(p.collective + p.ring_exposed + moved);
    t.hidden_ns = nanoseconds(p.ring_hidden);
    t.other_ns = std::max<std::int64_t>(0, nanoseconds(launch * p.kernels) - t.compute_ns - t.exposed_ns);
    return t;
  };
  cost::PhaseSeconds both = input;
  both += weight;
  block.forward = phase(forward, moved_forward), block.backward = phase(both, moved_backward);
  block.backward_input = phase(input, moved_backward), block.backward_weight = phase(weight, 0);
  both += forward;
  block.collective = both.collective, block.ring_hidden = both.ring_hidden, block.ring_exposed = both.ring_exposed;
  block.redistribution = moved_forward + moved_backward;
  return block;
}

std::optional<std::int32_t> BlockSpace::option_of(int node, const PartitionSequence& sequence) const {
  const auto& all = sequences_[static_cast<std::size_t>(node)];
  const auto found = std::find(all.begin(), all.end(), sequence);
  if (found == all.end()) return std::nullopt;
  return static_cast<std::int32_t>(found - all.begin());
}

std::optional<OperatorPlan> BlockSpace::megatron(int data_bits) const {
  std::vector<std::int32_t> options(operators_.size(), 0);
  for (int n = 1; n < nodes(); ++n) {
    const Operator& op = *operation(n).op;
    char inside = 'R';
    if (op.kind == OperatorKind::attention)
      inside = 'H';
    else if (op.kind == OperatorKind::linear)
      inside = op.split == TpSplit::row ? 'N' : 'K';
    else if (op.kind == OperatorKind::activation)
      inside = 'N';
    PartitionSequence sequence;
    for (int bit = 0; bit < costs_.fabric().bits(); ++bit) sequence.push_back(partition::split(bit < data_bits ? 'B' : inside));
    const auto option = option_of(n, sequence);
    if (!option) return std::nullopt;
    options[static_cast<std::size_t>(n)] = *option;
  }
  const std::int32_t leaves = problem_.nodes.back()[static_cast<std::size_t>(options.back())].out;
  const auto& entering = problem_.nodes.front();
  const auto enters = std::find_if(entering.begin(), entering.end(), [&](const OperatorOption& o) { return o.out == leaves; });
  options.front() = static_cast<std::int32_t>(enters - entering.begin());
  return evaluate_operators(problem_, options);
}

std::string BlockSpace::text(const OperatorPlan& plan) const {
  std::string text;
  for (int n = 1; n < nodes(); ++n) {
    if (n > 1) text += "  ";
    text += operation(n).shape.name + " " + partition::to_string(sequence(n, plan.options[static_cast<std::size_t>(n)]));
  }
  return text;
}

}  // namespace espalier::search
