// SPDX-License-Identifier: Apache-2.0
#include "planner/runs_on.h"

#include <algorithm>
#include <set>

#include "base/format.h"
#include "base/parallel.h"
#include "plan/engine.h"
#include "plan/engine_faults.h"
#include "planner/memory.h"
#include "planner/memory_margin.h"
#include "planner/prediction.h"
#include "planner/simulated_evaluator.h"
#include "search/search.h"

namespace espalier {

std::string_view to_string(EngineStatus status) {
  switch (status) {
    case EngineStatus::runs: return "runs";
    case EngineStatus::has_plan: return "has a plan";
    case EngineStatus::none: return "none";
    case EngineStatus::unknown: return "unknown";
  }
  return "?";
}

}  // namespace espalier

namespace espalier::planner {
namespace {

constexpr std::size_t kSeeds = 64;
constexpr std::size_t kSideBySide = 4;  // only the best plan is needed: runners-up need not be simulated

/// Returns the same job for another engine. The devices and links of a user's calibration stay. Its coefficients are
/// dropped, since they belong to its own engine.
Job for_engine(const Job& job, const EngineModel& engine) {
  Job out = job;
  out.engine = engine.name;
  out.engine_model = nullptr;
  out.calibration = nullptr;
  out.search.kind = SpaceKind::uniform;
  return out;
}

std::string why_none(const search::Outcome& found) {
  if (found.interrupted) return "the search was stopped before it found one";
  if (!found.complete) return "node limit";
  if (found.space_size == 0) return "its rules and the job's search part exclude every configuration";
  return base::cat("none of ", base::count(found.space_size), " configurations fits");
}

}  // namespace

search::Outcome search_with(const Job& job, const EngineModel& engine, const PlannerOptions& options,
                            const std::vector<search::Candidate>& good, std::int64_t slowest_ns) {
  const Job room = with_memory_room(job);
  search::Options how;
  how.threads = options.threads > 0 ? options.threads : base::hardware_threads();
  how.node_limit = options.node_limit.value_or(0);
  how.interrupted = options.interrupted;
  for (std::size_t i = 0; i < std::min(good.size(), kSeeds); ++i) how.seeds.push_back(good[i].configuration);
  how.side_by_side = kSideBySide;
  how.slowest_ns = slowest_ns;
  // Under a limit the answer depends on the order of work, which a record changes.
  PlannerMemory* memory = options.node_limit.value_or(0) == 0 && slowest_ns == INT64_MAX ? options.memory : nullptr;
  const std::optional<search::Carried> carried = carried_for(memory, room);
  how.carried = carried ? &*carried : nullptr;
  if (!carried)
    for (const search::Configuration& seed : seeds_for(memory, room)) how.seeds.push_back(seed);
  how.keep_record = memory != nullptr;
  SimulatedEvaluator evaluator(how.threads, job.network);
  search::Outcome found =
      search::branch_and_bound({&room.model, &room.cluster, room.training, &engine, room.search}, evaluator, how);
  remember(memory, room, std::move(found.record));
  return found;
}

bool has_rules(const EngineModel& engine) { return engine.family != EngineFamily::generic; }

std::vector<std::string> broken_rules(const EngineModel& engine, const Job& job, const Plan& plan) {
  std::set<std::string> broken;
  for (const RuleViolation& v : engine_faults(engine, job.model, job.cluster, job.training, plan)) broken.insert(v.rule);
  return {broken.begin(), broken.end()};
}

bool accepts(const EngineModel& engine, const Job& job, const Plan& plan) { return broken_rules(engine, job, plan).empty(); }

EngineAnswer engine_answer(const EngineQuestion& q, const EngineModel& engine, std::int64_t slowest_ns) {
  EngineAnswer out;
  out.engine = engine.name;
  const Job own = for_engine(q.job, engine);
  const search::Outcome found = search_with(own, engine, q.options, q.good, slowest_ns);
  if (!found.best) {
    out.status = EngineStatus::none;
    out.why = why_none(found);
    return out;
  }
  const search::Configuration& c = found.best->configuration;
  out.status = EngineStatus::has_plan;
  out.label = document_of(own, engine, c.strategy, c.schedule).label();
  out.iteration_ns = found.best->iteration_ns;
  out.peak_memory_bytes = found.best->peak_bytes;
  out.loss = static_cast<double>(out.iteration_ns) / static_cast<double>(q.answer_ns) - 1;
  if (!found.complete)
    out.why = "not proven to be its best: " + std::string(found.interrupted ? "the search was stopped" : "node limit");
  return out;
}

std::optional<EngineAnswer> runnable_plan(const EngineQuestion& q, std::int64_t slowest_ns) {
  std::optional<EngineAnswer> best;
  for (const std::string_view name : kUsualEngines) {
    EngineAnswer answer = engine_answer(q, *find_engine(name), best ? best->iteration_ns : slowest_ns);
    if (!answer.label.empty() && (!best || answer.iteration_ns < best->iteration_ns)) best = std::move(answer);
  }
  return best;
}

std::vector<EngineAnswer> all_engines(const EngineQuestion& q, const Plan& plan) {
  std::vector<EngineAnswer> out;
  for (const EngineModel& engine : engine_catalogue()) {
    if (engine.name == "generic" || engine.planned) continue;
    if (!has_rules(engine)) {
      EngineAnswer unknown;
      unknown.engine = engine.name;
      unknown.status = EngineStatus::unknown;
      unknown.why = "Espalier has no rules for this engine";
      out.push_back(std::move(unknown));
      continue;
    }
    EngineAnswer answer = engine_answer(q, engine);
    if (accepts(engine, q.job, plan)) answer.status = EngineStatus::runs;
    out.push_back(std::move(answer));
  }
  return out;
}

}  // namespace espalier::planner
