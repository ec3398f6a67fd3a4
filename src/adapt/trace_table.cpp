// SPDX-License-Identifier: Apache-2.0
#include "adapt/trace_table.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "adapt/actions.h"
#include "adapt/settle.h"
#include "base/format.h"
#include "base/invariant.h"
#include "plan/engine.h"

namespace espalier::adapt {
namespace {

using Nodes = std::vector<std::int64_t>;

struct Epoch {
  double length_s = 0;
  ClusterState state;
};

double mean_gap(const std::vector<Seconds>& times) {
  return times.size() < 2 ? 3600.0 : times.back().count() / static_cast<double>(times.size() - 1);
}

std::vector<Epoch> epochs_of(const Cluster& cluster, const std::optional<double>& asked_s) {
  const std::vector<Seconds> times = change_times(cluster);
  const double end = asked_s.value_or(0) > 0 ? *asked_s : times.back().count() + mean_gap(times);
  std::vector<ClusterState> states = states_over_time(cluster);
  std::vector<Epoch> out;
  for (std::size_t i = 0; i < times.size() && times[i].count() < end; ++i) {
    const double until = i + 1 < times.size() ? std::min(end, times[i + 1].count()) : end;
    ClusterState state = without_lost_links(cluster, std::move(states[i]));
    if (!out.empty() && out.back().state == state)
      out.back().length_s += until - times[i].count();
    else
      out.push_back({until - times[i].count(), std::move(state)});
  }
  return out;
}

/// Returns the part of a state that decides about plans: the nodes by group, and the slow or narrow ones by their
/// index among the present nodes.
std::string key_of(const Present& present, const ClusterState& state) {
  std::string out = present.source;
  for (const NodeGroup& group : present.cluster.groups)
    for (const DeviceSpeed& speed : group.speed) out += cat(" ", speed.device, "=", base::six_digits(speed.factor));
  for (const FabricLevel& level : present.cluster.inter) out += cat(" ", base::six_digits(level.bandwidth.count()));
  for (const NodeGroup& group : present.cluster.groups)
    for (const FabricLevel& level : group.inter) out += cat(" ", base::six_digits(level.bandwidth.count()));
  for (const GroupLink& link : present.cluster.links) out += cat(" ", link.name(), "=", base::six_digits(link.bandwidth.count()));
  for (const Detour& detour : state.detours) out += cat(" ", detour.link, ">", detour.via);
  return out;
}

/// Holds a plan of the trace and the nodes that it needs.
struct TraceCandidate {
  Plan plan;
  Nodes by_group;  ///< number of nodes in each group
  std::int64_t iteration_ns = 0;
  std::map<std::string, std::int64_t> times;  ///< step times by key_of; 0: no room
};

class Trace {
 public:
  Trace(const Job& job, const OverTimeOptions& options) : job_(&job), options_(&options) {
    s_.job = job_;
    s_.whole = job.cluster;
    s_.whole.capacity.clear();
    s_.whole.events.clear();
    s_.source = without_changes(job.cluster_source);
    s_.engine = job.engine_model ? job.engine_model.get() : find_engine(job.engine);
    s_.options = options.change;
    if (s_.options.memory == nullptr) s_.options.memory = &memory_;
    s_.cache = &cache_;
    all_ = epochs_of(job.cluster, options.length_s);
  }

  Result<TracePlans> make() {
    if (Status status = find_plans(); !status.ok()) return status.error();
    choose_plans();
    if (Status status = fill(); !status.ok()) return status.error();
    TracePlans out;
    out.plans = std::move(results_);
    for (const TraceCandidate& c : plans_) out.nodes_by_group.push_back(c.by_group);
    out.rates = std::move(rates_);
    out.best_rate = best_rate_;
    out.states = states_;
    out.checkpoint_age_s = s_.options.move.checkpoint_age_s;
    out.epochs = std::move(table_);
    return out;
  }

