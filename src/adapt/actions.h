// SPDX-License-Identifier: Apache-2.0
// The ladder: what may be done with a running plan after its cluster changed, each with its price.
//
//   stay      T of the plan on the nodes that it uses, as they are now. Nothing moves, no pause.
//   shift     Slow devices: replica r (all stages at one place of the data-parallel groups) takes m_r of the
//             micro-batches, chosen so that
//             max_r s_r·(m_r + p − 1) is least, s_r the slowest factor of its devices (one micro-batch after the other
//             to who would end first: exact
//             for this measure); timed as pipelines of their own whose gradients meet (plan/join.h). Lost nodes: the
//             replicas they belong to are
//             left out, with every replica that shares nodes with them; the others take ⌈m·dp/(dp − f)⌉ micro-batches.
//   re-place  The plan as it is on other nodes: spare nodes in the place of lost, slow or narrowed ones; without spare
//   ones a slow node changes
//             places with one of every kind of place (equal stages held), the best of which counts.
//   reroute   Each micro-batch that a lost device of a stage would have run goes to the same stage of the dp − f other
//             replicas. Timed as if these
//             did dp/(dp − f) times the work of the stage in every micro-batch: the mean of what a fair schedule gives,
//             no bubble used beyond those of
//             the schedule, so that ReCycle's decoupled backward passes and staggered updates stay below it. Who
//             survives must hold the weights
//             (no ZeRO, experts within a replica) and have room for the activations.
//   reshape   The job planned again on what is there, on fewer nodes where that is faster, and without the slow or
//             narrowed nodes; where links
//             are lost on each part of it that is still joined; the fastest counts.
#pragma once

#include "adapt/situation.h"

namespace espalier::adapt {

/// The action priced; Change::possible is false, with the reason in `what`, where it cannot be done. Errors are those
/// of broken inputs.
Result<Change> stay(const Situation& s);
Result<Change> shift(const Situation& s);
Result<Change> re_place(const Situation& s);
Result<Change> reroute(const Situation& s);
Result<Change> reshape(const Situation& s);

/// All of them, judged, and the one to take.
Result<WhatIf> ladder(const Situation& s, double horizon_s);

/// An action that cannot be done.
Change impossible(ActionKind action, std::string why);

/// Numbers of nodes below n that are tried beside n where plans use all nodes: all down to ⌈n/2⌉ of few, else the next
/// four and the largest multiples of 4, 8, 16 and powers of two, since few numbers divide a batch.
std::vector<std::int64_t> smaller_counts(std::int64_t n);

/// The fastest plan of the job on these nodes or fewer of them; the plan is on its own present cluster.
struct Planned {
  Present present;
  PlannerResult result;
  std::int64_t iteration_ns = 0;  ///< as the cluster is, slow devices included
  bool bound = false;
};
Result<Planned> plan_on(const Situation& s, const std::vector<std::int64_t>& nodes);
/// The fastest plan on the nodes that are there: on all of them, or without those that are slow or narrowed; where
/// links are lost, on one of the parts whose groups reach each other.
Result<Planned> plan_here(const Situation& s, const std::vector<std::int64_t>& here);

}  // namespace espalier::adapt
