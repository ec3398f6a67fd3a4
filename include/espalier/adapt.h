// SPDX-License-Identifier: Apache-2.0
// Plans under change: what to do with a running plan when nodes leave or join, devices slow down or links narrow.
// Nothing is executed.
//
//   auto job = job_of_plan(plan);
//   Disturbance what;
//   what.lost = {"node:3"};
//   auto answer = what_if(*job, plan, what, {});       // a ladder of actions of rising cost, each with its price
//
// The actions:
//   stay      as before; not possible where the plan runs on what is gone
//   shift     the same stages, other shares of samples: a slow replica gets fewer, a broken one none
//   re-place  the same plan, its places exchanged between nodes: spare nodes for lost ones, slow ones where they matter
//   least
//   reroute   micro-batches of what is lost go to the same stage of the other replicas (ReCycle, Gandhi et al., SOSP
//             2024)
//   reshape   planned again for what is there
// docs/adapt.md has the model, its equations and proofs.
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

namespace espalier {

/// What a move is priced with beside the network.
struct MoveOptions {
  /// From the decision to the first new step when nothing moves. An assumption: restarts of spot jobs are reported from
  /// 30 s to 300 s.
  double restart_s = 30;
  double warm_up_s = 0;  ///< what the first steps take longer, together
  /// What a device reads of a checkpoint, bytes per second, all devices at once: 2 TB/s over 16,384 devices (Llama 3,
  /// storage sustained).
  double storage_per_device = 122e6;
  bool storage_stated = false;    ///< the rate above was stated; otherwise answers that read storage note that it is
                                  ///< assumed
  double checkpoint_age_s = 900;  ///< work since the last checkpoint: half of an interval of 30 minutes
};

/// What goes over one link.
struct LinkLoad {
  std::string link;  ///< "node:3 out", "node:3 in", "inside node:3", "a-b", "storage"
  std::int64_t bytes = 0;
  double seconds = 0;  ///< that these take alone
  bool operator==(const LinkLoad&) const = default;
};

/// docs/adapt.md, "What a move costs".
struct Move {
  std::int64_t kept_bytes = 0;     ///< that devices of the new plan hold already
  std::int64_t peer_bytes = 0;     ///< from devices that are there
  std::int64_t storage_bytes = 0;  ///< from the last checkpoint: where bytes are lost, or where peers would take longer
  std::int64_t lost_bytes = 0;     ///< held by nobody any more
  std::vector<LinkLoad> links;     ///< those with bytes, busiest first
  double transfer_s = 0, storage_s = 0, rollback_s = 0, restart_s = 0, warm_up_s = 0;
  [[nodiscard]] double pause_s() const { return transfer_s + storage_s + rollback_s + restart_s + warm_up_s; }
  bool operator==(const Move&) const = default;
};

enum class ActionKind : std::uint8_t { stay, shift, re_place, reroute, reshape };
inline constexpr std::array kActions = {ActionKind::stay, ActionKind::shift, ActionKind::re_place, ActionKind::reroute,
                                        ActionKind::reshape};
std::string_view to_string(ActionKind kind);  ///< "stay" "shift" "re-place" "reroute" "reshape"

/// One rung of the ladder.
struct Change {
  ActionKind action = ActionKind::stay;
  bool possible = false;
  std::string what;  ///< what it does, or why it cannot be done, in a sentence
  /// To run after it, where it is another one: its devices are those of `nodes`, in this order. None: the present plan.
  std::optional<Plan> plan;
  /// Where what is left cannot run a step of exactly the global batch: the plan of the next larger batch that time and
  /// move were priced as, in the place of `plan`. Not to be run as it is.
  std::optional<Plan> priced_as;
  std::vector<std::int64_t> nodes;  ///< by node of the plan's cluster: its number in the whole cluster
  std::int64_t iteration_ns = 0;    ///< of one step after it
  bool upper_bound = false;         ///< `iteration_ns` is an upper bound: one figure for the ways of all nodes of a
                                    ///< group
  Move move;
  /// Of a step against staying; 0 where staying is not possible.
  std::int64_t gain_ns = 0;
  /// Seconds that the change of the cluster must last for this action to be better than staying (where that is not
  /// possible, than waiting for it to end): pause · T_stay / (T_stay − T), or the pause. None: it never is.
  std::optional<double> break_even_s;
};

/// What happens to the cluster.
struct Disturbance {
  std::vector<std::string> lost;                            ///< "node:3"
  std::vector<std::pair<std::string, double>> slow;         ///< "rank:17" or "node:2", factor of durations, ≥ 1
  std::vector<std::pair<std::string, double>> links;        ///< "a-b", "node:2", "rank:17", factor of bandwidth, ≤ 1;
                                                            ///< 0: lost
  std::vector<std::pair<std::string, std::int64_t>> added;  ///< group, nodes
  [[nodiscard]] bool empty() const { return lost.empty() && slow.empty() && links.empty() && added.empty(); }
};
/// "rank:17=1.2" and such, as flags say them. `where` is the flag.
Result<std::pair<std::string, double>> named_factor(const std::string& text, const std::string& where, double low, double high);

struct ChangeOptions {
  MoveOptions move;
  int threads = 0;
  /// How long the change is expected to last; the recommended action is the one that trains most in that time.
  /// Infinite: for good.
  double horizon_s = 0;  ///< 0: 600 s where devices slow down, 1,440 s of links (the means of Greyhound, ATC 2025),
                         ///< else for good
  std::function<bool()> interrupted;
  PlannerMemory* memory = nullptr;
};

/// The ladder.
struct WhatIf {
  std::vector<Change> actions;             ///< in the order of ActionKind, each once
  std::size_t recommended = 0;             ///< of `actions`
  double horizon_s = 0;                    ///< that it is recommended for; infinite: for good
  std::int64_t before_ns = 0;              ///< a step before anything changed
  std::optional<std::int64_t> if_stay_ns;  ///< a step if it stays; none: it cannot
  std::vector<std::string> notes;
  Disturbance what;    ///< that was asked
  MoveOptions prices;  ///< of all moves
  /// Seconds from which on action b is better than a: rows a, columns b of `actions`; none: never, or one is not
  /// possible.
  [[nodiscard]] std::optional<double> break_even(std::size_t a, std::size_t b) const;
};
/// `job` is the plan's own (job_of_plan), with the search that a new plan may use.
Result<WhatIf> what_if(const Job& job, const Plan& plan, const Disturbance& what, const ChangeOptions& options);

/// Losses of nodes that the plan sees alike.
struct LossClass {
  std::vector<std::int64_t> nodes;  ///< one of them, ascending
  std::int64_t losses = 0;          ///< sets of nodes in the class
  std::string holds;                ///< what the nodes hold, each
  Change action;                    ///< the recommended one
};
struct Survival {
  std::int64_t most = 0;  ///< nodes lost at once
  std::int64_t losses = 0,
               covered = 0;  ///< sets of 1 … most nodes, and those with a plan: the proof of coverage is their
                             ///< enumeration
  std::vector<LossClass> classes;
  std::size_t plans = 0;  ///< different plans among them
  MoveOptions prices;     ///< of all moves
};
/// Prepared plans for every loss of up to `most` nodes.
Result<Survival> survive(const Job& job, const Plan& plan, std::int64_t most, const ChangeOptions& options);

/// schema espalier.change/1, one object or a list of them in `actions`.
std::string to_json(const WhatIf& answer, const Plan& plan);
std::string to_json(const Survival& answer, const Plan& plan);
std::string to_text(const WhatIf& answer);
std::string to_text(const Survival& answer);

}  // namespace espalier
