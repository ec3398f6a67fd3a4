// SPDX-License-Identifier: Apache-2.0
#include "reference/v1_planner.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "solve/stage_balance.h"

namespace espalier::reference {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::int32_t kBatchEnd = 1024;  ///< end of the authors' loop

/// Solves ranges of layers; ranges with the same types and capacity are solved once.
class StageSolver {
 public:
  StageSolver(const V1Workload& workload, const V1Stages& stages) : stages_(stages), types_(workload.types()) {
    type_first_.resize(workload.layers.size(), 0);
    for (std::size_t t = 1; t < type_first_.size(); ++t) type_first_[t] = type_first_[t - 1] + workload.layers[t - 1];
  }

  const std::optional<solve::LayerSolution>& solve(std::int32_t stage, std::int32_t first, std::int32_t end) {
    const std::int64_t capacity = stages_.capacity[static_cast<std::size_t>(stage)];
    const std::int32_t type = types_[static_cast<std::size_t>(first)];
    if (type == types_[static_cast<std::size_t>(end - 1)]) {
      const std::int32_t shift = first - type_first_[static_cast<std::size_t>(type)];
      first -= shift;
      end -= shift;
    }
    const auto [found, added] = solved_.try_emplace({capacity, first, end});
    if (added && capacity > 0) found->second = solve::best_layers(v1_stage(stages_, first, end), {}, capacity, kInfinity);
    return found->second;
  }

