// SPDX-License-Identifier: Apache-2.0
#include "search/operator_space.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/invariant.h"
#include "cost/rounding.h"
#include "plan/operator_partition.h"

namespace espalier::search {

using cost::LayoutId;
using partition::OperatorShape;
using partition::PartitionSequence;

namespace {

/// Limit up to which every edge cost is computed once; beyond it, tables would be too large.
constexpr int kRememberedBits = 5;

}  // namespace

std::int32_t BlockSpace::edge_class(std::int32_t edge) {
  const auto at = static_cast<std::size_t>(edge);
  const auto& consumer = graph_.operators[static_cast<std::size_t>(problem_.edges[at].to)];
  std::vector<double> bytes;
  for (const int tensor : graph_.edges[at].tensors)
    bytes.push_back(costs_.context().workload.element_bytes *
                    static_cast<double>(partition::elements(consumer.shape.tensors[static_cast<std::size_t>(tensor)])));
  for (std::size_t c = 0; c < classes_.size(); ++c)
    if (classes_[c].bytes == bytes) return static_cast<std::int32_t>(c);
  classes_.push_back({std::move(bytes), {}, {}, {}});
  return static_cast<std::int32_t>(classes_.size()) - 1;
}

Status BlockSpace::add_options(const PartitionRules& rules, const PartitionWeights& weights) {
  const int bits = costs_.fabric().bits();
  for (std::size_t e = 0; e < problem_.edges.size(); ++e) edge_classes_.push_back(edge_class(static_cast<std::int32_t>(e)));
  sequences_.resize(graph_.operators.size());
  for (std::size_t n = 1; n < graph_.operators.size(); ++n) {
    const PartitionedOperator& node = graph_.operators[n];
    std::string letters = partition::splittable_dimensions(node.shape);
    if (!rules.batch) std::erase(letters, 'B');
    auto& sequences = sequences_[n];
    sequences = partition::enumerate_sequences(bits, letters, rules.primitive && node.shape.primitive);
    std::erase_if(sequences, [&](const PartitionSequence& s) {
      return !partition::is_legal(node.shape, s) || cost::not_measured(*costs_.context().engine, node, s).has_value();
    });
    if (sequences.empty())
      return Error{ErrorKind::infeasible, "operator " + node.shape.name,
                   "no partition over " + std::to_string(1 << bits) + " devices", "dimensions divisible by 2, 4, 8 …",
                   "fewer devices, or a batch divisible by a power of two"};
    const int output = output_tensor(node.shape);
    auto& options = problem_.nodes[n];
    options.reserve(sequences.size());
    for (const PartitionSequence& sequence : sequences) {
      const cost::PartitionCost c = costs_.cost(node, sequence);
      solve::OperatorOption option;
      option.time = cost::round_ns(weights.steady * c.steady() + weights.sync * c.gradient_sync);
      option.memory =
          weights.copies * (std::llround(static_cast<double>(c.parameters) * weights.state_bytes) + weights.in_flight * c.saved);
      option.transient = std::max(c.forward_transient, c.backward_transient);
      option.out = layouts_.of(node, sequence, output, false);
      options.push_back(option);
    }
    for (std::size_t e = 0; e < problem_.edges.size(); ++e) {
      if (problem_.edges[e].to != static_cast<std::int32_t>(n)) continue;
      EdgeClass& shared = classes_[static_cast<std::size_t>(edge_classes_[e])];
      for (std::size_t o = 0; o < options.size(); ++o) {
        Inputs inputs;
        for (const int tensor : graph_.edges[e].tensors)
          inputs.push_back({layouts_.of(node, sequences[o], tensor, false), layouts_.of(node, sequences[o], tensor, true)});
        const auto [found, added] = shared.ids.try_emplace(inputs, static_cast<std::int32_t>(shared.inputs.size()));
        if (added) shared.inputs.push_back(inputs);
        (problem_.edges[e].is_long() ? options[o].side : options[o].in) = found->second;
      }
    }
  }
  return {};
}

/// Adds the layouts that may enter a block: those that may leave it.
void BlockSpace::add_entering() {
  std::set<std::int32_t> outs;
  for (const solve::OperatorOption& option : problem_.nodes.back()) outs.insert(option.out);
  for (const std::int32_t out : outs) problem_.nodes.front().push_back({0, 0, 0, out, out, out});
}

Result<std::unique_ptr<BlockSpace>> BlockSpace::make(const cost::CostContext& context, const LayerKind& kind,
                                                     std::int64_t samples, int bits, const PartitionRules& rules,
                                                     const PartitionWeights& weights) {
  if (!cost::PartitionFabric::supports(context.fabric.tensor_levels, bits) ||
      !cost::PartitionFabric::supports(context.fabric.data_levels, bits))
    return Error{ErrorKind::bad_input, "cluster", "nodes or levels whose number of devices is not a power of two",
                 "2, 4, 8 … devices at every level", "partition sequences split by bits of the device number"};
  std::unique_ptr<BlockSpace> space(new BlockSpace(context, bits));
  space->weights_ = weights;
  auto graph = block_graph(context.workload.training.sequence, *context.engine, kind, samples);
  if (!graph) return graph.error();
  space->graph_ = std::move(*graph);
  space->problem_.nodes.resize(space->graph_.operators.size());
  for (const BlockEdge& edge : space->graph_.edges) space->problem_.edges.push_back({edge.from, edge.to});
  if (Status status = space->add_options(rules, weights); !status.ok()) return status.error();
  space->add_entering();
  space->problem_.costs = space.get();
  return space;
}

std::pair<double, double> BlockSpace::edge_seconds(std::int32_t edge, std::int32_t out, std::int32_t in) const {
  const EdgeClass& shared = classes_[static_cast<std::size_t>(edge_classes_[static_cast<std::size_t>(edge)])];
  const Inputs& inputs = shared.inputs[static_cast<std::size_t>(in)];
  if (inputs.size() == 1)
    return {layouts_.table().seconds(out, inputs[0].first, shared.bytes[0]),
            layouts_.table().seconds(inputs[0].second, out, shared.bytes[0])};
  cost::Exchange forward, backward;
  for (std::size_t t = 0; t < inputs.size(); ++t) {
    if (inputs[t].first != out) forward.add(layouts_.table().moved(out, inputs[t].first), shared.bytes[t]);
    if (inputs[t].second != out) backward.add(layouts_.table().moved(inputs[t].second, out), shared.bytes[t]);
  }
  return {costs_.fabric().seconds(forward), costs_.fabric().seconds(backward)};
}

std::int64_t BlockSpace::at(std::int32_t edge, std::int32_t out, std::int32_t in) const {
  const EdgeClass& shared = classes_[static_cast<std::size_t>(edge_classes_[static_cast<std::size_t>(edge)])];
  const auto compute = [&] {
    const auto [forward, backward] = edge_seconds(edge, out, in);
    return cost::round_ns(weights_.steady * (forward + backward));
  };
  if (costs_.fabric().bits() > kRememberedBits) return compute();
  if (shared.known.empty()) shared.known.resize(static_cast<std::size_t>(layouts_.table().size()));
  auto& row = shared.known[static_cast<std::size_t>(out)];
  if (row.empty()) row.assign(shared.inputs.size(), 0);
  std::uint32_t& known = row[static_cast<std::size_t>(in)];
  if (known != 0) return std::int64_t{known} - 1;
  const std::int64_t cost = compute();
  if (cost < std::numeric_limits<std::uint32_t>::max()) known = static_cast<std::uint32_t>(cost + 1);
  return cost;
}

cost::BlockCost BlockSpace::cost_of(const solve::OperatorPlan& plan) const {
  std::vector<PartitionSequence> sequences;
  for (int n = 1; n < nodes(); ++n) sequences.push_back(sequence(n, plan.options[static_cast<std::size_t>(n)]));
  return cost::block_cost(costs_, layouts_, graph_, sequences);
}

std::optional<std::int32_t> BlockSpace::option_of(int node, const PartitionSequence& sequence) const {
  const auto& all = sequences_[static_cast<std::size_t>(node)];
  const auto found = std::find(all.begin(), all.end(), sequence);
  if (found == all.end()) return std::nullopt;
  return static_cast<std::int32_t>(found - all.begin());
}

std::optional<solve::OperatorPlan> BlockSpace::megatron(int data_bits) const {
  std::vector<std::int32_t> options(graph_.operators.size(), 0);
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
  const auto enters =
      std::find_if(entering.begin(), entering.end(), [&](const solve::OperatorOption& o) { return o.out == leaves; });
  options.front() = static_cast<std::int32_t>(enters - entering.begin());
  return solve::evaluate_operators(problem_, options);
}

std::string BlockSpace::text(const solve::OperatorPlan& plan) const {
  std::vector<OperatorPartition> named;
  for (int n = 1; n < nodes(); ++n)
    named.push_back({operation(n).shape.name, sequence(n, plan.options[static_cast<std::size_t>(n)])});
  return to_string(named);
}

}  // namespace espalier::search
