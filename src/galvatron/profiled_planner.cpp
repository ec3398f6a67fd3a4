// SPDX-License-Identifier: Apache-2.0
#include "galvatron/profiled_planner.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>

#include "base/infinity.h"
#include "base/invariant.h"
#include "solve/layer_search.h"
#include "solve/stage_balance.h"

namespace espalier::galvatron {
namespace {

using base::kInfinity;
constexpr std::int64_t kMostChunks = 1 << 16;
constexpr double kBeyondDevicesMb = 1e12;

/// Rounds up. All sizes beyond any device become equal, so that sums over layers stay in 64 bits.
std::int64_t whole_mb(double mb) { return static_cast<std::int64_t>(std::ceil(std::min(mb, kBeyondDevicesMb))); }

/// Holds the choices that all layers and stages share: stages, micro-batches and the largest tensor group.
struct Outer {
  ProfiledPipeline pipeline;
  std::int32_t tensor_limit = 0;  ///< 0: no tensor groups
  std::vector<ProfiledStrategy> strategies;
  std::vector<std::vector<ProfiledSeconds>> seconds;  ///< [type][strategy]
  std::vector<std::vector<double>> transition;        ///< [strategy][strategy]; of the first type
  std::vector<double> layer_floor;                    ///< by layer: its fastest strategy
};

/// Holds an outer choice with the strategy of embedding and head.
struct OuterChoice {
  std::size_t outer = 0;
  VocabularyStrategy vocabulary;
  std::vector<ProfiledSeconds> other;  ///< per stage
  std::vector<std::int64_t> other_mb;  ///< buffer of tensor groups included
  double bound = 0;                    ///< no plan of it has a smaller T
};

// ---- the space ----------------------------------------------------------------------------------------------------

bool has(const std::map<std::int32_t, double>& by_degree, std::int32_t degree) { return by_degree.count(degree) > 0; }

/// Returns whether the profile, the heads and the samples of a micro-batch allow a layer this group.
bool possible_group(const ProfiledModel& model, const ProfiledPipeline& pipeline, std::int32_t group) {
  const std::int64_t dp = model.devices / pipeline.pp / group;
  if (model.batch / pipeline.chunks % dp != 0 || (model.heads > 0 && model.heads % group != 0)) return false;
  return std::all_of(model.types.begin(), model.types.end(),
                     [group](const ProfiledLayerType& t) { return has(t.memory.activation_mb, group); });
}

std::vector<ProfiledStrategy> strategies_of(const ProfiledModel& model, const ProfiledPipeline& pipeline,
                                            std::int32_t tensor_limit, DataParallelType default_type) {
  const bool checkpoints =
      std::all_of(model.types.begin(), model.types.end(), [](const ProfiledLayerType& t) { return t.memory.checkpoint_mb > 0; });
  std::vector<ProfiledStrategy> out;
  for (std::int32_t group = 1; group <= model.devices / pipeline.pp; group *= 2) {
    if (!possible_group(model, pipeline, group)) continue;
    const auto dp = static_cast<std::int32_t>(model.devices / pipeline.pp / group);
    for (const bool ulysses : {false, true}) {
      if (group == 1 ? ulysses : !ulysses && group > tensor_limit) continue;
      for (const DataParallelType type : {default_type, DataParallelType::zero3}) {
        if (dp == 1 && type == DataParallelType::zero3 && default_type != type) continue;
        const DataParallelType own = dp == 1 ? DataParallelType::ddp : type;
        for (const bool checkpoint : {false, true}) {
          const ProfiledStrategy s{group, ulysses, dp, own, checkpoint};
          if ((!checkpoint || checkpoints) && std::find(out.begin(), out.end(), s) == out.end()) out.push_back(s);
        }
      }
    }
  }
  return out;
}

Outer outer_of(const ProfiledModel& model, const ProfiledPipeline& pipeline, std::int32_t tensor_limit,
               DataParallelType default_type) {
  Outer out;
  out.pipeline = pipeline;
  out.tensor_limit = tensor_limit;
  out.strategies = strategies_of(model, pipeline, tensor_limit, default_type);
  std::vector<double> fastest;
  for (const ProfiledLayerType& type : model.types) {
    auto& row = out.seconds.emplace_back();
    fastest.push_back(kInfinity);
    for (const ProfiledStrategy& s : out.strategies) {
      row.push_back(layer_seconds(model, type, s, pipeline));
      fastest.back() = std::min(fastest.back(), row.back().steady);
    }
  }
  for (const std::int32_t type : model.layers) out.layer_floor.push_back(fastest[static_cast<std::size_t>(type)]);
  for (const ProfiledStrategy& from : out.strategies) {
    auto& row = out.transition.emplace_back();
    for (const ProfiledStrategy& to : out.strategies)
      row.push_back(transition_seconds(model, model.types.front(), from, to, pipeline));
  }
  return out;
}

std::vector<Outer> outers_of(const ProfiledModel& model, const ProfiledOptions& options) {
  std::vector<Outer> out;
  for (std::int32_t pp = 1; pp <= model.devices && pp <= static_cast<std::int32_t>(model.layers.size()); pp *= 2) {
    if ((options.pp != 0 && pp != options.pp) || (pp > 1 && !model.p2p.gb_per_s.count(pp))) continue;
    for (std::int64_t chunks = pp; chunks <= std::min(model.batch, kMostChunks); ++chunks) {
      if (model.batch % chunks != 0 || (options.chunks != 0 && chunks != options.chunks)) continue;
      for (std::int32_t limit = 0; limit <= model.devices / pp; limit = limit == 0 ? 2 : 2 * limit) {
        if (limit > 0 && !possible_group(model, {pp, chunks}, limit)) continue;
        Outer outer = outer_of(model, {pp, chunks}, limit, options.default_type);
        if (!outer.strategies.empty()) out.push_back(std::move(outer));
      }
    }
  }
  return out;
}

bool vocabulary_profiled(const ProfiledModel& model, const ProfiledPipeline& pipeline, const VocabularyStrategy& s) {
  const auto in = [&s](const OtherMemory& m) {
    return has(m.activation_mb, s.group) && has(m.states_mb, s.ulysses ? 1 : s.group);
  };
  return pipeline.pp == 1 ? in(model.one_stage) : in(model.first_stage) && in(model.last_stage);
}

std::vector<VocabularyStrategy> vocabularies_of(const ProfiledModel& model, const Outer& outer, DataParallelType default_type) {
  std::vector<VocabularyStrategy> out;
  const ProfiledPipeline& pipeline = outer.pipeline;
  for (std::int32_t group = 1; group <= model.devices / pipeline.pp; group *= 2) {
    const std::int64_t dp = model.devices / pipeline.pp / group;
    if (model.batch / pipeline.chunks % dp != 0) continue;
    for (const bool ulysses : {false, true}) {
      if (group == 1 ? ulysses : !ulysses && group > outer.tensor_limit) continue;
      for (const DataParallelType type : {default_type, DataParallelType::zero3}) {
        const std::int64_t ranks = ulysses ? dp * group : dp;
        const VocabularyStrategy s{group, ulysses, ranks == 1 ? DataParallelType::ddp : type};
        if (vocabulary_profiled(model, pipeline, s) && std::find(out.begin(), out.end(), s) == out.end()) out.push_back(s);
      }
    }
  }
  return out;
}

OuterChoice choice_of(const ProfiledModel& model, const Outer& outer, std::size_t index, const VocabularyStrategy& vocabulary) {
  OuterChoice c{index, vocabulary, other_seconds(model, vocabulary, outer.pipeline), {}, 0};
  const double buffer = buffer_mb(model, outer.tensor_limit, outer.pipeline);
  for (const double mb : other_memory_mb(model, vocabulary, outer.pipeline)) c.other_mb.push_back(whole_mb(mb + buffer));
  double steady = std::accumulate(outer.layer_floor.begin(), outer.layer_floor.end(), 0.0);
  for (const ProfiledSeconds& stage : c.other) steady += stage.steady;
  // T ≥ Σ s + (m − 1)·Σ s / P. The margin covers sums in another order.
  c.bound = steady * (1 + static_cast<double>(outer.pipeline.chunks - 1) / outer.pipeline.pp) * (1 - 1e-12);
  return c;
}

// ---- stages -------------------------------------------------------------------------------------------------------

/// Finds the best strategies of ranges of layers under one outer choice. It caches equal queries.
class StageSolver {
 public:
  StageSolver(const ProfiledModel& model, const Outer& outer) : model_(model), outer_(outer) {
    run_.assign(model.layers.size(), {0, 0});
    for (std::size_t l = model.layers.size(); l-- > 0;) {
      const bool joined = l + 1 < model.layers.size() && model.layers[l] == model.layers[l + 1];
      run_[l].second = joined ? run_[l + 1].second : static_cast<std::int32_t>(l) + 1;
    }
    for (std::size_t l = 0; l < model.layers.size(); ++l)
      run_[l].first = l > 0 && model.layers[l] == model.layers[l - 1] ? run_[l - 1].first : static_cast<std::int32_t>(l);
  }

