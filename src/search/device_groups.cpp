// SPDX-License-Identifier: Apache-2.0
#include "search/device_groups.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "search/group_closing.h"

namespace espalier::search {
namespace {

/// Divisors of the global batch, largest number of micro-batches last.
std::vector<std::int64_t> sizes_of(std::int64_t batch) {
  std::vector<std::int64_t> out;
  for (std::int64_t samples = 1; samples <= batch; ++samples)
    if (batch % samples == 0) out.push_back(samples);
  return out;
}

/// Where the stages of a chain begin, as device ids of the cluster.
std::vector<std::int64_t> first_devices(const Problem& problem, const StageOptions& options,
                                        const std::vector<solve::GroupedStage>& stages) {
  std::vector<std::size_t> order(stages.size());
  std::iota(order.begin(), order.end(), 0);
  const auto choice = [&](std::size_t i) -> const StageChoice& {
    return options.choices[static_cast<std::size_t>(stages[i].option)];
  };
  const auto devices = [&](std::size_t i) { return std::int64_t{choice(i).strategy.tp} * choice(i).strategy.dp; };
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return devices(a) > devices(b); });
  std::vector<std::int64_t> next(1, 0), out(stages.size());
  for (const NodeGroup& group : problem.cluster->groups) next.push_back(next.back() + group.nodes * group.devices_per_node);
  for (const std::size_t i : order) {
    std::int64_t& free = next[choice(i).group];
    out[i] = free;
    free += devices(i);
  }
  return out;
}

std::int32_t blocks_in(const Model& model, std::int32_t first, std::int32_t last) {
  std::int32_t blocks = 0;
  for (std::int32_t i = first; i <= last; ++i)
    blocks += model.layer(static_cast<std::size_t>(i)).role == LayerRole::block ? 1 : 0;
  return blocks;
}

using Chain = std::vector<solve::GroupedStage>;

