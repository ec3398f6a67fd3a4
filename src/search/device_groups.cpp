// SPDX-License-Identifier: Apache-2.0
#include "search/device_groups.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "base/invariant.h"
#include "base/parallel.h"
#include "plan/engine.h"
#include "plan/stage_schedules.h"
#include "search/budgets.h"
#include "search/group_chains.h"
#include "search/group_closing.h"
#include "search/phase_context.h"
#include "search/work_bound.h"

namespace espalier::search {
namespace {

/// Returns the divisors of the global batch, the largest number of micro-batches last.
std::vector<std::int64_t> sizes_of(std::int64_t batch) {
  std::vector<std::int64_t> out;
  for (std::int64_t samples = 1; samples <= batch; ++samples)
    if (batch % samples == 0) out.push_back(samples);
  return out;
}

constexpr std::size_t kGlanceWidth = 6;  // partial chains that a first look keeps

/// Holds the kind and the units of each stage of a chain.
using Shape = std::vector<std::pair<std::int32_t, std::int32_t>>;

Shape shape_of(const StageOptions& options, const Chain& chain) {
  Shape out;
  for (const solve::GroupedStage& stage : chain) {
    const solve::StageOption& option = options.options[static_cast<std::size_t>(stage.option)];
    out.emplace_back(option.kind, option.units);
  }
  return out;
}

/// Compares simulated plans by their time.
constexpr auto ends_sooner = [](const auto& a, const auto& b) { return a.iteration_ns < b.iteration_ns; };

class ChainsSearch {
 public:
  ChainsSearch(const Problem& problem, Evaluator& evaluator, const DeviceGroupsOptions& how)
      : problem_(problem),
        evaluator_(evaluator),
        how_(how),
        context_(problem, evaluator, {how.incumbent_ns, how.node_limit, how.interrupted}, out_) {}

  GroupedOutcome run();

 private:
  struct Kept;
  struct Size;
  [[nodiscard]] bool countable() const;
  /// Returns all sizes of micro-batches that have options.
  [[nodiscard]] std::vector<Size> sizes_with_options();
  /// Tries changes of the chains with the least bounds, none of which fits.
  void repair(const Size& size, const std::vector<solve::GroupedPipeline>& chains);
  /// Changes a chain until it fits, where each change needs less memory beyond the devices.
  std::optional<Kept> repaired(const Size& size, solve::GroupedPipeline chain);
  /// Finds first plans from a few partial ones.
  void glance(Size& size);
  void search_size(Size& size);
  /// Enumerates the remaining candidates of all sizes where these are few.
  void close();
  /// Where the job admits ZB-H1, runs the best chains under it, then changes of the best of them. Then it enumerates
  /// the remaining candidates where these are few.
  void zero_bubble();
  /// Returns chains that fit under 1F1B, and chains whose bound there is near the best plan.
  std::vector<Kept> starts_of_zero_bubble();
  void close_zero_bubble();
  /// Judges candidates that may be better than the best plan. Returns the best of each shape, by time.
  std::vector<Kept> judge_all(const Size& size, const std::vector<solve::GroupedPipeline>& chains, std::size_t most);
  /// Holds the simulated time; 0: the plan breaks a rule, where `lacking_bytes` is INT64_MAX, or does not fit.
  struct Judged {
    std::int64_t iteration_ns = 0, lacking_bytes = INT64_MAX;
  };
  Judged judge(const StageOptions& options, const solve::GroupedPipeline& chain, std::int64_t samples,
               ChainSchedule schedule = ChainSchedule::one_f_one_b);
  void remember(Kept kept);
  /// Returns the time up to which plans are refined; INT64_MAX: none fits yet.
  [[nodiscard]] std::int64_t near_best_ns() const {
    const std::int64_t best = context_.best_ns();
    return best == INT64_MAX ? best : best + best / 1000 * kRefinedPermille;
  }
  void refine_best();
  void refine(const Size& size, Kept start, ChainSchedule schedule = ChainSchedule::one_f_one_b);
  [[nodiscard]] const Size& size_of(std::int64_t samples) const {
    return *std::find_if(sizes_.begin(), sizes_.end(), [&](const Size& known) { return known.samples == samples; });
  }

