// SPDX-License-Identifier: Apache-2.0
// Prices all rungs of the ladder and selects the one that trains most while the change lasts.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "adapt/actions.h"
#include "base/format.h"

namespace espalier::adapt {
namespace {

constexpr double kForGood = std::numeric_limits<double>::infinity();

double horizon_of(const Disturbance& what, const std::optional<double>& asked) {
  if (asked.value_or(0) > 0) return *asked;
  constexpr double kComputeLasts = 600, kNetworkLasts = 1440;
  const bool cut = std::any_of(what.links.begin(), what.links.end(), [](const auto& link) { return link.second < kLostBelow; });
  if (!what.lost.empty() || !what.added.empty() || cut) return kForGood;
  return what.links.empty() ? kComputeLasts : kNetworkLasts;
}

/// Returns whether `a` trains more than `b` within the horizon.
bool better(const Change& a, const Change& b, double horizon_s) {
  if (!a.possible || !b.possible) return a.possible && !b.possible;
  const double ta = static_cast<double>(a.iteration_ns), tb = static_cast<double>(b.iteration_ns);
  if (std::isinf(horizon_s)) return ta != tb ? ta < tb : a.move.pause_s() < b.move.pause_s();
  return (horizon_s - a.move.pause_s()) / ta > (horizon_s - b.move.pause_s()) / tb;
}

/// Returns whether the rate of the storage decides about an action: it reads a checkpoint, or its transfer takes
/// longer than the work that a checkpoint would lose.
bool storage_matters(const Change& change, const MoveOptions& prices) {
  return change.possible && (change.move.storage_bytes > 0 || change.move.transfer_s > prices.checkpoint_age_s);
}

}  // namespace

Result<WhatIf> ladder(const Situation& s, double horizon_s) {
  WhatIf out;
  out.before_ns = s.before_ns;
  out.horizon_s = horizon_s;
  out.prices = s.options.move;
  bool bound = false;
  for (const auto action : {stay, shift, re_place, reroute, reshape}) {
    auto change = action(s);
    if (!change) return change.error();
    if (change->action == ActionKind::stay && change->possible) out.if_stay_ns = change->iteration_ns;
    judge(*change, out.if_stay_ns);
    bound |= change->upper_bound;
    out.actions.push_back(std::move(*change));
    if (better(out.actions.back(), out.actions[out.recommended], horizon_s)) out.recommended = out.actions.size() - 1;
  }
  const auto matters = [&](const Change& change) { return storage_matters(change, out.prices); };
  if (!out.prices.storage_stated && std::any_of(out.actions.begin(), out.actions.end(), matters))
    out.notes.push_back(base::cat(
        "the rate at which checkpoints are read is not stated: ", base::six_digits(out.prices.storage_per_device * 1e-6),
        " MB/s per device is assumed (--storage)"));
  if (bound)
    out.notes.emplace_back(
        "the network connection of single nodes is degraded: all nodes of their group are priced as degraded, so times are upper "
        "bounds");
  return out;
}

std::optional<double> WhatIf::break_even(std::size_t a, std::size_t b) const {
  const Change &from = actions[a], &to = actions[b];
  if (!from.possible || !to.possible || to.iteration_ns >= from.iteration_ns) return std::nullopt;
  // Solves (h − p_a)/T_a = (h − p_b)/T_b.
  const double ta = static_cast<double>(from.iteration_ns), tb = static_cast<double>(to.iteration_ns);
  return std::max(0.0, (to.move.pause_s() * ta - from.move.pause_s() * tb) / (ta - tb));
}

Result<WhatIf> what_if(const Job& job, const Plan& plan, const Disturbance& what, const ChangeOptions& options) {
  if (freezes_weights(plan.training))
    return Error{ErrorKind::bad_input, "plan: $.training", "adapters or frozen parts", "training of all weights",
                 "moves of partly trained states are not priced: docs/non-goals.md"};
  PlannerMemory memory;
  PlanCache cache;
  ChangeOptions remembering = options;
  if (remembering.memory == nullptr) remembering.memory = &memory;
  auto situation = situation_of(job, plan, what, remembering);
  if (!situation) return situation.error();
  situation->cache = &cache;
  auto answer = ladder(*situation, horizon_of(what, options.horizon_s));
  if (answer) answer->what = what;
  return answer;
}

}  // namespace espalier::adapt