/// Chains that differ from one by a single change.
std::vector<Chain> changes_of(const Chain& chain, const StageOptions& options) {
  std::vector<Chain> out;
  for (std::size_t i = 0; i + 1 < chain.size(); ++i) {
    for (const int step : {-1, 1}) {  // the boundary behind stage i
      Chain moved = chain;
      moved[i].last += step;
      moved[i + 1].first += step;
      if (moved[i].first <= moved[i].last && moved[i + 1].first <= moved[i + 1].last) out.push_back(std::move(moved));
    }
    Chain exchanged = chain;
    std::swap(exchanged[i].option, exchanged[i + 1].option);
    out.push_back(std::move(exchanged));
    Chain without_next = chain;
    without_next[i].last = chain[i + 1].last;
    without_next.erase(without_next.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    out.push_back(without_next);
    without_next[i].option = chain[i + 1].option;
    out.push_back(std::move(without_next));
  }
  for (std::size_t i = 0; i < chain.size(); ++i) {
    const solve::StageOption& now = options.options[static_cast<std::size_t>(chain[i].option)];
    for (std::size_t o = 0; o < options.options.size(); ++o) {
      const solve::StageOption& other = options.options[o];
      if (other.kind != now.kind || other.units != now.units || static_cast<std::int32_t>(o) == chain[i].option) continue;
      Chain changed = chain;
      changed[i].option = static_cast<std::int32_t>(o);
      out.push_back(std::move(changed));
    }
  }
  return out;
}

class Search {
 public:
  Search(const Problem& problem, Evaluator& evaluator, const DeviceGroupsOptions& how)
      : problem_(problem),
        evaluator_(evaluator),
        how_(how),
        costs_(*problem.model, *problem.cluster, problem.training, *problem.engine) {}

  DeviceGroupsOutcome run();

 private:
  struct Kept;
  struct Size;
  /// All sizes of micro-batches that have options.
  [[nodiscard]] std::vector<Size> sizes_with_options();
  /// First plans, of few partial ones each.
  void glance(Size& size);
  void search_size(Size& size);
  /// Looks at what is left of all sizes, where that is little.
  void close();
  /// Judges candidates that may be better than the best plan; returns the best of them, or nothing.
  Kept judge_all(const Size& size, const std::vector<solve::GroupedPipeline>& chains, std::size_t most);
  /// Simulated time; 0: it breaks a rule or does not fit.
  std::int64_t judge(const StageOptions& options, const solve::GroupedPipeline& chain, std::int64_t samples);
  void refine_best();
  void refine(const Size& size, Kept start);
  [[nodiscard]] std::int64_t incumbent() const {
    const std::int64_t own = out_.best ? out_.best->iteration_ns : INT64_MAX;
    return how_.incumbent_ns > 0 ? std::min(own, how_.incumbent_ns) : own;
  }
  [[nodiscard]] bool stopped() {
    if (how_.interrupted && how_.interrupted()) out_.interrupted = true;
    return out_.interrupted || (how_.node_limit > 0 && out_.simulations >= how_.node_limit);
  }

  /// A chain that fits, simulated.
  struct Kept {
    std::int64_t samples = 0;
    Chain chain;
    std::int64_t iteration_ns = 0;
  };

  /// What may be done with micro-batches of a number of samples.
  struct Size {
    std::int64_t samples = 0;
    StageOptions options;
    solve::DeviceGroupsProblem numbers;
    double estimate_ns = 0;
    std::int64_t bound_ns = INT64_MAX;  ///< no plan of the size that was not simulated takes less
  };

  const Problem& problem_;
  Evaluator& evaluator_;
  const DeviceGroupsOptions& how_;
  const cost::ClusterCosts costs_;
  std::vector<Kept> kept_;  ///< the best of sizes that were not refined
  std::vector<Size> sizes_;
  DeviceGroupsOutcome out_;
};

std::int64_t Search::judge(const StageOptions& options, const solve::GroupedPipeline& chain, std::int64_t samples) {
  Plan plan;
  plan.training = problem_.training;
  plan.engine = problem_.engine->name;
  if (!problem_.space.admits("pp", static_cast<std::int64_t>(chain.stages.size()))) return 0;
  plan.pipelines = {pipeline_of(problem_, options, chain.stages, samples)};
  if (!plan_violations(*problem_.model, plan).empty()) return 0;
  ++out_.simulations;
  const std::optional<PlanEvaluation> found = evaluator_.evaluate(problem_, costs_, plan);
  ESPALIER_CHECK(found);
  ESPALIER_CHECK(found->iteration_ns >= chain.bound_ns || !evaluator_.exact());
  if (!found->fits) {
    ++out_.without_room;
    return 0;
  }
  GroupedCandidate candidate{std::move(plan.pipelines), found->iteration_ns};
  if (!out_.best || candidate.iteration_ns < out_.best->iteration_ns) out_.best = candidate;
  const auto at = std::upper_bound(out_.simulated.begin(), out_.simulated.end(), candidate,
                                   [](const auto& a, const auto& b) { return a.iteration_ns < b.iteration_ns; });
  out_.simulated.insert(at, std::move(candidate));
  if (out_.simulated.size() > kKeptGrouped) out_.simulated.pop_back();
  return found->iteration_ns;
}

/// What a plan with micro-batches of this size may take, roughly: every kind as if all its units were stages of one option, layers shared so
/// that all stages take as long but for whole layers, a bubble of as many micro-batches as there are stages.
double estimate_ns(const solve::DeviceGroupsProblem& numbers) {
  const auto m = static_cast<double>(numbers.microbatches);
  double rate = 0, stages = 0, end = 0;
  for (std::size_t kind = 0; kind < numbers.units.size(); ++kind) {
    double least = 0, best_rate = 0, best_stages = 0, best_end = 0;
    for (const solve::StageOption& option : numbers.options) {
      if (static_cast<std::size_t>(option.kind) != kind) continue;
      double work = 0, after = static_cast<double>(option.end_fixed_ns);
      for (const std::int32_t type : numbers.layers) {
        const auto t = static_cast<std::size_t>(type);
        work += static_cast<double>(option.forward_ns[t] + option.backward_ns[t]);
        after += static_cast<double>(option.end_ns[t] + option.gather_ns[t] + option.reduce_ns[t]);
      }
      const double number = static_cast<double>(numbers.units[kind]) / static_cast<double>(option.units);
      const double alone = work / number * (m + number) + after / number;
      if (least > 0 && alone >= least) continue;
      least = alone;
      best_rate = number / work;
      best_stages = number;
      best_end = after / number;
    }
    rate += best_rate;
    stages += best_stages;
    end = std::max(end, best_end);
  }
  const auto layers = static_cast<double>(numbers.layers.size());
  stages = std::min(std::max(1.0, stages), layers);
  const double whole = std::ceil(layers / stages) * stages / layers;
  return rate > 0 ? (m + stages) / rate * whole + end / 2 : 0;
}

/// Takes the first single change that is faster, again and again.
void Search::refine(const Size& size, Kept start) {
  const std::int64_t before = out_.simulations;
  Kept best = std::move(start);
  for (bool better = true; better && !stopped();) {
    better = false;
    for (const Chain& chain : changes_of(best.chain, size.options)) {
      if (stopped() || out_.simulations - before >= kMostChanges) break;
      const auto bounded = solve::evaluate_stages(size.numbers, chain);
      if (!bounded || bounded->bound_ns >= best.iteration_ns) continue;
      const std::int64_t ns = judge(size.options, *bounded, size.samples);
      if (ns == 0 || ns >= best.iteration_ns) continue;
      best.iteration_ns = ns;
      best.chain = chain;
      better = true;
      break;
    }
  }
  out_.refined += out_.simulations - before;
}

/// Plans that were not the best when they were found, but are near it.
void Search::refine_best() {
  std::stable_sort(kept_.begin(), kept_.end(), [](const Kept& a, const Kept& b) { return a.iteration_ns < b.iteration_ns; });
  for (std::size_t i = 0; i < std::min(kept_.size(), kRefinedGrouped); ++i) {
    if (kept_[i].iteration_ns > incumbent() + incumbent() / 1000 * kRefinedPermille) break;
    const auto size =
        std::find_if(sizes_.begin(), sizes_.end(), [&](const Size& known) { return known.samples == kept_[i].samples; });
    refine(*size, kept_[i]);
  }
  kept_.clear();
}

std::vector<Search::Size> Search::sizes_with_options() {
  std::vector<Size> sizes;
  for (const std::int64_t samples : sizes_of(problem_.training.global_batch)) {
    Size size{samples, stage_options(problem_, costs_, samples), {}, 0};
    if (size.options.options.empty()) continue;
    size.numbers = solver_problem(problem_, size.options, samples);
    size.numbers.without = how_.without;
    size.estimate_ns = estimate_ns(size.numbers);
    sizes.push_back(std::move(size));
  }
  return sizes;
}

Search::Kept Search::judge_all(const Size& size, const std::vector<solve::GroupedPipeline>& chains, std::size_t most) {
  Kept best{size.samples, {}, INT64_MAX};
  for (std::size_t i = 0; i < std::min(chains.size(), most); ++i) {
    if (chains[i].bound_ns >= incumbent()) break;
    if (stopped()) {
      out_.complete = false;
      break;
    }
    const std::int64_t ns = judge(size.options, chains[i], size.samples);
    if (ns > 0 && ns < best.iteration_ns) best = {size.samples, chains[i].stages, ns};
  }
  return best;
}

void Search::glance(Size& size) {
  constexpr std::size_t kWidth = 6, kJudged = 3;
  solve::DeviceGroupsProblem numbers = size.numbers;
  numbers.cutoff_ns = incumbent();
  numbers.prove = false;
  numbers.width = kWidth;
  const solve::DeviceGroupsOutcome found = solve::plan_device_groups(numbers);
  out_.states += found.counters.states;
  out_.tried += found.counters.tried;
  size.estimate_ns = static_cast<double>(found.candidates.empty() ? INT64_MAX : found.candidates.front().bound_ns);
  out_.candidates += static_cast<std::int64_t>(std::min(kJudged, found.candidates.size()));
  Kept best = judge_all(size, found.candidates, kJudged);
  if (!best.chain.empty()) kept_.push_back(std::move(best));
}

void Search::search_size(Size& size) {
  solve::DeviceGroupsProblem numbers = size.numbers;
  if (how_.cutoff) numbers.cutoff_ns = incumbent();
  if (numbers.cutoff_ns < INT64_MAX) numbers.cutoff_ns -= numbers.cutoff_ns / 1000 * kWorthPermille;
  const solve::DeviceGroupsOutcome found = solve::plan_device_groups(numbers);
  ++out_.sizes;
  out_.refused += found.counters.passes == 0 ? 1 : 0;
  out_.options += static_cast<std::int64_t>(size.options.options.size());
  out_.dropped += found.counters.options_dropped;
  out_.states += found.counters.states;
  out_.tried += found.counters.tried;
  out_.candidates += static_cast<std::int64_t>(found.candidates.size());
  size.bound_ns = found.lower_bound_ns;
  const std::int64_t known = incumbent();
  Kept best = judge_all(size, found.candidates, found.candidates.size());
  if (best.chain.empty()) return;
  if (best.iteration_ns < known)
    refine(size, std::move(best));
  else
    kept_.push_back(std::move(best));
}

void Search::close() {
  std::int64_t left = kMostLooked;
  for (Size& size : sizes_) {
    if (stopped() || size.bound_ns >= incumbent()) continue;
    const auto open = chains_below(size.numbers, incumbent(), left);
    if (!open) continue;
    for (const solve::GroupedPipeline& chain : *open) {
      if (chain.bound_ns >= incumbent()) break;
      if (stopped()) return;
      judge(size.options, chain, size.samples);
      ++out_.candidates;
    }
    size.bound_ns = INT64_MAX;
  }
}

DeviceGroupsOutcome Search::run() {
  out_.lower_bound_ns = INT64_MAX;
  sizes_ = sizes_with_options();
  const auto by_estimate = [](const Size& a, const Size& b) { return a.estimate_ns < b.estimate_ns; };
  std::stable_sort(sizes_.begin(), sizes_.end(), by_estimate);
  for (Size& size : sizes_)
    if (how_.cutoff && !stopped()) glance(size);
  std::stable_sort(sizes_.begin(), sizes_.end(), by_estimate);
  if (!stopped()) refine_best();
  for (std::size_t i = 0; i < sizes_.size() && !stopped(); ++i) {
    search_size(sizes_[i]);
    if (how_.progress)
      how_.progress({"device groups", static_cast<std::int64_t>(i) + 1, static_cast<std::int64_t>(sizes_.size()),
                     "micro-batch sizes", incumbent() == INT64_MAX ? 0 : incumbent(), 0});
  }
  out_.complete = !stopped();
  refine_best();
  if (out_.complete) close();
  for (const Size& size : sizes_) out_.lower_bound_ns = std::min(out_.lower_bound_ns, size.bound_ns);
  if (!out_.complete) out_.lower_bound_ns = 0;
  if (out_.best) out_.lower_bound_ns = std::min(out_.lower_bound_ns, out_.best->iteration_ns);
  return std::move(out_);
}

}  // namespace

