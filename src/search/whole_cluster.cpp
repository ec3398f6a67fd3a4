// SPDX-License-Identifier: Apache-2.0
#include "search/whole_cluster.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "base/invariant.h"
#include "base/parallel.h"
#include "plan/engine.h"
#include "plan/split.h"
#include "search/across_prices.h"
#include "search/budgets.h"
#include "search/phase_context.h"

namespace espalier::search {
namespace {

constexpr std::size_t kLeavesAtOnce = 16;  // leaves judged before the best plan is read again

struct BoundedConfiguration {
  Configuration configuration;
  std::int64_t bound_ns = 0;
};

bool by_bound(const BoundedConfiguration& a, const BoundedConfiguration& b) {
  return a.bound_ns != b.bound_ns ? a.bound_ns < b.bound_ns : canonical_less(a.configuration, b.configuration);
}

/// Returns the space of uniform plans; partitioned operators have no price across groups.
SearchSpace uniform_part(SearchSpace space) {
  space.kind = SpaceKind::uniform;
  space.forbidden.try_emplace(Dimension::offload);
  auto& forbidden = space.forbidden[Dimension::offload];
  for (std::int64_t v = 1; v < enum_size(Dimension::offload); ++v) forbidden.push_back(v);
  return space;
}

NodeSet sorted(NodeSet nodes) {
  std::sort(nodes.begin(), nodes.end(), [](const GroupPart& a, const GroupPart& b) { return a.group < b.group; });
  return nodes;
}

class WholeClusterSearch {
 public:
  WholeClusterSearch(const Problem& problem, Evaluator& evaluator, std::int64_t incumbent_ns, const Options& options)
      : problem_(problem),
        evaluator_(evaluator),
        options_(options),
        work_(problem),
        compute_(problem),
        context_(problem, evaluator, {incumbent_ns, options.node_limit, options.interrupted}, out_) {}

  PhaseOutcome run();

 private:
  /// Holds a part of the cluster with the order of its groups.
  struct Across {
    NodeSet nodes;
    DeviceClasses classes;
    Cluster own;
    std::vector<std::int64_t> devices;
    Space space;
  };
  /// Holds a configuration on a part of the cluster.
  struct OnPart {
    const NodeSet& nodes;
    const Configuration& configuration;
  };
  /// Holds a configuration that was priced, with its bound and plan.
  struct Leaf {
    Configuration configuration;
    std::int64_t bound_ns = 0;
    Plan plan;
    std::optional<PlanEvaluation> judged;
  };

  [[nodiscard]] Across across(const NodeSet& nodes) const;
  void search(const NodeSet& nodes);
  void search_layers(Across& across, const std::vector<BoundedConfiguration>& layers);
  /// Runs a search of layer choices with sets of recomputed modules, which has prices and choices of its own.
  template <class Search>
  void with_modules(const Across& across, std::int64_t share, Search search);
  /// Searches the micro-batches, rank orders and schedules of the best plan, which limits may have left out.
  void refine_best();
  /// Searches the plans with the degrees and devices of the best plan.
  void search_degrees();
  /// Tries configurations in all orders of the groups of a part.
  void try_orders(const NodeSet& part, const std::vector<Configuration>& configurations);
  void refine(Across& across, const Configuration& best, bool modules);
  void search_orders(const NodeSet& part, std::int64_t joined_ns, std::int64_t last);
  void search_schedules(Across& across, std::vector<BoundedConfiguration> schedules);
  /// Returns a lower bound of the plans on a set's nodes, under the best of its networks. It also bounds the plans of
  /// the set that a limit leaves out.
  std::int64_t joined_bound(const NodeSet& nodes);
  void try_all(const NodeSet& nodes, const std::vector<Candidate>& candidates);
  /// Returns the layer choices with or without a set of recomputed modules.
  [[nodiscard]] std::vector<BoundedConfiguration> layer_choices(Across& across, bool modules);
  [[nodiscard]] std::vector<BoundedConfiguration> schedule_choices(Across& across, const Configuration& layers);
  [[nodiscard]] std::int64_t compute_bound(const Across& across, const Configuration& c, bool split);
  void search_schedule(Across& across, const Configuration& schedule);
  /// Judges configurations without recomputation; returns those that do not fit.
  std::vector<Configuration> judge(Across& across, std::vector<BoundedConfiguration> leaves);
  /// Finds the least recomputation that fits.
  void recompute(Across& across, Configuration c, const std::vector<Recompute>& choices);
  /// Records a judged plan, and makes it the best one if it is faster; returns whether it fits.
  bool offer(const OnPart& what, const Plan& plan, const PlanEvaluation& judged);
  std::optional<PlanEvaluation> evaluate(const Plan& plan);
  void leave(std::int64_t bound_ns) { left_ns_ = std::min(left_ns_, bound_ns); }
  [[nodiscard]] bool stopped() { return context_.stopped() || priced_ >= most_prices_; }

