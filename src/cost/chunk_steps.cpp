// SPDX-License-Identifier: Apache-2.0
#include "cost/chunk_steps.h"

#include <algorithm>
#include <cmath>

#include "base/invariant.h"
#include "cost/chunk_sum.h"
#include "cost/layer_steps.h"
#include "cost/redistribution.h"
#include "cost/rounding.h"
#include "cost/span_list.h"
#include "cost/zero_buffers.h"
#include "plan/engine.h"
#include "plan/shared_table.h"

namespace espalier::cost {
namespace {

/// Describes a layer of a chunk, as a pass meets it.
struct LayerHere {
  std::int32_t layer = 0, kind = 0;
  const LayerRange* range = nullptr;
  RecomputeKind recompute = RecomputeKind::none;
  bool leads = false;  ///< the first layer of its range
};

/// Builds one pass. It appends spans, and adds up what ChunkSum (chunk_sum.h) adds up.
class PassBuilder {
 public:
  PassBuilder(const CostContext& c, const PlanChunks& chunks, StepBook& book, std::int32_t chunk, ChunkPhase phase)
      : c_(c), chunks_(chunks), book_(book), chunk_(chunk), phase_(phase) {}

  ChunkSteps run() {
    std::vector<LayerHere> layers = layers_here();
    const LayerHere first = layers.front();
    const std::vector<LayerHere> forward = layers;
    add_copied_edge(forward, true);
    if (phase_ == ChunkPhase::forward) add_edge(first, "parameters");
    if (phase_ != ChunkPhase::forward) std::reverse(layers.begin(), layers.end());
    for (const LayerHere& at : layers) {
      if (at.leads && phase_ == ChunkPhase::forward) add_move(at);
      add_layer(at);
      if (at.leads && phase_ != ChunkPhase::forward && phase_ != ChunkPhase::backward_weight) add_move(at);
    }
    if (phase_ == ChunkPhase::backward) add_edge(first, "gradients");
    add_copied_edge(forward, false);
    if (phase_ != ChunkPhase::backward_weight) add_pass();
    return spans_.finish();
  }

 private:
  [[nodiscard]] const std::vector<LayerRange>& ranges() const { return chunks_.ranges[static_cast<std::size_t>(chunk_)]; }
  [[nodiscard]] bool zero_here() const { return phase_ == ChunkPhase::forward || phase_ == ChunkPhase::backward; }
  /// Returns the step part that owns ZeRO's traffic at the edge of a chunk.
  [[nodiscard]] StepPart edge_part() const {
    return phase_ == ChunkPhase::forward ? StepPart::forward : StepPart::weight_gradient;
  }
  [[nodiscard]] std::int32_t kind_of(std::int32_t layer) const {
    return c_.workload.model->layers[static_cast<std::size_t>(layer)];
  }

  [[nodiscard]] std::vector<LayerHere> layers_here() const {
    std::vector<LayerHere> out;
    for (const LayerRange& range : ranges()) {
      std::int32_t again = range.strategy.recompute.layers;
      for (std::int32_t i = range.first; i <= range.last; ++i) {
        LayerHere at{i, kind_of(i), &range, RecomputeKind::none, i == range.first};
        if (c_.workload.model->kinds[static_cast<std::size_t>(at.kind)].role == LayerRole::block)
          at.recompute = range.strategy.recompute.kind;
        if (at.recompute == RecomputeKind::full && again-- <= 0) at.recompute = RecomputeKind::none;
        out.push_back(at);
      }
    }
    return out;
  }

  [[nodiscard]] const PhaseSteps& steps_of(const LayerSteps& steps) const {
    switch (phase_) {
      case ChunkPhase::forward: return steps.forward;
      case ChunkPhase::backward: return steps.backward;
      case ChunkPhase::backward_input: return steps.backward_input;
      case ChunkPhase::backward_weight: return steps.backward_weight;
    }
    return steps.forward;
  }

  void add_layer(const LayerHere& at) {
    const Strategy& s = at.range->strategy;
    const StepBook::Priced& priced = book_.priced(s);
    const LayerSteps& steps = book_.steps(s, at.kind);
    const LayerCost& cost = priced.layers[static_cast<std::size_t>(at.kind)];
    const ZeroTime zero = zero_time(c_, priced.groups, s, states_of(*c_.engine, c_.workload.training), cost, ChunkEdges::exposed);
    ZeroSpans beside;
    if (zero_here()) {
      const bool again = at.recompute == RecomputeKind::full;
      const PhaseTime& time = phase_ == ChunkPhase::forward ? zero.forward : again ? zero.backward_again : zero.backward;
      beside = zero_spans(s, priced.groups, cost, time);
    }
    spans_.begin_zero(at.layer, beside);
    if (phase_ == ChunkPhase::backward || phase_ == ChunkPhase::backward_input) {
      if (at.recompute == RecomputeKind::full && cost.passes_gradient) spans_.add_phase(at.layer, steps.forward, true);
      if (at.recompute == RecomputeKind::selective) spans_.add_phase(at.layer, steps.recompute_selective, true);
    }
    spans_.add_phase(at.layer, steps_of(steps), false);
    spans_.end_zero(at.layer, beside);
    if (zero_here()) {
      const HostCopies copies = copies_of(at, zero);
      spans_.add_copies(at.layer, phase_ == ChunkPhase::forward ? copies.forward : copies.backward);
    }
    add_table(at, cost);
  }

