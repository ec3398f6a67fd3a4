// SPDX-License-Identifier: Apache-2.0
// Implements the lower rungs: stay, and the same plan on other nodes.
#include <algorithm>
#include <map>
#include <set>

#include "adapt/actions.h"
#include "adapt/settle.h"
#include "base/format.h"
#include "plan/process_groups.h"

namespace espalier::adapt {
namespace {

std::string names_of(const std::vector<std::int64_t>& nodes) {
  constexpr std::size_t kShown = 6;
  std::string out;
  for (std::size_t i = 0; i < nodes.size() && i < kShown; ++i) out += cat(i == 0 ? "" : ", ", "node:", nodes[i]);
  return nodes.size() > kShown ? cat(out, " and ", nodes.size() - kShown, " more") : out;
}

/// Returns the stages that each node's devices run. Each kind of place is one class.
std::map<std::int64_t, std::vector<std::int64_t>> roles(const Situation& s) {
  std::map<std::int64_t, std::vector<std::int64_t>> out;
  std::int64_t number = 0;
  for (const Pipeline& pipeline : s.plan->pipelines)
    for (const Stage& stage : pipeline.stages) {
      for (const std::int64_t device : devices_of(stage.devices))
        out[s.whole.node_of(s.placed.devices[static_cast<std::size_t>(device)])].push_back(number);
      ++number;
    }
  return out;
}

/// Returns the change that puts the plan on `nodes`, one for each that it uses now, priced and moved.
Result<Change> placed_on(const Situation& s, const Plan& plan, std::vector<std::int64_t> nodes) {
  auto present = present_on(s.whole, s.source, s.state, nodes);
  if (!present) return present.error();
  const auto time = step_time(s, *present, plan);
  if (!time) return time.error();
  Change c;
  c.action = ActionKind::re_place;
  c.possible = time->fits;
  c.iteration_ns = time->ns;
  c.upper_bound = time->bound;
  c.plan = plan;
  c.nodes = nodes;
  present->node_of = nodes;
  auto move = move_of(s.scene(), s.placed, {&plan, device_numbers(*present, s.whole)});
  if (!move) return move.error();
  c.move = std::move(*move);
  return c;
}

/// Replaces these nodes by healthy spare nodes (neither slow nor narrowed) of the same group. Returns nothing if
/// there are too few.
std::vector<std::int64_t> with_spares(const Situation& s, const std::set<std::int64_t>& out_of) {
  std::vector<std::int64_t> nodes = s.used, spare = s.spare;
  const std::vector<std::int64_t> well = healthy_nodes(s);
  spare.erase(std::remove_if(spare.begin(), spare.end(),
                             [&](std::int64_t n) { return !std::binary_search(well.begin(), well.end(), n); }),
              spare.end());
  for (std::int64_t& node : nodes) {
    if (out_of.count(node) == 0) continue;
    const auto at = std::find_if(spare.begin(), spare.end(),
                                 [&](std::int64_t n) { return s.whole.group_of_node(n) == s.whole.group_of_node(node); });
    if (at == spare.end()) return {};
    node = *at;
    spare.erase(at);
  }
  return nodes;
}

}  // namespace

Change impossible(ActionKind action, std::string why) {
  Change c;
  c.action = action;
  c.what = std::move(why);
  return c;
}

Result<Change> stay(const Situation& s) {
  if (!s.lost.empty()) return impossible(ActionKind::stay, cat("the plan runs on ", names_of(s.lost)));
  const auto present = present_on(s.whole, s.source, s.state, s.used);
  if (!present) return impossible(ActionKind::stay, present.error().message());
  const auto time = step_time(s, *present, on_own_nodes(s));
  if (!time) return time.error();
  Change c;
  c.action = ActionKind::stay;
  c.possible = true;
  c.what = "as before";
  c.iteration_ns = time->ns;
  c.upper_bound = time->bound;
  return c;
}

Result<Change> re_place(const Situation& s) {
  constexpr ActionKind kind = ActionKind::re_place;
  const bool broken = !s.lost.empty();
  const std::vector<std::int64_t> well = healthy_nodes(s);
  std::set<std::int64_t> bad;
  for (const std::int64_t node : s.used)
    if (!std::binary_search(well.begin(), well.end(), node)) bad.insert(node);
  if (bad.empty()) return impossible(kind, "no node of the plan is lost, slow or short of bandwidth");
  const Plan plan = on_own_nodes(s);
  std::vector<std::int64_t> nodes = with_spares(s, bad);
  if (nodes.empty() && broken) nodes = with_spares(s, {s.lost.begin(), s.lost.end()});
  if (!nodes.empty()) {
    auto change = placed_on(s, plan, nodes);
    if (change) change->what = cat("spare nodes replace ", names_of({bad.begin(), bad.end()}));
    return change;
  }
  if (broken) return impossible(kind, "not enough spare nodes for the lost ones");
  if (bad.size() > 1) return impossible(kind, "several nodes are slow or short of bandwidth, and there is no spare node");
  // The node changes places with one of every other kind of place.
  const auto held = roles(s);
  const std::int64_t node = *bad.begin();
  std::set<std::vector<std::int64_t>> tried{held.at(node)};
  std::optional<Change> best;
  for (const std::int64_t other : s.used) {
    if (s.whole.group_of_node(other) != s.whole.group_of_node(node) || !tried.insert(held.at(other)).second) continue;
    nodes = s.used;
    std::swap(*std::find(nodes.begin(), nodes.end(), node), *std::find(nodes.begin(), nodes.end(), other));
    auto change = placed_on(s, plan, nodes);
    if (!change) return change;
    change->what = cat("node:", node, " and node:", other, " swap places");
    if (change->possible && (!best || change->iteration_ns < best->iteration_ns)) best = std::move(*change);
  }
  const auto now = stay(s);
  if (!now) return now.error();
  if (!best || best->iteration_ns >= now->iteration_ns)
    return impossible(kind, "no spare node, and no other place in the plan is better");
  return *best;
}

}  // namespace espalier::adapt