  const Problem& problem_;
  Evaluator& evaluator_;
  const Options& options_;
  const WorkBound work_;
  LayerCompute compute_;
  PhaseOutcome out_;
  PhaseContext context_;
  /// Holds the best plan of this phase, which may be slower than that of another phase.
  std::optional<Configuration> best_;
  NodeSet best_nodes_;
  std::int64_t own_best_ns_ = INT64_MAX;
  std::int64_t priced_ = 0, most_prices_ = kMostAcrossPrices;
  /// Counts plans with sets of recomputed modules, which have a budget of their own.
  std::int64_t module_prices_ = 0, module_choices_ = 0;
  std::int64_t joined_ns_ = 0;        ///< bound of the set that is being searched: no plan of it takes less
  bool joined_broken_ = false;        ///< some plan does
  std::int64_t left_ns_ = INT64_MAX;  ///< least bound of everything not examined
};

/// Computes the bound of the layer choice. `split` uses the stages as the engine cuts the layers; otherwise the bound
/// holds for any number of chunks.
std::int64_t WholeClusterSearch::compute_bound(const Across& across, const Configuration& c, bool split) {
  const std::vector<std::uint64_t> parts = classes_of_stages(*problem_.cluster, across.nodes, across.classes, c);
  std::vector<std::uint64_t> distinct = parts;
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  std::vector<std::vector<double>> slowest;  // [distinct][kind]
  for (const std::uint64_t mask : distinct) {
    slowest.emplace_back(problem_.model->kinds.size(), 0.0);
    for (std::size_t n = 0; n < across.classes.group.size(); ++n) {
      if ((mask >> n & 1) == 0) continue;
      const std::vector<double>& own = compute_.of(across.classes.group[n], c);
      for (std::size_t k = 0; k < own.size(); ++k) slowest.back()[k] = std::max(slowest.back()[k], own[k]);
    }
  }
  double most = 0;
  if (split) {
    const std::int32_t chunks = c.schedule.chunks();
    std::vector<std::int32_t> first = split_layers(*problem_.model, problem_.training.sequence, problem_.engine->split, chunks);
    first.push_back(static_cast<std::int32_t>(problem_.model->layers.size()));
    std::vector<double> stages(static_cast<std::size_t>(c.schedule.stages), 0.0);
    for (std::int32_t n = 0; n < chunks; ++n) {
      const auto stage = static_cast<std::size_t>(place_of_chunk(c.schedule, n).stage);
      const auto at =
          static_cast<std::size_t>(std::lower_bound(distinct.begin(), distinct.end(), parts[stage]) - distinct.begin());
      for (std::int32_t l = first[static_cast<std::size_t>(n)]; l < first[static_cast<std::size_t>(n) + 1]; ++l)
        stages[stage] += slowest[at][static_cast<std::size_t>(problem_.model->layers[static_cast<std::size_t>(l)])];
    }
    most = *std::max_element(stages.begin(), stages.end());
  } else {
    for (const std::int32_t kind : problem_.model->layers) {
      double least = std::numeric_limits<double>::infinity();
      for (const std::vector<double>& of : slowest) least = std::min(least, of[static_cast<std::size_t>(kind)]);
      most += least / static_cast<double>(c.schedule.stages);
    }
  }
  return static_cast<std::int64_t>(most * static_cast<double>(c.schedule.microbatches));
}

std::vector<BoundedConfiguration> WholeClusterSearch::layer_choices(Across& across, bool modules) {
  std::vector<BoundedConfiguration> out;
  const std::int64_t others = modules ? out_.bounded - module_choices_ : module_choices_;
  across.space.layer_group([&](const Configuration& c) {
    if (c.strategy.recompute.modules.any() != modules) return;
    if (out_.bounded - others >= static_cast<std::int64_t>(kMostAcrossChoices)) {
      leave(1);
      return;
    }
    if (across.space.leaves(c) == 0) return;
    ++out_.bounded;
    const std::int64_t bound = compute_bound(across, c, false);
    if (bound < context_.best_ns()) out.push_back({c, bound});
  });
  std::sort(out.begin(), out.end(), by_bound);
  return out;
}

std::vector<BoundedConfiguration> WholeClusterSearch::schedule_choices(Across& across, const Configuration& layers) {
  std::vector<BoundedConfiguration> out;
  for (const Space::ScheduleChoice& choice : across.space.schedules(layers)) {
    Configuration c = layers;
    choice.take(c.schedule);
    ++out_.bounded;
    if (compute_bound(across, c, true) >= context_.best_ns()) continue;
    Configuration bare = c;
    bare.strategy.overlap.p2p = c.schedule.stages > 1;
    ++priced_;
    const std::int64_t bound = bounds_across(context_.costs(), plan_across(problem_, across.own, across.devices, bare)).bare_ns;
    if (bound < context_.best_ns()) out.push_back({c, bound});
  }
  std::sort(out.begin(), out.end(), by_bound);
  return out;
}

bool WholeClusterSearch::offer(const OnPart& what, const Plan& plan, const PlanEvaluation& judged) {
  ++out_.simulations;
  if (!context_.offer(plan.pipelines, judged)) return false;
  if (judged.iteration_ns < own_best_ns_) {
    own_best_ns_ = judged.iteration_ns;
    best_nodes_ = what.nodes;
    best_ = what.configuration;
  }
  // No plan should be faster than on the best network. If one is, that bound is not used.
  joined_broken_ = joined_broken_ || judged.iteration_ns < joined_ns_;
  return true;
}

std::vector<Configuration> WholeClusterSearch::judge(Across& across, std::vector<BoundedConfiguration> nodes) {
  std::vector<Leaf> leaves(nodes.size());
  base::parallel_for(nodes.size(), std::max(1, options_.threads), 1, [&](std::size_t i, int) {
    leaves[i].configuration = nodes[i].configuration;
    leaves[i].plan = plan_across(problem_, across.own, across.devices, nodes[i].configuration);
    leaves[i].bound_ns = bounds_across(context_.costs(), leaves[i].plan).full_ns;
  });
  priced_ += static_cast<std::int64_t>(leaves.size());
  std::stable_sort(leaves.begin(), leaves.end(), [](const Leaf& a, const Leaf& b) { return a.bound_ns < b.bound_ns; });
  std::vector<Configuration> without_room;
  for (std::size_t i = 0; i < leaves.size() && leaves[i].bound_ns < context_.best_ns(); i += kLeavesAtOnce) {
    if (stopped()) {
      leave(leaves[i].bound_ns);
      break;
    }
    const std::size_t n = std::min(kLeavesAtOnce, leaves.size() - i);
    base::parallel_for(n, std::max(1, options_.threads), 1, [&](std::size_t k, int) {
      if (leaves[i + k].bound_ns < context_.best_ns())
        leaves[i + k].judged = evaluator_.evaluate(problem_, context_.costs(), leaves[i + k].plan);
    });
    for (std::size_t k = i; k < i + n; ++k) {
      if (!leaves[k].judged) continue;
      ESPALIER_CHECK(leaves[k].judged->iteration_ns >= leaves[k].bound_ns || !evaluator_.exact());
      if (!offer({across.nodes, leaves[k].configuration}, leaves[k].plan, *leaves[k].judged))
        without_room.push_back(leaves[k].configuration);
    }
  }
  return without_room;
}

std::optional<PlanEvaluation> WholeClusterSearch::evaluate(const Plan& plan) {
  ++priced_;
  return evaluator_.evaluate(problem_, context_.costs(), plan);
}

/// Full recomputation of more blocks never needs more memory, so bisection finds the fewest.
void WholeClusterSearch::recompute(Across& across, Configuration c, const std::vector<Recompute>& choices) {
  const auto try_one = [&](const Recompute& how) {
    c.strategy.recompute = how;
    const Plan plan = plan_across(problem_, across.own, across.devices, c);
    const auto judged = evaluate(plan);
    ESPALIER_CHECK(judged.has_value());
    return offer({across.nodes, c}, plan, *judged);
  };
  std::vector<Recompute> full;
  for (const Recompute& how : choices) {
    if (how.kind == RecomputeKind::selective) try_one(how);
    if (how.kind == RecomputeKind::full) full.push_back(how);
  }
  std::size_t low = 0, high = full.size();
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    if (try_one(full[middle]))
      high = middle;
    else
      low = middle + 1;
  }
}

void WholeClusterSearch::search_schedule(Across& across, const Configuration& schedule) {
  const std::vector<Recompute>& recomputes = across.space.recomputes(schedule);
  const auto plain =
      std::find_if(recomputes.begin(), recomputes.end(), [](const Recompute& how) { return how.kind == RecomputeKind::none; });
  std::vector<BoundedConfiguration> leaves;
  for (const Space::ShardChoice& shard : across.space.shards(schedule))
    for (const Overlap& overlap : shard.overlaps) {
      Configuration c = schedule;
      c.strategy.zero = shard.zero;
      c.strategy.shard = shard.shard;
      take_overlap(overlap, c.strategy);
      c.strategy.recompute = {};
      leaves.push_back({c, 0});
    }
  if (plain != recomputes.end()) {
    for (const Configuration& c : judge(across, leaves)) {
      if (stopped()) return leave(1);
      recompute(across, c, recomputes);
    }
    return;
  }
  for (const BoundedConfiguration& leaf : leaves) {  // the job asks for recomputation
    if (stopped()) return leave(1);
    if (bounds_across(context_.costs(), plan_across(problem_, across.own, across.devices, leaf.configuration)).full_ns >=
        context_.best_ns())
      continue;
    ++priced_;
    recompute(across, leaf.configuration, recomputes);
  }
}

WholeClusterSearch::Across WholeClusterSearch::across(const NodeSet& nodes) const {
  Cluster own = cluster_of(*problem_.cluster, nodes);
  Space space(*problem_.model, own, problem_.training, *problem_.engine, uniform_part(problem_.space));
  return {nodes, classes_of(*problem_.cluster, nodes), std::move(own), devices_of(*problem_.cluster, nodes), std::move(space)};
}

void WholeClusterSearch::search(const NodeSet& nodes) {
  constexpr std::int64_t kShare = 2;  // an order takes half of the prices that are left
  Across across = this->across(nodes);
  search_layers(across, layer_choices(across, false));
  with_modules(across, kShare, [&] { search_layers(across, layer_choices(across, true)); });
}

template <class Search>
void WholeClusterSearch::with_modules(const Across& across, std::int64_t share, Search search) {
  const std::vector<Recompute>& choices = across.space.layer_recomputes();
  if (std::none_of(choices.begin(), choices.end(), [](const Recompute& how) { return how.modules.any(); })) return;
  const std::int64_t most = most_prices_, priced = std::exchange(priced_, module_prices_), bounded = out_.bounded;
  most_prices_ = priced_ + (kMostModulePrices - priced_) / share;
  search();
  module_prices_ = std::exchange(priced_, priced);
  module_choices_ += out_.bounded - bounded;
  most_prices_ = most;
}

void WholeClusterSearch::search_layers(Across& across, const std::vector<BoundedConfiguration>& layers) {
  // Bounds of schedule choices include the network, those of layer choices do not. So schedule choices are taken in
  // the order of their bounds over all layer choices, until half of the remaining prices are used.
  const std::int64_t enough = priced_ + (most_prices_ - priced_) / 2;
  std::size_t next = 0;
  while (next < layers.size()) {
    std::vector<BoundedConfiguration> schedules;
    for (; next < layers.size() && (schedules.empty() || priced_ < enough); ++next) {
      if (layers[next].bound_ns >= context_.best_ns()) return search_schedules(across, std::move(schedules));
      if (stopped()) {
        leave(layers[next].bound_ns);
        return search_schedules(across, std::move(schedules));
      }
      const std::vector<BoundedConfiguration> own_schedules = schedule_choices(across, layers[next].configuration);
      schedules.insert(schedules.end(), own_schedules.begin(), own_schedules.end());
    }
    search_schedules(across, std::move(schedules));
  }
}

void WholeClusterSearch::search_schedules(Across& across, std::vector<BoundedConfiguration> schedules) {
  std::sort(schedules.begin(), schedules.end(), by_bound);
  for (const BoundedConfiguration& node : schedules) {
    if (node.bound_ns >= context_.best_ns()) return;
    if (stopped()) return leave(node.bound_ns);
    const std::int64_t before = left_ns_;
    search_schedule(across, node.configuration);
    // The rest of a schedule choice that a limit cut is not below its bound.
    if (left_ns_ < before) left_ns_ = std::max(left_ns_, std::min(before, node.bound_ns));
  }
}

std::int64_t WholeClusterSearch::joined_bound(const NodeSet& nodes) {
  const std::optional<Cluster> joined = best_joined(*problem_.cluster, nodes);
  if (!joined || !evaluator_.exact()) return 0;
  Problem own = problem_;
  own.cluster = &*joined;
  own.space = uniform_part(problem_.space);
  Options how = options_;
  how.slowest_ns = context_.best_ns();
  const Outcome found = branch_and_bound(own, evaluator_, how);
  out_.bounded += found.bounded;
  if (found.interrupted) out_.interrupted = true;
  const std::int64_t bound = !found.complete ? found.lower_bound_ns : found.best ? found.best->iteration_ns : context_.best_ns();
  for (const NodeSet& order : orders_of(*problem_.cluster, nodes).orders) try_all(order, found.simulated);
  return bound;
}

/// Tries the first candidates on their actual devices.
void WholeClusterSearch::try_all(const NodeSet& nodes, const std::vector<Candidate>& candidates) {
  const Cluster own = cluster_of(*problem_.cluster, nodes);
  const std::vector<std::int64_t> devices = devices_of(*problem_.cluster, nodes);
  for (std::size_t i = 0; i < std::min(candidates.size(), kTriedOfJoined.value) && !stopped(); ++i) {
    if (candidates[i].iteration_ns >= context_.best_ns()) break;
    const Plan plan = plan_across(problem_, own, devices, candidates[i].configuration);
    const auto judged = evaluate(plan);
    ESPALIER_CHECK(judged.has_value());
    offer({nodes, candidates[i].configuration}, plan, *judged);
  }
}

/// Searches the part in all orders of its groups, up to `last` priced plans.
void WholeClusterSearch::search_orders(const NodeSet& part, std::int64_t joined_ns, std::int64_t last) {
  const GroupOrders orders = orders_of(*problem_.cluster, part);
  if (!orders.all) leave(joined_ns);
  auto orders_left = static_cast<std::int64_t>(orders.orders.size());
  for (const NodeSet& nodes : orders.orders) {
    // The next order gets the prices that this one leaves.
    most_prices_ = priced_ + (last - priced_) / orders_left--;
    if (stopped() || joined_ns >= context_.best_ns()) leave(joined_ns);
    if (!stopped() && joined_ns < context_.best_ns()) search(nodes);
  }
}

void WholeClusterSearch::try_orders(const NodeSet& part, const std::vector<Configuration>& configurations) {
  joined_ns_ = 0;  // it bounds another part
  for (const NodeSet& order : orders_of(*problem_.cluster, part).orders) {
    const Across own = across(order);
    for (const Configuration& c : configurations) {
      if (context_.stopped()) return;
      if (!own.space.contains(c)) continue;
      const Plan plan = plan_across(problem_, own.own, own.devices, c);
      const auto judged = evaluate(plan);
      ESPALIER_CHECK(judged.has_value());
      offer({order, c}, plan, *judged);
    }
  }
}

void WholeClusterSearch::refine_best() {
  if (!best_ || left_ns_ >= context_.best_ns() || context_.stopped()) return;
  constexpr int kRounds = 3;
  std::int64_t before = INT64_MAX;
  for (int round = 0; round < kRounds && own_best_ns_ < before && !context_.stopped(); ++round) {
    before = own_best_ns_;
    most_prices_ = priced_ + kMostRefinedPrices;
    try_orders(sorted(best_nodes_), {Configuration(*best_)});
    search_degrees();
  }
  try_orders(sorted(best_nodes_), {Configuration(*best_)});
}

void WholeClusterSearch::search_degrees() {
  Across across = this->across(NodeSet(best_nodes_));
  const Configuration best = *best_;
  const std::int64_t before = left_ns_;
  joined_ns_ = 0;  // it bounds the last part, not this one
  refine(across, best, false);
  with_modules(across, 1, [&] { refine(across, best, true); });
  left_ns_ = before;  // these plans are behind the bounds of the parts
}

/// Searches the layer choices with the degrees of the best plan, with or without a set of recomputed modules.
void WholeClusterSearch::refine(Across& across, const Configuration& best, bool modules) {
  const auto degrees = [](const Configuration& c) {
    return std::array{c.schedule.stages, c.strategy.tp, c.strategy.cp, c.strategy.dp, c.strategy.ep};
  };
  std::vector<Configuration> layers;
  across.space.layer_group([&](const Configuration& c) {
    const bool wanted = c.strategy.recompute.modules.any() == modules && degrees(c) == degrees(best);
    if (wanted && across.space.leaves(c) > 0) layers.push_back(c);
  });
  std::vector<BoundedConfiguration> schedules;
  for (const Configuration& c : layers) {
    if (stopped()) break;
    const std::vector<BoundedConfiguration> own = schedule_choices(across, c);
    schedules.insert(schedules.end(), own.begin(), own.end());
  }
  search_schedules(across, std::move(schedules));
}

PhaseOutcome WholeClusterSearch::run() {
  constexpr std::int64_t kPartShare = 4;
  const std::int64_t most = kMostAcrossPrices + std::max(kMostPartPrices.value, kMostPartDevices / problem_.cluster->devices());
  const NodeSets sets = node_sets(problem_, work_, 2, context_.best_ns());
  leave(sets.unlisted_bound_ns);
  try_orders(all_nodes(*problem_.cluster), options_.seeds);
  for (std::size_t n = 0; n < sets.sets.size(); ++n) {
    if (sets.bound_ns[n] >= context_.best_ns()) break;
    // The largest part has prices of its own. Each of the others may take a share of what is left.
    const std::int64_t last = n == 0 ? kMostAcrossPrices : priced_ + (most - priced_) / kPartShare;
    if (context_.stopped() || last <= priced_ || n == kMostAcrossSets) {
      leave(sets.bound_ns[n]);
      break;
    }
    if (classes_of(*problem_.cluster, sets.sets[n]).group.size() > kMostClasses) {
      leave(sets.bound_ns[n]);
      continue;
    }
    most_prices_ = last;
    const std::int64_t before = left_ns_;
    joined_ns_ = 0;
    const std::int64_t joined_ns = std::max(sets.bound_ns[n], joined_bound(sets.sets[n]));
    joined_ns_ = joined_ns;
    if (joined_ns >= context_.best_ns()) continue;
    search_orders(sets.sets[n], joined_ns, last);
    if (left_ns_ < before) left_ns_ = std::max(left_ns_, std::min(before, joined_ns));
  }
  refine_best();
  if (out_.interrupted || joined_broken_) leave(0);
  out_.lower_bound_ns = std::min(context_.best_ns(), std::max(left_ns_, work_.ns()));
  return std::move(out_);
}

}  // namespace

PhaseOutcome whole_cluster(const Problem& problem, Evaluator& evaluator, std::int64_t incumbent_ns, const Options& options) {
  return WholeClusterSearch(problem, evaluator, incumbent_ns, options).run();
}

}  // namespace espalier::search
