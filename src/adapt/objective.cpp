// SPDX-License-Identifier: Apache-2.0
#include "espalier/objective.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "adapt/present.h"
#include "base/format.h"
#include "base/invariant.h"
#include "plan/step_tokens.h"
#include "planner/described.h"
#include "search/work_bound.h"

namespace espalier::adapt {
namespace {

constexpr std::size_t kMostSizes = 256;
constexpr std::size_t kMostBetween = 1024;
constexpr std::size_t kNearest = 16;
constexpr double kSecondsPerDay = 86400;
constexpr const char* kNoBetter = "no better even at its lower bound";

/// Returns the numbers of nodes of a group to try: none, powers of two, all.
std::vector<std::int64_t> counts_of(const Cluster& cluster, std::size_t group) {
  std::vector<std::int64_t> out;
  if (!cluster.homogeneous()) out.push_back(0);
  for (std::int64_t n = 1; n < cluster.groups[group].nodes; n *= 2) out.push_back(n);
  out.push_back(cluster.groups[group].nodes);
  return out;
}

/// Returns all sizes, at most kMostSizes. If there are more, the smallest numbers of the group with the most choices
/// are left out.
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

/// States the outcome of a size; unknown: it was not searched to an answer of its own.
enum class Progress { unknown, holds, fails };

/// Holds a size, its cost per hour, and a lower bound of all plans on it.
struct Size {
  SizeAnswer answer;
  Job job;
  double least_s = 0;
  Progress standing = Progress::unknown;
  [[nodiscard]] double least_cost() const { return least_s * answer.per_hour / 3600; }
};

/// Returns how many nodes of each group of the whole cluster a plan on a size uses.
std::vector<std::int64_t> used_nodes(const Size& size, const Plan& plan) {
  const Cluster& cluster = size.job.cluster;
  std::set<std::int64_t> nodes;
  for (const Pipeline& pipeline : plan.pipelines)
    for (const Stage& stage : pipeline.stages)
      for (const DeviceRange& range : stage.devices)
        for (std::int64_t k = 0; k < range.count; ++k) nodes.insert(cluster.node_of(range.first + k * range.stride));
  std::vector<std::int64_t> own(cluster.groups.size(), 0), out;
  for (const std::int64_t node : nodes) ++own[cluster.group_of_node(node)];
  std::size_t present = 0;  // the size has no groups without nodes
  for (const std::int64_t count : size.answer.nodes_by_group) out.push_back(count > 0 ? own[present++] : 0);
  return out;
}

class ObjectiveChoice {
 public:
  ObjectiveChoice(const Job& job, const PlannerOptions& options) : job_(job), options_(options) {}
  Result<ObjectiveAnswer> run();

 private:
  [[nodiscard]] Status refused() const;
  Status add_size(std::vector<std::int64_t> nodes);
  /// Sorts the sizes from `first` on, most promising first.
  void order(std::size_t first);
  Status add_sizes();
  [[nodiscard]] std::set<std::vector<std::int64_t>> between() const;
  void search_all(std::size_t first);
  /// Returns why the bounds exclude a size from being the answer; empty if they do not.
  [[nodiscard]] std::string loses(const Size& size) const;
  /// Searches a size. `whatever`: even if its bounds exclude it.
  void search(Size& size, bool whatever = false);
  [[nodiscard]] double value(double seconds, double cost) const {
    return job_.objective->minimise == Objective::Minimise::cost ? cost : seconds;
  }
  /// Returns the steps of the whole run; 0 if unknown.
  [[nodiscard]] double steps() const { return steps_of_run(job_.training); }
  /// Returns the factor by which a plan exceeds the budget or the deadline, whichever is larger; up to 1 it exceeds
  /// neither.
  [[nodiscard]] double excess(const SizeAnswer& a) const;
  [[nodiscard]] bool limited() const { return job_.objective->budget_per_step || job_.objective->deadline_s; }
  [[nodiscard]] ObjectiveAnswer take();
  void search_nearest();
  [[nodiscard]] Error none() const;

