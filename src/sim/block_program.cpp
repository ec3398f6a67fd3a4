// SPDX-License-Identifier: Apache-2.0
#include "sim/block_program.h"

#include <algorithm>

#include "base/check.h"
#include "base/document.h"
#include "sim/simulator.h"

namespace espalier::sim {
namespace {

using cost::PartitionStep;
using partition::Phase;

/// One thing the device does: a compute step with its ring, or communication that nothing hides.
struct Item {
  std::string name;
  std::int64_t compute_ns = 0, ring_ns = 0, communication_ns = 0;
  cost::Slowdown slowdown;
};

class BlockProgram {
 public:
  BlockProgram(const cost::PricedBlock& block, BlockPhase phase) {
    const bool forward = phase == BlockPhase::forward;
    const int last = block.graph.nodes() - 1;
    for (int i = 1; i <= last; ++i) {
      const int node = forward ? i : last + 1 - i;
      if (forward) {
        add_edges(block, node, true);
        add_steps(block, node, Phase::forward);
        continue;
      }
      if (phase != BlockPhase::backward_weight) add_steps(block, node, Phase::backward);
      if (phase != BlockPhase::backward_input) add_steps(block, node, Phase::gradient);
      if (phase != BlockPhase::backward_weight) add_edges(block, node, false);
    }
    const cost::BlockCost& c = block.cost;
    const cost::PhaseTime& whole = forward                               ? c.forward
                                   : phase == BlockPhase::backward       ? c.backward
                                   : phase == BlockPhase::backward_input ? c.backward_input
                                                                         : c.backward_weight;
    if (whole.other_ns > 0) items_.push_back({"kernel launches", whole.other_ns, 0, 0, {}});
  }

  /// Items share a program as long as their rings slow compute down alike.
  Result<BlockTimeline> run() const {
    BlockTimeline all;
    std::size_t next = 0;
    while (next < items_.size()) {
      std::size_t end = next;
      const Item* ring = nullptr;
      for (; end < items_.size(); ++end) {
        const Item& item = items_[end];
        if (item.ring_ns == 0) continue;
        if (ring != nullptr &&
            (ring->slowdown.compute != item.slowdown.compute || ring->slowdown.communication != item.slowdown.communication))
          break;
        ring = &item;
      }
      if (Status failed = run_segment(next, end, ring != nullptr ? ring->slowdown : cost::Slowdown{}, all)) return *failed;
      next = end;
    }
    return all;
  }

 private:
  void add_edges(const cost::PricedBlock& block, int node, bool forward) {
    for (std::size_t e = 0; e < block.graph.edges.size(); ++e) {
      if (block.graph.edges[e].to != node) continue;
      const auto& moved = block.cost.redistributions[e];
      const std::int64_t ns = forward ? moved.forward_ns : moved.backward_ns;
      const std::string& name = block.graph.operators[static_cast<std::size_t>(node)].shape.name;
      if (ns > 0) items_.push_back({(forward ? "to " : "gradients from ") + name, 0, 0, ns, {}});
    }
  }

  void add_steps(const cost::PricedBlock& block, int node, Phase phase) {
    const std::string& name = block.graph.operators[static_cast<std::size_t>(node)].shape.name;
    int step = 0;
    for (const PartitionStep& s : block.steps[static_cast<std::size_t>(node) - 1]) {
      if (s.phase != phase) continue;
      const std::string number = " " + std::to_string(step++);
      if (s.compute_ns > 0 || s.ring_ns > 0)
        items_.push_back({name + " " + partition::to_string(phase) + number, s.compute_ns, s.ring_ns, 0, s.slowdown});
      if (s.collective_ns > 0) items_.push_back({name + " all-reduce", 0, 0, s.collective_ns, {}});
    }
  }