  [[nodiscard]] ZeroSpans zero_spans(const Strategy& s, const DataGroups& groups, const LayerCost& layer,
                                     const PhaseTime& time) const {
    if (phase_ != ChunkPhase::forward && !layer.passes_gradient) return {};
    const ZeroTraffic traffic = zero_traffic(c_.fabric, groups, s, states_of(*c_.engine, c_.workload.training), layer.elements());
    const ZeroSteps steps = zero_steps(s, traffic);
    ZeroSpans out{phase_ == ChunkPhase::forward ? steps.forward : steps.backward, time, 0, 0};
    if (!s.overlap.param_gather)
      out.before_ns = round_ns(phase_ == ChunkPhase::forward ? traffic.gather_s() : traffic.regather_s());
    if (!s.overlap.grad_reduce && phase_ == ChunkPhase::backward) out.after_ns = round_ns(traffic.reduce_s());
    return out;
  }

  /// Adds a copy of the token table that the chunk holds, with the layer that uses it.
  void add_table(const LayerHere& at, const LayerCost& user) {
    if (!zero_here() || !holds_copy(chunks_.table_chunks, ChunkId(chunk_))) return;
    if (table_layer(*c_.workload.model, ranges().front().first, ranges().back().last) != at.layer) return;
    const Strategy& s = chunks_.ranges.front().front().strategy;
    const DataGroups& groups = book_.priced(s).groups;
    LayerCost table;
    table.forward = user.forward;
    table.backward = user.backward;
    table.passes_gradient = user.passes_gradient;
    table.set_elements(table_elements(*c_.workload.model, *c_.engine, c_.workload.training, s));
    const StatePolicy states = states_of(*c_.engine, c_.workload.training);
    const Strategy& own = at.range->strategy;
    const HiddenTraffic before = hidden_traffic(c_.fabric, book_.priced(own).groups, own, states, user.elements());
    const ZeroTime zero = zero_time(c_, groups, s, states, table, ChunkEdges::exposed, before);
    const bool forward = phase_ == ChunkPhase::forward;
    const ZeroSpans spans = zero_spans(s, groups, table, forward ? zero.forward : zero.backward);
    spans_.begin_zero(at.layer, spans);
    spans_.end_zero(at.layer, spans);
    const HostCopies copies = host_copies(c_.device.host, *c_.engine, states, table, zero, s, RecomputeKind::none);
    spans_.add_copies(at.layer, forward ? copies.forward : copies.backward);
    if (at.layer == ranges().front().first)
      spans_.add_edge(at.layer, "token table", forward ? zero.gather_ns : zero.reduce_ns, edge_part(), spans);
  }

  /// Adds the first gather or the last reduction of a chunk, which nothing hides.
  void add_edge(const LayerHere& first, const char* name) {
    const Strategy& s = first.range->strategy;
    const StepBook::Priced& priced = book_.priced(s);
    const LayerCost& cost = priced.layers[static_cast<std::size_t>(first.kind)];
    const ZeroTime zero = zero_time(c_, priced.groups, s, states_of(*c_.engine, c_.workload.training), cost, ChunkEdges::exposed);
    spans_.add_edge(first.layer, name, phase_ == ChunkPhase::forward ? zero.gather_ns : zero.reduce_ns, edge_part(),
                    zero_spans(s, priced.groups, cost, {}));
  }

  /// Adds the move to `at` from the layer before it, which may be of the chunk before.
  void add_move(const LayerHere& at) {
    const LayerRange* before = nullptr;
    if (at.range != &ranges().front())
      before = at.range - 1;
    else if (chunk_ > 0 && (chunks_.apart.empty() || !chunks_.apart[static_cast<std::size_t>(chunk_)]))
      before = &chunks_.ranges[static_cast<std::size_t>(chunk_) - 1].back();
    if (before == nullptr) return;
    const auto kind = static_cast<std::size_t>(kind_of(before->last));
    const LayerCost& sender = book_.priced(before->strategy).layers[kind];
    const LayerCost& receiver = book_.priced(at.range->strategy).layers[static_cast<std::size_t>(at.kind)];
    const RangeMove move = range_move(c_.workload, c_.fabric, before->strategy, at.range->strategy,
                                      c_.workload.model->kinds[kind], sender, receiver, chunks_.samples);
    const bool forward = phase_ == ChunkPhase::forward;
    spans_.add_move(at.layer, forward ? move.forward : move.backward, forward ? StepPart::forward : StepPart::input_gradient);
  }