  /// Returns nothing where nothing fits, or m·steady + sync is not below `upper_bound`, which never grows between
  /// calls.
  const std::optional<solve::LayerSolution>& solve(std::int32_t stage, std::int64_t capacity, std::int32_t first,
                                                   std::int32_t end, double upper_bound) {
    const auto& run = run_[static_cast<std::size_t>(first)];
    if (end <= run.second) {
      end -= first - run.first;
      first = run.first;
    }
    const auto [found, added] = solved_.try_emplace({stage, capacity, first, end});
    if (added && capacity > 0) {
      const solve::LayerObjective objective{static_cast<double>(outer_.pipeline.chunks), 1};
      found->second = solve::best_layers(problem(stage, first, end), objective, capacity, upper_bound);
    }
    return found->second;
  }

 private:
  const std::vector<std::vector<solve::LayerOption>>& options(std::int32_t stage) {
    auto& out = options_[stage];
    if (!out.empty()) return out;
    for (std::size_t t = 0; t < model_.types.size(); ++t) {
      auto& row = out.emplace_back();
      for (std::size_t k = 0; k < outer_.strategies.size(); ++k) {
        solve::LayerOption option;
        option.steady = outer_.seconds[t][k].steady;
        option.sync = outer_.seconds[t][k].sync;
        option.states = whole_mb(layer_memory_mb(model_, model_.types[t], outer_.strategies[k], outer_.pipeline, stage));
        option.layout = static_cast<std::int32_t>(k);
        row.push_back(option);
      }
    }
    return out;
  }

