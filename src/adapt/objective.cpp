// SPDX-License-Identifier: Apache-2.0
#include "espalier/objective.h"

#include <algorithm>
#include <limits>
#include <set>

#include "adapt/present.h"
#include "base/check.h"
#include "base/format.h"
#include "plan/step_tokens.h"
#include "planner/described.h"
#include "search/work_bound.h"

namespace espalier {
namespace {

using base::cat;

constexpr std::size_t kMostSizes = 256;
constexpr double kSecondsPerDay = 86400;

/// Numbers of nodes of a group that are tried: none, powers of two, all.
std::vector<std::int64_t> counts_of(const Cluster& cluster, std::size_t group) {
  std::vector<std::int64_t> out;
  if (!cluster.homogeneous()) out.push_back(0);
  for (std::int64_t n = 1; n < cluster.groups[group].nodes; n *= 2) out.push_back(n);
  out.push_back(cluster.groups[group].nodes);
  return out;
}

/// All sizes, at most kMostSizes: where there are more the smallest numbers of the group with the most choices are left out.
std::vector<std::vector<std::int64_t>> sizes_of(const Cluster& cluster) {
  std::vector<std::vector<std::int64_t>> counts;
  for (std::size_t g = 0; g < cluster.groups.size(); ++g) counts.push_back(counts_of(cluster, g));
  const auto product = [&] {
    std::size_t all = 1;
    for (const auto& c : counts) all *= c.size();
    return all;
  };
  while (product() > kMostSizes) {
    const auto most =
        std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) { return a.size() < b.size(); });
    most->erase(most->begin() + (most->front() == 0 ? 1 : 0));
  }
  std::vector<std::vector<std::int64_t>> out{{}};
  for (const auto& choices : counts) {
    std::vector<std::vector<std::int64_t>> longer;
    for (const auto& size : out)
      for (const std::int64_t n : choices) {
        longer.push_back(size);
        longer.back().push_back(n);
      }
    out = std::move(longer);
  }
  std::erase_if(out, [](const auto& size) { return std::all_of(size.begin(), size.end(), [](auto n) { return n == 0; }); });
  return out;
}

/// A size, what it costs an hour, and what no plan on it is below.
struct Size {
  SizeAnswer answer;
  Job job;
  double least_s = 0;
  [[nodiscard]] double least_cost() const { return least_s * answer.per_hour / 3600; }
};

/// Nodes of each group of the whole cluster that a plan on a size uses.
std::vector<std::int64_t> used_nodes(const Size& size, const Plan& plan) {
  const Cluster& cluster = size.job.cluster;
  std::set<std::int64_t> nodes;
  for (const Pipeline& pipeline : plan.pipelines)
    for (const Stage& stage : pipeline.stages)
      for (const DeviceRange& range : stage.devices)
        for (std::int64_t k = 0; k < range.count; ++k) nodes.insert(cluster.node_of(range.first + k * range.stride));
  std::vector<std::int64_t> own(cluster.groups.size(), 0), out;
  for (const std::int64_t node : nodes) ++own[cluster.group_of_node(node)];
  std::size_t present = 0;  // groups without nodes are no groups of the size
  for (const std::int64_t count : size.answer.nodes_by_group) out.push_back(count > 0 ? own[present++] : 0);
  return out;
}

class Choice {
 public:
  Choice(const Job& job, const PlannerOptions& options) : job_(job), options_(options) {}
  Result<ObjectiveAnswer> run();

 private:
  [[nodiscard]] Status refused() const;
  Status add_sizes();
  /// Why a size cannot be the answer, by its bounds; empty: it may be.
  [[nodiscard]] std::string loses(const Size& size) const;
  void search(Size& size);
  [[nodiscard]] double value(double seconds, double cost) const {
    return job_.objective->minimise == Objective::Minimise::cost ? cost : seconds;
  }
  /// Of the whole run; 0: not known.
  [[nodiscard]] double steps() const { return steps_of_run(job_.training); }
  [[nodiscard]] ObjectiveAnswer take();
  [[nodiscard]] Error none() const;

  const Job& job_;
  const PlannerOptions& options_;
  std::vector<Size> sizes_;
  std::optional<PlannerResult> best_;
  double best_value_ = std::numeric_limits<double>::infinity();
  double least_cost_ = 0;
  std::vector<std::int64_t> best_size_;
};

Status Choice::refused() const {
  const Objective& objective = *job_.objective;
  if (job_.cluster.changes())
    return Error{ErrorKind::bad_input, "search.objective", "a cluster that changes over time", "one that does not",
                 "over a trace the plans that train most are found: docs/adapt.md"};
  if (job_.cluster.has_speeds())
    return Error{ErrorKind::bad_input, "search.objective", "devices of unequal speed", "devices as fast as their kind", ""};
  const bool money = objective.minimise == Objective::Minimise::cost || objective.budget_per_step;
  for (const NodeGroup& group : job_.cluster.groups)
    if (money && !group.price_per_device_hour)
      return Error{ErrorKind::bad_input, "search.objective", cat("no price of group ", group.name),
                   "price_per_device_hour of every group", "cluster.price_per_device_hour: 2.5"};
  if (objective.deadline_s && job_.training.tokens <= 0)
    return Error{ErrorKind::bad_input, "search.objective.deadline", "no length of the run", "training.tokens", ""};
  return std::nullopt;
}

