// SPDX-License-Identifier: Apache-2.0
#include "cost/bound.h"

#include <algorithm>
#include <cmath>

namespace espalier::cost {
namespace {

using i64 = std::int64_t;

bool zero_bubble(ScheduleKind k) { return k == ScheduleKind::zb_h1 || k == ScheduleKind::zb_v; }

i64 forward(const ChunkTiming& t) { return t.forward.duration_ns(); }
/// The part of the backward that the previous chunk waits for.
i64 backward(const ChunkTiming& t, bool split) { return split ? t.backward_input.duration_ns() : t.backward.duration_ns(); }

/// What a stage's end adds after its last computation.
i64 tail(const PlanTiming& timing, const ProgramStructure& l, std::int32_t stage, std::int32_t lowest) {
  const auto& s = timing.stages[static_cast<std::size_t>(stage)];
  const auto chunk = [&](std::int32_t k) { return static_cast<std::size_t>(pipeline_chunk(l.schedule, stage, k)); };
  i64 t = s.optimizer_ns;
  for (const std::int32_t c : l.table_chunks)
    if (place_of_chunk(l.schedule, c).stage == stage) t += s.tied_reduce_ns;
  if (l.reduce_gradients && l.overlap_reduce) t += timing.chunks[static_cast<std::size_t>(lowest)].grad_reduce_ns;
  for (std::int32_t k = 0; k < l.schedule.virtual_stages; ++k) {
    const auto& c = timing.chunks[chunk(k)];
    if (l.reduce_gradients && !l.overlap_reduce) t += c.grad_reduce_ns * l.buckets[chunk(k)];
    if (l.gather_parameters && !l.overlap_gather) t += c.param_gather_ns * l.buckets[chunk(k)];
  }
  return t;
}

/// Sends that a stage waits for between two computations; the longest one may be the last and wait for nobody.
i64 blocking_sends(const PlanTiming& timing, const Schedule& s, std::int32_t stage) {
  i64 all = 0, longest = 0;
  for (std::int32_t k = 0; k < s.virtual_stages; ++k) {
    const auto c = static_cast<std::size_t>(pipeline_chunk(s, stage, k));
    const i64 down = c + 1 < timing.chunks.size() ? timing.chunks[c + 1].send_forward_ns : 0;
    const i64 up = timing.chunks[c].send_backward_ns;
    all += down + up, longest = std::max({longest, down, up});
  }
  return all * s.microbatches - longest;
}

}  // namespace

i64 iteration_lower_bound_ns(const PlanTiming& timing, const ProgramStructure& l) {
  const Schedule& s = l.schedule;
  const bool split = zero_bubble(s.kind);
  const i64 m = s.microbatches;
  const auto chunks = static_cast<std::int32_t>(timing.chunks.size());
  i64 round_trip = 0;  // of chunk a … last, updated as a grows
  for (std::int32_t c = 0; c < chunks; ++c) {
    const auto& t = timing.chunks[static_cast<std::size_t>(c)];
    round_trip += forward(t) + backward(t, split) + (c > 0 ? t.send_forward_ns + t.send_backward_ns : 0);
  }
  const i64 first_gather = l.overlap_gather ? timing.chunks.front().param_gather_ns : 0;
  const i64 first_tail = tail(timing, l, 0, 0);
  const i64 first_weight = split ? timing.chunks.front().backward_weight.duration_ns() : 0;
  i64 best = 0, pre = first_gather, post = 0;
  for (std::int32_t i = 0; i < s.stages; ++i) {
    const auto& a = timing.chunks[static_cast<std::size_t>(i)];  // smallest chunk of stage i is chunk i in every placement
    i64 work = 0, input_work = 0;
    for (std::int32_t k = 0; k < s.virtual_stages; ++k) {
      const auto& t = timing.chunks[static_cast<std::size_t>(pipeline_chunk(s, i, k))];
      input_work += forward(t) + backward(t, split);
      work += split ? t.backward_weight.duration_ns() : 0;
    }
    work = (work + input_work) * m, input_work *= m;
    const i64 wait = l.overlap_p2p || s.stages == 1 ? 0 : blocking_sends(timing, s, i);
    best = std::max(best, pre + work + wait + tail(timing, l, i, i));
    best = std::max(best, pre + input_work + (split ? 0 : wait) + post + first_weight + first_tail);
    if (l.overlap_reduce && !split) {
      const i64 buckets = l.buckets[static_cast<std::size_t>(i)];
      // At most what part_of(…, 0, buckets) gives, whose three components are rounded down apart; grows with the whole.
      const i64 first_bucket = std::max<i64>(0, (a.backward.duration_ns() - 3 * (buckets - 1)) / buckets);
      best = std::max(best, pre + work - backward(a, false) + first_bucket + a.grad_reduce_ns * buckets +
                                timing.stages[static_cast<std::size_t>(i)].optimizer_ns);
    }
    if (s.virtual_stages == 1) {
      const i64 in_flight = std::max<i64>(1, max_in_flight(s, i));
      best = std::max(best, pre + ((m - 1) / in_flight + 1) * round_trip + post + first_weight + first_tail);
    }
    const auto& next = timing.chunks[static_cast<std::size_t>(std::min(i + 1, chunks - 1))];
    round_trip -= forward(a) + backward(a, split) + next.send_forward_ns + next.send_backward_ns;
    pre += forward(a) + next.send_forward_ns;
    post += backward(a, split) + next.send_backward_ns;
  }
  return best;
}

namespace {

/// Interleaved 1F1B: what the stage holds when its warm-up ends, before any backward. Passes go round the chunks in groups of p
/// micro-batches: chunk k has ⌊N/(p·v)⌋·p passes and its part of the rest, N = passes in flight.
i64 interleaved_warmup_bytes(const PlanTiming& timing, const Schedule& s, std::int32_t stage) {
  const i64 group = s.stages, round = group * s.virtual_stages, passes = max_in_flight(s, stage);
  i64 bytes = 0, rest = passes % round;
  for (std::int32_t k = 0; k < s.virtual_stages; ++k) {
    const i64 held = passes / round * group + std::min(rest, group);
    rest -= std::min(rest, group);
    bytes += held * timing.chunks[static_cast<std::size_t>(pipeline_chunk(s, stage, k))].saved_bytes;
  }
  return bytes;
}

}  // namespace

i64 activations_lower_bound_bytes(const PlanTiming& timing, const Schedule& s, std::int32_t stage) {
  i64 smallest = 0, most = 0, forward_peak = 0, backward_peak = 0;
  for (std::int32_t k = 0; k < s.virtual_stages; ++k) {
    const auto& c = timing.chunks[static_cast<std::size_t>(pipeline_chunk(s, stage, k))];
    smallest = k == 0 ? c.saved_bytes : std::min(smallest, c.saved_bytes);
    most = std::max(most, c.saved_bytes);
    forward_peak = std::max(forward_peak, c.saved_bytes + c.forward_transient_bytes);
    backward_peak = std::max(backward_peak, c.saved_bytes + c.backward_transient_bytes);
  }
  // One pass alone reaches its own transient peak. With one chunk a stage the peak is exact: all in flight, plus a transient.
  const i64 alone = std::max(forward_peak, backward_peak);
  if (s.virtual_stages == 1) {
    const i64 held = std::max<i64>(1, max_in_flight(s, stage));
    // Zero-bubble: of those, p − i still wait for their input gradient.
    const i64 whole = zero_bubble(s.kind) ? std::min<i64>(held, s.stages - stage) : held;
    return (whole - 1) * smallest + (held - whole) * timing.chunks[static_cast<std::size_t>(stage)].saved_after_input_bytes +
           alone;
  }
  return std::max(alone, s.kind == ScheduleKind::interleaved ? interleaved_warmup_bytes(timing, s, stage) : most);
}

i64 peak_bytes(i64 static_bytes, i64 activations, double allocator_reserve) {
  // The same rounding as the memory replay: a byte more here could drop what just fits.
  return static_cast<i64>(std::floor(static_cast<double>(static_bytes + activations) * (1.0 + allocator_reserve)));
}

}  // namespace espalier::cost
