// SPDX-License-Identifier: Apache-2.0
#include "cost/bound.h"

#include <algorithm>
#include <cmath>

namespace espalier::cost {
namespace {

using i64 = std::int64_t;

/// Times of chunks by name.
struct View {
  const Costs& costs;
  const ProgramStructure& s;
  [[nodiscard]] i64 forward(std::int32_t c) const { return costs.works[s.forward(c)].time.duration_ns(); }
  /// The part of the backward that the previous chunk waits for.
  [[nodiscard]] i64 backward(std::int32_t c) const { return costs.works[s.backward(c)].time.duration_ns(); }
  [[nodiscard]] i64 weight(std::int32_t c) const { return costs.works[s.backward_weight(c)].time.duration_ns(); }
  [[nodiscard]] i64 down(std::int32_t c) const { return c > 0 ? costs.transfers[s.transfer(c, false)].count() : 0; }
  [[nodiscard]] i64 up(std::int32_t c) const { return c > 0 ? costs.transfers[s.transfer(c, true)].count() : 0; }
  [[nodiscard]] i64 reduce(std::int32_t c) const { return costs.collectives[s.grad_reduce(c)].count(); }
  [[nodiscard]] i64 gather(std::int32_t c) const { return costs.collectives[s.param_gather(c)].count(); }
  [[nodiscard]] i64 optimizer(std::int32_t stage) const { return costs.works[s.optimizer(stage)].time.duration_ns(); }
  [[nodiscard]] i64 buckets(std::int32_t c) const { return s.buckets[static_cast<std::size_t>(c)]; }
};

/// What a stage's end adds after its last computation.
i64 tail(const View& x, std::int32_t stage, std::int32_t lowest) {
  const ProgramStructure& s = x.s;
  i64 t = x.optimizer(stage);
  for (const std::int32_t c : s.table_chunks)
    if (place_of_chunk(s.schedule, c).stage == stage) t += x.costs.collectives[s.tied_reduce()].count();
  if (s.reduce_gradients && s.overlap_reduce) t += x.reduce(lowest);
  for (std::int32_t k = 0; k < s.schedule.virtual_stages; ++k) {
    const std::int32_t c = pipeline_chunk(s.schedule, stage, k);
    if (s.reduce_gradients && !s.overlap_reduce) t += x.reduce(c) * x.buckets(c);
    if (s.gather_parameters && !s.overlap_gather) t += x.gather(c) * x.buckets(c);
  }
  return t;
}

/// Sends that a stage waits for between two computations; the longest one may be the last and wait for nobody.
i64 blocking_sends(const View& x, std::int32_t stage) {
  const Schedule& s = x.s.schedule;
  i64 all = 0, longest = 0;
  for (std::int32_t k = 0; k < s.virtual_stages; ++k) {
    const std::int32_t c = pipeline_chunk(s, stage, k);
    const i64 down = c + 1 < x.s.chunks() ? x.down(c + 1) : 0;
    const i64 up = x.up(c);
    all += down + up;
    longest = std::max({longest, down, up});
  }
  return all * s.microbatches - longest;
}

}  // namespace

i64 iteration_lower_bound_ns(const Costs& costs, const ProgramStructure& structure) {
  const Schedule& s = structure.schedule;
  const View x{costs, structure};
  const bool split = splits_backward(s.kind);
  const i64 m = s.microbatches;
  const std::int32_t chunks = structure.chunks();
  i64 round_trip = 0;  // of chunk a … last, updated as a grows
  for (std::int32_t c = 0; c < chunks; ++c) round_trip += x.forward(c) + x.backward(c) + x.down(c) + x.up(c);
  const i64 first_gather = structure.overlap_gather ? x.gather(0) : 0;
  const i64 first_tail = tail(x, 0, 0);
  const i64 first_weight = split ? x.weight(0) : 0;
  i64 best = 0, pre = first_gather, post = 0;
  for (std::int32_t i = 0; i < s.stages; ++i) {  // the smallest chunk of stage i is chunk i in every placement
    i64 work = 0, input_work = 0;
    for (std::int32_t k = 0; k < s.virtual_stages; ++k) {
      const std::int32_t c = pipeline_chunk(s, i, k);
      input_work += x.forward(c) + x.backward(c);
      work += split ? x.weight(c) : 0;
    }
    work = (work + input_work) * m;
    input_work *= m;
    const i64 wait = structure.overlap_p2p || s.stages == 1 ? 0 : blocking_sends(x, i);
    best = std::max(best, pre + work + wait + tail(x, i, i));
    best = std::max(best, pre + input_work + (split ? 0 : wait) + post + first_weight + first_tail);
    if (structure.overlap_reduce && !split) {
      // At most what part_of(…, 0, buckets) gives, whose three components are rounded down apart; grows with the whole.
      const i64 buckets = x.buckets(i);
      const i64 first_bucket = std::max<i64>(0, (x.backward(i) - 3 * (buckets - 1)) / buckets);
      best = std::max(best, pre + work - x.backward(i) + first_bucket + x.reduce(i) * buckets + x.optimizer(i));
    }
    if (s.virtual_stages == 1) {
      const i64 in_flight = std::max<i64>(1, max_in_flight(s, i));
      best = std::max(best, pre + ((m - 1) / in_flight + 1) * round_trip + post + first_weight + first_tail);
    }
    const std::int32_t next = std::min(i + 1, chunks - 1);
    round_trip -= x.forward(i) + x.backward(i) + x.down(next) + x.up(next);
    pre += x.forward(i) + x.down(next);
    post += x.backward(i) + x.up(next);
  }
  return best;
}

namespace {

/// Interleaved 1F1B: what the stage holds when its warm-up ends, before any backward. Passes go round the chunks in groups of p
/// micro-batches: chunk k has ⌊N/(p·v)⌋·p passes and its part of the rest, N = passes in flight.
i64 interleaved_warmup_bytes(const Costs& costs, const ProgramStructure& structure, std::int32_t stage) {
  const Schedule& s = structure.schedule;
  const i64 group = s.stages, round = group * s.virtual_stages, passes = max_in_flight(s, stage);
  i64 bytes = 0, rest = passes % round;
  for (std::int32_t k = 0; k < s.virtual_stages; ++k) {
    const i64 held = passes / round * group + std::min(rest, group);
    rest -= std::min(rest, group);
    bytes += held * costs.saved_bytes(structure, pipeline_chunk(s, stage, k));
  }
  return bytes;
}

}  // namespace

i64 activations_lower_bound_bytes(const Costs& costs, const ProgramStructure& structure, std::int32_t stage) {
  const Schedule& s = structure.schedule;
  i64 smallest = 0, most = 0, forward_peak = 0, backward_peak = 0;
  for (std::int32_t k = 0; k < s.virtual_stages; ++k) {
    const std::int32_t c = pipeline_chunk(s, stage, k);
    const i64 saved = costs.saved_bytes(structure, c);
    smallest = k == 0 ? saved : std::min(smallest, saved);
    most = std::max(most, saved);
    forward_peak = std::max(forward_peak, saved + costs.works[structure.forward(c)].memory.during.count());
    backward_peak = std::max(backward_peak, saved + costs.works[structure.backward(c)].memory.during.count());
  }
  // One pass alone reaches its own transient peak. With one chunk a stage the peak is exact: all in flight, plus a transient.
  const i64 alone = std::max(forward_peak, backward_peak);
  if (s.virtual_stages == 1) {
    const i64 held = std::max<i64>(1, max_in_flight(s, stage));
    // Zero-bubble: of those, p − i still wait for their input gradient.
    const bool split = splits_backward(s.kind);
    const i64 whole = split ? std::min<i64>(held, s.stages - stage) : held;
    const i64 after_input = split ? -costs.works[structure.backward_weight(stage)].memory.after.count() : 0;
    return (whole - 1) * smallest + (held - whole) * after_input + alone;
  }
  return std::max(alone, s.kind == ScheduleKind::interleaved ? interleaved_warmup_bytes(costs, structure, stage) : most);
}

i64 peak_bytes(i64 static_bytes, i64 activations, double allocator_reserve) {
  // The same rounding as the memory replay: a byte more here could drop what just fits.
  return static_cast<i64>(std::floor(static_cast<double>(static_bytes + activations) * (1.0 + allocator_reserve)));
}

}  // namespace espalier::cost
