// SPDX-License-Identifier: Apache-2.0
// Defines the ladder: the actions possible for a running plan after its cluster changed, each with its price.
//
//   stay      Keeps the plan on the nodes that it uses, at their present speed. Nothing moves and there is no pause.
//   shift     Slow devices: replica r (all stages at one place of the data-parallel groups) takes m_r of the
//             micro-batches, chosen so that max_r s_r·(m_r + p − 1) is least. s_r is the slowest factor of its
//             devices. Each micro-batch in turn goes to the replica that would end first, which is exact for this
//             measure. The replicas are timed as pipelines of their own whose gradients meet (plan/join.h).
//             Lost nodes: the replicas that they belong to are left out, with every replica that shares nodes with
//             them. The others take ⌈m·dp/(dp − f)⌉ micro-batches.
//   re-place  Runs the same plan on other nodes: spare nodes replace lost, slow or narrowed ones. Without spare
//             nodes, a slow node changes places with one of every kind of place (equal stages held), the best of
//             which counts.
//   reroute   Each micro-batch that a lost device of a stage would have run goes to the same stage of the dp − f
//             other replicas. It is timed as if these did dp/(dp − f) times the work of the stage in every
//             micro-batch. This is the mean of a fair schedule that uses no bubble beyond those of the plan's
//             schedule. ReCycle's decoupled backward passes and staggered updates are therefore faster. Survivors
//             must hold the weights (no ZeRO, experts within a replica) and have room for the activations.
//   reshape   Plans the job again on the remaining nodes, on fewer where that is faster, and without slow or narrowed
//             ones. If links are lost, it plans on each part that is still joined. The fastest plan counts.
#pragma once

#include "adapt/situation.h"

namespace espalier::adapt {

/// Return the priced action. If it is impossible, Change::possible is false, and `what` states the reason. Errors
/// mean broken inputs.
Result<Change> stay(const Situation& s);
Result<Change> shift(const Situation& s);
Result<Change> re_place(const Situation& s);
Result<Change> reroute(const Situation& s);
Result<Change> reshape(const Situation& s);

/// Prices and judges all actions, and selects one.
Result<WhatIf> ladder(const Situation& s, double horizon_s);

/// Returns an action that cannot be taken.
Change impossible(ActionKind action, std::string why);

/// Returns the numbers of nodes below n to try in addition to n, where plans use all nodes. For few nodes these are
/// all down to ⌈n/2⌉. Otherwise they are the next four, the largest multiples of 4, 8 and 16, and powers of two,
/// since few numbers divide a batch.
std::vector<std::int64_t> smaller_counts(std::int64_t n);

/// Holds the fastest plan of the job on these nodes or fewer of them. The plan is on its own present cluster.
struct Planned {
  Present present;
  PlannerResult result;
  std::int64_t iteration_ns = 0;  ///< on the present cluster, including slow devices
  bool bound = false;
};
Result<Planned> plan_on(const Situation& s, const std::vector<std::int64_t>& nodes);
/// Returns the fastest plan on the remaining nodes: on all of them, or without slow or narrowed ones. If links are
/// lost, it uses one of the parts whose groups reach each other.
Result<Planned> plan_here(const Situation& s, const std::vector<std::int64_t>& here);

}  // namespace espalier::adapt