 private:
  /// Finds the best plan of every different state.
  Status find_plans() {
    std::set<std::string> seen;
    std::optional<Error> last;
    for (const Epoch& epoch : all_) {
      s_.state = epoch.state;
      const Nodes here = nodes_there();
      if (here.empty() || !seen.insert(key_here(here)).second) continue;
      auto best = plan_here(s_, here);
      if (!best) {
        if (best.error().kind != ErrorKind::infeasible && best.error().kind != ErrorKind::bad_input) return best.error();
        last = best.error();
        continue;
      }
      add(std::move(*best));
    }
    states_ = static_cast<std::int64_t>(seen.size());
    if (plans_.empty()) return last ? *last : Error{ErrorKind::infeasible, "cluster", "no nodes at any time", "some", ""};
    return {};
  }

  /// Returns the part of the present state that decides about plans on these nodes.
  [[nodiscard]] std::string key_here(const Nodes& here) const {
    std::string out;
    for (const Nodes& part : joined_parts(s_.whole, s_.state, here))
      if (const auto present = present_on(s_.whole, s_.source, s_.state, part)) out += key_of(*present, s_.state) + "\n";
    return out;
  }

  [[nodiscard]] Nodes nodes_there() const {
    Nodes out;
    for (std::int64_t node = 0; node < s_.whole.nodes(); ++node)
      if (!std::binary_search(s_.state.away.begin(), s_.state.away.end(), node)) out.push_back(node);
    return out;
  }

  void add(Planned planned) {
    TraceCandidate c;
    c.by_group.assign(s_.whole.groups.size(), 0);
    for (const std::int64_t node : planned.present.node_of) ++c.by_group[s_.whole.group_of_node(node)];
    c.iteration_ns = planned.result.prediction.iteration_ns;
    c.plan = planned.result.plan;
    for (const TraceCandidate& known : plans_)
      if (known.by_group == c.by_group && known.plan.canonical_text() == c.plan.canonical_text()) return;
    results_.push_back(std::move(planned.result));
    plans_.push_back(std::move(c));
  }

  /// Returns the nodes that a plan takes in a state, those of `before` first; nothing if there are too few.
  Nodes take(const TraceCandidate& c, const ClusterState& state, const Nodes& before) {
    s_.state = state;
    const std::set<std::int64_t> away(state.away.begin(), state.away.end());
    const Nodes well_list = healthy_nodes(s_);
    const std::set<std::int64_t> well(well_list.begin(), well_list.end()), had(before.begin(), before.end());
    Nodes out;
    for (std::size_t g = 0; g < s_.whole.groups.size(); ++g) {
      Nodes here;
      for (std::int64_t n = s_.whole.first_node(g); n < s_.whole.first_node(g) + s_.whole.groups[g].nodes; ++n)
        if (away.count(n) == 0) here.push_back(n);
      if (static_cast<std::int64_t>(here.size()) < c.by_group[g]) return {};
      std::stable_sort(here.begin(), here.end(), [&](std::int64_t a, std::int64_t b) {
        return std::pair{well.count(a) == 0, had.count(a) == 0} < std::pair{well.count(b) == 0, had.count(b) == 0};
      });
      here.resize(static_cast<std::size_t>(c.by_group[g]));
      std::sort(here.begin(), here.end());
      out.insert(out.end(), here.begin(), here.end());
    }
    return out;
  }

  /// Returns the step time on these nodes; 0 if there is no room, or no path between the nodes.
  std::int64_t time_on(TraceCandidate& c, const ClusterState& state, const Nodes& nodes) {
    s_.state = state;
    const auto present = present_on(s_.whole, s_.source, state, nodes);
    if (!present) return 0;
    const auto [at, is_new] = c.times.try_emplace(key_of(*present, state), 0);
    if (!is_new) return at->second;
    const auto time = step_time(s_, *present, c.plan);
    if (time && time->fits) at->second = time->ns;
    return at->second;
  }

  [[nodiscard]] double rate(std::int64_t ns) const {
    return ns == 0 ? 0.0 : static_cast<double>(job_->training.global_batch) / (static_cast<double>(ns) * 1e-9);
  }