  [[nodiscard]] ZeroTime zero_of(const LayerHere& at) const {
    const StepBook::Priced& priced = book_.priced(at.range->strategy);
    return zero_time(c_, priced.groups, at.range->strategy, states_of(*c_.engine, c_.workload.training),
                     priced.layers[static_cast<std::size_t>(at.kind)], ChunkEdges::exposed);
  }

  /// Returns the copies to and from the host under a layer.
  [[nodiscard]] HostCopies copies_of(const LayerHere& at, const ZeroTime& zero) const {
    const LayerCost& cost = book_.priced(at.range->strategy).layers[static_cast<std::size_t>(at.kind)];
    return host_copies(c_.device.host, *c_.engine, states_of(*c_.engine, c_.workload.training), cost, zero, at.range->strategy,
                       at.recompute);
  }

  /// Adds the copies with which a pass through `layers` begins or ends; `layers` are in the order of the forward
  /// pass.
  void add_copied_edge(const std::vector<LayerHere>& layers, bool begins) {
    if (!zero_here()) return;
    const auto copies = [](const LayerHere& at) { return copies_in_passes(at.range->strategy.offload); };
    const auto first = std::find_if(layers.begin(), layers.end(), copies);
    if (first == layers.end()) return;
    const bool forward = phase_ == ChunkPhase::forward;
    const LayerHere& at = begins == forward ? *first : *std::find_if(layers.rbegin(), layers.rend(), copies);
    const HostCopies edge = copies_of(at, zero_of(at));
    const std::int64_t length =
        begins == forward ? (forward ? edge.first_up_ns : edge.first_down_ns) : (forward ? edge.last_down_ns : edge.last_up_ns);
    PhaseTime time;
    time.exposed_ns = length;
    spans_.add_copies(at.layer, time);
  }

  void add_pass() { spans_.add_wait(-1, "pass", pass_ns(c_.device, *c_.engine, chunks_.schedule.virtual_stages)); }

  const CostContext& c_;
  const PlanChunks& chunks_;
  StepBook& book_;
  std::int32_t chunk_;
  ChunkPhase phase_;
  SpanList spans_;
};

}  // namespace

ChunkPhase phase_of(InstructionKind kind) {
  switch (kind) {
    case InstructionKind::forward: return ChunkPhase::forward;
    case InstructionKind::backward_input: return ChunkPhase::backward_input;
    case InstructionKind::backward_weight: return ChunkPhase::backward_weight;
    default: return ChunkPhase::backward;
  }
}

PlanChunks chunks_of(const Plan& plan, const Model& model) {
  PlanChunks out;
  const Pipeline& pipeline = plan.only_pipeline();
  out.schedule = pipeline.schedule;
  out.samples = pipeline.samples_per_microbatch();
  out.ranges = chunk_ranges(pipeline);
  std::vector<std::int32_t> layers;
  for (const std::vector<LayerRange>& chunk : out.ranges) layers.push_back(chunk.back().last - chunk.front().first + 1);
  table_chunks(model, out.schedule, layers, out.table_chunks);
  return out;
}

const StepBook::Priced& StepBook::priced(const Strategy& s) {
  const auto [at, fresh] = known_.try_emplace(s);
  Priced& out = at->second;
  if (!fresh) return out;
  layer_costs(c_, at->first, chunks_.schedule.stages, static_cast<std::int32_t>(chunks_.samples / s.dp), out.layers);
  out.groups = data_groups(c_.fabric, at->first, chunks_.schedule.stages);
  out.groups.gathers_again = gathers_again(c_, at->first, chunks_.schedule.stages, out.layers);
  return out;
}

const LayerSteps& StepBook::steps(const Strategy& s, std::int32_t kind) {
  priced(s);
  const auto [at, fresh] = known_.at(s).steps.try_emplace(kind);
  if (fresh) at->second = layer_steps(c_, s, chunks_.schedule.stages, static_cast<std::int32_t>(chunks_.samples / s.dp), kind);
  return at->second;
}

ChunkSteps StepBook::chunk(std::int32_t chunk, ChunkPhase phase) {
  ESPALIER_CHECK(chunk >= 0 && chunk < static_cast<std::int32_t>(chunks_.ranges.size()));
  return PassBuilder(c_, chunks_, *this, chunk, phase).run();
}

}  // namespace espalier::cost
