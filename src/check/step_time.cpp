// SPDX-License-Identifier: Apache-2.0
#include "check/step_time.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "base/invariant.h"
#include "check/chunk_time.h"
#include "check/graph.h"
#include "check/meeting_time.h"
#include "check/pipelines.h"

namespace espalier::check {
namespace {

/// Returns the number of buckets of each chunk, as the program cuts its gradients or parameters.
std::vector<std::int32_t> buckets_of(const View& view, const Program& program) {
  std::vector<std::int32_t> buckets(view.chunks.size(), 1);
  for (const Instruction& i : program.instructions) {
    const bool collective = i.kind == InstructionKind::grad_reduce || i.kind == InstructionKind::param_gather;
    if (collective) buckets[program.chunk_of(i).index()] = std::max<std::int32_t>(1, i.buckets);
  }
  return buckets;
}

/// Rounds the duration of one instruction to whole nanoseconds.
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
  const StageUpdateTime& held = time.stages[static_cast<std::size_t>(stage)];
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

/// Returns the stream of an instruction. `most`: collectives of the data group stop compute.
Stream stream_of(const Instruction& i, End end) {
  return end == End::most && i.stream == Stream::data ? Stream::compute : i.stream;
}

/// Returns the index of the instruction's meeting between pipelines; −1 if it belongs to none.
std::int32_t meeting_of(const Program& program, const Instruction& i) {
  if (i.kind != InstructionKind::grad_reduce || !program.collectives[i.collective()].pipelines.valid()) return -1;
  std::int32_t first = 0;
  while (!program.collectives[CollectiveId(first)].pipelines.valid()) ++first;
  return i.id - first;
}

/// Computes the longest path. Nodes are the instructions, followed by the meetings between pipelines. An instruction
/// that meets is a node without duration after its meeting. The meeting comes after everything that the instruction
/// itself waits for. `duration(rank, instruction)` and `meetings` hold the durations.
template <class Duration>
std::int64_t longest_path_ns(const Program& program, const Duration& duration, const std::vector<std::int64_t>& meetings,
                             End end) {
  const auto count = static_cast<std::int32_t>(program.instructions.size());
  Graph graph(program.instructions.size() + meetings.size());
  std::vector<std::int64_t> durations(program.instructions.size(), 0);
  durations.insert(durations.end(), meetings.begin(), meetings.end());
  for (const RankClass& rank : program.ranks) {
    std::array<std::int32_t, kStreams> last;
    last.fill(-1);
    for (std::int32_t n = rank.begin; n < rank.end; ++n) {
      const Instruction& i = program.instructions[static_cast<std::size_t>(n)];
      const std::int32_t meeting = meetings.empty() ? -1 : meeting_of(program, i);
      const std::int32_t node = meeting < 0 ? n : count + meeting;
      if (meeting < 0)
        durations[static_cast<std::size_t>(n)] = duration(rank, i);
      else
        graph.add(node, n);
      std::int32_t& stream = last[static_cast<std::size_t>(stream_of(i, end))];
      const std::int32_t sent = i.kind == InstructionKind::recv ? i.match : -1;
      for (const std::int32_t before : {stream, i.wait0, i.wait1, sent}) {
        if (before >= 0) graph.add(before, node);
      }
      stream = n;
    }
  }
  const std::vector<std::int64_t> ends = graph.ends(durations);
  return ends.empty() ? 0 : *std::max_element(ends.begin(), ends.end());
}

std::int64_t alone_ns(const View& view, const Program& program, End end) {
  const PlanTime time = plan_time(view, buckets_of(view, program), end);
  const Rounding round(end);
  return longest_path_ns(
      program,
      [&](const RankClass& rank, const Instruction& i) { return duration_of(program, i, rank.stage.value, time, round); }, {},
      end);
}

std::int64_t together_ns(const Plan& plan, const std::vector<View>& views, const Program& program, End end) {
  const Rounding round(end);
  std::vector<PlanTime> times;
  for (std::size_t k = 0; k < views.size(); ++k)
    times.push_back(plan_time(views[k], buckets_of(views[k], part_of(program, k)), end));
  std::vector<std::int64_t> meetings;
  for (const Collective& c : program.collectives)
    if (c.pipelines.valid()) meetings.push_back(round(meeting_s(plan, views, c.layers, end), 0));
  return longest_path_ns(
      program,
      [&](const RankClass& rank, const Instruction& i) {
        return duration_of(program, i, rank.stage.value, times[static_cast<std::size_t>(rank.pipeline)], round);
      },
      meetings, end);
}

}  // namespace

StepTimeRange step_time(const View& view, const Program& program) {
  const StepTimeRange bounds{alone_ns(view, program, End::least), alone_ns(view, program, End::most)};
  ESPALIER_CHECK(bounds.least_ns > 0 && bounds.least_ns <= bounds.most_ns);
  return bounds;
}

StepTimeRange step_time_of_several(const Plan& plan, const std::vector<View>& views, const Program& program) {
  const StepTimeRange bounds{together_ns(plan, views, program, End::least), together_ns(plan, views, program, End::most)};
  ESPALIER_CHECK(bounds.least_ns > 0 && bounds.least_ns <= bounds.most_ns);
  return bounds;
}

}  // namespace espalier::check
