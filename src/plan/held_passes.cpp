// SPDX-License-Identifier: Apache-2.0
#include "plan/held_passes.h"

#include <algorithm>

#include "base/invariant.h"
#include "plan/schedule.h"

namespace espalier {
namespace {

/// Returns one number for everything that the order of passes depends on.
std::uint64_t key_of(const Schedule& s) {
  constexpr std::int32_t kMost = 1 << 20;
  ESPALIER_CHECK(s.stages < kMost && s.virtual_stages < kMost && s.microbatches < kMost);
  const auto part = [](std::int32_t n) { return static_cast<std::uint64_t>(n); };
  return static_cast<std::uint64_t>(s.kind) << 60 | part(s.stages) << 40 | part(s.virtual_stages) << 20 | part(s.microbatches);
}

/// Returns the peak with one chunk per stage: all passes are alike, and the moment with most of them decides.
std::int64_t one_chunk_peak(const Schedule& s, std::int32_t stage, const PassBytes& c) {
  const std::int64_t whole = max_whole(s, stage), waiting = max_in_flight(s, stage) - whole;
  return whole * c.saved + waiting * c.after_input + std::max(c.forward_transient, c.backward_transient);
}

bool none_more(const std::vector<std::int32_t>& a, const std::vector<std::int32_t>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), [](std::int32_t x, std::int32_t y) { return x <= y; });
}

}  // namespace

Schedule shortest_alike(const Schedule& schedule) {
  Schedule s = schedule;
  const std::int32_t p = s.stages, m = s.microbatches;
  if (s.kind == ScheduleKind::zb_v) s.microbatches = std::min(m, 2 * p);
  if (s.kind == ScheduleKind::interleaved && m >= 5 * p) s.microbatches = 4 * p + m % p;
  return s;
}

std::int64_t HeldPasses::peak_bytes(const Schedule& schedule, std::int32_t stage, const std::vector<PassBytes>& chunks) {
  ESPALIER_CHECK(static_cast<std::int32_t>(chunks.size()) == schedule.virtual_stages);
  for (const PassBytes& c : chunks)
    ESPALIER_CHECK(c.after_input >= 0 && c.after_input <= c.saved && c.forward_transient >= 0 && c.backward_transient >= 0);
  if (schedule.virtual_stages == 1 && schedule.kind != ScheduleKind::interleaved)
    return one_chunk_peak(schedule, stage, chunks.front());
  classes_.clear();
  first_of_.clear();
  for (std::size_t k = 0; k < chunks.size(); ++k) {
    std::size_t c = 0;
    while (c < first_of_.size() && !(chunks[first_of_[c]] == chunks[k])) ++c;
    if (c == first_of_.size()) first_of_.push_back(k);
    classes_.push_back(static_cast<std::int32_t>(c));
  }
  std::int64_t peak = 0;
  for (const Moment& moment : moments(shortest_alike(schedule), stage)) {
    const PassBytes& running = chunks[first_of_[static_cast<std::size_t>(moment.running)]];
    std::int64_t held = moment.backward ? running.backward_transient : running.forward_transient;
    for (std::size_t c = 0; c < first_of_.size(); ++c) {
      const PassBytes& bytes = chunks[first_of_[c]];
      held += moment.whole[c] * (bytes.saved - bytes.after_input) + moment.all[c] * bytes.after_input;
    }
    peak = std::max(peak, held);
  }
  return peak;
}

const std::vector<HeldPasses::Moment>& HeldPasses::moments(const Schedule& shortest, std::int32_t stage) {
  Stages& stages = structures_[key_of(shortest)];
  if (stages.empty()) stages.resize(static_cast<std::size_t>(shortest.stages));
  std::vector<Pattern>& patterns = stages[static_cast<std::size_t>(stage)];
  for (const Pattern& known : patterns)
    if (known.classes == classes_) return known.moments;
  patterns.push_back({classes_, deciding(shortest, stage, classes_)});
  return patterns.back().moments;
}

/// Adds a moment and removes those that it dominates, unless a kept one dominates it.
void HeldPasses::keep(std::vector<Moment>& moments, const Moment& found) {
  const auto dominated = [](const Moment& a, const Moment& b) {
    return a.running == b.running && a.backward == b.backward && none_more(a.whole, b.whole) && none_more(a.all, b.all);
  };
  // The latest moments are the most similar ones.
  if (std::any_of(moments.rbegin(), moments.rend(), [&](const Moment& known) { return dominated(found, known); })) return;
  std::erase_if(moments, [&](const Moment& known) { return dominated(known, found); });
  moments.push_back(found);
}

std::vector<HeldPasses::Moment> HeldPasses::deciding(const Schedule& shortest, std::int32_t stage,
                                                     const std::vector<std::int32_t>& classes) {
  std::vector<Moment> out;
  Moment now;
  const auto count = static_cast<std::size_t>(*std::max_element(classes.begin(), classes.end())) + 1;
  now.whole.assign(count, 0);
  now.all.assign(count, 0);
  for (const ChunkPass& step : compute_order(shortest, stage)) {
    now.running = classes[static_cast<std::size_t>(step.local_chunk)];
    const auto c = static_cast<std::size_t>(now.running);
    if (step.kind == InstructionKind::backward_weight) {
      --now.all[c];
      continue;
    }
    now.backward = step.kind != InstructionKind::forward;
    if (!now.backward) {
      ++now.whole[c];
      ++now.all[c];
    }
    keep(out, now);
    if (now.backward) --now.whole[c];
    if (step.kind == InstructionKind::backward) --now.all[c];
  }
  return out;
}

}  // namespace espalier