Status Choice::add_sizes() {
  for (std::vector<std::int64_t>& nodes : sizes_of(job_.cluster)) {
    std::vector<std::int64_t> numbers;
    double per_hour = 0;
    for (std::size_t g = 0; g < nodes.size(); ++g) {
      const NodeGroup& group = job_.cluster.groups[g];
      for (std::int64_t n = 0; n < nodes[g]; ++n) numbers.push_back(job_.cluster.first_node(g) + n);
      per_hour += static_cast<double>(nodes[g] * group.devices_per_node) * group.price_per_device_hour.value_or(0.0);
    }
    auto present = adapt::present_on(job_.cluster, job_.cluster_source, {}, numbers);
    if (!present) continue;                                   // groups that reach each other by way of one that is left out
    if (!load_cluster(present->source, "cluster")) continue;  // its file would name links of groups that are left out
    Size size{{}, job_};
    size.job.cluster = std::move(present->cluster);
    size.job.cluster_source = std::move(present->source);
    size.job.objective.reset();
    size.answer.nodes_by_group = std::move(nodes);
    size.answer.devices = size.job.cluster.devices();
    size.answer.per_hour = per_hour;
    const auto prepared = planner::prepare(size.job);
    if (!prepared) return prepared.error();
    size.least_s = static_cast<double>(search::work_bound_ns(prepared->problem)) * 1e-9;
    sizes_.push_back(std::move(size));
  }
  const auto prepared = planner::prepare(job_);
  if (!prepared) return prepared.error();
  least_cost_ = search::least_cost_of_work(prepared->problem);
  std::stable_sort(sizes_.begin(), sizes_.end(), [&](const Size& a, const Size& b) {
    const double x = value(a.least_s, a.least_cost()), y = value(b.least_s, b.least_cost());
    return x != y ? x < y : a.answer.devices > b.answer.devices;
  });
  return std::nullopt;
}

std::string Choice::loses(const Size& size) const {
  const Objective& o = *job_.objective;
  if (o.budget_per_step && size.least_cost() > *o.budget_per_step) return "over the budget, by the work alone";
  if (o.deadline_s && size.least_s * steps() > *o.deadline_s) return "after the deadline, by the work alone";
  if (value(size.least_s, size.least_cost()) >= best_value_) return "no better, by the work alone";
  return "";
}

void Choice::search(Size& size) {
  SizeAnswer& a = size.answer;
  a.label = loses(size);
  if (!a.label.empty()) return;
  auto found = plan(size.job, options_);
  if (!found) {
    a.label = found.error().found;
    return;
  }
  const std::vector<std::int64_t> used = used_nodes(size, found->plan);
  const bool smaller = used != a.nodes_by_group && std::any_of(sizes_.begin(), sizes_.end(), [&](const Size& other) {
                         return other.answer.nodes_by_group == used;
                       });
  if (smaller) {  // that size is searched by itself
    a.label = "the fastest plan leaves nodes out";
    return;
  }
  const Prediction& p = found->prediction;
  a.label = found->plan.label();
  a.iteration_ns = p.iteration_ns;
  a.expense = p.cost;
  a.days = p.days;
  const Objective& o = *job_.objective;
  const double seconds = static_cast<double>(p.iteration_ns) * 1e-9, cost = p.cost ? p.cost->per_step : 0.0;
  a.within = (!o.budget_per_step || cost <= *o.budget_per_step) && (!o.deadline_s || seconds * steps() <= *o.deadline_s);
  if (!a.within || value(seconds, cost) >= best_value_) return;
  best_value_ = value(seconds, cost);
  best_size_ = a.nodes_by_group;
  best_ = std::move(*found);
}

Error Choice::none() const {
  const Size* nearest = nullptr;
  for (const Size& size : sizes_)
    if (size.answer.iteration_ns > 0 && (nearest == nullptr || size.answer.iteration_ns < nearest->answer.iteration_ns))
      nearest = &size;
  if (nearest == nullptr)
    return {ErrorKind::infeasible, "search.objective", "no size of the cluster on which a plan fits within budget and deadline",
            "one", "more nodes, a larger budget or a later deadline"};
  const SizeAnswer& a = nearest->answer;
  return {ErrorKind::infeasible, "search.objective", "no plan within budget and deadline", "one",
          cat("the fastest found takes ", base::seconds(a.iteration_ns), " a step",
              a.days > 0 ? cat(", ", base::fixed(a.days, 1), " days") : "",
              a.expense ? cat(", ", base::fixed(a.expense->per_step, 4), " ", a.expense->currency, " a step") : "", " on ",
              a.devices, " devices")};
}

ObjectiveAnswer Choice::take() {
  ObjectiveAnswer out;
  out.objective = *job_.objective;
  for (Size& size : sizes_) out.sizes.push_back(std::move(size.answer));
  const auto cost = [](const SizeAnswer& a) {
    return a.iteration_ns == 0 ? std::numeric_limits<double>::infinity() : a.expense ? a.expense->per_step : 0.0;
  };
  std::stable_sort(out.sizes.begin(), out.sizes.end(), [&](const SizeAnswer& a, const SizeAnswer& b) {
    if (cost(a) != cost(b)) return cost(a) < cost(b);
    return a.devices < b.devices;
  });
  for (std::size_t i = 0; i < out.sizes.size(); ++i)
    if (out.sizes[i].nodes_by_group == best_size_) out.best = i;
  out.least_cost = least_cost_;
  out.answer = std::move(best_);
  return out;
}

Result<ObjectiveAnswer> Choice::run() {
  if (Status error = refused()) return *error;
  if (Status error = add_sizes()) return *error;
  for (Size& size : sizes_) {
    if (options_.interrupted && options_.interrupted()) break;
    search(size);
  }
  if (!best_) return none();
  ObjectiveAnswer out = take();
  ESPALIER_CHECK(!out.answer->prediction.cost || out.answer->prediction.cost->per_step >= out.least_cost);
  return out;
}

}  // namespace

Result<ObjectiveAnswer> plan_for_objective(const Job& job, const PlannerOptions& options) {
  ESPALIER_CHECK(job.objective);
  return Choice(job, options).run();
}

}  // namespace espalier
