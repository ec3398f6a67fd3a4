// SPDX-License-Identifier: Apache-2.0
// Builds the baselines of a plan on heterogeneous devices:
//
//   KIND alone      the node groups of one kind, if they are one group: what remains without all other devices.
//                   The best plan of its own space (the uniform phase, with the same memory margin)
//   equal split     all devices treated alike, as engines for equal devices do: every rank takes the same work,
//                   so that all wait for the slowest. The uniform phase finds the best plans for as many devices
//                   of the slowest kind, with the smallest memory of any. The fastest of each set of degrees is
//                   simulated on the real devices, and the fastest of these counts
//   by compute      the same degrees in all stages, layers in proportion to what their devices compute
//                   (compute_split.h)
//   Megatron        the Megatron 3-D default of planner/baselines.h, for as many devices of the slowest kind.
//
// The last three are plans of the whole cluster on its own devices and links, in the order of the cluster file. They
// are simulated there, against the memory of each device. Ranks of one tensor or data-parallel group may lie on
// different kinds of devices, which the search's own plans do not allow. Baselines that avoid this are starting
// points of the search, so its answer is not slower.
#pragma once

#include <string>
#include <vector>

#include "espalier/plan.h"
#include "espalier/planner.h"
#include "plan/engine_fwd.h"
#include "search/single_group.h"

namespace espalier::planner {

struct GroupBaseline {
  std::string label;
  Job job;  ///< on the cluster of this baseline
};
/// Returns the job on each of several node groups alone, in their order.
std::vector<GroupBaseline> groups_alone(const Job& job);

/// Returns the job on the same number of devices, all like the slowest at the training precision. Nodes have the
/// greatest size that divides all nodes, and the links between the groups join them. With `as_domains`, domains have
/// the greatest size that divides all groups, as sites are. Inside a domain the network is that of the slowest.
Job as_slowest(const Job& job, bool as_domains);
inline constexpr std::size_t kTried = 24;  ///< sets of degrees, the fastest among equal devices first
/// Limits the plans that the search among equal devices simulates: a baseline is no proof.
inline constexpr std::int64_t kEqualSimulated = 4'096;

/// Describes a plan of the whole cluster, the best of its row of the table above.
struct ClusterBaseline {
  std::string label;
  std::optional<Plan> plan;
  std::string refusal;  ///< the reason why there is no plan
};
/// Returns the baselines of the whole cluster, in the order of the table above; none for one node group.
std::vector<ClusterBaseline> whole_cluster_plans(const Job& job, const EngineModel& engine, int threads,
                                                 const std::function<bool()>& interrupted);
/// Returns the same baselines with the groups in the order in which the cluster lists them: the plans of a sorted
/// cluster (sorted_groups.h).
std::vector<ClusterBaseline> whole_cluster_plans_as_listed(const Job& job, const EngineModel& engine, int threads,
                                                           const std::function<bool()>& interrupted);

/// Returns the baselines that a search may begin with, so that no answer is slower. These are pipelines whose stages
/// each lie on one node group, inside the job's search part.
std::vector<Pipeline> starts_of(const Job& job, const std::vector<ClusterBaseline>& whole);

/// Returns the alternatives of an answer on heterogeneous devices: each group alone, and the plans of the whole
/// cluster. `alone` is the outcome of the search of each group; null: the function searches them.
std::vector<Alternative> group_alternatives(const Job& job, const EngineModel& engine, const PlannerResult& answer,
                                            const search::SingleGroupOutcome* alone, const std::vector<ClusterBaseline>& whole,
                                            int threads, const std::function<bool()>& interrupted);

}  // namespace espalier::planner