  solve::LayerProblem problem(std::int32_t stage, std::int32_t first, std::int32_t end) {
    solve::LayerProblem out;
    out.layers.assign(model_.layers.begin() + first, model_.layers.begin() + end);
    out.options = options(stage);
    out.transition = outer_.transition;
    return out;
  }

  const ProfiledModel& model_;
  const Outer& outer_;
  std::vector<std::pair<std::int32_t, std::int32_t>> run_;  ///< by layer: first and end of the equal layers around it
  std::map<std::int32_t, std::vector<std::vector<solve::LayerOption>>> options_;
  std::map<std::array<std::int64_t, 4>, std::optional<solve::LayerSolution>> solved_;
};

std::int64_t left_mb(const OuterChoice& choice, std::int32_t stage, std::int64_t usable) {
  return usable - choice.other_mb[static_cast<std::size_t>(stage)];
}

/// Returns the least T of the choice below `upper_bound`.
std::optional<solve::Partition> divided(const ProfiledModel& model, const Outer& outer, const OuterChoice& choice,
                                        StageSolver& solver, std::int64_t usable, double upper_bound) {
  solve::BalanceProblem balance;
  balance.layers = static_cast<std::int32_t>(model.layers.size());
  balance.stages = outer.pipeline.pp;
  balance.microbatches = static_cast<std::int32_t>(outer.pipeline.chunks);
  balance.message.assign(static_cast<std::size_t>(outer.pipeline.pp - 1), 0.0);
  balance.time = solve::PipelineTime::published;
  balance.layer_floor = outer.layer_floor;
  const solve::StageOracle oracle = [&](std::int32_t stage, std::int32_t first, std::int32_t end) {
    std::optional<solve::StageValue> value;
    const auto& solution = solver.solve(stage, left_mb(choice, stage, usable), first, end, upper_bound);
    const ProfiledSeconds& other = choice.other[static_cast<std::size_t>(stage)];
    if (solution) value = solve::StageValue{solution->steady + other.steady, solution->sync + other.sync, solution->peak};
    return value;
  };
  return solve::best_partition(balance, oracle, upper_bound);
}

// ---- the answer ---------------------------------------------------------------------------------------------------

struct Best {
  const OuterChoice* choice = nullptr;
  solve::Partition partition;
};

DocumentLayer document_layer(const ProfiledStrategy& s, const ProfiledOptions& options) {
  // A layer whose weights no other rank holds is written as the default.
  const bool zero3 = s.type == DataParallelType::zero3 && options.default_type != DataParallelType::zero3;
  return {s.group, 1, true, s.ulysses, zero3, s.checkpoint ? 1 : 0};
}

ProfiledPlan described(const ProfiledModel& model, const ProfiledOptions& options, const Outer& outer, const Best& best) {
  ProfiledPlan plan;
  plan.usable_mb = usable_mb(options.memory_mb);
  plan.seconds = best.partition.time;
  StageSolver solver(model, outer);
  std::vector<ProfiledSeconds> seconds;
  StrategyDocument& d = plan.document;
  const std::vector<std::int32_t>& firsts = best.partition.first;
  for (std::size_t i = 0; i < firsts.size(); ++i) {
    const auto stage = static_cast<std::int32_t>(i);
    const auto end = i + 1 < firsts.size() ? firsts[i + 1] : static_cast<std::int32_t>(model.layers.size());
    const auto& solution = solver.solve(stage, left_mb(*best.choice, stage, plan.usable_mb), firsts[i], end, kInfinity);
    ESPALIER_CHECK(solution.has_value());
    const ProfiledSeconds& other = best.choice->other[i];
    seconds.push_back({solution->steady + other.steady, solution->sync + other.sync});
    plan.stages.push_back({end - firsts[i], seconds.back(), solution->peak + best.choice->other_mb[i]});
    d.division.push_back(end - firsts[i]);
    for (const std::int32_t option : solution->options) plan.layers.push_back(outer.strategies[static_cast<std::size_t>(option)]);
  }
  plan.main_seconds = main_pipeline_seconds(seconds, outer.pipeline.chunks);
  d.pp = outer.pipeline.pp;
  d.chunks = outer.pipeline.chunks;
  d.global_batch = model.batch;
  for (const ProfiledStrategy& s : plan.layers) d.layers.push_back(document_layer(s, options));
  d.default_type = options.default_type;
  d.one_f_one_b = true;
  d.vocab_tp = best.choice->vocabulary.group;
  d.vocab_ulysses = best.choice->vocabulary.ulysses;
  d.vocab_zero3 = best.choice->vocabulary.type == DataParallelType::zero3 && options.default_type != DataParallelType::zero3;
  return plan;
}

Error nothing_fits(const ProfiledModel& model, const ProfiledOptions& options, bool choices) {
  const std::string budget = std::to_string(options.memory_mb) + " MB per device, " +
                             std::to_string(usable_mb(options.memory_mb)) + " MB after the allocator's reserve";
  if (!choices)
    return {ErrorKind::infeasible, "search", "no stages and micro-batches for a batch of " + std::to_string(model.batch),
            "a micro-batch that divides among the groups of the profile", "another global batch, --pp or --chunks"};
  return {ErrorKind::infeasible, "memory", budget, "a plan that fits", "more memory, more devices or a smaller global batch"};
}

}  // namespace

std::string strategies_text(const ProfiledPlan& plan) {
  std::string out;
  std::size_t next = 0;
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    const std::size_t end = next + static_cast<std::size_t>(plan.stages[i].layers);
    if (i > 0) out += " ‖ ";
    for (bool head = true; next < end; head = false) {
      std::size_t run = next;
      while (run < end && plan.layers[run] == plan.layers[next]) ++run;
      out += (head ? "" : ", ") + to_string(plan.layers[next], plan.document.pp) + "×" + std::to_string(run - next);
      next = run;
    }
  }
  return out;
}