  Status run_segment(std::size_t begin, std::size_t end, cost::Slowdown slowdown, BlockTimeline& all) const {
    ProgramStructure structure;
    structure.schedule.virtual_stages = static_cast<std::int32_t>(end - begin);
    structure.buckets.assign(end - begin, 1);
    structure.reduce_gradients = true;  // each item may communicate once
    Program program;
    program.structure = structure;
    cost::Costs costs;
    costs.reset(structure);
    costs.compute_slowdown = slowdown.compute;
    costs.communication_slowdown = slowdown.communication;
    std::int32_t compute = -1, data = -1;
    const auto issue = [&](InstructionKind kind, std::int32_t chunk, std::int32_t wait) {
      Instruction i;
      i.kind = kind;
      i.stream = kind == InstructionKind::forward ? Stream::compute : Stream::data;
      i.id = kind == InstructionKind::forward ? structure.forward(chunk).value : structure.grad_reduce(chunk).value;
      i.wait0 = wait;
      program.instructions.push_back(i);
      return static_cast<std::int32_t>(program.instructions.size()) - 1;
    };
    for (std::size_t i = begin; i < end; ++i) {
      const Item& item = items_[i];
      const auto chunk = static_cast<std::int32_t>(i - begin);
      costs.works[structure.forward(chunk)].time.compute_ns = item.compute_ns;
      costs.collectives[structure.grad_reduce(chunk)] = item.ring_ns + item.communication_ns;
      const std::int32_t before = data;  // the shift that was issued with the step before
      if (item.ring_ns > 0) data = issue(InstructionKind::ring_shift, chunk, compute);
      if (item.communication_ns > 0) data = issue(InstructionKind::block_collective, chunk, compute);
      if (item.communication_ns == 0) compute = issue(InstructionKind::forward, chunk, before);
    }
    RankClass rank;
    rank.end = static_cast<std::int32_t>(program.instructions.size());
    program.ranks.push_back(rank);
    Simulator simulator;
    auto simulated = simulator.run(program, costs, {true});
    if (!simulated) return simulated.error();
    for (std::size_t i = 0; i < program.instructions.size(); ++i) {
      const Instruction& at = program.instructions[i];
      const std::string& name =
          items_[begin + static_cast<std::size_t>(at.stream == Stream::data ? at.id : at.id / structure.phases())].name;
      const auto& span = simulated->spans[i];
      all.spans.push_back({at.kind == InstructionKind::ring_shift ? name + " shift" : name, at.stream,
                           all.duration_ns + span.start_ns, all.duration_ns + span.end_ns});
    }
    all.duration_ns += simulated->iteration_ns;
    return std::nullopt;
  }

  std::vector<Item> items_;
};

void write_span(base::JsonWriter& w, const BlockSpan& span, std::int64_t offset) {
  w.compact_next().begin_object();
  w.key("name").value(span.name).key("ph").value("X").key("pid").value(std::int64_t{0});
  w.key("tid").value(static_cast<std::int64_t>(span.stream)).key("cat").value(to_string(span.stream));
  w.key("ts").value(static_cast<double>(span.start_ns + offset) * 1e-3);
  w.key("dur").value(static_cast<double>(span.end_ns - span.start_ns) * 1e-3).end_object();
}

}  // namespace

Result<BlockTimeline> simulate_block(const cost::CostContext& context, const LayerKind& kind, std::int64_t samples,
                                     std::int32_t devices, const std::string& partition, BlockPhase phase) {
  const auto block = cost::priced_block(context, kind, samples, devices, partition);
  if (!block) return block.error();
  return BlockProgram(*block, phase).run();
}

Result<std::string> block_trace(const cost::CostContext& context, const LayerKind& kind, std::int64_t samples,
                                std::int32_t devices, const std::string& partition) {
  const auto block = cost::priced_block(context, kind, samples, devices, partition);
  if (!block) return block.error();
  base::JsonWriter w;
  w.begin_object().key("traceEvents").begin_array();
  std::int64_t offset = 0;
  for (const BlockPhase phase : {BlockPhase::forward, BlockPhase::backward}) {
    const auto timeline = BlockProgram(*block, phase).run();
    if (!timeline) return timeline.error();
    for (const BlockSpan& span : timeline->spans) write_span(w, span, offset);
    offset += timeline->duration_ns;
  }
  w.end_array().key("displayTimeUnit").value("ns").key("partition").value(partition).end_object();
  return w.text() + "\n";
}

}  // namespace espalier::sim
