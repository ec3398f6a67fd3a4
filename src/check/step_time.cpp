// SPDX-License-Identifier: Apache-2.0
#include "check/step_time.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "check/chunk_time.h"
#include "check/graph.h"

namespace espalier::check {
namespace {

/// Pieces of each chunk, as the program cuts its gradients or parameters.
std::vector<std::int32_t> buckets_of(const View& view, const Program& program) {
  std::vector<std::int32_t> buckets(view.chunks.size(), 1);
  for (const Instruction& i : program.instructions) {
    const bool collective = i.kind == InstructionKind::grad_reduce || i.kind == InstructionKind::param_gather;
    if (collective) buckets[program.chunk_of(i).index()] = std::max<std::int32_t>(1, i.buckets);
  }
  return buckets;
}

/// Whole nanoseconds of one instruction.
class Rounding {
 public:
  explicit Rounding(End end) : end_(end) {}
  [[nodiscard]] std::int64_t operator()(double seconds, std::int32_t layers, double parts = 1) const {
    const double slack = 2.0 * layers + 2, ns = std::min(seconds * 1e9, 4e18);
    if (end_ == End::least) return static_cast<std::int64_t>(std::max(0.0, std::floor((ns * (1 - 1e-9) - slack) / parts) - 1));
    return static_cast<std::int64_t>(std::ceil((ns * (1 + 1e-9) + slack) / parts) + 1);
  }

 private:
  End end_;
};

std::int64_t duration_of(const Program& program, const Instruction& i, std::int32_t stage, const PlanTime& time,
                         const Rounding& round) {
  const double parts = std::max<double>(1, i.buckets);
  const StageTime& held = time.stages[static_cast<std::size_t>(stage)];
  if (i.kind == InstructionKind::optimizer) return round(held.update, 0);
  if (i.kind == InstructionKind::tied_reduce) return round(held.shared_table, 0);
  const ChunkTime& chunk = time.chunks[program.chunk_of(i).index()];
  switch (i.kind) {
    case InstructionKind::forward: return round(chunk.forward, chunk.layers, parts);
    case InstructionKind::backward: return round(chunk.backward, chunk.layers, parts);
    case InstructionKind::backward_input: return round(chunk.backward_input, chunk.layers, parts);
    case InstructionKind::backward_weight: return round(chunk.backward_weight, chunk.layers, parts);
    case InstructionKind::send: return round(chunk.message, 0);
    case InstructionKind::grad_reduce: return round(chunk.reduction, 0);
    case InstructionKind::param_gather: return round(chunk.gather, 0);
    default: return 0;
  }
}

/// `most`: collectives of the data group stop compute.
Stream stream_of(const Instruction& i, End end) {
  return end == End::most && i.stream == Stream::data ? Stream::compute : i.stream;
}

std::int64_t longest_path_ns(const View& view, const Program& program, End end) {
  const PlanTime time = plan_time(view, buckets_of(view, program), end);
  const Rounding round(end);
  Graph graph(program.instructions.size());
  std::vector<std::int64_t> durations(program.instructions.size(), 0);
  for (const RankClass& rank : program.ranks) {
    std::array<std::int32_t, kStreams> last;
    last.fill(-1);
    for (std::int32_t n = rank.begin; n < rank.end; ++n) {
      const Instruction& i = program.instructions[static_cast<std::size_t>(n)];
      durations[static_cast<std::size_t>(n)] = duration_of(program, i, rank.stage.value, time, round);
      std::int32_t& stream = last[static_cast<std::size_t>(stream_of(i, end))];
      const std::int32_t sent = i.kind == InstructionKind::recv ? i.match : -1;
      for (const std::int32_t before : {stream, i.wait0, i.wait1, sent}) {
        if (before >= 0) graph.add(before, n);
      }
      stream = n;
    }
  }
  const std::vector<std::int64_t> ends = graph.ends(durations);
  return ends.empty() ? 0 : *std::max_element(ends.begin(), ends.end());
}

}  // namespace

StepTime step_time(const View& view, const Program& program) {
  const StepTime bounds{longest_path_ns(view, program, End::least), longest_path_ns(view, program, End::most)};
  ESPALIER_CHECK(bounds.least_ns > 0 && bounds.least_ns <= bounds.most_ns);
  return bounds;
}

}  // namespace espalier::check
