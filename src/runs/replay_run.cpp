// SPDX-License-Identifier: Apache-2.0
#include "runs/replay_run.h"

#include <cmath>

#include "base/format.h"
#include "base/invariant.h"
#include "planner/replay.h"
#include "runs/record_words.h"

namespace espalier::runs {
namespace {

constexpr double kLongestPass = 1e6;  ///< seconds of one pass: beyond any machine

std::int64_t nanoseconds(double seconds) { return std::llround(seconds * 1e9); }

}  // namespace

std::variant<RunResult, RunSkip> replay_run(const RunRecord& record) {
  const RunMixture& m = record.mixture;
  ESPALIER_CHECK(m.measured_durations());
  const auto kind = record.schedule.empty() ? std::optional(ScheduleKind::one_f_one_b) : read_schedule_words(record.schedule);
  if (!kind) return RunSkip{"schedule unknown", record.schedule};
  if (!m.microbatches || *m.microbatches > (1 << 20)) return RunSkip{"microbatches missing", "extra.microbatches_per_replica"};
  planner::ReplayedStep step;
  step.schedule.kind = *kind;
  step.schedule.stages = static_cast<std::int32_t>(m.stages.size());
  step.schedule.microbatches = static_cast<std::int32_t>(*m.microbatches);
  step.update_ns = nanoseconds(m.update_s);
  for (const RunStage& stage : m.stages) {
    step.passes.emplace_back();
    for (const RunReplica& replica : stage.replicas) {
      if (*replica.forward_s > kLongestPass || *replica.backward_s > kLongestPass)
        return RunSkip{"durations out of range", record.id};
      step.passes.back().push_back({nanoseconds(*replica.forward_s), nanoseconds(*replica.backward_s)});
    }
  }
  const auto replayed = planner::replay(step);
  if (!replayed) return RunSkip{"no replay", replayed.error().message()};
  if (!record.measured.iteration_s || *record.measured.iteration_s <= 0) return RunSkip{"nothing measured to compare with", ""};
  RunResult out;
  out.id = record.id;
  out.source = record.source.empty() ? "unknown" : record.source;
  out.engine = "none";
  out.label = cat("replay PP", m.stages.size(), " × ", m.stages.front().replicas.size(), " replicas, ", *m.microbatches,
                  " micro-batches, ", to_string(*kind));
  out.calibration = "measured durations";
  out.predicted_s = static_cast<double>(*replayed) * 1e-9;
  out.measured_s = record.measured.iteration_s;
  out.defaults.push_back({"durations", "replayed", "stages[].replicas[].fwd_s and bwd_s of the record"});
  if (m.update_s > 0)
    out.defaults.push_back(
        {"end of the step", cat(base::fixed(m.update_s, 3), " s"), "optimizer and clipping of extra.mean_other_ops_s"});
  return out;
}

}  // namespace espalier::runs