  /// Fills the samples per second of every plan in every epoch, and the nodes that it takes there.
  void fill_rates() {
    rates_.assign(all_.size(), std::vector<double>(plans_.size(), 0.0));
    taken_.assign(all_.size(), std::vector<Nodes>(plans_.size()));
    for (std::size_t a = 0; a < plans_.size(); ++a) {
      Nodes before;
      for (std::size_t e = 0; e < all_.size(); ++e) {
        const Nodes nodes = take(plans_[a], all_[e].state, before);
        taken_[e][a] = nodes;
        if (nodes.empty()) continue;
        rates_[e][a] = rate(time_on(plans_[a], all_[e].state, nodes));
        before = nodes;
      }
    }
  }

  /// Chooses at most most_plans of them. Each next plan is the one that saves most where all chosen ones are slower.
  void choose_plans() {
    fill_rates();
    std::vector<std::size_t> chosen;
    std::vector<double> best(all_.size(), 0.0);
    while (chosen.size() < std::min(plans_.size(), std::max<std::size_t>(1, options_->most_plans))) {
      std::size_t next = plans_.size();
      double most = 0;
      for (std::size_t a = 0; a < plans_.size(); ++a) {
        double saved = 0;
        for (std::size_t e = 0; e < all_.size(); ++e) saved += std::max(0.0, rates_[e][a] - best[e]) * all_[e].length_s;
        if (saved > most) {
          most = saved;
          next = a;
        }
      }
      if (next == plans_.size()) break;
      chosen.push_back(next);
      for (std::size_t e = 0; e < all_.size(); ++e) best[e] = std::max(best[e], rates_[e][next]);
    }
    std::vector<TraceCandidate> plans;
    std::vector<PlannerResult> results;
    for (const std::size_t a : chosen) {
      plans.push_back(std::move(plans_[a]));
      results.push_back(std::move(results_[a]));
    }
    plans_ = std::move(plans);
    results_ = std::move(results);
    fill_rates();
  }

  /// Returns the pause of a move between two plans while all nodes are present.
  Result<double> pause(const Plan& from, const Nodes& at, const Plan& to, const Nodes& on) {
    s_.state = {};
    auto old = present_on(s_.whole, s_.source, {}, at);
    auto now = present_on(s_.whole, s_.source, {}, on);
    if (!old) return old.error();
    if (!now) return now.error();
    const Placed placed{&from, device_numbers(*old, s_.whole)};
    Nodes spare;
    for (const std::int64_t node : at)
      if (std::find(on.begin(), on.end(), node) == on.end()) spare.push_back(node);
    auto where = settled(s_.scene(), placed, to, *now, spare);
    if (!where) return where.error();
    now->node_of = *where;
    const auto move = move_of(s_.scene(), placed, {&to, device_numbers(*now, s_.whole)});
    if (!move) return move.error();
    return move->pause_s();
  }

  /// Returns half of Young's interval, √(2·C·M), where C is the time in which a device writes what it holds. M is the
  /// mean time between losses of nodes (J. W. Young, CACM 1974). Checkpoints are assumed to be written while training
  /// continues.
  [[nodiscard]] double checkpoint_age() const {
    std::int64_t losses = 0;
    for (std::size_t e = 1; e < all_.size(); ++e)
      losses += std::any_of(all_[e].state.away.begin(), all_[e].state.away.end(),
                            [&](std::int64_t node) {
                              return !std::binary_search(all_[e - 1].state.away.begin(), all_[e - 1].state.away.end(), node);
                            })
                    ? 1
                    : 0;
    double length = 0;
    for (const Epoch& epoch : all_) length += epoch.length_s;
    double bytes = 0;
    for (const PlannerResult& result : results_)
      bytes = std::max(bytes, static_cast<double>(result.prediction.memory.parameters + result.prediction.memory.optimizer));
    const double mean = length / static_cast<double>(std::max<std::int64_t>(1, losses));
    return std::sqrt(2 * bytes / options_->change.move.storage_per_device * mean) / 2;
  }

