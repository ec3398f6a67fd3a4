// SPDX-License-Identifier: Apache-2.0
#include "cost/span_list.h"

#include <algorithm>
#include <utility>

#include "base/invariant.h"

namespace espalier::cost {
namespace {

/// Names what ZeRO moves of a layer.
const char* what(const Step& step) { return step.traffic.kind == CollectiveKind::all_gather ? "parameters" : "gradients"; }

/// Returns the operators that a step's traffic overlaps.
std::string beside_of(const PhaseSteps& phase, const Step& step) {
  if (!step.beside()) return "";
  const std::string& first = phase.steps[static_cast<std::size_t>(step.first)].name;
  const std::string& last = phase.steps[static_cast<std::size_t>(step.last)].name;
  return first == last ? first : first + " … " + last;
}

}  // namespace

/// Adds a span; spans of one operator that follow each other without a gap are merged.
void SpanList::put(ChunkSpan span) {
  ESPALIER_CHECK(span.start_ns >= 0 && span.end_ns >= span.start_ns);
  if (span.start_ns == span.end_ns) return;
  if (!out_.spans.empty() && span.traffic.times == 0) {
    ChunkSpan& last = out_.spans.back();
    if (last.traffic.times == 0 && last.track == span.track && last.layer == span.layer && last.name == span.name &&
        last.part == span.part && last.end_ns == span.start_ns) {
      last.end_ns = span.end_ns;
      return;
    }
  }
  out_.spans.push_back(std::move(span));
}

void SpanList::add_steps(std::int32_t layer, const PhaseSteps& phase, bool again) {
  const std::vector<StepSpan> spans = step_spans(phase);
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const Step& step = phase.steps[i];
    ChunkSpan span;
    span.layer = layer;
    span.name = step.name;
    span.part = again ? StepPart::recomputation : step.part;
    span.start_ns = now_ + spans[i].compute_start_ns;
    span.end_ns = now_ + spans[i].compute_end_ns;
    put(span);
    if (!step.moves()) continue;
    span.track = StepTrack::traffic;
    if (span.name.empty()) span.name = "redistribution";
    span.traffic = step.traffic;
    span.beside = beside_of(phase, step);
    span.start_ns = now_ + spans[i].traffic_start_ns;
    span.end_ns = now_ + spans[i].traffic_end_ns;
    put(std::move(span));
  }
}

void SpanList::add_phase(std::int32_t layer, const PhaseSteps& phase, bool again) {
  const PhaseTime time = phase_time(phase);
  PhaseSteps steps_alone = phase;
  steps_alone.network_wait_s = 0;
  const PhaseTime steps = phase_time(steps_alone);
  add_steps(layer, phase, again);
  const std::int64_t end = now_ + time.duration_ns();
  now_ += steps.compute_ns + steps.exposed_ns;
  ESPALIER_CHECK(now_ <= end);
  ChunkSpan wait;
  wait.layer = layer;
  wait.name = "waiting";
  wait.part = again ? StepPart::recomputation : phase.steps.empty() ? StepPart::forward : phase.steps.back().part;
  wait.start_ns = now_;
  wait.end_ns = end;
  put(std::move(wait));
  now_ = end;
  out_.whole += time;
}

void SpanList::put_zero(std::int32_t layer, const char* name, Placement placement, std::int64_t start_ns, std::int64_t length_ns,
                        const std::vector<ZeroSteps::Timed>& steps) {
  double all = 0, before = 0;
  for (const auto& timed : steps)
    if (timed.step.placement == placement) all += timed.seconds;
  if (all <= 0) return;
  const auto at = [&](double seconds) {
    return start_ns + static_cast<std::int64_t>(seconds / all * static_cast<double>(length_ns));
  };
  for (const auto& timed : steps) {
    if (timed.step.placement != placement) continue;
    ChunkSpan span;
    span.track = StepTrack::zero;
    span.layer = layer;
    span.name = name != nullptr ? name : what(timed.step);
    span.part = timed.step.part;
    span.traffic = timed.step.traffic;
    span.beside = placement == Placement::beside ? "layer" : "";
    span.start_ns = at(before);
    before += timed.seconds;
    span.end_ns = at(before);
    put(std::move(span));
  }
}

void SpanList::begin_zero(std::int32_t layer, const ZeroSpans& zero) {
  put_zero(layer, nullptr, Placement::before, now_, zero.before_ns, zero.steps);
  now_ += zero.before_ns;
  zero_start_ = now_;
}

void SpanList::end_zero(std::int32_t layer, const ZeroSpans& zero) {
  const std::int64_t rest = zero.time.exposed_ns - zero.before_ns - zero.after_ns;
  ESPALIER_CHECK(rest >= 0);
  const std::int64_t beside = std::min(now_ + rest - zero_start_, rest + zero.time.hidden_ns);
  put_zero(layer, nullptr, Placement::beside, zero_start_, beside, zero.steps);
  now_ += rest;
  put_zero(layer, nullptr, Placement::after, now_, zero.after_ns, zero.steps);
  now_ += zero.after_ns;
  ChunkSpan copies;
  copies.layer = layer;
  copies.name = "copies";
  copies.start_ns = now_;
  copies.end_ns = now_ + zero.time.compute_ns;
  put(std::move(copies));
  now_ += zero.time.compute_ns;
  out_.whole += zero.time;
}

void SpanList::add_edge(std::int32_t layer, const char* name, std::int64_t length_ns, StepPart part, const ZeroSpans& zero) {
  std::vector<ZeroSteps::Timed> alone;
  for (ZeroSteps::Timed timed : zero.steps) {
    if (timed.step.part != part) continue;
    timed.step.placement = Placement::before;
    alone.push_back(timed);
  }
  put_zero(layer, name, Placement::before, now_, length_ns, alone);
  now_ += length_ns;
  out_.whole.exposed_ns += length_ns;
}

void SpanList::add_move(std::int32_t layer, const RangeMove::Way& move, StepPart part) {
  const auto add = [&](const Traffic& traffic, std::int64_t length_ns) {
    ChunkSpan span;
    span.track = StepTrack::traffic;
    span.layer = layer;
    span.name = "redistribution";
    span.part = part;
    span.traffic = traffic;
    span.start_ns = now_;
    span.end_ns = now_ + length_ns;
    put(std::move(span));
    now_ += length_ns;
    out_.whole.exposed_ns += length_ns;
  };
  add(move.gather, move.gather_ns);
  add(move.traffic, move.move_ns);
}

void SpanList::add_copies(std::int32_t layer, const PhaseTime& copies) {
  ESPALIER_CHECK(copies.compute_ns == 0 && copies.other_ns == 0);
  ChunkSpan span;
  span.layer = layer;
  span.name = "copies to and from the host";
  span.start_ns = now_;
  now_ += copies.exposed_ns;
  span.end_ns = now_;
  put(std::move(span));
  out_.whole += copies;
}

void SpanList::add_wait(std::int32_t layer, const char* name, std::int64_t length_ns) {
  ChunkSpan span;
  span.layer = layer;
  span.name = name;
  span.start_ns = now_;
  span.end_ns = now_ + length_ns;
  put(std::move(span));
  now_ += length_ns;
  out_.whole.other_ns += length_ns;
}

ChunkSteps SpanList::finish() {
  ESPALIER_CHECK(out_.whole.duration_ns() == now_);
  return std::move(out_);
}

}  // namespace espalier::cost
