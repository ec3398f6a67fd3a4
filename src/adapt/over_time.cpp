// SPDX-License-Identifier: Apache-2.0
// Plans a job on a changing cluster: plans that never change, the online policy, and the clairvoyant one.
#include <algorithm>

#include "adapt/policy.h"
#include "adapt/trace_table.h"

namespace espalier::adapt {
namespace {

class OverTimeAnswer {
 public:
  OverTimeAnswer(const OverTimeOptions& options, const TracePlans& trace)
      : options_(&options), trace_(&trace), table_(trace.epochs) {}

  [[nodiscard]] OverTime answer() const {
    OverTime out;
    out.epochs = static_cast<std::int64_t>(table_.length_s.size());
    out.states = trace_->states;
    std::vector<PolicyRun> still;
    for (std::size_t a = 0; a < table_.plans(); ++a) {
      TracePlan p;
      p.plan = trace_->plans[a].plan;
      p.nodes_by_group = trace_->nodes_by_group[a];
      p.iteration_ns = trace_->plans[a].prediction.iteration_ns;
      p.worst_samples_per_s = trace_->rates.front()[a];
      for (std::size_t e = 0; e < table_.length_s.size(); ++e) {
        if (trace_->rates[e][a] > 0) p.runs_s += table_.length_s[e];
        p.worst_samples_per_s = std::min(p.worst_samples_per_s, trace_->rates[e][a]);
      }
      still.push_back(static_run(table_, a));
      p.static_samples_per_s = told("", still.back()).samples_per_s;
      out.plans.push_back(std::move(p));
    }
    for (std::size_t a = 1; a < table_.plans(); ++a) {
      if (still[a].cost_s() < still[out.best_static].cost_s()) out.best_static = a;
      const auto worst = [&](std::size_t x) { return std::pair{out.plans[x].worst_samples_per_s, -still[x].cost_s()}; };
      if (worst(a) > worst(out.best_worst)) out.best_worst = a;
    }
    for (const double length : table_.length_s) out.length_s += length;
    PolicyRules rules;
    rules.hysteresis = options_->hysteresis;
    for (const PlannerResult& p : trace_->plans)
      rules.detection_s =
          std::max(rules.detection_s, options_->detection_steps * static_cast<double>(p.prediction.iteration_ns) * 1e-9);
    const PolicyRun best = clairvoyant_run(table_);
    const Followed online = follow(rules, out.best_static);
    out.detection_s = rules.detection_s;
    out.offered = online.plans;
    out.bound = online.bound;
    out.runs = {told("static", still[out.best_static]), told("static, worst case", still[out.best_worst]),
                told("online", online.run), told("clairvoyant", best)};
    out.checkpoint_age_s = trace_->checkpoint_age_s;
    const double known = out.runs.back().samples_per_s;
    out.regret = known > 0 ? 1 - out.runs[2].samples_per_s / known : 0;
    out.start = trace_->plans[out.best_static];
    return out;
  }

 private:
  [[nodiscard]] TraceRun told(const std::string& name, const PolicyRun& run) const {
    double best = 0, time = 0;
    for (std::size_t e = 0; e < table_.length_s.size(); ++e) {
      best += *std::max_element(trace_->rates[e].begin(), trace_->rates[e].end()) * table_.length_s[e];
      time += table_.length_s[e];
    }
    TraceRun out;
    out.name = name;
    out.samples_per_s = std::max(0.0, best - run.cost_s() * trace_->best_rate) / time;
    out.lost_s = run.cost_s();
    out.moves_s = run.moves_s + run.forced_s;
    out.moves = static_cast<std::int64_t>(run.decisions.size()) - 1;
    out.decisions = run.decisions;
    return out;
  }

  /// Holds the policy with the best number of plans to choose from. More plans lose less, but have a larger factor.
  /// With one plan, this is the best that never changes.
  struct Followed {
    PolicyRun run;
    std::size_t plans = 1;
    PolicyBound bound;
  };
  [[nodiscard]] Followed follow(const PolicyRules& rules, std::size_t best_static) const {
    Followed best;
    for (std::size_t k = 1; k <= table_.plans(); ++k) {
      std::vector<std::size_t> offered;
      for (std::size_t a = 0; a < k; ++a) offered.push_back(a);
      if (k == 1) offered = {best_static};
      const Epochs some = table_of(offered);
      std::size_t start = 0;
      for (std::size_t i = 1; i < k; ++i)
        if (some.loss.front()[i] < some.loss.front()[start]) start = i;
      PolicyRun run = online_run(some, start, rules);
      if (k > 1 && run.cost_s() >= best.run.cost_s()) continue;
      for (TraceDecision& decision : run.decisions) decision.plan = offered[decision.plan];
      best = {std::move(run), k, bound_of(some, rules, clairvoyant_run(some).cost_s())};
    }
    return best;
  }

  /// Returns the rows and columns of these plans.
  [[nodiscard]] Epochs table_of(const std::vector<std::size_t>& plans) const {
    const auto picked = [&](const std::vector<double>& row) {
      std::vector<double> out;
      for (const std::size_t a : plans) out.push_back(row[a]);
      return out;
    };
    Epochs out;
    out.length_s = table_.length_s;
    for (const auto& row : table_.loss) out.loss.push_back(picked(row));
    for (const auto& row : table_.forced_s) out.forced_s.push_back(picked(row));
    for (const auto& row : table_.hit_s) out.hit_s.push_back(picked(row));
    for (const std::size_t a : plans) out.move_s.push_back(picked(table_.move_s[a]));
    return out;
  }

  const OverTimeOptions* options_;
  const TracePlans* trace_;
  const Epochs& table_;
};

}  // namespace

Result<OverTime> plan_over_time(const Job& job, const OverTimeOptions& options) {
  if (!job.cluster.changes())
    return Error{ErrorKind::bad_input, "cluster", "a cluster that does not change", "capacity or events over time",
                 "espalier plan"};
  if (!job.cluster.token_buckets.empty())
    return Error{ErrorKind::bad_input, "cluster.capacity", "a token bucket", "capacities and events only",
                 "plan for the sustained rate: a full bucket lasts only minutes (docs/clusters.md)"};
  const auto trace = trace_table(job, options);
  if (!trace) return trace.error();
  return OverTimeAnswer(options, *trace).answer();
}

}  // namespace espalier::adapt
