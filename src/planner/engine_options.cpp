// SPDX-License-Identifier: Apache-2.0
#include "planner/engine_options.h"

#include <algorithm>
#include <optional>
#include <string>

#include "base/format.h"
#include "plan/engine.h"
#include "planner/estimate.h"
#include "planner/prediction.h"
#include "planner/runs_on.h"

namespace espalier::planner {

std::string name_with(const EngineModel& engine, const std::vector<std::string>& options) {
  std::string out = engine.name;
  for (const std::string& option : options) out += base::cat("+", option);
  return out;
}

namespace {

constexpr double kGainWorthNaming = 0.02;
constexpr double kWorthSearching = 0.01;  ///< share of the step, on a plan of the plain engine
constexpr double kLeaner = 0.05;          ///< share of the memory limit
constexpr std::size_t kProbes = 8;        ///< plans that show whether an option has any effect on the job

struct OptionSearch {
  const Job& job;
  const EngineModel& engine;
  const PlannerOptions& options;
  const search::Outcome& uniform;
};

Job job_under(const Job& job, const EngineModel& engine) {
  Job out = job;
  out.engine = engine.name;
  return out;
}

std::optional<Prediction> predicted(const OptionSearch& q, const std::vector<std::string>& options,
                                    const search::Configuration& c) {
  const EngineModel* engine = find_engine(name_with(q.engine, options));
  if (engine == nullptr) return std::nullopt;
  const auto p = predict_with(job_under(q.job, *engine), *engine, c.strategy, c.schedule);
  return p ? std::optional(*p) : std::nullopt;
}

/// Returns plans of the search, the fastest first, each also with selective recomputation. Options that change
/// neither time nor memory of any of them are left out of the search.
std::vector<search::Configuration> probes(const OptionSearch& q) {
  std::vector<search::Configuration> out;
  for (const search::Candidate& candidate : q.uniform.simulated) {
    if (out.size() >= 2 * kProbes) break;
    search::Configuration c = candidate.configuration;
    out.push_back(c);
    c.strategy.recompute = {};
    c.strategy.recompute.kind = RecomputeKind::selective;
    out.push_back(c);
  }
  return out;
}

bool has_effect(const OptionSearch& q, const std::string& option) {
  const std::vector<search::Configuration> all = probes(q);
  return std::any_of(all.begin(), all.end(), [&](const search::Configuration& c) {
    const auto plain = predicted(q, {}, c), with = predicted(q, {option}, c);
    return plain && with && (plain->iteration_ns > with->iteration_ns || plain->peak_memory_bytes > with->peak_memory_bytes);
  });
}

/// Returns whether a search with the options can pay off: some simulated plan gets enough faster or leaner with
/// all of them.
bool may_gain(const OptionSearch& q, const std::vector<std::string>& options) {
  if (options.empty()) return false;
  const std::vector<search::Configuration> all = probes(q);
  return std::any_of(all.begin(), all.end(), [&](const search::Configuration& c) {
    const auto plain = predicted(q, {}, c), with = predicted(q, options, c);
    if (!plain || !with) return false;
    const auto limit = static_cast<double>(plain->memory_limit_bytes), before = static_cast<double>(plain->iteration_ns);
    return static_cast<double>(plain->iteration_ns - with->iteration_ns) > kWorthSearching * before ||
           static_cast<double>(plain->peak_memory_bytes - with->peak_memory_bytes) > kLeaner * limit;
  });
}

/// Returns the share by which the step grows without one of the options; −1 if the plan no longer fits.
double loss_without(const OptionSearch& q, std::vector<std::string> options, const std::string& option,
                    const search::Candidate& best) {
  std::erase(options, option);
  const auto p = predicted(q, options, best.configuration);
  if (!p || !p->fits_with_margin) return -1;
  return static_cast<double>(p->iteration_ns) / static_cast<double>(best.iteration_ns) - 1;
}

/// Removes options that gain too little, in the order of the catalogue. Updates the time of the plan to
/// the remaining options.
void keep_gaining(const OptionSearch& q, std::vector<std::string>& options, search::Candidate& best) {
  const std::vector<std::string> all = options;
  for (const std::string& option : all) {
    const double loss = loss_without(q, options, option, best);
    if (loss < 0 || loss > kGainWorthNaming) continue;
    std::vector<std::string> fewer = options;
    std::erase(fewer, option);
    const auto p = predicted(q, fewer, best.configuration);
    if (!p) continue;
    options = std::move(fewer);
    best.iteration_ns = p->iteration_ns;
    best.peak_bytes = p->peak_memory_bytes;
  }
}

/// Returns the best plan with the options; nullopt if it is not over 2 % faster than `than_ns`.
std::optional<OptionAnswer> answer_with(const OptionSearch& q, std::vector<std::string> options, std::int64_t than_ns) {
  const EngineModel* engine = options.empty() ? nullptr : find_engine(name_with(q.engine, options));
  if (engine == nullptr) return std::nullopt;
  const search::Outcome found = search_with(job_under(q.job, *engine), *engine, q.options, q.uniform.simulated);
  if (!found.best) return std::nullopt;
  search::Candidate best = *found.best;
  keep_gaining(q, options, best);
  const double gain = 1 - static_cast<double>(best.iteration_ns) / static_cast<double>(than_ns);
  if (options.empty() || gain <= kGainWorthNaming) return std::nullopt;
  const EngineModel& kept = *find_engine(name_with(q.engine, options));
  OptionAnswer out;
  out.options = options;
  for (const std::string& option : options) out.losses.push_back(loss_without(q, options, option, best));
  out.engine = kept.name;
  out.label = document_of(job_under(q.job, kept), kept, best.configuration.strategy, best.configuration.schedule).label();
  out.iteration_ns = best.iteration_ns;
  out.peak_memory_bytes = best.peak_bytes;
  out.gain = gain;
  out.certified = found.complete && kept.name == engine->name;
  return out;
}

}  // namespace

bool changes_numerics(const EngineModel& engine, const std::vector<std::string>& options) {
  return std::any_of(engine.options.begin(), engine.options.end(), [&](const EngineOption& o) {
    return o.numerics && std::find(options.begin(), options.end(), o.name) != options.end();
  });
}

std::vector<OptionAnswer> option_answers(const Job& job, const EngineModel& engine, const PlannerOptions& options,
                                         const search::Outcome& uniform, std::int64_t answer_ns) {
  if (job.engine_model || job.calibration || engine.name.find('+') != std::string::npos) return {};
  Job own = job;
  own.search.kind = SpaceKind::uniform;
  const OptionSearch q{own, engine, options, uniform};
  std::vector<std::string> execution, all;
  for (const EngineOption& option : engine.options) {
    if (!option.sets.empty() || !has_effect(q, option.name)) continue;
    all.push_back(option.name);
    if (!option.numerics) execution.push_back(option.name);
  }
  std::vector<OptionAnswer> out;
  std::int64_t than_ns = answer_ns;
  if (auto one = may_gain(q, execution) ? answer_with(q, execution, answer_ns) : std::nullopt) {
    than_ns = one->iteration_ns;
    out.push_back(std::move(*one));
  }
  if (!changes_numerics(engine, all) || !may_gain(q, all)) return out;
  auto two = answer_with(q, all, than_ns);
  if (!two || !changes_numerics(engine, two->options)) return out;
  two->numerics = true;
  two->gain = 1 - static_cast<double>(two->iteration_ns) / static_cast<double>(answer_ns);
  out.push_back(std::move(*two));
  return out;
}

}  // namespace espalier::planner