Result<ProfiledPlan> plan_profiled(const ProfiledModel& model, const ProfiledOptions& options) {
  const std::vector<Outer> outers = outers_of(model, options);
  std::vector<OuterChoice> choices;
  for (std::size_t i = 0; i < outers.size(); ++i) {
    for (const VocabularyStrategy& v : vocabularies_of(model, outers[i], options.default_type))
      choices.push_back(choice_of(model, outers[i], i, v));
  }
  std::stable_sort(choices.begin(), choices.end(), [](const OuterChoice& a, const OuterChoice& b) { return a.bound < b.bound; });
  std::map<std::size_t, StageSolver> solvers;
  std::optional<Best> best;
  std::int64_t solved = 0;
  for (const OuterChoice& choice : choices) {
    const double upper_bound = best ? best->partition.time : kInfinity;
    if (choice.bound >= upper_bound) break;
    const Outer& outer = outers[choice.outer];
    StageSolver& solver = solvers.try_emplace(choice.outer, model, outer).first->second;
    ++solved;
    if (auto partition = divided(model, outer, choice, solver, usable_mb(options.memory_mb), upper_bound))
      best = Best{&choice, std::move(*partition)};
  }
  if (!best) return nothing_fits(model, options, !choices.empty());
  ProfiledPlan plan = described(model, options, outers[best->choice->outer], *best);
  plan.choices = static_cast<std::int64_t>(choices.size());
  plan.solved = solved;
  return plan;
}

}  // namespace espalier::galvatron
