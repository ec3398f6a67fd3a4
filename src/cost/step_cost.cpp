// SPDX-License-Identifier: Apache-2.0
#include "cost/step_cost.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/invariant.h"
#include "cost/rounding.h"

namespace espalier::cost {
namespace {

/// Holds the exposed and the hidden part of a step's traffic.
struct Exposure {
  double exposed = 0, hidden = 0;
};
Exposure exposure_of(const StepCost& c) {
  const double extra = pair_time(c.communication_s, c.beside_s, c.slowdown) - c.beside_s;
  return {extra, std::max(0.0, c.communication_s - extra)};
}
/// Returns the exposed part in whole nanoseconds, for traffic that overlaps compute.
std::int64_t exposed_ns(const StepCost& c) {
  return pair_ns(round_ns(c.communication_s), round_ns(c.beside_s), c.slowdown) - round_ns(c.beside_s);
}

/// Sums in the order of terms, as layers are priced (layer_sums.h).
class TermSum {
 public:
  void add(const Step& step, const StepCost& c) {
    if (c.term != term_) close();
    term_ = c.term;
    (step.part == StepPart::weight_gradient ? weight_ : compute_) += c.compute_s;
    if (!step.moves()) return;
    const Exposure e = exposure_of(c);
    joined_.exposed += e.exposed;
    joined_.hidden += e.hidden;
  }
  [[nodiscard]] double compute() const { return compute_ + weight_; }
  Exposure close() {
    all_.exposed += joined_.exposed;
    all_.hidden += joined_.hidden;
    joined_ = Exposure{};
    return all_;
  }

 private:
  double compute_ = 0, weight_ = 0;
  Exposure joined_, all_;
  std::int32_t term_ = 0;
};

void add_each(const Step& step, const StepCost& c, PhaseTime& t) {
  t.compute_ns += round_ns(c.compute_s);
  if (!step.moves()) return;
  const std::int64_t exposed = exposed_ns(c);
  t.exposed_ns += exposed;
  t.hidden_ns += std::max<std::int64_t>(0, round_ns(c.communication_s) - exposed);
}

std::vector<std::size_t> in_order_of_terms(const PhaseSteps& phase) {
  std::vector<std::size_t> order(phase.steps.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return phase.costs[a].term < phase.costs[b].term; });
  return order;
}

/// Lays steps out in time. The clock adds seconds and whole nanoseconds separately, so that it ends where phase_time
/// does.
class StepTimeline {
 public:
  explicit StepTimeline(const PhaseSteps& phase) : phase_(phase) {
    PhaseSteps steps = phase;
    steps.network_wait_s = 0;
    const PhaseTime whole = phase_time(steps);
    end_ns_ = whole.compute_ns + whole.exposed_ns;
    spans_.resize(phase.steps.size());
  }

  std::vector<StepSpan> run() {
    const auto count = static_cast<std::int32_t>(phase_.steps.size());
    for (std::int32_t i = 0; i < count;) {
      const Step& step = phase_.steps[static_cast<std::size_t>(i)];
      if (step.beside()) {
        ESPALIER_CHECK(step.first == i || step.first == i + 1);
        group(i, step.last);
        i = step.last + 1;
      } else {
        alone(i++);
      }
    }
    finish();
    return std::move(spans_);
  }

 private:
  [[nodiscard]] std::int64_t now() const { return std::min(end_ns_, round_ns(compute_s_) + round_ns(exposed_s_) + whole_ns_); }
  void advance(const StepCost& c, double compute_s, std::int64_t exposed_whole, double exposed_s) {
    if (c.counted == Counted::summed) {
      compute_s_ += compute_s;
      exposed_s_ += exposed_s;
    } else {
      whole_ns_ += round_ns(compute_s) + exposed_whole;
    }
  }

  void alone(std::int32_t i) {
    const Step& step = phase_.steps[static_cast<std::size_t>(i)];
    const StepCost& c = phase_.costs[static_cast<std::size_t>(i)];
    StepSpan& span = spans_[static_cast<std::size_t>(i)];
    const bool first = step.moves() && step.placement == Placement::before;
    if (first) traffic(c, span);
    span.compute_start_ns = now();
    advance(c, c.compute_s, 0, 0);
    span.compute_end_ns = now();
    if (step.moves() && !first) traffic(c, span);
  }
  void traffic(const StepCost& c, StepSpan& span) {
    span.traffic_start_ns = now();
    advance(c, 0, round_ns(c.communication_s), c.communication_s);
    span.traffic_end_ns = now();
  }

