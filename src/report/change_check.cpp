// SPDX-License-Identifier: Apache-2.0
#include "report/change_check.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "adapt/situation.h"
#include "base/invariant.h"
#include "check/arithmetic.h"
#include "check/check.h"
#include "check/verdict.h"
#include "espalier/check.h"
#include "report/action_check.h"
#include "report/change_json.h"

namespace espalier::report {
namespace {

using check::say;
using check::Verdict;

/// Returns whether a trains more than b within the horizon; no horizon means for good.
bool trains_more(const ClaimedChange& a, const ClaimedChange& b, const std::optional<double>& horizon_s) {
  if (!a.possible || !b.possible) return a.possible && !b.possible;
  const auto step = [](const ClaimedChange& c) { return static_cast<double>(c.iteration_ns.value_or(0)); };
  const auto pause = [](const ClaimedChange& c) { return static_cast<double>(c.pause_ns.value_or(0)) * 1e-9; };
  if (!horizon_s) return step(a) != step(b) ? step(a) < step(b) : pause(a) < pause(b) - 1e-8;
  const double of_a = (*horizon_s - pause(a)) / step(a), of_b = (*horizon_s - pause(b)) / step(b);
  return of_a > of_b + 1e-12 * std::abs(of_b);
}

void check_ladder(const ClaimedAnswer& claimed, std::vector<Finding>& out) {
  Verdict ladder("ladder"), best("recommendation");
  std::set<adapt::ActionKind> once;
  const ClaimedChange *chosen = nullptr, *stay = nullptr;
  for (const ClaimedChange& c : claimed.changes) {
    ladder.require(once.insert(c.action).second, [&] { return say(to_string(c.action), " twice"); });
    if (c.action == adapt::ActionKind::stay) stay = &c;
    if (to_string(c.action) == claimed.recommended) chosen = &c;
  }
  ESPALIER_CHECK(claimed.schema != "espalier.change/1" || !claimed.changes.empty());
  if (claimed.schema == "espalier.change/1") chosen = &claimed.changes.front();
  const bool whole = once.size() == adapt::kActions.size();
  const bool nothing = claimed.happened.empty() && claimed.changes.size() == 1;  // a replan that saw nothing wrong
  ladder.require(whole || nothing, [&] { return say(once.size(), " of ", adapt::kActions.size(), " actions"); });
  const std::optional<std::int64_t> if_stay = stay != nullptr && stay->possible && whole ? stay->iteration_ns : std::nullopt;
  ladder.require(claimed.if_stay_ns == if_stay, [&] {
    return say("without a change: claimed ", written(claimed.if_stay_ns), ", the action's step ", written(if_stay));
  });
  if (best.require(chosen != nullptr, [&] { return say("\"", claimed.recommended, "\" is not one of the actions"); }))
    for (const ClaimedChange& c : claimed.changes)
      best.require(!trains_more(c, *chosen, claimed.horizon_s),
                   [&] { return say(to_string(c.action), " trains more within the horizon than ", to_string(chosen->action)); });
  out.push_back(ladder.finding("each action once"));
  out.push_back(best.finding("no action trains more within the horizon"));
}

/// Counts the sets of k of n.
std::int64_t choose(std::int64_t n, std::int64_t k) {
  double out = 1;
  for (std::int64_t i = 0; i < k; ++i) out = out * static_cast<double>(n - i) / static_cast<double>(i + 1);
  constexpr double kMost = 4e18;
  return static_cast<std::int64_t>(std::llround(std::min(out, kMost)));
}

void check_coverage(const ClaimedAnswer& claimed, std::int64_t used, std::vector<Finding>& out) {
  Verdict v("coverage");
  std::int64_t all = 0, losses = 0, covered = 0;
  for (std::int64_t k = 1; k <= std::min(claimed.most, used); ++k)
    all = static_cast<std::int64_t>(check::saturating_sum(all, choose(used, k)));
  for (const ClaimedClass& c : claimed.classes) {
    losses += c.losses;
    if (c.change.possible) covered += c.losses;
  }
  v.require(claimed.losses == all, [&] { return say("claimed ", claimed.losses, " losses; ", used, " nodes have ", all); });
  v.require(losses == all, [&] { return say("the classes have ", losses, " losses of ", all); });
  v.require(claimed.covered == covered, [&] { return say("claimed ", claimed.covered, " covered, the classes give ", covered); });
  out.push_back(v.finding(say(all, " losses in ", claimed.classes.size(), " classes")));
}

/// Checks that the actions of a replan answer the changes that it observed.
void check_observed(const ClaimedAnswer& claimed, std::vector<Finding>& out) {
  if (!claimed.observed) return;
  Verdict v("observed");
  const adapt::Disturbance &seen = *claimed.observed, &what = claimed.happened;
  v.require(seen.lost == what.lost, [] { return say("lost nodes differ from the change"); });
  v.require(seen.slow == what.slow, [] { return say("slow devices differ from the change"); });
  v.require(seen.links == what.links, [] { return say("degraded links differ from the change"); });
  v.require(what.added.empty(), [] { return say("nodes were added, which observations cannot contain"); });
  if (what.empty()) {
    const ClaimedChange& c = claimed.changes.front();
    v.require(claimed.changes.size() == 1 && c.action == adapt::ActionKind::stay && c.possible && c.what == kNothingWrong,
              [] { return say("nothing is wrong, but an action is recommended"); });
    const check::MoveClaims& m = c.move;
    const bool moves = m.kept != 0 || m.peer != 0 || m.storage != 0 || m.lost != 0 || !m.links.empty() || m.transfer_ns != 0 ||
                       m.storage_ns != 0 || m.rollback_ns != 0 || m.restart_ns != 0 || m.warm_up_ns != 0;
    const bool figures = c.iteration_ns || c.gain_ns || c.break_even_ns || c.if_stay_ns || c.pause_ns.value_or(0) != 0 ||
                         c.upper_bound || c.plan || !c.nodes.empty();
    v.require(!moves && !figures, [] { return say("nothing is wrong, but an action has figures"); });
  }
  out.push_back(v.finding("the actions answer the observations"));
}

/// Returns whether the running plan is sound; nothing can be derived from an unsound plan.
bool check_running(const ClaimedAnswer& claimed, const Job& job, Verdict& running) {
  const std::string hash = content_hash(claimed.running);
  running.require(claimed.plan == hash, [&] { return say("the answer is for plan ", claimed.plan, ", it holds ", hash); });
  const CheckReport sound = check::check_sound(claimed.running, job.model, job.cluster, job.engine_model.get());
  for (const Finding& f : sound.findings) running.require(f.ok, [&] { return say(f.name, ": ", f.text); });
  return sound.ok();
}

void check_classes(const ClaimedAnswer& claimed, const adapt::Situation& situation, std::vector<Finding>& out) {
  check_coverage(claimed, static_cast<std::int64_t>(situation.used.size()), out);
  for (const ClaimedClass& c : claimed.classes) {
    adapt::Situation after = situation;
    after.state.away = after.lost = c.nodes;
    const auto lost_of_plan = [&](std::int64_t node) { return std::binary_search(after.used.begin(), after.used.end(), node); };
    const bool ascending = std::adjacent_find(c.nodes.begin(), c.nodes.end(), std::greater_equal<>()) == c.nodes.end();
    if (c.nodes.empty() || !ascending || !std::all_of(c.nodes.begin(), c.nodes.end(), lost_of_plan)) {
      out.push_back({"coverage", false, "a class of nodes that the plan does not use"});
      continue;
    }
    check_action(after, c.change, std::nullopt, out);
  }
}

/// Checks the digest. Returns whether this build made the document; figures of another build are not compared.
bool check_seal(const ClaimedAnswer& claimed, std::vector<Finding>& out) {
  if (claimed.digest) out.push_back(*claimed.digest);
  if (!claimed.made_by || *claimed.made_by == this_build()) return true;
  out.push_back(
      {"made-by", false,
       say("made by espalier ", claimed.made_by->version, " (figures ", claimed.made_by->calibration, "), this is espalier ",
           this_build().version, " (figures ", this_build().calibration, "); its figures are not compared")});
  return false;
}

}  // namespace

Result<std::vector<Finding>> check_change(const ClaimedAnswer& claimed) {
  std::vector<Finding> out;
  if (!check_seal(claimed, out)) return out;
  const auto job = job_of_plan(claimed.running);
  if (!job) return job.error();
  Verdict running("running");
  if (!check_running(claimed, *job, running)) {
    out.push_back(running.finding(""));
    return out;
  }
  adapt::ChangeOptions options;
  options.threads = 1;
  options.move = claimed.prices;
  auto situation = adapt::situation_of(*job, claimed.running, claimed.happened, options);
  if (!situation) return situation.error();
  running.require(!claimed.before_ns || *claimed.before_ns == situation->before_ns, [&] {
    return say("a step before: claimed ", written(claimed.before_ns), ", simulated ", situation->before_ns, " ns");
  });
  out.push_back(running.finding("the plan of the answer"));
  check_observed(claimed, out);
  if (claimed.schema == "espalier.survival/1") {
    check_classes(claimed, *situation, out);
    return out;
  }
  check_ladder(claimed, out);
  for (const ClaimedChange& change : claimed.changes)
    if (claimed.changes.size() > 1) check_action(*situation, change, claimed.if_stay_ns, out);
  return out;
}

}  // namespace espalier::report
