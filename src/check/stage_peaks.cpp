// SPDX-License-Identifier: Apache-2.0
#include "check/stage_peaks.h"

#include <algorithm>
#include <cmath>

#include "base/invariant.h"
#include "check/program_tables.h"
#include "check/saved_activations.h"
#include "check/transients.h"
#include "plan/engine.h"

namespace espalier::check {
namespace {

std::int64_t most_activations(const Program& program, const RankClass& rank, const std::vector<ChunkPeak>& peaks,
                              const std::vector<std::int64_t>& saved) {
  std::int64_t held = 0, most = 0;
  for (std::int32_t n = rank.begin; n < rank.end; ++n) {
    const Instruction& i = program.instructions[static_cast<std::size_t>(n)];
    if (!is_pass(i.kind)) continue;
    const auto chunk = program.chunk_of(i).index();
    if (i.kind == InstructionKind::forward) {
      if (i.bucket == 0) held += saved[chunk];
      most = std::max(most, held - saved[chunk] + peaks[chunk].forward);
      continue;
    }
    const bool holds_set = i.kind != InstructionKind::backward_weight;
    most = std::max(most, holds_set ? held - saved[chunk] + peaks[chunk].backward : held);
    if (i.kind != InstructionKind::backward_input && i.bucket + 1 == i.buckets) held -= saved[chunk];
  }
  return most;
}

/// Returns the largest total of bytes that passes hold between their forward and the end of their backward.
std::int64_t most_waiting(const Program& program, const RankClass& rank, const std::vector<std::int64_t>& bytes) {
  std::int64_t held = 0, most = 0;
  for (std::int32_t n = rank.begin; n < rank.end; ++n) {
    const Instruction& i = program.instructions[static_cast<std::size_t>(n)];
    if (i.kind == InstructionKind::forward && i.bucket == 0) held += bytes[program.chunk_of(i).index()];
    most = std::max(most, held);
    if (i.kind == InstructionKind::backward && i.bucket + 1 == i.buckets) held -= bytes[program.chunk_of(i).index()];
  }
  return most;
}

}  // namespace

std::vector<std::int64_t> waiting_on_hosts(const View& view, const Program& program) {
  const std::vector<std::int64_t> bytes = hosted_bytes_per_chunk(view);
  std::vector<std::int64_t> result(static_cast<std::size_t>(view.stages), 0);
  for (const RankClass& rank : program.ranks)
    result[rank.stage.index()] = std::max(result[rank.stage.index()], most_waiting(program, rank, bytes));
  return result;
}

std::vector<PeakBytes> peak_bytes_per_stage(const View& view, const Program& program, const std::vector<std::int64_t>& fixed,
                                            const std::vector<std::int64_t>& saved) {
  ESPALIER_CHECK(fixed.size() == static_cast<std::size_t>(view.stages) && saved.size() == view.chunks.size());
  std::vector<std::int64_t> buffers(fixed.size(), 0);
  std::vector<ChunkPeak> least(view.chunks.size()), most(view.chunks.size());
  each_group(view, [&](const View& alone, const auto& counts) {
    const std::vector<std::int64_t> own = buffer_bytes_per_stage(alone);
    const std::vector<ChunkPeak> low = chunk_peaks(alone, false), high = chunk_peaks(alone, true);
    for (std::size_t i = 0; i < own.size(); ++i)
      if (counts(i)) buffers[i] = own[i];
    for (std::size_t c = 0; c < low.size(); ++c) {
      if (!counts(static_cast<std::size_t>(view.stage_of[c]))) continue;
      least[c] = low[c];
      most[c] = high[c];
    }
  });
  const double reserve = 1.0 + view.engine.memory.allocator_reserve;
  std::vector<PeakBytes> result(fixed.size());
  for (const RankClass& rank : program.ranks) {
    const auto stage = rank.stage.index();
    const auto total = [&](const std::vector<ChunkPeak>& peaks) {
      const std::int64_t tensors = fixed[stage] + buffers[stage] + most_activations(program, rank, peaks, saved);
      return static_cast<std::int64_t>(std::floor(static_cast<double>(tensors) * reserve));
    };
    result[stage].least = std::max(result[stage].least, total(least));
    result[stage].most = std::max(result[stage].most, total(most));
    // The peak includes everything that is held throughout.
    ESPALIER_CHECK(fixed[stage] <= result[stage].least && result[stage].least <= result[stage].most);
  }
  return result;
}

bool PeakBytes::admits(std::int64_t claimed) const {
  constexpr double kSlack = 0.02;
  const auto bytes = static_cast<double>(claimed);
  return bytes >= (1 - kSlack) * static_cast<double>(least) && bytes <= (1 + kSlack) * static_cast<double>(most);
}

std::int64_t usable_bytes(const Cluster& cluster, std::size_t group) {
  const DeviceKind& device = cluster.groups[group].device;
  const std::int64_t usable = device.memory.count() - device.context_reserve.count();
  return cluster.memory_limit ? std::min(usable, cluster.memory_limit->count()) : usable;
}

}  // namespace espalier::check
