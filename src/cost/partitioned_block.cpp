// SPDX-License-Identifier: Apache-2.0
#include "cost/partitioned_block.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "base/invariant.h"
#include "cost/block_steps.h"
#include "cost/rounding.h"
#include "plan/engine.h"
#include "plan/operator_partition.h"

namespace espalier::cost {

using partition::PartitionSequence;

namespace {

/// Returns an upper bound on what the device that fetches most fetches: the largest part of every level.
double fetched_bytes(const Exchange& moved) { return std::accumulate(moved.largest.begin(), moved.largest.end(), 0.0); }

/// Holds the bytes that an edge moves forward and backward.
struct EdgeExchanges {
  Exchange forward, backward;
};
EdgeExchanges moved_over(const PartitionCosts& costs, BlockLayouts& layouts, const BlockGraph& graph, const BlockEdge& edge,
                         const std::vector<PartitionSequence>& sequences) {
  const auto sequence = [&](std::int32_t node) -> const PartitionSequence& {
    // The input has the layout of the output.
    return node == 0 ? sequences.back() : sequences[static_cast<std::size_t>(node) - 1];
  };
  const PartitionedOperator& from =
      edge.from == 0 ? graph.operators.back() : graph.operators[static_cast<std::size_t>(edge.from)];
  const PartitionedOperator& to = graph.operators[static_cast<std::size_t>(edge.to)];
  const LayoutId out = layouts.of(from, sequence(edge.from), output_tensor(from.shape), false);
  EdgeExchanges moved;
  for (const int tensor : edge.tensors) {
    const double bytes = costs.context().workload.element_bytes *
                         static_cast<double>(partition::elements(to.shape.tensors[static_cast<std::size_t>(tensor)]));
    const LayoutId in = layouts.of(to, sequence(edge.to), tensor, false);
    const LayoutId gradient = layouts.of(to, sequence(edge.to), tensor, true);
    if (in != out) moved.forward.add(layouts.table().moved(out, in), bytes);
    if (gradient != out) moved.backward.add(layouts.table().moved(gradient, out), bytes);
  }
  return moved;
}

void add_boundary(BlockCost& block, const PartitionCosts& costs, BlockLayouts& layouts, const BlockGraph& graph,
                  const PartitionSequence& last) {
  const PartitionedOperator& node = graph.operators.back();
  const int output = output_tensor(node.shape);
  const LayoutId leaves = layouts.of(node, last, output, false), whole = layouts.replicated();
  const double bytes = costs.context().workload.element_bytes *
                       static_cast<double>(partition::elements(node.shape.tensors[static_cast<std::size_t>(output)]));
  if (leaves != whole) {
    Exchange gather;
    gather.add(layouts.table().moved(leaves, whole), bytes);
    block.boundary_gather = costs.fabric().seconds(gather);
    block.boundary_gather_bytes = fetched_bytes(gather);
  }
  block.boundary_bytes = std::llround(std::ldexp(bytes, -layouts.table().tile_bits(leaves)));
}

}  // namespace

BlockCost block_cost(PartitionCosts& costs, BlockLayouts& layouts, const BlockGraph& graph,
                     const std::vector<PartitionSequence>& sequences) {
  BlockCost block;
  PhaseSeconds forward, input, weight;
  for (int n = 1; n < graph.nodes(); ++n) {
    const PartitionCost c = costs.cost(graph.operators[static_cast<std::size_t>(n)], sequences[static_cast<std::size_t>(n) - 1]);
    forward += c.forward;
    input += c.backward_input;
    weight += c.backward_weight;
    block.gradient_sync += c.gradient_sync;
    block.parameters += c.parameters;
    block.saved += c.saved;
    block.forward_transient = std::max(block.forward_transient, c.forward_transient);
    block.backward_transient = std::max(block.backward_transient, c.backward_transient);
    block.operators.push_back(c);
  }
  double moved_forward = 0, moved_backward = 0;
  for (const BlockEdge& edge : graph.edges) {
    const EdgeExchanges moved = moved_over(costs, layouts, graph, edge, sequences);
    const double f = costs.fabric().seconds(moved.forward), b = costs.fabric().seconds(moved.backward);
    block.redistributions.push_back({round_ns(f), round_ns(b), fetched_bytes(moved.forward), fetched_bytes(moved.backward)});
    moved_forward += static_cast<double>(round_ns(f)) * 1e-9;
    moved_backward += static_cast<double>(round_ns(b)) * 1e-9;
  }
  const double launch = costs.context().engine->measured != nullptr  // measured times include launches
                            ? 0.0
                            : costs.context().device.rates.launch * costs.context().engine->eager.eager_launches;
  const auto phase = [&](const PhaseSeconds& p, double moved) {
    PhaseTime t;
    t.compute_ns = round_ns(p.compute);
    t.exposed_ns = round_ns(p.collective + p.ring_exposed + moved);
    t.hidden_ns = round_ns(p.ring_hidden);
    t.other_ns = std::max<std::int64_t>(0, round_ns(launch * p.kernels) - t.compute_ns - t.exposed_ns);
    return t;
  };
  PhaseSeconds both = input;
  both += weight;
  block.forward = phase(forward, moved_forward);
  block.backward = phase(both, moved_backward);
  block.backward_input = phase(input, moved_backward);
  block.backward_weight = phase(weight, 0);
  both += forward;
  block.collective = both.collective;
  block.ring_hidden = both.ring_hidden;
  block.ring_exposed = both.ring_exposed;
  block.redistribution = moved_forward + moved_backward;
  add_boundary(block, costs, layouts, graph, sequences.back());
  return block;
}

namespace {

Result<PricedBlock> priced(const CostContext& context, const LayerKind& kind, std::int64_t samples, std::int32_t devices,
                           const BlockPartition& partition, bool with_steps) {
  const int bits = std::bit_width(static_cast<std::uint32_t>(devices)) - 1;
  if (!PartitionFabric::supports(context.fabric.tensor_levels, bits) ||
      !PartitionFabric::supports(context.fabric.data_levels, bits))
    return Error{ErrorKind::bad_input, "cluster", "nodes or levels whose number of devices is not a power of two",
                 "2, 4, 8 … devices at every level", "partition sequences split by bits of the device number"};
  auto graph = block_graph(context.workload.training.sequence, *context.engine, kind, samples);
  if (!graph) return graph.error();
  const auto sequences = sequences_of(*graph, kind, bits, partition);
  if (!sequences) return sequences.error();
  for (int n = 1; n < graph->nodes(); ++n)
    if (const auto missing = not_measured(*context.engine, graph->operators[static_cast<std::size_t>(n)],
                                          (*sequences)[static_cast<std::size_t>(n) - 1]))
      return Error{ErrorKind::bad_input, "partition of layer " + kind.name, profile::to_string(*missing),
                   "operators that the profile measured", "`espalier profile --partition` measures them"};
  PartitionCosts costs(context, bits);
  BlockLayouts layouts(costs.fabric());
  PricedBlock block{std::move(*graph), {}, {}};
  block.cost = block_cost(costs, layouts, block.graph, *sequences);
  if (with_steps) block.steps = block_steps(costs, block, kind, *sequences);
  return block;
}

}  // namespace

Result<PricedBlock> priced_block(const CostContext& context, const LayerKind& kind, std::int64_t samples, std::int32_t devices,
                                 const BlockPartition& partition) {
  return priced(context, kind, samples, devices, partition, true);
}

Result<BlockCost> partitioned_block(const CostContext& context, const LayerKind& kind, std::int64_t samples, std::int32_t devices,
                                    const BlockPartition& partition) {
  auto block = priced(context, kind, samples, devices, partition, false);
  if (!block) return block.error();
  return std::move(block->cost);
}

Status partition_fits(const CostContext& context, const Strategy& s, std::int32_t micro_batch) {
  if (s.partition.empty()) return {};
  for (const LayerKind& kind : context.workload.model->kinds) {
    if (kind.role != LayerRole::block) continue;
    const auto block = partitioned_block(context, kind, micro_batch, s.tp, s.partition);
    if (!block) return block.error();
  }
  return {};
}

LayerCost layer_cost_of(const BlockCost& block, const Strategy& s) {
  LayerCost cost;
  cost.forward = block.forward;
  cost.backward = block.backward;
  cost.backward_input = block.backward_input;
  cost.backward_weight = block.backward_weight;
  cost.saved = {block.saved, block.saved, block.boundary_bytes};
  cost.transient = {block.forward_transient, block.backward_transient};
  cost.dense_parameters = block.parameters;
  cost.boundary_bytes = block.boundary_bytes;
  cost.boundary_gather_ns = round_ns(block.boundary_gather);
  cost.boundary_gather_bytes = block.boundary_gather_bytes;
  const std::int64_t sync = round_ns(block.gradient_sync);
  if (!s.shards_gradients())
    cost.gradient_sync_ns = sync;
  else {
    cost.backward.exposed_ns += sync;
    cost.backward_weight.exposed_ns += sync;
  }
  return cost;
}

const BlockCost& PartitionMemo::block(const CostContext& context, std::int32_t kind, std::int64_t samples, std::int32_t devices,
                                      const BlockPartition& partition) {
  const std::lock_guard lock(mutex_);
  auto& known = known_[{kind, samples, devices, partition}];
  if (known == nullptr) {
    auto priced =
        partitioned_block(context, context.workload.model->kinds[static_cast<std::size_t>(kind)], samples, devices, partition);
    ESPALIER_CHECK(priced.ok());
    known = std::make_unique<BlockCost>(std::move(*priced));
  }
  return *known;
}

}  // namespace espalier::cost
