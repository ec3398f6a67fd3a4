// SPDX-License-Identifier: Apache-2.0
// What a plan on unlike devices is compared with:
//
//   KIND alone      the node groups of one kind, when they are one group: what remains if all other devices are left
//                   out. The best plan of its own
//                   space (the uniform phase, with the same memory margin)
//   equal split     all devices treated alike, as engines for equal devices do: every rank takes the same work, so that
//                   all wait for the slowest. The
//                   uniform phase finds the best plans for as many devices of the slowest kind, with the smallest
//                   memory of any; of each
//                   set of degrees the fastest is simulated where it lies, and the fastest of these counts
//   by compute      the same degrees in all stages, layers in proportion to what their devices compute
//                   (compute_split.h)
//   Megatron        what planner/baselines.h calls the Megatron 3-D default, for as many devices of the slowest kind
//
// The last three are plans of the whole cluster on its own devices and links, in the order of the cluster file; they
// are simulated there, against the memory of each device. Ranks of one tensor or data-parallel group may lie on unlike
// devices, which the search's own plans do not do. Where they do not, the search begins with them: its answer is not
// slower.
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
  Job job;  ///< on the cluster that it speaks of
};
/// Of several node groups each alone, in their order.
std::vector<GroupBaseline> groups_alone(const Job& job);

/// The job on as many devices as it has, all like the slowest at the precision of the training, in nodes of the
/// greatest size that all nodes are multiples of. They are joined by what joins the groups; `as_domains`: in domains of
/// the greatest size that all groups are multiples of, as sites are, with the network of the slowest inside.
Job as_slowest(const Job& job, bool as_domains);
inline constexpr std::size_t kTried = 24;  ///< sets of degrees, the fastest among equal devices first
inline constexpr std::int64_t kEqualSimulated =
    4'096;  ///< plans at most that the search among equal devices simulates: a baseline is no proof

/// Plans of the whole cluster, each the best of its kind, in the order of the table above.
struct ClusterBaseline {
  std::string label;
  std::optional<Plan> plan;
  std::string refusal;  ///< why there is none
};
/// None for one node group.
std::vector<ClusterBaseline> whole_cluster_plans(const Job& job, const EngineModel& engine, int threads,
                                                 const std::function<bool()>& interrupted);
/// The same with the groups in the order in which the cluster lists them: the plans of a sorted cluster
/// (sorted_groups.h).
std::vector<ClusterBaseline> whole_cluster_plans_as_listed(const Job& job, const EngineModel& engine, int threads,
                                                           const std::function<bool()>& interrupted);

/// Those of them that a search may begin with, so that no answer is slower: pipelines whose stages lie each on one node
/// group, made within the job's search part.
std::vector<Pipeline> starts_of(const Job& job, const std::vector<ClusterBaseline>& whole);

/// The alternatives of an answer on unlike devices: each group alone, and the plans of the whole cluster. `alone`: what
/// the search of each group found;
/// null: searched here.
std::vector<Alternative> group_alternatives(const Job& job, const EngineModel& engine, const PlannerResult& answer,
                                            const search::SingleGroupOutcome* alone, const std::vector<ClusterBaseline>& whole,
                                            int threads, const std::function<bool()>& interrupted);

}  // namespace espalier::planner
