// SPDX-License-Identifier: Apache-2.0
#include "cost/step_record.h"

#include <algorithm>

#include "base/invariant.h"

namespace espalier::cost {

/// Names the place of a step within its operator.
enum class StepSlot : std::uint8_t { before, beside_input, input, beside_weight, weight, after };

namespace {

bool belongs(StepPart part, SumPhase phase) {
  switch (phase) {
    case SumPhase::forward: return part == StepPart::forward;
    case SumPhase::backward: return part == StepPart::input_gradient || part == StepPart::weight_gradient;
    case SumPhase::input: return part == StepPart::input_gradient;
    case SumPhase::weight: return part == StepPart::weight_gradient;
    case SumPhase::selective: return part == StepPart::recomputation;
  }
  return false;
}

StepSlot slot_of_compute(StepPart part) { return part == StepPart::weight_gradient ? StepSlot::weight : StepSlot::input; }
StepSlot slot_of_traffic(const Lie& lie) {
  if (lie.placement == Placement::before) return StepSlot::before;
  if (lie.placement == Placement::after) return StepSlot::after;
  return lie.part == StepPart::weight_gradient ? StepSlot::beside_weight : StepSlot::beside_input;
}

/// Returns whether the output of a linear is split. A gather for one such linear of a region serves all of them.
bool is_column(const Operator& op) {
  return op.kind == OperatorKind::linear && (op.split == TpSplit::column || op.split == TpSplit::vocab);
}

bool sends_what_was_computed(CollectiveKind kind) {
  return kind == CollectiveKind::all_reduce || kind == CollectiveKind::reduce_scatter;
}

}  // namespace

/// Holds a step and its place.
struct StepRecord::Placed {
  std::int32_t place = 0;  ///< operators run in the order of their places
  StepSlot slot = StepSlot::before;
  Step step;
  StepCost cost;
};

void StepRecord::compute(StepPart part, double seconds) {
  ESPALIER_CHECK(seconds >= 0);
  if (seconds > 0) computed_.push_back({part, op_, ++term_, seconds});
}

void StepRecord::traffic(SumPhase phase, const Lie& lie) {
  ESPALIER_CHECK(lie.moved.traffic.bytes >= 0 && lie.moved.traffic.times >= 0 && lie.moved.seconds >= 0);
  if (lie.moved.seconds <= 0) return;  // a group of one
  Lie placed = lie;
  if (placed.last_op < 0) placed.first_op = placed.last_op = op_;  // a region without column linears
  if (placed.placement == Placement::beside && placed.beside_s <= 0)
    placed.placement = sends_what_was_computed(placed.moved.traffic.kind) ? Placement::after : Placement::before;
  moved_.push_back({phase, term_, placed});
}

void StepRecord::region(std::int32_t first_op, std::int32_t last_op) {
  if (first_op < last_op) regions_.push_back({first_op, last_op});
}

std::int32_t StepRecord::place_of(std::int32_t op, const LayerKind& kind) const {
  for (const Region& r : regions_)
    if (r.first <= op && op <= r.last && is_column(kind.operators[static_cast<std::size_t>(op)])) return r.last;
  return op;
}

StepRecord::Placed StepRecord::placed(const Computed& c, const LayerKind& kind) const {
  Placed p;
  p.place = place_of(c.op, kind);
  p.slot = slot_of_compute(c.part);
  p.step.part = c.part;
  p.step.op = c.op;
  p.cost.compute_s = c.seconds;
  p.cost.term = c.term;
  return p;
}

StepRecord::Placed StepRecord::placed(const Moved& m) {
  Placed p;
  p.place = m.lie.last_op;
  p.slot = slot_of_traffic(m.lie);
  p.step.part = m.lie.part;
  p.step.op = m.lie.first_op;
  p.step.traffic = m.lie.moved.traffic;
  p.step.placement = m.lie.placement;
  p.cost.communication_s = m.lie.moved.seconds;
  p.cost.beside_s = m.lie.beside_s;
  p.cost.slowdown = m.lie.slowdown;
  p.cost.term = m.term;
  return p;
}

/// Links overlapped traffic to the compute right after it.
void StepRecord::find_compute(std::vector<Placed>& all) {
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].step.placement != Placement::beside || !all[i].step.moves()) continue;
    std::size_t end = i + 1;
    while (end < all.size() && all[end].place == all[i].place && !all[end].step.moves() && all[end].step.part == all[i].step.part)
      ++end;
    ESPALIER_CHECK(end > i + 1);
    all[i].step.first = static_cast<std::int32_t>(i) + 1;
    all[i].step.last = static_cast<std::int32_t>(end) - 1;
  }
}

PhaseSteps StepRecord::steps_of(SumPhase phase, const LayerKind& kind) const {
  std::vector<Placed> all;
  for (const Computed& c : computed_)
    if (belongs(c.part, phase)) all.push_back(placed(c, kind));
  for (const Moved& m : moved_)
    if (m.phase == phase) all.push_back(placed(m));
  const bool back = phase != SumPhase::forward && phase != SumPhase::selective;
  std::stable_sort(all.begin(), all.end(), [&](const Placed& a, const Placed& b) {
    if (a.place != b.place) return back ? a.place > b.place : a.place < b.place;
    return a.slot < b.slot;
  });
  find_compute(all);
  PhaseSteps out;
  out.counts_hidden = phase == SumPhase::forward || phase == SumPhase::backward;
  for (Placed& p : all) {
    p.step.name = kind.operators[static_cast<std::size_t>(p.step.op)].name;
    out.add(std::move(p.step), p.cost);
  }
  return out;
}

}  // namespace espalier::cost