solve::DeviceGroupsProblem solver_problem(const Problem& problem, const StageOptions& options, std::int64_t samples) {
  const std::vector<std::int64_t> units = unit_devices(*problem.cluster);
  solve::DeviceGroupsProblem numbers;
  for (std::size_t g = 0; g < units.size(); ++g) {
    const NodeGroup& group = problem.cluster->groups[g];
    numbers.units.push_back(static_cast<std::int32_t>(group.nodes * group.devices_per_node / units[g]));
  }
  numbers.layers = problem.model->layers;
  numbers.options = options.options;
  numbers.send_ns = options.send_ns;
  numbers.microbatches = problem.training.global_batch / samples;
  numbers.slack_permille = kSlackPermille;
  if (const auto pp = problem.space.limits.find("pp"); pp != problem.space.limits.end())
    numbers.max_stages = static_cast<std::int32_t>(std::min<std::int64_t>(numbers.max_stages, pp->second));
  return numbers;
}

Pipeline pipeline_of(const Problem& problem, const StageOptions& options, const std::vector<solve::GroupedStage>& stages,
                     std::int64_t samples) {
  const std::vector<std::int64_t> devices = first_devices(problem, options, stages);
  Pipeline out;
  out.samples = problem.training.global_batch;
  out.schedule.stages = static_cast<std::int32_t>(stages.size());
  out.schedule.microbatches = static_cast<std::int32_t>(problem.training.global_batch / samples);
  for (std::size_t i = 0; i < stages.size(); ++i) {
    Strategy s = options.choices[static_cast<std::size_t>(stages[i].option)].strategy;
    s.overlap.p2p = stages.size() > 1;
    if (s.recompute.kind == RecomputeKind::full) {
      s.recompute.layers = blocks_in(*problem.model, stages[i].first, stages[i].last);
      if (s.recompute.layers == 0) s.recompute.kind = RecomputeKind::none;
    }
    if (i == 0) out.schedule.micro_batch = static_cast<std::int32_t>(samples / s.dp);
    Stage stage;
    stage.devices = {{devices[i], std::int64_t{s.tp} * s.dp, 1}};
    stage.chunks.resize(1);
    stage.chunks.front().ranges = {{stages[i].first, stages[i].last, s}};
    out.stages.push_back(std::move(stage));
  }
  return out;
}

DeviceGroupsOutcome device_groups(const Problem& problem, Evaluator& evaluator, const DeviceGroupsOptions& options) {
  return Search(problem, evaluator, options).run();
}

}  // namespace espalier::search