  Status fill() {
    s_.options.move.checkpoint_age_s = options_->checkpoint_age_s.value_or(checkpoint_age());
    table_.move_s.assign(plans_.size(), std::vector<double>(plans_.size(), 0.0));
    for (std::size_t a = 0; a < plans_.size(); ++a)
      for (std::size_t b = 0; b < plans_.size(); ++b) {
        if (a == b) continue;
        auto seconds = pause(plans_[a].plan, take(plans_[a], {}, {}), plans_[b].plan, take(plans_[b], {}, {}));
        if (!seconds) return seconds.error();
        table_.move_s[a][b] = std::max(*seconds, 1e-3);
      }
    double most = 0;
    for (const auto& row : rates_)
      for (const double r : row) most = std::max(most, r);
    if (most <= 0) return Error{ErrorKind::infeasible, "cluster", "no plan that can run at any time", "a larger cluster", ""};
    best_rate_ = most;
    std::vector<Nodes> before(plans_.size());
    std::vector<double> due(plans_.size(), 0.0);
    for (std::size_t e = 0; e < all_.size(); ++e) {
      table_.length_s.push_back(all_[e].length_s);
      table_.loss.emplace_back();
      table_.forced_s.emplace_back(plans_.size(), 0.0);
      table_.hit_s.emplace_back(plans_.size(), 0.0);
      const double best = *std::max_element(rates_[e].begin(), rates_[e].end());
      for (std::size_t a = 0; a < plans_.size(); ++a) {
        table_.loss.back().push_back((best - rates_[e][a]) / most);
        const Nodes& nodes = taken_[e][a];
        if (!before[a].empty() && nodes != before[a]) {
          const auto exchange = gone(a, before[a], all_[e].state);
          if (!exchange) return exchange.error();
          table_.hit_s.back()[a] = exchange->hit_s;
          // The plan changes nodes for other reasons (healthier ones), or waits for nodes. It then pays only the
          // restart, when it runs again.
          due[a] = std::max({due[a], exchange->forced_s, options_->change.move.restart_s});
        }
        before[a] = nodes;
        if (nodes.empty()) continue;
        table_.forced_s.back()[a] = due[a];
        due[a] = 0;
      }
    }
    return {};
  }

  /// Holds the seconds that a running plan loses when nodes leave (h), and the cost of continuing it on others (f).
  struct Exchange {
    double hit_s = 0, forced_s = 0;
  };
  Result<Exchange> gone(std::size_t a, const Nodes& before, const ClusterState& state) {
    Nodes places{static_cast<std::int64_t>(a)};
    ClusterState lost;
    for (std::size_t i = 0; i < before.size(); ++i)
      if (std::binary_search(state.away.begin(), state.away.end(), before[i])) {
        places.push_back(static_cast<std::int64_t>(i));
        lost.away.push_back(before[i]);
      }
    Exchange out;
    if (lost.away.empty()) return out;
    if (const auto known = exchanges_.find(places); known != exchanges_.end()) return known->second;
    // New nodes replace the lost ones: states without another holder are lost.
    const auto there = present_on(s_.whole, s_.source, {}, before);
    if (!there) return there.error();
    s_.state = lost;
    const Placed placed{&plans_[a].plan, device_numbers(*there, s_.whole)};
    const auto move = move_of(s_.scene(), placed, placed);
    if (!move) return move.error();
    out.hit_s = move->lost_bytes > 0 ? move->rollback_s + move->storage_s : 0.0;
    out.forced_s = move->pause_s() - out.hit_s;
    exchanges_[places] = out;
    return out;
  }

  const Job* job_;
  const OverTimeOptions* options_;
  PlannerMemory memory_;
  PlanCache cache_;
  Situation s_;
  std::vector<Epoch> all_;
  std::vector<TraceCandidate> plans_;
  std::vector<PlannerResult> results_;
  std::int64_t states_ = 0;
  std::vector<std::vector<double>> rates_;
  std::vector<std::vector<Nodes>> taken_;
  std::map<Nodes, Exchange> exchanges_;
  double best_rate_ = 0;
  Epochs table_;
};

}  // namespace

Result<TracePlans> trace_table(const Job& job, const OverTimeOptions& options) { return Trace(job, options).make(); }

}  // namespace espalier::adapt
