// SPDX-License-Identifier: Apache-2.0
// The formulas of bound.h, as templates over any type that provides the times and bytes of chunks. Such types are
// columns of costs (bound.cpp), or the costs of a uniform strategy by class of equal chunks (uniform_bound.cpp).
// Internal to cost/.
//
// `Times` provides for chunk c: forward(c), weight(c) and backward(c), which is the part that the chunk before waits
// for. It provides reduce(c) and gather(c) of one of the chunk's buckets(c). It provides down(c) of the message that
// enters the chunk, and up(c) of the gradient on its way back; both are 0 for chunk 0. For a stage it provides
// optimizer(i). For the step it provides the structure flags under the names of ProgramStructure, schedule(),
// table_chunks() and tied_reduce(). `Bytes` provides bytes(c), the PassBytes of one micro-batch, and schedule().
#pragma once

#include <algorithm>
#include <cstdint>

#include "plan/held_passes.h"
#include "plan/schedule.h"
#include "plan/structure.h"

namespace espalier::cost {

/// Returns the time that the end of a stage adds after its last computation.
template <class Times>
std::int64_t tail_ns(const Times& x, std::int32_t stage, std::int32_t lowest) {
  const Schedule& s = x.schedule();
  std::int64_t t = x.optimizer(stage);
  for (const ChunkId c : x.table_chunks())
    if (place_of_chunk(s, c.value).stage == stage) t += x.tied_reduce();
  if (x.overlap_reduce()) t += x.reduce(lowest);
  const bool reduces = x.reduce_gradients() && !x.overlap_reduce(), gathers = x.gather_parameters() && !x.overlap_gather();
  if (!reduces && !gathers) return t;
  for (std::int32_t k = 0; k < s.virtual_stages; ++k) {
    const std::int32_t c = pipeline_chunk(s, stage, k);
    if (reduces) t += x.reduce(c) * x.buckets(c);
    if (gathers) t += x.gather(c) * x.buckets(c);
  }
  return t;
}

/// Returns the time of the sends for which a stage waits between two computations. The longest one is left out,
/// because it may be the last, for which nothing waits.
template <class Times>
std::int64_t blocking_sends_ns(const Times& x, std::int32_t stage) {
  const Schedule& s = x.schedule();
  std::int64_t all = 0, longest = 0;
  for (std::int32_t k = 0; k < s.virtual_stages; ++k) {
    const std::int32_t c = pipeline_chunk(s, stage, k);
    const std::int64_t down = c + 1 < s.chunks() ? x.down(c + 1) : 0;
    const std::int64_t up = x.up(c);
    all += down + up;
    longest = std::max({longest, down, up});
  }
  return all * s.microbatches - longest;
}

/// Returns the bound of bound.h.
template <class Times>
std::int64_t iteration_bound_ns(const Times& x) {
  using i64 = std::int64_t;
  const Schedule& s = x.schedule();
  const bool split = splits_backward(s.kind);
  const i64 m = s.microbatches;
  const std::int32_t chunks = s.chunks();
  i64 round_trip = 0;  // round trip of chunks a … last, updated as a grows
  for (std::int32_t c = 0; c < chunks; ++c) round_trip += x.forward(c) + x.backward(c) + x.down(c) + x.up(c);
  const i64 first_gather = x.overlap_gather() ? x.gather(0) : 0;
  const i64 first_tail = tail_ns(x, 0, 0);
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
    const i64 wait = x.overlap_p2p() || s.stages == 1 ? 0 : blocking_sends_ns(x, i);
    best = std::max(best, pre + work + wait + tail_ns(x, i, i));
    best = std::max(best, pre + input_work + (split ? 0 : wait) + post + first_weight + first_tail);
    if (x.overlap_reduce() && !split) {
      // This never exceeds part_of(…, 0, buckets), which rounds its three components down separately, and it grows
      // with the whole.
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

/// Returns the bytes that a stage under interleaved 1F1B holds when its warm-up ends, before any backward. Passes go
/// round the chunks in groups of p micro-batches. With N passes in flight, chunk k has ⌊N/(p·v)⌋·p of them and its
/// part of the rest.
template <class Bytes>
std::int64_t interleaved_warmup_bytes(const Bytes& x, std::int32_t stage) {
  const Schedule& s = x.schedule();
  const std::int64_t group = s.stages, round = group * s.virtual_stages, passes = max_in_flight(s, stage);
  std::int64_t bytes = 0, rest = passes % round;
  for (std::int32_t k = 0; k < s.virtual_stages; ++k) {
    const std::int64_t held = passes / round * group + std::min(rest, group);
    rest -= std::min(rest, group);
    bytes += held * x.bytes(pipeline_chunk(s, stage, k)).saved;
  }
  return bytes;
}

template <class Bytes>
std::int64_t activations_bound_bytes(const Bytes& x, std::int32_t stage) {
  const Schedule& s = x.schedule();
  std::int64_t smallest = 0, most = 0, alone = 0;
  for (std::int32_t k = 0; k < s.virtual_stages; ++k) {
    const PassBytes& chunk = x.bytes(pipeline_chunk(s, stage, k));
    smallest = k == 0 ? chunk.saved : std::min(smallest, chunk.saved);
    most = std::max(most, chunk.saved);
    // One pass alone reaches its own transient peak.
    alone = std::max(alone, chunk.saved + std::max(chunk.forward_transient, chunk.backward_transient));
  }
  if (s.virtual_stages > 1)
    return std::max(alone, s.kind == ScheduleKind::interleaved ? interleaved_warmup_bytes(x, stage) : most);
  // With one chunk per stage the peak is exact: all micro-batches in flight, plus a transient. Under zero-bubble,
  // those that are not whole wait for their weight gradient.
  const std::int64_t held = std::max<std::int64_t>(1, max_in_flight(s, stage));
  const bool split = splits_backward(s.kind);
  const std::int64_t whole = split ? std::min<std::int64_t>(held, max_whole(s, stage)) : held;
  const std::int64_t after_input = split ? x.bytes(stage).after_input : 0;
  return (whole - 1) * smallest + (held - whole) * after_input + alone;
}

}  // namespace espalier::cost