  /// Lays out the traffic of step i, which overlaps the compute of steps up to `last`.
  void group(std::int32_t i, std::int32_t last) {
    const StepCost& c = phase_.costs[static_cast<std::size_t>(i)];
    const std::int64_t start = now();
    std::vector<std::int64_t> offsets = {0};  // ends of the group's compute, without overlap
    double compute = 0;
    for (std::int32_t j = i; j <= last; ++j) {
      compute += phase_.costs[static_cast<std::size_t>(j)].compute_s;
      offsets.push_back(round_ns(compute));
    }
    advance(c, compute, exposed_ns(c), exposure_of(c).exposed);
    const std::int64_t end = now();
    const Together both = together(c);
    StepSpan& moved = spans_[static_cast<std::size_t>(i)];
    moved.traffic_start_ns = std::min(end, start + both.traffic_start);
    moved.traffic_end_ns = std::min(end, start + both.traffic_end);
    const std::int64_t beside = round_ns(c.beside_s);
    const auto place = [&](std::int64_t offset) {
      if (offset > beside) return std::min(end, start + both.both_end + (offset - beside));
      const double share = beside > 0 ? static_cast<double>(offset) / static_cast<double>(beside) : 0.0;
      return std::min(end, start + static_cast<std::int64_t>(share * static_cast<double>(both.compute_end)));
    };
    for (std::int32_t j = i; j <= last; ++j) {
      StepSpan& span = spans_[static_cast<std::size_t>(j)];
      span.compute_start_ns = place(offsets[static_cast<std::size_t>(j - i)]);
      span.compute_end_ns = place(offsets[static_cast<std::size_t>(j - i) + 1]);
    }
  }

  /// Holds the times of two that start together, by overlap.h.
  struct Together {
    std::int64_t compute_end = 0, traffic_start = 0, traffic_end = 0, both_end = 0;
  };
  static Together together(const StepCost& c) {
    const std::int64_t moved = round_ns(c.communication_s), compute = round_ns(c.beside_s),
                       both = pair_ns(moved, compute, c.slowdown);
    if (1.0 / c.slowdown.compute + 1.0 / c.slowdown.communication < 1.0) return {compute, compute, both, both};
    const double slow_traffic = static_cast<double>(moved) * c.slowdown.communication;
    const double slow_compute = static_cast<double>(compute) * c.slowdown.compute;
    if (slow_traffic < slow_compute) return {both, 0, static_cast<std::int64_t>(slow_traffic), both};
    return {static_cast<std::int64_t>(slow_compute), 0, both, both};
  }

  /// Moves the spans that end last to the end of the phase, because sums in another order may end a nanosecond early.
  void finish() {
    std::int64_t last = 0;
    for (const StepSpan& span : spans_) last = std::max({last, span.compute_end_ns, span.traffic_end_ns});
    for (StepSpan& span : spans_) {
      if (span.compute_end_ns == last && span.compute_start_ns < last) span.compute_end_ns = end_ns_;
      if (span.traffic_end_ns == last && span.traffic_start_ns < last) span.traffic_end_ns = end_ns_;
    }
  }

  const PhaseSteps& phase_;
  std::vector<StepSpan> spans_;
  double compute_s_ = 0, exposed_s_ = 0;
  std::int64_t whole_ns_ = 0, end_ns_ = 0;
};

}  // namespace

void PhaseSteps::add(Step step, const StepCost& cost) {
  ESPALIER_CHECK(step.traffic.bytes >= 0 && step.traffic.times >= 0);
  ESPALIER_CHECK(cost.compute_s >= 0 && cost.communication_s >= 0 && cost.beside_s >= 0);
  ESPALIER_CHECK(step.moves() || cost.communication_s == 0);
  steps.push_back(std::move(step));
  costs.push_back(cost);
}

PhaseTime phase_time(const PhaseSteps& phase) {
  ESPALIER_CHECK(phase.steps.size() == phase.costs.size());
  TermSum sum;
  PhaseTime each, on_top;
  for (const std::size_t i : in_order_of_terms(phase)) {
    const StepCost& c = phase.costs[i];
    switch (c.counted) {
      case Counted::summed: sum.add(phase.steps[i], c); break;
      case Counted::each: add_each(phase.steps[i], c, each); break;
      case Counted::on_top: add_each(phase.steps[i], c, on_top); break;
    }
  }
  const Exposure traffic = sum.close();
  PhaseTime t = each;
  t.compute_ns += round_ns(sum.compute());
  t.exposed_ns += round_ns(traffic.exposed + phase.network_wait_s);
  t.hidden_ns = phase.counts_hidden ? t.hidden_ns + round_ns(traffic.hidden) : 0;
  t.other_ns = std::max<std::int64_t>(0, round_ns(phase.host_s) - t.compute_ns - t.exposed_ns);
  t += on_top;
  return t;
}

double bytes_of(const PhaseSteps& phase) {
  double bytes = 0;
  for (const Step& step : phase.steps) bytes += step.traffic.total();
  return bytes;
}

std::vector<StepSpan> step_spans(const PhaseSteps& phase) { return StepTimeline(phase).run(); }

}  // namespace espalier::cost
