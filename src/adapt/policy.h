// SPDX-License-Identifier: Apache-2.0
// When to change the plan while the cluster changes: an online policy, what one that knows the future would do, and
// plans that never change.
//
// Time is a row of epochs, in each of which the cluster stays as it is. Of K plans, plan a loses in epoch e a share
// l_e(a) of every second against the best of them there (in units of the best rate of all epochs; all of it where a
// cannot run and others can). Going from a to b costs d(a, b) seconds. Where nodes of a leave at the begin of epoch e,
// whoever ran it loses h_e(a) seconds at once (work since the last checkpoint, where nobody else holds their states),
// and to go on with it on other nodes costs f_e(a). A decision's cost is the sum of all these seconds, pauses counted
// as if nothing were trained at the best rate: a metrical task system (Borodin, Linial, Saks 1992).
//
//     clairvoyant   A shortest path over epochs and plans: between two epochs it may move, then loses h of where it is,
//                   may move again or pays f
//                   where it stays. Rates are constant within an epoch, so that to move in the midst of one is never
//                   better. It begins
//                   anywhere for nothing.
//     static        Σ_e h_e(a) + f_e(a) + l_e(a)·length_e
//     online        Each plan has a counter of what it would have lost (l, f and h) since the phase began, whether it
//                   runs or not. The running
//                   plan is left when its counter reaches Θ = D + H, D = min d(a, b) and H = max h: for the plan that
//                   loses least now among
//                   those whose counters are below Θ. Where none is, a new phase begins: all counters are 0, and the
//                   plan that loses least now
//                   runs. A counter that reaches Θ through f is left before f is paid, unless a new phase begins and
//                   the running plan is the best.
//
// Claim. With d_max the dearest of all d and f,  online ≤ F·(clairvoyant + D),  F = K·(Θ + H + d_max) / D                               (*)
// Proof. In a phase each plan is entered at most once, since its counter has reached Θ when it is left: at most K
// visits, each of which loses at most Θ, and H more where the last loss came at once, and ends with one move or one f:
// F·D together. Over a whole phase the clairvoyant either moves, which costs at least D, or stays in one plan, whose
// counter has reached Θ ≥ D. So of P whole phases it pays at least P·D, and online, in those and the one that has not
// ended, at most (P + 1)·F·D. ∎  Where no states are lost (H = 0), F = K·(1 + d_max / D).
//
// Never much worse than standing still, where no states are lost. A visit that ends with a move has lost at most D, no
// more than that move costs. A visit that ends with a phase and without a move has lost at most D, and so much has
// every plan lost in that phase, the best static one too. The
// last visit loses less than D. So   online ≤ static + 2·(its moves) + (its f) + D                                                          (**)
//
// Hysteresis w: l_e(a) ≤ w counts as nothing (noise), so that plans within the window of the best never move; adds
// w·(time) to (*) and (**). Detection δ: what begins an epoch is noticed δ seconds later; until then the running plan
// goes on; adds δ for every epoch. Answers state
//
//     online ≤ F·(clairvoyant + D) + w·(time) + δ·(epochs)
//
// term by term, with the clairvoyant of the very plans that the policy chooses from; that of more plans may lose less.
// One plan is its own
// clairvoyant: F = 1, and nothing is added.
#pragma once

#include <cstdint>
#include <vector>

#include "espalier/policy.h"

namespace espalier::adapt {

struct Epochs {
  std::vector<double> length_s;
  std::vector<std::vector<double>> loss;      ///< [epoch][plan], 0 … 1
  std::vector<std::vector<double>> forced_s;  ///< f, [epoch][plan]; of the first epoch 0
  std::vector<std::vector<double>> hit_s;     ///< h, [epoch][plan]; of the first epoch 0
  std::vector<std::vector<double>> move_s;    ///< [from][to]; above 0 but for from = to
  [[nodiscard]] std::size_t plans() const { return move_s.size(); }
};

struct PolicyRules {
  double hysteresis = 0.02;
  double detection_s = 0;
};

/// A run of decisions: its cost, and where it moved.
struct PolicyRun {
  double lost_s = 0;                     ///< Σ l·length + h
  double moves_s = 0;                    ///< Σ d
  double forced_s = 0;                   ///< Σ f
  std::vector<TraceDecision> decisions;  ///< the first is where it begins
  [[nodiscard]] double cost_s() const { return lost_s + moves_s + forced_s; }
};

PolicyRun clairvoyant_run(const Epochs& epochs);
PolicyRun online_run(const Epochs& epochs, std::size_t start, const PolicyRules& rules);
PolicyRun static_run(const Epochs& epochs, std::size_t plan);

/// D, Θ and F of (*).
double cheapest_move(const Epochs& epochs);
double threshold_of(const Epochs& epochs);
double factor_of(const Epochs& epochs);
/// The right-hand side of (*) with what hysteresis and detection add.
PolicyBound bound_of(const Epochs& epochs, const PolicyRules& rules, double clairvoyant_s);

}  // namespace espalier::adapt
