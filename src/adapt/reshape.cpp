// SPDX-License-Identifier: Apache-2.0
// Plans the job again.
#include <algorithm>
#include <cmath>
#include <set>

#include "adapt/actions.h"
#include "adapt/settle.h"
#include "base/format.h"

namespace espalier::adapt {
namespace {

constexpr ActionKind kReshape = ActionKind::reshape;

/// Returns the plan of exactly these nodes, timed at their present speed.
Result<Planned> plan_all(const Situation& s, const std::vector<std::int64_t>& nodes) {
  auto present = present_on(s.whole, s.source, s.state, nodes);
  if (!present) return present.error();
  PlannerOptions options;
  options.threads = s.options.threads;
  options.alternatives = 0;
  options.interrupted = s.options.interrupted;
  options.memory = s.options.memory;
  const Job job = job_on(s, *present, true);
  // Narrowed links are not part of the source, which identifies the cluster.
  const bool known = s.cache != nullptr && s.state.capacity.empty() && s.state.detours.empty();
  auto at = known ? s.cache->find(present->source) : PlanCache::iterator();
  auto result = known && at != s.cache->end() ? at->second : plan(job, options);
  if (known && at == s.cache->end()) s.cache->emplace(present->source, result);
  if (!result) return result.error();
  const auto time = step_time(s, *present, result->plan);
  if (!time) return time.error();
  return Planned{std::move(*present), std::move(*result), time->ns, time->bound};
}

}  // namespace

std::vector<std::int64_t> smaller_counts(std::int64_t n) {
  std::set<std::int64_t> out;
  constexpr std::int64_t kFew = 16;
  const std::int64_t least = (n + 1) / 2;
  for (std::int64_t k = n - 1; k >= least && (n <= kFew || k >= n - 4); --k) out.insert(k);
  if (n > kFew)
    for (const std::int64_t unit : {4, 8, 16}) out.insert(n / unit * unit);
  std::int64_t power = 1;
  while (power * 2 <= n) power *= 2;
  out.insert(power);
  out.erase(n);
  return {out.rbegin(), out.rend()};
}

Result<Planned> plan_on(const Situation& s, const std::vector<std::int64_t>& nodes) {
  auto best = plan_all(s, nodes);
  if (!s.whole.homogeneous()) return best;
  const auto count = static_cast<std::int64_t>(nodes.size());
  for (const std::int64_t k : smaller_counts(count)) {
    auto fewer = plan_all(s, {nodes.begin(), nodes.begin() + k});
    if (fewer && (!best || fewer->iteration_ns < best->iteration_ns)) best = std::move(fewer);
  }
  return best;
}

Result<Planned> plan_here(const Situation& s, const std::vector<std::int64_t>& here) {
  std::vector<std::vector<std::int64_t>> tried = joined_parts(s.whole, s.state, here);
  std::vector<std::int64_t> well = healthy_nodes(s);
  std::erase_if(well, [&](std::int64_t node) { return std::find(here.begin(), here.end(), node) == here.end(); });
  if (well.size() < here.size())
    for (std::vector<std::int64_t>& part : joined_parts(s.whole, s.state, well)) tried.push_back(std::move(part));
  auto best = plan_on(s, tried.front());
  for (std::size_t k = 1; k < tried.size(); ++k) {
    auto other = plan_on(s, tried[k]);
    if (other && (!best || other->iteration_ns < best->iteration_ns)) best = std::move(other);
  }
  return best;
}

Result<Change> reshape(const Situation& s) {
  std::vector<std::int64_t> here;
  const std::set<std::int64_t> away(s.state.away.begin(), s.state.away.end());
  for (std::int64_t node = 0; node < s.whole.nodes(); ++node)
    if (away.count(node) == 0) here.push_back(node);
  if (here.empty()) return impossible(kReshape, "no node is left");
  auto best = plan_here(s, here);
  if (!best) {
    if (best.error().kind == ErrorKind::infeasible) return impossible(kReshape, cat("no plan fits: ", best.error().found));
    return best.error();
  }
  std::vector<std::int64_t> spare;
  for (const std::int64_t node : here)
    if (std::find(best->present.node_of.begin(), best->present.node_of.end(), node) == best->present.node_of.end())
      spare.push_back(node);
  auto where = settled(s.scene(), s.placed, best->result.plan, best->present, spare);
  if (!where) return where.error();
  best->present.node_of = *where;
  auto move = move_of(s.scene(), s.placed, {&best->result.plan, device_numbers(best->present, s.whole)});
  if (!move) return move.error();
  Change c;
  c.action = kReshape;
  c.possible = true;
  c.iteration_ns = best->iteration_ns;
  c.upper_bound = best->bound;
  c.what = cat(best->result.plan.label(), " on ", best->present.node_of.size(),
               best->present.node_of.size() == 1 ? " node" : " nodes");
  c.nodes = best->present.node_of;
  c.plan = std::move(best->result.plan);
  c.move = std::move(*move);
  return c;
}

}  // namespace espalier::adapt
