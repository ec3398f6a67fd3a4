// SPDX-License-Identifier: Apache-2.0
#include "planner/group_baselines.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <set>

#include "base/format.h"
#include "plan/engine.h"
#include "planner/alternatives.h"
#include "planner/baselines.h"
#include "planner/compute_split.h"
#include "planner/memory_margin.h"
#include "planner/prediction.h"
#include "planner/simulated_evaluator.h"
#include "planner/sorted_groups.h"
#include "search/search.h"

namespace espalier::planner {
namespace {

/// Returns the job on another cluster, with the memory margin of its own devices.
Job on_cluster(const Job& job, Cluster cluster) {
  Job out = job;
  out.search.kind = SpaceKind::uniform;
  out.search.devices = DeviceChoice::equal;
  out.search.memory_margin = memory_margin_of(job).share;
  out.cluster = std::move(cluster);
  return out;
}

/// Divides nodes into nodes of `size` devices, each with the inner links of a larger node of the group.
void divide_nodes(NodeGroup& nodes, std::int64_t size) {
  std::vector<FabricLevel> inside;
  for (FabricLevel& level : nodes.intra) {
    const bool outermost = level.span >= size;
    if (outermost) level.span = size;
    inside.push_back(level);
    if (outermost) break;
  }
  nodes.intra = std::move(inside);
  nodes.devices_per_node = size;
}

search::Outcome searched(const Job& job, const EngineModel& engine, int threads, const std::function<bool()>& interrupted,
                         std::int64_t node_limit = 0) {
  const Job room = with_memory_room(job);
  search::Options how;
  how.threads = threads;
  how.node_limit = node_limit;
  how.interrupted = interrupted;
  SimulatedEvaluator evaluator(threads);
  return search::branch_and_bound({&room.model, &room.cluster, room.training, &engine, room.search}, evaluator, how);
}

/// Keeps the fastest offered plan that fits with the margin on the job's devices; if none fits, the leanest.
class Fastest {
 public:
  Fastest(const Job& job, const EngineModel& engine) : job_(job), engine_(engine) {}
  /// Returns whether the plan fits.
  bool offer(Plan plan) {
    const auto timed = time_plan(job_, engine_, plan, false);
    if (!timed) return false;
    const Prediction p = prediction_of(job_, engine_, *timed);
    const bool fits = p.fits_with_margin, had = best_ && fits_;
    const bool better = fits ? !had || p.iteration_ns < time_ : !best_ || (!had && p.peak_memory_bytes < peak_);
    if (better) {
      best_ = std::move(plan);
      fits_ = fits;
      time_ = p.iteration_ns;
      peak_ = p.peak_memory_bytes;
    }
    return fits;
  }
  [[nodiscard]] const std::optional<Plan>& best() const { return best_; }

 private:
  const Job& job_;
  const EngineModel& engine_;
  std::optional<Plan> best_;
  bool fits_ = false;
  std::int64_t time_ = 0, peak_ = 0;
};

/// Returns a row of the table; without a plan the row holds the reason.
Alternative row(const Job& job, const EngineModel& engine, const PlannerResult& answer, const std::string& label,
                const std::optional<Plan>& plan, const std::string& refusal) {
  std::optional<Alternative> found;
  if (plan) found = alternative_of(job, engine, answer, *plan, label);
  if (found) {
    found->configuration.reset();  // it refers to another cluster
    return std::move(*found);
  }
  Alternative none;
  none.label = label;
  none.baseline = true;
  none.lost_to = refusal;
  return none;
}

/// Offers the fastest plan of each set of degrees that a search among equal devices simulates, on the real devices.
void offer_found(const Job& job, const Job& equal, const EngineModel& engine, int threads,
                 const std::function<bool()>& interrupted, Fastest& fastest) {
  const search::Outcome found = searched(equal, engine, threads, interrupted, kEqualSimulated);
  std::set<std::array<std::int32_t, 5>> seen;
  for (const search::Candidate& candidate : found.simulated) {
    const Strategy& s = candidate.configuration.strategy;
    const Schedule& c = candidate.configuration.schedule;
    if (!seen.insert({c.stages, s.tp, s.cp, s.dp, s.ep}).second) continue;
    fastest.offer(document_of(job, engine, s, c));
    if (seen.size() == kTried || (interrupted && interrupted())) break;
  }
}

std::optional<Plan> equal_split(const Job& job, const EngineModel& engine, int threads,
                                const std::function<bool()>& interrupted) {
  Fastest fastest(job, engine);
  const Job flat = as_slowest(job, false), domains = as_slowest(job, true);
  offer_found(job, flat, engine, threads, interrupted, fastest);
  if (domains.cluster != flat.cluster) offer_found(job, domains, engine, threads, interrupted, fastest);
  return fastest.best();
}

std::optional<Plan> by_compute(const Job& job, const EngineModel& engine, const std::vector<RecomputeLadder>& family,
                               const std::function<bool()>& interrupted) {
  Fastest fastest(job, engine);
  for (const RecomputeLadder& ladder : family) {
    if (interrupted && interrupted()) break;
    for (const Plan& plan : ladder)
      if (fastest.offer(plan)) break;
  }
  return fastest.best();
}

/// Judges the preset as on equal devices: the first number of stages with a member that fits decides.
std::optional<Plan> megatron(const Job& job, const EngineModel& engine, const Baseline& preset) {
  Fastest fastest(job, engine);
  std::int32_t fitting = 0;
  for (const search::Configuration& c : preset.family) {
    if (fitting != 0 && c.schedule.stages != fitting) break;
    if (fastest.offer(document_of(job, engine, c.strategy, c.schedule))) fitting = c.schedule.stages;
  }
  return fastest.best();
}

}  // namespace

std::vector<GroupBaseline> groups_alone(const Job& job) {
  std::vector<GroupBaseline> out;
  const auto& groups = job.cluster.groups;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const std::string pace = groups[g].speed.empty() ? "" : ", all at the speed of the slowest";
    GroupBaseline alone{base::cat(groups[g].name, " alone (", std::to_string(groups[g].nodes * groups[g].devices_per_node), " × ",
                                  groups[g].device.name, pace, ")"),
                        on_cluster(job, search::group_alone(job.cluster, g))};
    alone.job.search = search::space_alone(alone.job.search);
    out.push_back(std::move(alone));
  }
  return out;
}

