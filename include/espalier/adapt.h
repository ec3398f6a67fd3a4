// SPDX-License-Identifier: Apache-2.0
// Plans under change: decides what to do with a running plan when nodes leave or join, devices slow down or links
// lose bandwidth. Nothing is executed.
//
//   auto job = job_of_plan(plan);
//   adapt::Disturbance what;
//   what.lost = {"node:3"};
//   auto answer = adapt::what_if(*job, plan, what, {});   // a ladder of actions of rising cost, each with its price
//
// The actions:
//   stay       keeps the plan; impossible where it runs on lost nodes
//   shift      keeps the stages and redistributes the samples: a slow replica gets fewer, a broken one none
//   re-place   keeps the plan and exchanges nodes: spare nodes replace lost ones, and slow nodes move to where they
// matter least
//   reroute    sends the micro-batches of a lost stage to the same stage of the other replicas (ReCycle, Gandhi et al.,
//              SOSP 2024)
//   reshape    plans again for the changed cluster
// docs/adapt.md documents the model, its equations and its proofs.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "espalier/cluster_change.h"
#include "espalier/job.h"
#include "espalier/plan.h"
#include "espalier/planner.h"
#include "espalier/result.h"

namespace espalier::adapt {

/// Holds the costs of a move other than network traffic: restart, storage and lost work.
struct MoveOptions {
  /// Seconds from the decision to the first new step when no data moves. The default is an assumption: restarts of
  /// spot jobs are reported at 30 s to 300 s.
  double restart_s = 30;
  double warm_up_s = 0;  ///< extra time of the first steps, summed
  /// Rate in bytes per second at which one device reads a checkpoint while all devices read. The default is 2 TB/s
  /// over 16,384 devices (Llama 3, sustained storage throughput).
  double storage_per_device = 122e6;
  bool storage_stated = false;    ///< the user stated the rate above; otherwise answers that read storage mention the
                                  ///< default
  double checkpoint_age_s = 900;  ///< work since the last checkpoint: half of a 30-minute interval
};

/// Holds the traffic that a move puts on one link.
struct LinkLoad {
  std::string link;  ///< "node:3 out", "node:3 in", "inside node:3", "a-b", "storage"
  std::int64_t bytes = 0;
  double seconds = 0;  ///< time that these bytes take alone
  bool operator==(const LinkLoad&) const = default;
};

/// Holds the bytes and the time of one move (docs/adapt.md, "What a move costs").
struct Move {
  std::int64_t kept_bytes = 0;     ///< already on devices of the new plan
  std::int64_t peer_bytes = 0;     ///< from devices that are still present
  std::int64_t storage_bytes = 0;  ///< from the last checkpoint: bytes that are lost, or slower to fetch from peers
  std::int64_t lost_bytes = 0;     ///< bytes that no device holds any longer
  std::vector<LinkLoad> links;     ///< links with traffic, busiest first
  double transfer_s = 0, storage_s = 0, rollback_s = 0, restart_s = 0, warm_up_s = 0;
  [[nodiscard]] double pause_s() const { return transfer_s + storage_s + rollback_s + restart_s + warm_up_s; }
  bool operator==(const Move&) const = default;
};

enum class ActionKind : std::uint8_t { stay, shift, re_place, reroute, reshape };
inline constexpr std::array kActions = {ActionKind::stay, ActionKind::shift, ActionKind::re_place, ActionKind::reroute,
                                        ActionKind::reshape};
std::string_view to_string(ActionKind kind);  ///< "stay" "shift" "re-place" "reroute" "reshape"

/// Describes one action of the ladder: what it does, what it costs and what it gains.
struct Change {
  ActionKind action = ActionKind::stay;
  bool possible = false;
  std::string what;  ///< one sentence: what the action does, or why it is impossible
  /// Holds the plan to run after the action, if it differs from the present one. Its devices are those of `nodes`, in
  /// this order. None: the present plan stays.
  std::optional<Plan> plan;
  /// Holds the plan that was priced instead of `plan`, where the remaining devices cannot run a step of exactly the
  /// global batch. It has the next larger batch, and `iteration_ns` and `move` belong to it. It is not meant to be
  /// run.
  std::optional<Plan> priced_as;
  std::vector<std::int64_t> nodes;  ///< for each node of the plan's cluster, its number in the whole cluster
  std::int64_t iteration_ns = 0;    ///< a step after the action
  /// True if `iteration_ns` is an upper bound, because one figure describes the network paths of all nodes of a
  /// group.
  bool upper_bound = false;
  Move move;
  std::int64_t gain_ns = 0;  ///< saved per step compared with staying; 0 where staying is impossible
  /// Seconds that the change of the cluster must last before this action beats staying:
  /// pause · T_stay / (T_stay − T). Where staying is impossible, the action competes with waiting for the change to
  /// end, and this is the pause. None: the action never pays off.
  std::optional<double> break_even_s;
};

/// Lists the changes of a cluster: lost nodes, slow devices, narrow links and added nodes.
struct Disturbance {
  std::vector<std::string> lost;  ///< "node:3"
  /// Holds pairs of "rank:17" or "node:2" and the factor by which its durations grow, ≥ 1.
  std::vector<std::pair<std::string, double>> slow;
  /// Pairs of "a-b", "node:2" or "rank:17" and the factor by which its bandwidth shrinks, ≤ 1; a link with factor 0
  /// is lost.
  std::vector<std::pair<std::string, double>> links;
  std::vector<std::pair<std::string, std::int64_t>> added;  ///< group, and number of nodes
  [[nodiscard]] bool empty() const { return lost.empty() && slow.empty() && links.empty() && added.empty(); }
};
/// Parses "rank:17=1.2", the syntax of flags, with a number from `low` to `high`. Errors name the flag `where`.
Result<std::pair<std::string, double>> named_factor(const std::string& text, const std::string& where, double low, double high);

/// Holds the options of what_if(), survive() and replan().
struct ChangeOptions {
  MoveOptions move;
  int threads = 0;
  /// Expected duration of the change in seconds; infinite if it is permanent. The recommended action trains the most
  /// in that time. None: 600 s where devices slow down and 1,440 s for links (the means of Greyhound, ATC 2025), and
  /// otherwise infinite.
  std::optional<double> horizon_s;
  std::function<bool()> interrupted;
  PlannerMemory* memory = nullptr;
};

/// Holds the ladder: every action with its price, and the recommended one.
struct WhatIf {
  std::vector<Change> actions;             ///< in the order of ActionKind, each once
  std::size_t recommended = 0;             ///< index into `actions`
  double horizon_s = 0;                    ///< duration that the recommendation assumes; infinite: permanent
  std::int64_t before_ns = 0;              ///< a step before the change
  std::optional<std::int64_t> if_stay_ns;  ///< a step if the plan stays; none: it cannot stay
  std::vector<std::string> notes;
  Disturbance what;    ///< the change that was asked about
  MoveOptions prices;  ///< prices that all moves use
  /// Returns the seconds after which action b beats action a, both indices into `actions`. None: it never does,
  /// or one of them is impossible.
  [[nodiscard]] std::optional<double> break_even(std::size_t a, std::size_t b) const;
};
/// Returns the ladder of actions after a change of the cluster. `job` is the plan's own (job_of_plan), with the
/// search space that a new plan may use.
Result<WhatIf> what_if(const Job& job, const Plan& plan, const Disturbance& what, const ChangeOptions& options);

/// Holds one class of node losses that affect the plan equally.
struct LossClass {
  std::vector<std::int64_t> nodes;  ///< one example, ascending
  std::int64_t losses = 0;          ///< number of node sets in the class
  std::string holds;                ///< stages that each of the nodes holds
  Change action;                    ///< the recommended action
};
/// Holds prepared plans for every loss of up to `most` nodes.
struct Survival {
  std::int64_t most = 0;  ///< largest number of nodes lost at once
  /// Counts the sets of 1 … `most` nodes, and those that have a plan. Enumerating every set proves the coverage.
  std::int64_t losses = 0, covered = 0;
  std::vector<LossClass> classes;
  std::size_t plans = 0;  ///< distinct plans of the classes
  MoveOptions prices;     ///< prices that all moves use
};
/// Prepares a plan for every loss of up to `most` nodes.
Result<Survival> survive(const Job& job, const Plan& plan, std::int64_t most, const ChangeOptions& options);

/// Returns JSON of schema espalier.change/1: one object, or a list of them in `actions`.
std::string to_json(const WhatIf& answer, const Plan& plan);
std::string to_json(const Survival& answer, const Plan& plan);
/// Returns text for a terminal.
std::string to_text(const WhatIf& answer);
std::string to_text(const Survival& answer);

}  // namespace espalier::adapt