 private:
  const V1Stages& stages_;
  std::vector<std::int32_t> types_, type_first_;
  std::map<std::array<std::int64_t, 3>, std::optional<solve::LayerSolution>> solved_;
};

/// Converts layers per stage to first layers.
std::vector<std::int32_t> firsts_of(const std::vector<std::int32_t>& division) {
  std::vector<std::int32_t> firsts;
  std::int32_t first = 0;
  for (const std::int32_t layers : division) {
    firsts.push_back(first);
    first += layers;
  }
  return firsts;
}

V1Plan plan_of(const V1Stages& stages, StageSolver& solver, const std::vector<std::int32_t>& firsts) {
  V1Plan plan;
  plan.batch = stages.batch;
  plan.pp = stages.pp;
  const auto total = static_cast<std::int32_t>(stages.model.layers.size());
  for (std::size_t i = 0; i < firsts.size(); ++i) {
    const std::int32_t end = i + 1 < firsts.size() ? firsts[i + 1] : total;
    const auto& solution = solver.solve(static_cast<std::int32_t>(i), firsts[i], end);
    plan.seconds += solution->steady;
    plan.stage_seconds.push_back(solution->steady);
    std::vector<V1Strategy>& layers = plan.stages.emplace_back();
    for (const std::int32_t option : solution->options) layers.push_back(stages.strategies[static_cast<std::size_t>(option)]);
  }
  plan.samples_per_s = stages.batch / plan.seconds;
  return plan;
}

std::vector<std::int32_t> stage_counts(const V1Profile& profile) {
  std::vector<std::int32_t> counts;
  for (const V1Strategy& s : profile.strategies) counts.push_back(s.pp);
  std::sort(counts.begin(), counts.end());
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  return counts;
}

/// Returns the published division at this batch, if all its stages fit.
std::optional<V1Plan> published_at(const V1Workload& workload, std::int64_t memory_mb, std::int32_t batch, std::int32_t pp,
                                   V1Capacity capacity) {
  const auto stages = v1_stages(workload, memory_mb, batch, pp, capacity);
  const auto division = v1_division(workload, batch, pp);
  if (!stages || !division) return std::nullopt;
  StageSolver solver(workload, *stages);
  const std::vector<std::int32_t> firsts = firsts_of(*division);
  for (std::size_t i = 0; i < firsts.size(); ++i) {
    if (!solver.solve(static_cast<std::int32_t>(i), firsts[i], firsts[i] + (*division)[i])) return std::nullopt;
  }
  return plan_of(*stages, solver, firsts);
}

std::optional<V1Plan> plan_published(const V1Workload& workload, std::int64_t memory_mb, V1Capacity capacity) {
  std::optional<V1Plan> best;
  std::int64_t evaluated = 0;
  const std::int32_t step = v1_batch_step(workload);
  for (std::int32_t batch = step; batch < kBatchEnd; batch += step) {
    bool fits = false;
    for (const std::int32_t pp : stage_counts(*workload.profile)) {
      std::optional<V1Plan> plan = published_at(workload, memory_mb, batch, pp, capacity);
      if (!plan) continue;
      fits = true;
      ++evaluated;
      if (!best || plan->samples_per_s > best->samples_per_s) best = std::move(plan);
    }
    if (!fits) break;
  }
  if (best) best->evaluated = evaluated;
  return best;
}

/// Returns the least sum over all contiguous divisions, if below `upper_bound` seconds.
std::optional<V1Plan> free_at(const V1Workload& workload, const V1Stages& stages, double upper_bound) {
  StageSolver solver(workload, stages);
  solve::BalanceProblem balance;
  balance.layers = workload.total_layers();
  balance.stages = stages.pp;
  balance.microbatches = 1;  // T = Σ C: the layer times hold the chunks
  balance.message.assign(static_cast<std::size_t>(stages.pp - 1), 0.0);
  balance.time = solve::PipelineTime::published;
  for (const std::int32_t type : stages.model.layers) {
    double floor = kInfinity;
    for (const solve::LayerOption& o : stages.model.options[static_cast<std::size_t>(type)]) floor = std::min(floor, o.steady);
    balance.layer_floor.push_back(floor);
  }
  const solve::StageOracle oracle = [&solver](std::int32_t stage, std::int32_t first, std::int32_t end) {
    std::optional<solve::StageValue> value;
    if (const auto& solution = solver.solve(stage, first, end)) value = solve::StageValue{solution->steady, 0, solution->peak};
    return value;
  };
  const auto partition = solve::best_partition(balance, oracle, upper_bound);
  if (!partition) return std::nullopt;
  return plan_of(stages, solver, partition->first);
}

struct Candidate {
  V1Stages stages;
  double most = 0;  ///< samples per second that no plan of it exceeds
};

/// Returns every (B, P) that the bound does not exclude, the most promising first.
std::vector<Candidate> candidates_of(const V1Workload& workload, std::int64_t memory_mb, V1Capacity capacity) {
  std::vector<Candidate> candidates;
  const std::int32_t step = v1_batch_step(workload);
  for (std::int32_t batch = step; batch < kBatchEnd; batch += step) {
    const std::size_t before = candidates.size();
    for (const std::int32_t pp : stage_counts(*workload.profile)) {
      if (pp > workload.total_layers()) continue;
      auto stages = v1_stages(workload, memory_mb, batch, pp, capacity);
      if (!stages) continue;
      std::int64_t together = 0;  // one pool instead of P, in which at least as much fits
      for (const std::int64_t mb : stages->capacity) together += std::max<std::int64_t>(mb, 0);
      const double least = solve::layers_lower_bound(stages->model, {}, together);
      if (std::isfinite(least)) candidates.push_back({std::move(*stages), batch / least});
    }
    if (candidates.size() == before) break;
  }
  std::stable_sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) { return a.most > b.most; });
  return candidates;
}

std::optional<V1Plan> plan_free(const V1Workload& workload, std::int64_t memory_mb, V1Capacity capacity) {
  std::optional<V1Plan> best;
  std::int64_t evaluated = 0;
  for (const Candidate& candidate : candidates_of(workload, memory_mb, capacity)) {
    if (best && candidate.most <= best->samples_per_s) break;
    const double upper_bound = best ? candidate.stages.batch / best->samples_per_s : kInfinity;
    ++evaluated;
    std::optional<V1Plan> plan = free_at(workload, candidate.stages, upper_bound);
    if (plan && (!best || plan->samples_per_s > best->samples_per_s)) best = std::move(plan);
  }
  if (best) best->evaluated = evaluated;
  return best;
}