  const Job& job_;
  const PlannerOptions& options_;
  std::vector<Size> sizes_;
  std::optional<PlannerResult> best_;
  double best_value_ = std::numeric_limits<double>::infinity();
  double least_cost_ = 0;
  std::vector<std::int64_t> best_size_;
};

Status ObjectiveChoice::refused() const {
  const Objective& objective = *job_.objective;
  if (job_.cluster.changes())
    return Error{ErrorKind::bad_input, "search.objective", "a cluster that changes over time", "one that does not",
                 "over a trace, plan finds the plans that train the most: docs/adapt.md"};
  if (job_.cluster.has_speeds())
    return Error{ErrorKind::bad_input, "search.objective", "devices of unequal speed", "devices as fast as their kind", ""};
  const bool money = objective.minimise == Objective::Minimise::cost || objective.budget_per_step;
  for (const NodeGroup& group : job_.cluster.groups)
    if (money && !group.price_per_device_hour)
      return Error{ErrorKind::bad_input, "search.objective", cat("no price of group ", group.name),
                   "price_per_device_hour of every group", "cluster.price_per_device_hour: 2.5"};
  if (objective.deadline_s && job_.training.tokens <= 0)
    return Error{ErrorKind::bad_input, "search.objective.deadline", "no run length", "training.tokens", ""};
  return {};
}

Status ObjectiveChoice::add_size(std::vector<std::int64_t> nodes) {
  std::vector<std::int64_t> numbers;
  double per_hour = 0;
  for (std::size_t g = 0; g < nodes.size(); ++g) {
    const NodeGroup& group = job_.cluster.groups[g];
    for (std::int64_t n = 0; n < nodes[g]; ++n) numbers.push_back(job_.cluster.first_node(g) + n);
    per_hour += static_cast<double>(nodes[g] * group.devices_per_node) * group.price_per_device_hour.value_or(0.0);
  }
  auto present = present_on(job_.cluster, job_.cluster_source, {}, numbers);
  // These groups reach each other only through a group that is left out.
  if (!present) return {};
  if (!load_cluster(present->source, "cluster")) return {};  // the file would name links of absent groups
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
  return {};
}

void ObjectiveChoice::order(std::size_t first) {
  std::stable_sort(sizes_.begin() + static_cast<std::ptrdiff_t>(first), sizes_.end(), [&](const Size& a, const Size& b) {
    const double x = value(a.least_s, a.least_cost()), y = value(b.least_s, b.least_cost());
    return x != y ? x < y : a.answer.devices > b.answer.devices;
  });
}

Status ObjectiveChoice::add_sizes() {
  for (std::vector<std::int64_t>& nodes : sizes_of(job_.cluster))
    if (Status status = add_size(std::move(nodes)); !status.ok()) return status;
  const auto prepared = planner::prepare(job_);
  if (!prepared) return prepared.error();
  least_cost_ = search::least_cost_of_work(prepared->problem);
  order(0);
  return {};
}

/// Returns the numbers of nodes between one that fails and the next larger or smaller one that holds, group by group.
std::set<std::vector<std::int64_t>> ObjectiveChoice::between() const {
  std::set<std::vector<std::int64_t>> out;
  std::map<std::vector<std::int64_t>, Progress> tried;
  for (const Size& size : sizes_) tried[size.answer.nodes_by_group] = size.standing;
  for (const auto& [nodes, standing] : tried) {
    for (std::size_t g = 0; g < nodes.size(); ++g) {
      std::vector<std::int64_t> next = nodes;  // the next larger number tried for this group
      do ++next[g];
      while (next[g] <= job_.cluster.groups[g].nodes && tried.count(next) == 0);
      const auto at = tried.find(next);
      const bool turns = at != tried.end() && ((standing == Progress::holds && at->second == Progress::fails) ||
                                               (standing == Progress::fails && at->second == Progress::holds));
      for (std::vector<std::int64_t> size = nodes; turns && ++size[g] < next[g] && out.size() < kMostBetween;) out.insert(size);
    }
  }
  return out;
}

std::string ObjectiveChoice::loses(const Size& size) const {
  const Objective& o = *job_.objective;
  if (o.budget_per_step && size.least_cost() > *o.budget_per_step) return "over the budget even at its lower bound";
  if (o.deadline_s && size.least_s * steps() > *o.deadline_s) return "after the deadline even at its lower bound";
  if (value(size.least_s, size.least_cost()) >= best_value_) return kNoBetter;
  return "";
}

void ObjectiveChoice::search(Size& size, bool whatever) {
  SizeAnswer& a = size.answer;
  a.label = whatever ? "" : loses(size);
  if (!a.label.empty()) {
    if (a.label != kNoBetter) size.standing = Progress::fails;
    return;
  }
  auto found = plan(size.job, options_);
  if (!found) {
    a.label = found.error().found;
    size.standing = Progress::fails;
    return;
  }
  const std::vector<std::int64_t> used = used_nodes(size, found->plan);
  const bool smaller = used != a.nodes_by_group && std::any_of(sizes_.begin(), sizes_.end(), [&](const Size& other) {
                         return other.answer.nodes_by_group == used;
                       });
  if (smaller) {  // that size is searched by itself
    a.label = "the fastest plan does not use all nodes";
    return;
  }
  const Prediction& p = found->prediction;
  a.label = found->plan.label();
  a.iteration_ns = p.iteration_ns;
  a.expense = p.cost;
  if (p.days > 0) a.days = p.days;
  const double seconds = static_cast<double>(p.iteration_ns) * 1e-9, cost = p.cost ? p.cost->per_step : 0.0;
  a.within = excess(a) <= 1;
  size.standing = a.within ? Progress::holds : Progress::fails;
  if (!a.within || value(seconds, cost) >= best_value_) return;
  best_value_ = value(seconds, cost);
  best_size_ = a.nodes_by_group;
  best_ = std::move(*found);
}

double ObjectiveChoice::excess(const SizeAnswer& a) const {
  const Objective& o = *job_.objective;
  double out = 0;
  if (o.budget_per_step && a.expense) out = std::max(out, a.expense->per_step / *o.budget_per_step);
  if (o.deadline_s) out = std::max(out, static_cast<double>(a.iteration_ns.value_or(0)) * 1e-9 * steps() / *o.deadline_s);
  return out;
}

/// If the bounds exclude every size, searches the nearest ones, so that the answer can state by how much they miss.
void ObjectiveChoice::search_nearest() {
  const Objective& o = *job_.objective;
  if (!limited() || std::any_of(sizes_.begin(), sizes_.end(), [](const Size& s) { return s.answer.iteration_ns.has_value(); }))
    return;
  std::vector<std::pair<double, Size*>> by_bound;
  for (Size& size : sizes_) {
    const double money = o.budget_per_step ? size.least_cost() / *o.budget_per_step : 0;
    const double time = o.deadline_s ? size.least_s * steps() / *o.deadline_s : 0;
    by_bound.emplace_back(std::max(money, time), &size);
  }
  std::stable_sort(by_bound.begin(), by_bound.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (std::size_t i = 0; i < by_bound.size() && i < kNearest && by_bound[i].first <= 1.05 * by_bound.front().first; ++i) {
    if (options_.interrupted && options_.interrupted()) return;
    search(*by_bound[i].second, true);
  }
}

/// Returns a text such as "12.3 days, 2.3 days (23 %) after the deadline".
std::string beyond(double value, double most, const std::string& unit, const char* limit) {
  const double over = value - most;
  const int digits = over < 0.01 ? 4 : over < 0.1 ? 3 : over < 10 ? 2 : over < 100 ? 1 : 0;
  const std::string share = value > 10 * most ? cat(base::fixed(value / most, 0), " times it") : base::percent(over / most);
  return cat(base::fixed(value, digits), " ", unit, ", ", base::fixed(over, digits), " ", unit, " (", share, ") ", limit);
}

Error ObjectiveChoice::none() const {
  const Size* nearest = nullptr;
  for (const Size& size : sizes_)
    if (size.answer.iteration_ns && (nearest == nullptr || excess(size.answer) < excess(nearest->answer))) nearest = &size;
  if (nearest == nullptr)
    return {ErrorKind::infeasible, "search.objective", "no cluster size at which a plan fits in memory", "one",
            sizes_.empty() ? "more nodes" : sizes_.back().answer.label};
  const Objective& o = *job_.objective;
  const SizeAnswer& a = nearest->answer;
  const double days = static_cast<double>(*a.iteration_ns) * 1e-9 * steps() / kSecondsPerDay;
  const bool late = o.deadline_s && days * kSecondsPerDay > *o.deadline_s;
  const bool dear = o.budget_per_step && a.expense && a.expense->per_step > *o.budget_per_step;
  const double scale = steps() > 0 ? steps() : 1;  // money of the whole run, if its length is known
  const std::string unit = dear ? cat(a.expense->currency, steps() > 0 ? "" : " per step") : "";
  const int digits = steps() > 0 ? 2 : 4;
  std::string found = cat("no plan within ",
                          late && dear ? "budget and deadline"
                          : late       ? "the deadline"
                                       : "the budget",
                          ": the nearest, on ", a.devices, a.devices == 1 ? " device" : " devices");
  std::string expected, hint;
  if (late) {
    const double most = *o.deadline_s / kSecondsPerDay;
    found += cat(", takes ", beyond(days, most, "days", "after the deadline"));
    expected = cat("at most ", base::six_digits(most), most == 1 ? " day" : " days");
    hint = cat("a deadline of ", base::fixed(std::ceil(days * 100) / 100, 2), "d");
  }
  if (dear) {
    const double cost = a.expense->per_step * scale, most = *o.budget_per_step * scale;
    found += cat(late ? " and costs " : ", costs ", beyond(cost, most, unit, "over the budget"));
    expected += cat(late ? " and " : "", "at most ", base::six_digits(most), " ", unit);
    const double step = std::pow(10, digits);
    hint += cat(late ? " and a budget of " : "a budget of ", base::fixed(std::ceil(cost * step) / step, digits), " ", unit);
  }
  return {ErrorKind::infeasible, "search.objective", std::move(found), std::move(expected),
          cat(hint, late && !dear ? " can be met; or more nodes" : " can be met")};
}

ObjectiveAnswer ObjectiveChoice::take() {
  ObjectiveAnswer out;
  out.objective = *job_.objective;
  for (Size& size : sizes_) out.sizes.push_back(std::move(size.answer));
  const auto cost = [](const SizeAnswer& a) {
    return !a.iteration_ns ? std::numeric_limits<double>::infinity() : a.expense ? a.expense->per_step : 0.0;
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

void ObjectiveChoice::search_all(std::size_t first) {
  for (std::size_t i = first; i < sizes_.size(); ++i) {
    if (options_.interrupted && options_.interrupted()) break;
    search(sizes_[i]);
  }
}

Result<ObjectiveAnswer> ObjectiveChoice::run() {
  if (Status status = refused(); !status.ok()) return status.error();
  if (Status status = add_sizes(); !status.ok()) return status.error();
  search_all(0);
  if (limited() && best_) {
    const std::size_t first = sizes_.size();
    for (const std::vector<std::int64_t>& nodes : between())
      if (Status status = add_size(nodes); !status.ok()) return status.error();
    order(first);
    search_all(first);
  }
  if (!best_) search_nearest();
  if (!best_) return none();
  ObjectiveAnswer out = take();
  ESPALIER_CHECK(!out.answer->prediction.cost || out.answer->prediction.cost->per_step >= out.least_cost);
  return out;
}

}  // namespace

Result<ObjectiveAnswer> plan_for_objective(const Job& job, const PlannerOptions& options) {
  ESPALIER_CHECK(job.objective);
  return ObjectiveChoice(job, options).run();
}

}  // namespace espalier::adapt
