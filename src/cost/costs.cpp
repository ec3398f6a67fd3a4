// SPDX-License-Identifier: Apache-2.0
#include "cost/costs.h"

namespace espalier::cost {

PhaseTime part_of(const PhaseTime& whole, int bucket, int buckets) {
  const auto cut = [&](std::int64_t v) { return v * (bucket + 1) / buckets - v * bucket / buckets; };
  return {cut(whole.compute_ns), cut(whole.exposed_ns), cut(whole.other_ns), cut(whole.hidden_ns)};
}

void Costs::reset(const ProgramStructure& s) {
  works.assign(static_cast<std::size_t>(s.works()), WorkCost{});
  collectives.assign(static_cast<std::size_t>(s.collectives()), Nanoseconds{});
  slowdowns.assign(static_cast<std::size_t>(s.collectives()), MutualSlowdown{});
  transfers.assign(static_cast<std::size_t>(s.transfers()), Nanoseconds{});
  delays.clear();
  stages.assign(static_cast<std::size_t>(s.schedule.stages), StageCost{});
  allocator_reserve = 0.0;
  message = Bytes{};
}

bool Costs::fits(const ProgramStructure& s) const {
  return works.size() == static_cast<std::size_t>(s.works()) && collectives.size() == static_cast<std::size_t>(s.collectives()) &&
         slowdowns.size() == collectives.size() && transfers.size() == static_cast<std::size_t>(s.transfers()) &&
         stages.size() == static_cast<std::size_t>(s.schedule.stages);
}

PassBytes Costs::bytes_of(const ProgramStructure& s, ChunkId chunk) const {
  const MemoryStep &forward = works[s.forward(chunk)].memory, &backward = works[s.backward(chunk)].memory;
  const Bytes after = splits_backward(s.schedule.kind) ? -works[s.backward_weight(chunk)].memory.after : forward.before;
  return {forward.before.count(), after.count(), forward.during.count(), backward.during.count()};
}

void Costs::set_bytes(const ProgramStructure& s, ChunkId chunk, const PassBytes& bytes) {
  works[s.forward(chunk)].memory = {Bytes(bytes.saved), Bytes(bytes.forward_transient), Bytes()};
  const bool split = splits_backward(s.schedule.kind);
  works[s.backward(chunk)].memory = {Bytes(), Bytes(bytes.backward_transient),
                                     Bytes(split ? bytes.after_input - bytes.saved : -bytes.saved)};
  if (split) works[s.backward_weight(chunk)].memory = {Bytes(), Bytes(), Bytes(-bytes.after_input)};
}

}  // namespace espalier::cost
