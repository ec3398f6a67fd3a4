// SPDX-License-Identifier: Apache-2.0
// Plans for every loss of up to k nodes. All sets of nodes that the plan uses are enumerated; equivalent sets share
// one answer. Two sets are equivalent if their nodes, ordered, are of the same classes (equal devices that hold equal
// shares of the same layers) and have the same pattern of replicas.
//
// An answer depends on a set only through the states its nodes hold, their replicas, and the number of nodes left.
// One answer therefore holds for all sets of a class. The sum over classes is the number of sets, so the enumeration
// proves coverage.
#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "adapt/actions.h"
#include "adapt/replica_devices.h"
#include "adapt/settle.h"
#include "base/format.h"
#include "base/invariant.h"
#include "plan/process_groups.h"

namespace espalier::adapt {
namespace {

/// Lists what a device holds: the index of a holding, and of its share there (parameters and states).
using Held = std::vector<std::pair<std::size_t, std::size_t>>;

/// Returns what the devices of every node of the plan hold.
Result<std::map<std::int64_t, std::vector<Held>>> held_by_nodes(const Situation& s) {
  auto holdings = holdings_of(*s.plan, s.job->model);
  if (!holdings) return holdings.error();
  std::map<std::int64_t, Held> devices;
  for (std::size_t h = 0; h < holdings->size(); ++h) {
    const Holding& holding = (*holdings)[h];
    std::vector<RankShare> different;
    const std::int32_t kind = s.job->model.layers[static_cast<std::size_t>(holding.first_layer)];
    for (std::size_t r = 0; r < holding.devices.size(); ++r) {
      const RankShare share = share_of(holding, s.job->model, s.job->model.kinds[static_cast<std::size_t>(kind)], *s.engine,
                                       static_cast<std::int64_t>(r));
      const auto at = std::find(different.begin(), different.end(), share);
      const auto place = static_cast<std::size_t>(at - different.begin());
      if (at == different.end()) different.push_back(share);
      devices[s.placed.devices[static_cast<std::size_t>(holding.devices[r])]].emplace_back(h, place);
    }
  }
  std::map<std::int64_t, std::vector<Held>> out;
  for (const auto& [device, held] : devices) out[s.whole.node_of(device)].push_back(held);
  return out;
}

/// Returns the replicas of the plan's stages that have devices on each node; empty if the plan is not uniform.
std::map<std::int64_t, std::set<std::int64_t>> replicas_of_nodes(const Situation& s) {
  std::map<std::int64_t, std::set<std::int64_t>> out;
  if (s.plan->pipelines.size() != 1 || !s.plan->uniform()) return out;
  each_device(*s.plan, [&](std::int64_t replica, std::int64_t device) { out[s.whole.node_of(device)].insert(replica); });
  return out;
}

std::string words_of(const Situation& s, std::int64_t node) {
  std::set<std::size_t> stages;
  std::size_t number = 0, all = 0;
  for (const Pipeline& pipeline : s.plan->pipelines)
    for (const Stage& stage : pipeline.stages) {
      for (const std::int64_t device : devices_of(stage.devices))
        if (s.whole.node_of(device) == node) stages.insert(number);
      ++number;
    }
  all = number;
  if (stages.size() == all) return "all stages";
  std::string out;
  for (const std::size_t stage : stages) out += cat(out.empty() ? "stage " : ", ", stage);
  return out;
}

/// Finds classes of nodes, and the pattern of replicas of a set of nodes.
class Patterns {
 public:
  Patterns(const Situation& s, const std::map<std::int64_t, std::vector<Held>>& held) : replicas_(replicas_of_nodes(s)) {
    const std::vector<std::int64_t> traits = node_classes(s.whole, s.state, s.used);
    std::map<std::pair<std::int64_t, std::vector<Held>>, std::int64_t> known;
    for (std::size_t n = 0; n < s.used.size(); ++n) {
      const auto next = static_cast<std::int64_t>(known.size());
      class_of_[s.used[n]] = known.try_emplace({traits[n], held.at(s.used[n])}, next).first->second;
    }
  }
  using Pattern = std::vector<std::vector<std::int64_t>>;
  [[nodiscard]] Pattern of(std::vector<std::int64_t> nodes) const {
    std::stable_sort(nodes.begin(), nodes.end(),
                     [&](std::int64_t a, std::int64_t b) { return class_of_.at(a) < class_of_.at(b); });
    std::map<std::int64_t, std::int64_t> names;
    Pattern out;
    for (const std::int64_t node : nodes) {
      out.push_back({class_of_.at(node)});
      const auto known = replicas_.find(node);
      if (known == replicas_.end()) continue;
      for (const std::int64_t replica : known->second) {
        const auto next = static_cast<std::int64_t>(names.size());
        out.back().push_back(names.try_emplace(replica, next).first->second);
      }
    }
    return out;
  }

 private:
  std::map<std::int64_t, std::int64_t> class_of_;
  std::map<std::int64_t, std::set<std::int64_t>> replicas_;
};

/// Calls visit(set) for every set of 1 … most of the nodes.
template <class Visit>
void each_set(const std::vector<std::int64_t>& nodes, std::int64_t most, std::size_t from, std::vector<std::int64_t>& set,
              const Visit& visit) {
  if (!set.empty()) visit(set);
  if (static_cast<std::int64_t>(set.size()) == most) return;
  for (std::size_t n = from; n < nodes.size(); ++n) {
    set.push_back(nodes[n]);
    each_set(nodes, most, n + 1, set, visit);
    set.pop_back();
  }
}

/// Returns the situation after a loss of these nodes.
Situation after(const Situation& s, const std::vector<std::int64_t>& nodes) {
  Situation out = s;
  out.state.away = out.lost = nodes;
  return out;
}

}  // namespace

Result<Survival> survive(const Job& job, const Plan& plan, std::int64_t most, const ChangeOptions& options) {
  PlannerMemory memory;
  PlanCache cache;
  ChangeOptions remembering = options;
  if (remembering.memory == nullptr) remembering.memory = &memory;
  auto at_rest = situation_of(job, plan, {}, remembering);
  if (!at_rest) return at_rest.error();
  at_rest->cache = &cache;
  const auto held = held_by_nodes(*at_rest);
  if (!held) return held.error();
  const Patterns patterns(*at_rest, *held);
  Survival out;
  out.most = most;
  out.prices = options.move;
  std::map<Patterns::Pattern, std::size_t> known;
  std::vector<std::int64_t> set;
  each_set(at_rest->used, most, 0, set, [&](const std::vector<std::int64_t>& nodes) {
    const auto [at, is_new] = known.try_emplace(patterns.of(nodes), out.classes.size());
    if (is_new) out.classes.push_back({nodes, 0, "", {}});
    ++out.classes[at->second].losses;
    ++out.losses;
  });
  std::set<std::string> plans;
  for (LossClass& c : out.classes) {
    for (const std::int64_t node : c.nodes) c.holds += (c.holds.empty() ? "" : "; ") + words_of(*at_rest, node);
    const double horizon = options.horizon_s.value_or(0) > 0 ? *options.horizon_s : std::numeric_limits<double>::infinity();
    auto answer = ladder(after(*at_rest, c.nodes), horizon);
    if (!answer) return answer.error();
    c.action = std::move(answer->actions[answer->recommended]);
    if (!c.action.possible) continue;
    out.covered += c.losses;
    plans.insert(c.action.plan ? c.action.plan->canonical_text() : std::string(to_string(c.action.action)));
  }
  out.plans = plans.size();
  return out;
}

}  // namespace espalier::adapt
