// SPDX-License-Identifier: Apache-2.0
#include "planner/alternatives.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <tuple>

#include "base/format.h"
#include "plan/engine.h"
#include "planner/legality.h"
#include "planner/plan_layers.h"
#include "planner/prediction.h"
#include "planner/time_parts.h"

namespace espalier::planner {
namespace {

/// Picks the fastest member that fits, or the leanest if none does. Members come in ascending order of stages, and
/// only the first number of stages with a member that fits is considered.
void judge(const Job& job, const EngineModel& engine, const std::vector<search::Configuration>& family, JudgedBaseline& out) {
  std::int32_t fitting_stages = 0;
  for (const auto& c : family) {
    if (fitting_stages != 0 && c.schedule.stages != fitting_stages) break;
    const auto timed = time_plan(job, engine, document_of(job, engine, c.strategy, c.schedule), false);
    if (!timed) continue;
    const Prediction p = prediction_of(job, engine, *timed);
    const bool fits = p.fits_with_margin;
    const bool better = !out.legal || (fits && !out.fits) || (fits && p.iteration_ns < out.prediction.iteration_ns) ||
                        (!out.fits && p.peak_memory_bytes < out.prediction.peak_memory_bytes);
    if (fits) fitting_stages = c.schedule.stages;
    if (!better) continue;
    out.legal = true;
    out.fits = fits;
    out.configuration = c;
    out.prediction = p;
  }
}

constexpr double kPartWorthNaming = 0.1;  // share of the sum of all differences of parts

/// Formats a time with its sign: "+0.213 s"; below 10 ms "+870.0 us".
std::string signed_seconds(std::int64_t ns) {
  if (std::abs(ns) < 10'000'000) return (ns < 0 ? "-" : "+") + base::seconds(std::abs(ns));
  char text[48];
  std::snprintf(text, sizeof text, "%+.3f s", static_cast<double>(ns) * 1e-9);
  return text;
}

Alternative from_prediction(std::string label, bool baseline, const Prediction& p, const PlannerResult& answer, Plan plan) {
  Alternative a;
  a.label = std::move(label);
  a.baseline = baseline;
  a.fits = p.fits;
  a.iteration_ns = p.iteration_ns;
  a.peak_memory_bytes = p.peak_memory_bytes;
  if (!p.fits) {
    a.lost_to = "needs " + base::gib(p.peak_memory_bytes) + " of " + base::gib(p.memory_limit_bytes);
  } else {
    const std::int64_t later = p.iteration_ns - answer.prediction.iteration_ns;
    a.lost_to = later == 0 ? "equal" : differences(p, answer.prediction);
    if (!p.fits_with_margin && answer.prediction.fits_with_margin)
      a.lost_to =
          base::cat("needs ", base::gib(p.peak_memory_bytes), ", which is more than the memory margin allows; ", a.lost_to);
  }
  a.configuration = uniform_configuration(plan);
  a.plan = std::move(plan);
  return a;
}

/// Marks a baseline that is faster than the answer, with the reason why the search could not return it. Does nothing
/// for slower baselines, or if the search did not cover the whole space.
void mark_outside(const Job& job, const EngineModel& engine, const PlannerResult& answer, const JudgedBaseline& b,
                  Alternative& out) {
  const bool faster = out.fits && out.iteration_ns < answer.prediction.iteration_ns;
  if (!faster || !is_whole(answer.search.reason)) return;
  out.outside_space = true;
  const auto broken = illegal(job, engine, b.configuration.strategy, b.configuration.schedule);
  const std::string why = !b.engine.empty()                ? base::cat("with ", b.engine)
                          : !broken.ok()                   ? broken.error().found
                          : !b.prediction.fits_with_margin ? std::string("memory margin")
                                                           : std::string("the job's search part");
  out.lost_to = base::cat("outside the space (", why, "): ", out.lost_to);
}

using DegreeKey = std::tuple<std::int32_t, std::int32_t, std::int32_t, std::int32_t, std::int32_t, int, std::int32_t>;

DegreeKey degrees_of(const Strategy& s, const Schedule& c) {
  return DegreeKey{c.stages, s.tp, s.cp, s.dp, s.ep, static_cast<int>(s.sp), c.micro_batch};
}

/// Times a configuration that the search simulated again, for its parts. Without a name it is a runner-up under
/// its own label.
std::optional<Alternative> alternative(const Job& job, const EngineModel& engine, const PlannerResult& answer,
                                       const search::Configuration& c, const std::string& name) {
  return alternative_of(job, engine, answer, document_of(job, engine, c.strategy, c.schedule), name);
}

}  // namespace

std::optional<Alternative> alternative_of(const Job& job, const EngineModel& engine, const PlannerResult& answer, Plan plan,
                                          const std::string& name) {
  const auto timed = time_plan(job, engine, plan, false);
  if (!timed) return std::nullopt;
  const std::string label = name.empty() ? plan.label() : name;
  return from_prediction(label, !name.empty(), prediction_of(job, engine, *timed), answer, std::move(plan));
}

std::string differences(const Prediction& other, const Prediction& best) {
  std::vector<std::pair<const char*, std::int64_t>> parts;
  std::int64_t moved = 0;
  const std::vector<TimePart> theirs = time_parts(other.bottleneck.breakdown);
  const std::vector<TimePart> ours = time_parts(best.bottleneck.breakdown);
  for (std::size_t i = 0; i < ours.size(); ++i) {
    parts.emplace_back(ours[i].name, theirs[i].ns - ours[i].ns);
    moved += std::abs(parts.back().second);
  }
  std::stable_sort(parts.begin(), parts.end(), [](const auto& x, const auto& y) { return x.second > y.second; });
  std::string out;
  for (const auto& [name, ns] : parts) {
    const bool counts = static_cast<double>(std::abs(ns)) >= kPartWorthNaming * static_cast<double>(moved);
    if (counts) out += base::cat(out.empty() ? "" : ", ", name, " ", signed_seconds(ns));
  }
  return out.empty() ? signed_seconds(other.iteration_ns - best.iteration_ns) : out;
}

std::vector<JudgedBaseline> judge_baselines(const Job& job, const EngineModel& engine) {
  std::vector<JudgedBaseline> out;
  for (const Baseline& preset : baselines(job, engine)) {
    JudgedBaseline judged;
    judged.label = preset.label;
    judged.refusal = preset.refusal;
    judged.engine = preset.engine;
    const EngineModel& own = preset.engine.empty() ? engine : *find_engine(preset.engine);
    judge(job, own, preset.family, judged);
    out.push_back(std::move(judged));
  }
  return out;
}

std::vector<search::Configuration> seeds_of(const std::vector<JudgedBaseline>& baselines) {
  std::vector<search::Configuration> seeds;
  for (const auto& b : baselines)
    if (b.legal && b.fits && b.engine.empty()) seeds.push_back(b.configuration);
  return seeds;
}

std::vector<SearchedPlan> searched_of(const Job& job, const EngineModel& engine, const search::Outcome& found) {
  std::vector<SearchedPlan> out;
  out.reserve(found.simulated.size());
  for (const search::Candidate& candidate : found.simulated) {
    const auto& c = candidate.configuration;
    out.push_back({document_of(job, engine, c.strategy, c.schedule).label(), c.strategy, c.schedule, candidate.iteration_ns,
                   candidate.peak_bytes});
  }
  return out;
}

std::vector<Alternative> alternatives_of(const Job& job, const EngineModel& engine, const PlannerResult& answer,
                                         const std::vector<JudgedBaseline>& baselines, const search::Outcome& found,
                                         int runners_up) {
  std::vector<Alternative> out;
  for (const auto& b : baselines) {
    if (!b.legal) {
      Alternative a;
      a.label = b.label;
      a.baseline = true;
      a.lost_to = b.refusal.empty() ? "not legal here" : b.refusal;
      out.push_back(std::move(a));
      continue;
    }
    const EngineModel& own = b.engine.empty() ? engine : *find_engine(b.engine);
    out.push_back(from_prediction(b.label, true, b.prediction, answer,
                                  document_of(job, own, b.configuration.strategy, b.configuration.schedule)));
    out.back().engine = b.engine;
    mark_outside(job, engine, answer, b, out.back());
  }
  const bool layerwise = !answer.plan.uniform();
  if (layerwise && found.best) {
    if (auto best = alternative(job, engine, answer, found.best->configuration, kBestUniformPlan))
      out.push_back(std::move(*best));
  }
  // Runners-up differ in a degree, not only in an overlap flag or a shard size: one for each set of degrees.
  std::set<DegreeKey> shown = {layerwise && found.best
                                   ? degrees_of(found.best->configuration.strategy, found.best->configuration.schedule)
                                   : degrees_of(answer.plan.strategy(), answer.plan.only_pipeline().schedule)};
  for (const auto& candidate : found.simulated) {
    if (runners_up <= 0) break;
    const auto& c = candidate.configuration;
    if (!shown.insert(degrees_of(c.strategy, c.schedule)).second) continue;
    auto runner_up = alternative(job, engine, answer, c, "");
    if (!runner_up) continue;
    out.push_back(std::move(*runner_up));
    --runners_up;
  }
  return out;
}

}  // namespace espalier::planner