Job as_slowest(const Job& job, bool as_domains) {
  const auto& groups = job.cluster.groups;
  std::size_t slowest = 0;
  std::int64_t usable = INT64_MAX, node = 0, together = 0;
  const auto rate = [&](std::size_t g) {
    const std::int64_t devices = groups[g].nodes * groups[g].devices_per_node;
    return groups[g].device.peak_of(job.training.precision).count() *
           job.cluster.slowest_of(job.cluster.first_device(g), devices);
  };
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (rate(g) < rate(slowest)) slowest = g;
    usable = std::min(usable, job.cluster.usable_memory(g).count());
    node = std::gcd(node, groups[g].devices_per_node);
    together = std::gcd(together, groups[g].nodes * groups[g].devices_per_node);
  }
  Cluster out = search::group_alone(job.cluster, slowest);
  out.memory_limit = Bytes(usable);
  NodeGroup& nodes = out.groups.front();
  divide_nodes(nodes, node);
  nodes.nodes = job.cluster.devices() / node;
  FabricLevel join = job.cluster.inter.back();
  join.span = job.cluster.devices();
  const bool domains = as_domains && together > node && together < join.span && !out.inter.empty();
  if (domains) out.inter = {out.inter.back(), join};
  if (domains) out.inter.front().span = together;
  if (!domains) out.inter = {join};
  return on_cluster(job, std::move(out));
}

std::vector<ClusterBaseline> whole_cluster_plans(const Job& job, const EngineModel& engine, int threads,
                                                 const std::function<bool()>& interrupted) {
  const SortedGroups order = sorted_groups(job.cluster);
  std::vector<ClusterBaseline> out = whole_cluster_plans_as_listed(sorted_job(job, order), engine, threads, interrupted);
  for (ClusterBaseline& one : out)
    if (one.plan) to_file_order(order, *one.plan);
  return out;
}

std::vector<ClusterBaseline> whole_cluster_plans_as_listed(const Job& job, const EngineModel& engine, int threads,
                                                           const std::function<bool()>& interrupted) {
  if (job.cluster.groups.size() < 2) return {};
  const std::string nothing = "no configuration fits";
  const Job equal = as_slowest(job, false);
  const std::string pace = ", limited by " + equal.cluster.groups.front().device.name;
  const std::vector<RecomputeLadder> family = compute_splits(job, equal, engine);
  const Baseline preset = megatron_default(equal);
  return {{"equal split" + pace, equal_split(job, engine, threads, interrupted), nothing},
          {"layers in proportion to compute", by_compute(job, engine, family, interrupted),
           family.empty() ? "no equal stages fill every group" : nothing},
          {preset.label + pace, megatron(job, engine, preset), preset.refusal.empty() ? nothing : preset.refusal}};
}

std::vector<Pipeline> starts_of(const Job& job, const std::vector<ClusterBaseline>& whole) {
  std::vector<Pipeline> out;
  for (const ClusterBaseline& one : whole)
    if (one.plan && admitted(job.search, *one.plan))
      out.insert(out.end(), one.plan->pipelines.begin(), one.plan->pipelines.end());
  return out;
}

std::vector<Alternative> group_alternatives(const Job& job, const EngineModel& engine, const PlannerResult& answer,
                                            const search::SingleGroupOutcome* alone, const std::vector<ClusterBaseline>& whole,
                                            int threads, const std::function<bool()>& interrupted) {
  std::vector<Alternative> out;
  for (const GroupBaseline& baseline : groups_alone(job)) {
    const bool known = alone != nullptr && out.size() < alone->groups.size();
    const auto best = known ? alone->groups[out.size()].best : searched(baseline.job, engine, threads, interrupted).best;
    std::optional<Plan> plan;
    if (best) plan = document_of(baseline.job, engine, best->configuration.strategy, best->configuration.schedule);
    out.push_back(row(baseline.job, engine, answer, baseline.label, plan, "no configuration fits"));
  }
  for (const ClusterBaseline& one : whole) out.push_back(row(job, engine, answer, one.label, one.plan, one.refusal));
  return out;
}

}  // namespace espalier::planner