  /// Holds a simulated chain that fits.
  struct Kept {
    std::int64_t samples = 0;
    Chain chain;
    std::int64_t iteration_ns = 0;
    Shape shape;
  };

  /// Holds the options and results for micro-batches of one number of samples.
  struct Size {
    std::int64_t samples = 0;
    StageOptions options;
    solve::DeviceGroupsProblem numbers;
    std::unique_ptr<solve::DeviceGroupsTables> tables;  ///< tables of `numbers` during the search
    double estimate_ns = 0;
    std::int64_t bound_ns = INT64_MAX;  ///< no plan of the size that was not simulated takes less
  };

  const Problem& problem_;
  Evaluator& evaluator_;
  const DeviceGroupsOptions& how_;
  GroupedOutcome out_;
  PhaseContext context_;
  std::vector<Kept> kept_;  ///< the best of sizes that were not refined
  /// Holds chains that fit under 1F1B, by time; at most kKeptGrouped, where ZB-H1 is admitted.
  std::vector<Kept> good_;
  std::vector<Size> sizes_;
  std::int64_t repaired_ = 0;  ///< plans simulated to find changes of chains that do not fit
};

void ChainsSearch::remember(Kept kept) {
  const auto at = std::upper_bound(good_.begin(), good_.end(), kept, ends_sooner);
  const auto alike = [&](const Kept& other) { return other.samples == kept.samples && other.shape == kept.shape; };
  const auto same = [&](const Kept& other) { return other.samples == kept.samples && other.chain == kept.chain; };
  if (std::any_of(good_.begin(), good_.end(), same)) return;
  if (static_cast<std::size_t>(std::count_if(good_.begin(), at, alike)) == kKeptOfShape) return;
  const auto rest = good_.insert(at, kept) + 1;
  const auto last = std::find_if(good_.rbegin(), std::make_reverse_iterator(rest), alike);
  if (static_cast<std::size_t>(std::count_if(good_.begin(), good_.end(), alike)) > kKeptOfShape) good_.erase(last.base() - 1);
  if (good_.size() > kKeptGrouped) good_.pop_back();
}

ChainsSearch::Judged ChainsSearch::judge(const StageOptions& options, const solve::GroupedPipeline& chain, std::int64_t samples,
                                         ChainSchedule schedule) {
  Plan plan = context_.empty_plan();
  if (!problem_.space.admits(Dimension::pp, static_cast<std::int64_t>(chain.stages.size()))) return {};
  Pipeline pipeline = pipeline_of(problem_, options, chain.stages, samples);
  if (schedule == ChainSchedule::zero_bubble) {
    pipeline.schedule.kind = ScheduleKind::zb_h1;
    if (chain.stages.size() < 2 || !pipeline_admitted(problem_, pipeline, samples)) return {};
  }
  plan.pipelines = {std::move(pipeline)};
  if (!plan_violations(*problem_.model, plan).empty()) return {};
  const PlanEvaluation found = context_.simulate(plan);
  ESPALIER_CHECK(found.iteration_ns >= chain.bound_ns || !evaluator_.exact());
  if (!context_.offer(plan.pipelines, found)) return {0, found.lacking_bytes};
  if (schedule == ChainSchedule::one_f_one_b && admits_zero_bubble(problem_.space))
    remember({samples, chain.stages, found.iteration_ns, shape_of(options, chain.stages)});
  GroupedCandidate candidate{std::move(plan.pipelines), found.iteration_ns};
  const auto at = std::upper_bound(out_.simulated.begin(), out_.simulated.end(), candidate, ends_sooner);
  out_.simulated.insert(at, std::move(candidate));
  if (out_.simulated.size() > kKeptGrouped) out_.simulated.pop_back();
  return {found.iteration_ns, 0};
}

/// Applies the first single change that is faster, again and again.
void ChainsSearch::refine(const Size& size, Kept start, ChainSchedule schedule) {
  const std::int64_t before = out_.simulations;
  Kept best = std::move(start);
  for (bool better = true; better && !context_.stopped();) {
    better = false;
    for (const Chain& chain : changes_of(best.chain, size.options)) {
      if (context_.stopped() || out_.simulations - before >= kMostChanges) break;
      const auto with_bound = bounded(size.numbers, chain, schedule);
      if (!with_bound || with_bound->bound_ns >= best.iteration_ns) continue;
      const std::int64_t ns = judge(size.options, *with_bound, size.samples, schedule).iteration_ns;
      if (ns == 0 || ns >= best.iteration_ns) continue;
      best.iteration_ns = ns;
      best.chain = chain;
      better = true;
      break;
    }
  }
  out_.refined += out_.simulations - before;
}

/// Refines plans that were not the best when they were found, but are near it.
void ChainsSearch::refine_best() {
  std::stable_sort(kept_.begin(), kept_.end(), ends_sooner);
  for (std::size_t i = 0; i < std::min(kept_.size(), kRefinedGrouped.value); ++i) {
    if (kept_[i].iteration_ns > near_best_ns()) break;
    refine(size_of(kept_[i].samples), kept_[i]);
  }
  kept_.clear();
}

std::vector<ChainsSearch::Size> ChainsSearch::sizes_with_options() {
  std::vector<Size> sizes;
  for (const std::int64_t samples : sizes_of(problem_.training.global_batch)) sizes.emplace_back().samples = samples;
  base::parallel_for(sizes.size(), std::max(1, how_.threads), 1, [&](std::size_t i, int) {
    Size& size = sizes[i];
    size.options = stage_options(problem_, context_.costs(), size.samples);
    if (size.options.options.empty()) return;
    size.numbers = solver_problem(problem_, size.options, size.samples);
    size.numbers.without = how_.without;
    size.numbers.stop = how_.interrupted;
    size.estimate_ns = estimate_ns(size.numbers);
  });
  std::erase_if(sizes, [](const Size& size) { return size.options.options.empty(); });
  return sizes;
}

std::vector<ChainsSearch::Kept> ChainsSearch::judge_all(const Size& size, const std::vector<solve::GroupedPipeline>& chains,
                                                        std::size_t most) {
  std::map<Shape, Kept> best;
  for (std::size_t i = 0; i < std::min(chains.size(), most); ++i) {
    if (chains[i].bound_ns >= context_.best_ns()) break;
    if (context_.stopped()) {
      out_.complete = false;
      break;
    }
    const std::int64_t ns = judge(size.options, chains[i], size.samples).iteration_ns;
    if (ns == 0) continue;
    Shape shape = shape_of(size.options, chains[i].stages);
    const auto [known, added] = best.try_emplace(shape);
    if (added || ns < known->second.iteration_ns) known->second = {size.samples, chains[i].stages, ns, std::move(shape)};
  }
  std::vector<Kept> out;
  for (auto& [shape, kept] : best) out.push_back(std::move(kept));
  std::stable_sort(out.begin(), out.end(), ends_sooner);
  return out;
}

void ChainsSearch::glance(Size& size) {
  constexpr std::size_t kJudged = 3;
  solve::DeviceGroupsProblem numbers = size.numbers;
  numbers.cutoff_ns = context_.best_ns();
  numbers.prove = false;
  numbers.width = kGlanceWidth;
  size.tables = std::make_unique<solve::DeviceGroupsTables>(size.numbers);
  const solve::DeviceGroupsOutcome found = solve::plan_device_groups(numbers, *size.tables);
  out_.bounded += found.counters.states;
  out_.tried += found.counters.tried;
  size.numbers.floor_ns = found.lower_bound_ns;
  if (found.exact && found.candidates.empty()) size.bound_ns = found.lower_bound_ns;
  size.estimate_ns = static_cast<double>(found.candidates.empty() ? INT64_MAX : found.candidates.front().bound_ns);
  out_.candidates += static_cast<std::int64_t>(std::min(kJudged, found.candidates.size()));
  for (Kept& best : judge_all(size, found.candidates, kJudged)) kept_.push_back(std::move(best));
}

void ChainsSearch::repair(const Size& size, const std::vector<solve::GroupedPipeline>& chains) {
  std::set<Shape> shapes;
  for (const solve::GroupedPipeline& chain : chains) {
    if (shapes.size() == kRepairedGrouped || repaired_ >= kMostChanges || chain.bound_ns >= context_.best_ns()) break;
    if (!shapes.insert(shape_of(size.options, chain.stages)).second) continue;
    const std::int64_t before = out_.simulations;
    if (auto fitting = repaired(size, chain)) refine(size, std::move(*fitting));
    repaired_ += out_.simulations - before;
  }
}

std::optional<ChainsSearch::Kept> ChainsSearch::repaired(const Size& size, solve::GroupedPipeline chain) {
  const std::int64_t before = out_.simulations;
  std::int64_t lacking = judge(size.options, chain, size.samples).lacking_bytes;
  const std::int64_t near = near_best_ns();
  for (bool better = true; better;) {
    better = false;
    for (const Chain& change : changes_of(chain.stages, size.options)) {
      if (context_.stopped() || out_.simulations - before >= kMostChanges / static_cast<std::int64_t>(kRepairedGrouped.value))
        return std::nullopt;
      const auto with_bound = bounded(size.numbers, change, ChainSchedule::one_f_one_b);
      if (!with_bound || with_bound->bound_ns >= near) continue;
      const Judged judged = judge(size.options, *with_bound, size.samples);
      if (judged.iteration_ns > 0) return Kept{size.samples, change, judged.iteration_ns, {}};
      if (judged.lacking_bytes >= lacking) continue;
      lacking = judged.lacking_bytes;
      chain = *with_bound;
      better = true;
      break;
    }
  }
  return std::nullopt;
}

void ChainsSearch::search_size(Size& size) {
  solve::DeviceGroupsProblem numbers = size.numbers;
  if (how_.cutoff) numbers.cutoff_ns = context_.best_ns();
  if (numbers.cutoff_ns < INT64_MAX) numbers.cutoff_ns -= numbers.cutoff_ns / 1000 * kWorthPermille;
  ++out_.sizes;
  out_.options += static_cast<std::int64_t>(size.options.options.size());
  if (size.bound_ns != INT64_MAX) {  // the first pass ruled it out, under a cutoff that was no lower
    ++out_.refused;
    return;
  }
  if (!size.tables) size.tables = std::make_unique<solve::DeviceGroupsTables>(size.numbers);
  const solve::DeviceGroupsOutcome found = solve::plan_device_groups(numbers, *size.tables);
  size.tables.reset();
  out_.refused += found.counters.passes == 0 ? 1 : 0;
  out_.dropped += found.counters.options_dropped;
  out_.bounded += found.counters.states;
  out_.tried += found.counters.tried;
  out_.candidates += static_cast<std::int64_t>(found.candidates.size());
  size.bound_ns = found.lower_bound_ns;
  const std::int64_t known = context_.best_ns();
  std::vector<Kept> best = judge_all(size, found.candidates, found.candidates.size());
  if (best.empty()) return repair(size, found.candidates);
  const bool better = best.front().iteration_ns < known;
  for (std::size_t i = better ? 1 : 0; i < best.size(); ++i) kept_.push_back(best[i]);
  if (better) refine(size, std::move(best.front()));
}

void ChainsSearch::close() {
  std::int64_t left = kMostLooked;
  for (Size& size : sizes_) {
    if (context_.stopped() || size.bound_ns >= context_.best_ns()) continue;
    const auto open = chains_below(size.numbers, context_.best_ns(), left);
    if (!open) continue;
    for (const solve::GroupedPipeline& chain : *open) {
      if (chain.bound_ns >= context_.best_ns()) break;
      if (context_.stopped()) return;
      judge(size.options, chain, size.samples);
      ++out_.candidates;
    }
    size.bound_ns = INT64_MAX;
  }
}

std::vector<ChainsSearch::Kept> ChainsSearch::starts_of_zero_bubble() {
  std::vector<Kept> out = good_;
  for (const Size& size : sizes_) {
    if (context_.stopped()) break;
    solve::DeviceGroupsProblem numbers = size.numbers;
    numbers.cutoff_ns = near_best_ns();
    numbers.prove = false;
    numbers.width = kGlanceWidth;
    const solve::DeviceGroupsOutcome found = solve::plan_device_groups(numbers);
    out_.bounded += found.counters.states;
    out_.tried += found.counters.tried;
    for (const solve::GroupedPipeline& chain : found.candidates)
      out.push_back({size.samples, chain.stages, chain.bound_ns, shape_of(size.options, chain.stages)});
  }
  return out;
}

void ChainsSearch::zero_bubble() {
  std::vector<Kept> found;
  for (const Kept& start : starts_of_zero_bubble()) {
    const Size& size = size_of(start.samples);
    const auto chain = bounded(size.numbers, start.chain, ChainSchedule::zero_bubble);
    if (!chain || chain->bound_ns >= near_best_ns() || context_.stopped()) continue;
    ++out_.candidates;
    const std::int64_t ns = judge(size.options, *chain, start.samples, ChainSchedule::zero_bubble).iteration_ns;
    if (ns > 0) found.push_back({start.samples, start.chain, ns, start.shape});
  }
  std::stable_sort(found.begin(), found.end(), ends_sooner);
  std::set<std::pair<std::int64_t, Shape>> refined;
  for (const Kept& start : found) {
    if (refined.size() == kRefinedZeroBubble) break;
    if (refined.emplace(start.samples, start.shape).second) refine(size_of(start.samples), start, ChainSchedule::zero_bubble);
  }
  close_zero_bubble();
}

void ChainsSearch::close_zero_bubble() {
  std::int64_t left = kMostLooked;
  const std::int64_t work_ns = work_bound_ns(problem_);
  for (Size& size : sizes_) {
    const auto open =
        context_.stopped() ? std::nullopt : chains_below(size.numbers, context_.best_ns(), left, ChainSchedule::zero_bubble);
    if (!open) {
      size.bound_ns = std::min(size.bound_ns, work_ns);
      continue;
    }
    for (const solve::GroupedPipeline& chain : *open) {
      if (chain.bound_ns >= context_.best_ns() || context_.stopped()) break;
      judge(size.options, chain, size.samples, ChainSchedule::zero_bubble);
      ++out_.candidates;
    }
    if (context_.stopped()) size.bound_ns = std::min(size.bound_ns, work_ns);
  }
}

/// Returns whether the solver can number all sets of units.
bool ChainsSearch::countable() const {
  double sets = 1;
  const std::vector<std::int64_t> unit = unit_devices(*problem_.cluster);
  for (std::size_t g = 0; g < unit.size(); ++g) {
    const NodeGroup& group = problem_.cluster->groups[g];
    sets *= static_cast<double>(group.nodes * (group.devices_per_node / unit[g]) + 1);
  }
  return sets <= kMostUnitSets;
}

GroupedOutcome ChainsSearch::run() {
  out_.lower_bound_ns = INT64_MAX;
  if (!countable()) {
    out_.lower_bound_ns = work_bound_ns(problem_);
    return std::move(out_);
  }
  sizes_ = sizes_with_options();
  const auto by_estimate = [](const Size& a, const Size& b) { return a.estimate_ns < b.estimate_ns; };
  std::stable_sort(sizes_.begin(), sizes_.end(), by_estimate);
  for (Size& size : sizes_)
    if (how_.cutoff && !context_.stopped()) glance(size);
  std::stable_sort(sizes_.begin(), sizes_.end(), by_estimate);
  if (!context_.stopped()) refine_best();
  for (std::size_t i = 0; i < sizes_.size() && !context_.stopped(); ++i) {
    search_size(sizes_[i]);
    if (how_.progress)
      how_.progress({"device groups", static_cast<std::int64_t>(i) + 1, static_cast<std::int64_t>(sizes_.size()),
                     "micro-batch sizes", context_.best_ns() == INT64_MAX ? 0 : context_.best_ns(), 0});
  }
  out_.complete = !context_.stopped();
  refine_best();
  if (out_.complete) close();
  if (out_.complete && admits_zero_bubble(problem_.space)) zero_bubble();
  for (const Size& size : sizes_) out_.lower_bound_ns = std::min(out_.lower_bound_ns, size.bound_ns);
  if (!out_.complete) out_.lower_bound_ns = 0;
  if (out_.best) out_.lower_bound_ns = std::min(out_.lower_bound_ns, out_.best->iteration_ns);
  return std::move(out_);
}

}  // namespace

GroupedOutcome device_groups(const Problem& problem, Evaluator& evaluator, const DeviceGroupsOptions& options) {
  return ChainsSearch(problem, evaluator, options).run();
}

}  // namespace espalier::search
