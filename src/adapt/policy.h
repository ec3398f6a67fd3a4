// SPDX-License-Identifier: Apache-2.0
// Decides when to change the plan while the cluster changes: an online policy, the clairvoyant one, and plans that
// never change.
//
// Time is a row of epochs, in each of which the cluster stays as it is. There are K plans. In epoch e plan a loses a
// share l_e(a) of every second against the best of them there. It is measured in units of the best rate of all
// epochs, and is 1 where a cannot run and others can. Going from a to b costs d(a, b) seconds. If nodes of a leave at
// the begin of epoch e, a running plan a loses h_e(a) seconds at once. This is the work since the last checkpoint,
// where the states of these nodes had no other holder. Continuing with it on other nodes costs f_e(a). The cost of a
// decision is the sum of all these seconds. A pause counts as if nothing were trained at the best rate. This is a
// metrical task system (Borodin, Linial, Saks 1992).
//
//     clairvoyant   A shortest path over epochs and plans. Between two epochs it may move, then loses h of its plan,
//                   and then may move again, or pays f where it stays. Rates are constant within an epoch, so a move
//                   inside one is never better. The first plan is free.
//     static        Σ_e h_e(a) + f_e(a) + l_e(a)·length_e
//     online        Each plan has a counter of its losses (l, f and h) since the phase began, whether it runs or not.
//                   The running plan is left when its counter reaches Θ = D + H, D = min d(a, b) and H = max h. The
//                   next plan is the one that loses least now among those whose counters are below Θ. If there is
//                   none, a new phase begins: all counters are 0, and the plan that loses least now runs. If a
//                   counter reaches Θ through f, the plan is left before f is paid, unless a new phase begins and the
//                   running plan is the best.
//
// Claim. With d_max the largest of all d and f,
//     online ≤ F·(clairvoyant + D),  F = K·(Θ + H + d_max) / D.                                    (*)
// Proof. In a phase each plan is entered at most once, since its counter has reached Θ when it is left. There are at
// most K visits. Each loses at most Θ, and H on top if the last loss came at once, and ends with one move or one f:
// F·D together. Over a whole phase the clairvoyant either moves, which costs at least D, or stays in one plan, whose
// counter has reached Θ ≥ D. So over P whole phases it pays at least P·D. Online pays at most (P + 1)·F·D in those
// and the unfinished one. ∎  If no states are lost (H = 0), F = K·(1 + d_max / D).
//
// If no states are lost, online is never much worse than a plan that never changes. A visit that ends with a move has
// lost at most D, no more than that move costs. A visit that ends with a phase and without a move has lost at most D.
// In that phase every plan, including the best static one, has lost as much. The last visit loses less than D. Hence
//     online ≤ static + 2·(its moves) + (its f) + D.                                               (**)
//
// Hysteresis w: l_e(a) ≤ w counts as nothing (noise), so that plans within the window of the best never move. It adds
// w·(time) to (*) and (**). Detection δ: the begin of an epoch is noticed δ seconds later, and until then the running
// plan continues. It adds δ for every epoch. Answers state
//
//     online ≤ F·(clairvoyant + D) + w·(time) + δ·(epochs)
//
// term by term, with the clairvoyant of the very plans that the policy chooses from. The clairvoyant of more plans
// may lose less. One plan is its own clairvoyant: F = 1, and nothing is added.
#pragma once

#include <cstdint>
#include <vector>

#include "espalier/policy.h"

namespace espalier::adapt {

struct Epochs {
  std::vector<double> length_s;
  std::vector<std::vector<double>> loss;      ///< [epoch][plan], 0 … 1
  std::vector<std::vector<double>> forced_s;  ///< f, [epoch][plan]; 0 in the first epoch
  std::vector<std::vector<double>> hit_s;     ///< h, [epoch][plan]; 0 in the first epoch
  std::vector<std::vector<double>> move_s;    ///< [from][to]; above 0 except for from = to
  [[nodiscard]] std::size_t plans() const { return move_s.size(); }
};

struct PolicyRules {
  double hysteresis = 0.02;
  double detection_s = 0;
};

/// Holds a run of decisions: its cost, and its moves.
struct PolicyRun {
  double lost_s = 0;                     ///< Σ l·length + h
  double moves_s = 0;                    ///< Σ d
  double forced_s = 0;                   ///< Σ f
  std::vector<TraceDecision> decisions;  ///< the first is the plan that it begins with
  [[nodiscard]] double cost_s() const { return lost_s + moves_s + forced_s; }
};

PolicyRun clairvoyant_run(const Epochs& epochs);
PolicyRun online_run(const Epochs& epochs, std::size_t start, const PolicyRules& rules);
PolicyRun static_run(const Epochs& epochs, std::size_t plan);

/// Return D, Θ and F of (*).
double cheapest_move(const Epochs& epochs);
double threshold_of(const Epochs& epochs);
double factor_of(const Epochs& epochs);
/// Returns the right-hand side of (*) with the terms of hysteresis and detection.
PolicyBound bound_of(const Epochs& epochs, const PolicyRules& rules, double clairvoyant_s);

}  // namespace espalier::adapt