std::string runs_of(const std::vector<V1Strategy>& layers) {
  std::string text;
  for (std::size_t i = 0; i < layers.size();) {
    std::size_t end = i;
    while (end < layers.size() && layers[end] == layers[i]) ++end;
    text += (text.empty() ? "" : ", ") + to_string(layers[i]) + "×" + std::to_string(end - i);
    i = end;
  }
  return text;
}

}  // namespace

std::string to_string(const V1Plan& plan) {
  const bool equal = std::all_of(plan.stages.begin(), plan.stages.end(), [&](const auto& s) { return s == plan.stages.front(); });
  std::string text;
  for (const auto& stage : plan.stages) {
    text += (text.empty() ? "" : " ‖ ") + runs_of(stage);
    if (equal) break;
  }
  return text;
}

std::int32_t v1_batch_step(const V1Workload& workload) {
  const bool images = workload.profile->family == V1Family::vit || workload.profile->family == V1Family::swin;
  return workload.profile->two_nodes() && images && workload.total_layers() < 48 ? 32 : 8;
}

std::optional<V1Plan> plan_v1(const V1Workload& workload, std::int64_t memory_mb, const V1Options& options) {
  return options.division == V1Division::published ? plan_published(workload, memory_mb, options.capacity)
                                                   : plan_free(workload, memory_mb, options.capacity);
}

std::optional<double> seconds_of(const V1Workload& workload, std::int64_t memory_mb, const V1Plan& plan, V1Capacity capacity) {
  const auto stages = v1_stages(workload, memory_mb, plan.batch, plan.pp, capacity);
  if (!stages || plan.stages.size() != stages->capacity.size()) return std::nullopt;
  double seconds = 0;
  std::size_t layer = 0;
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    std::int64_t used = 0;
    std::ptrdiff_t before = -1;
    for (const V1Strategy& strategy : plan.stages[i]) {
      const auto found = std::find(stages->strategies.begin(), stages->strategies.end(), strategy);
      if (found == stages->strategies.end() || layer == stages->model.layers.size()) return std::nullopt;
      const auto s = found - stages->strategies.begin();
      const auto type = static_cast<std::size_t>(stages->model.layers[layer++]);
      const solve::LayerOption& option = stages->model.options[type][static_cast<std::size_t>(s)];
      used += option.states;
      seconds += option.steady;
      if (before >= 0) seconds += stages->model.transition[static_cast<std::size_t>(before)][static_cast<std::size_t>(s)];
      before = s;
    }
    if (used > stages->capacity[i]) return std::nullopt;
  }
  if (layer != stages->model.layers.size()) return std::nullopt;
  return seconds;
}

Result<std::vector<V1Workload>> v1_workloads(const std::map<std::string, V1Profile>& profiles, std::int32_t devices) {
  struct Row {
    const char *name, *profile;
    std::vector<std::int32_t> layers;
  };
  const std::vector<Row> rows = {
      {"BERT-Huge-32", "bert-1280", {32}},     {"BERT-Huge-48", "bert-1280", {48}},     {"ViT-Huge-32", "vit-1280", {32}},
      {"ViT-Huge-48", "vit-1280", {48}},       {"T5-Large-32", "t5", {16, 16}},         {"T5-Large-48", "t5", {24, 24}},
      {"Swin-Huge-32", "swin", {2, 2, 26, 2}}, {"Swin-Huge-48", "swin", {2, 2, 42, 2}},
  };
  std::vector<V1Workload> workloads;
  for (const Row& row : rows) {
    const std::string name = std::string(row.profile) + "@" + std::to_string(devices);
    const auto profile = profiles.find(name);
    if (profile == profiles.end())
      return Error{ErrorKind::bad_input, "profile", "no profile \"" + name + "\"", "one for each of the eight published models",
                   ""};
    workloads.push_back({row.name, &profile->second, row.layers});
  }
  return workloads;
}

}  // namespace espalier::reference
