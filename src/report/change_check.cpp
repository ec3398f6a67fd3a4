// SPDX-License-Identifier: Apache-2.0
#include "report/change_check.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "adapt/actions.h"
#include "base/check.h"
#include "check/verdict.h"
#include "espalier/check.h"
#include "plan/process_groups.h"

namespace espalier::report {
namespace {

using check::say;
using check::Verdict;

std::int64_t nanoseconds(double seconds) { return static_cast<std::int64_t>(std::llround(seconds * 1e9)); }
std::string written(const std::optional<std::int64_t>& ns) { return ns ? say(*ns, " ns") : "null"; }

/// Numbers of the devices on these nodes, in order.
std::vector<std::int64_t> devices_on(const Cluster& cluster, const std::vector<std::int64_t>& nodes) {
  std::vector<std::int64_t> out;
  for (const std::int64_t node : nodes) {
    const std::int64_t first = cluster.first_device_of_node(node);
    for (std::int64_t k = 0; k < cluster.groups[cluster.group_of_node(node)].devices_per_node; ++k) out.push_back(first + k);
  }
  return out;
}

/// One action against the situation that it answers.
class ActionCheck {
 public:
  ActionCheck(const adapt::Situation& s, const ClaimedChange& claimed) : s_(s), c_(claimed), name_(to_string(claimed.action)) {}

  void check(const std::optional<std::int64_t>& if_stay_ns, std::vector<Finding>& out) {
    if (!c_.possible) {
      check_impossible(out);
      return;
    }
    if (check_place(out)) {
      check_iteration(out);
      check_bytes(out);
    }
    check_pause(out);
    check_break_even(if_stay_ns, out);
  }

 private:
  [[nodiscard]] Verdict verdict(const char* what) const { return Verdict(say(name_, ": ", what)); }

  /// What cannot be done has no figures; stay cannot where a node is lost, and can where none is.
  void check_impossible(std::vector<Finding>& out) {
    Verdict v = verdict("possible");
    v.require(!c_.iteration_ns && !c_.pause_ns && !c_.break_even_ns,
              [] { return say("not possible, with a time or a horizon"); });
    v.require(c_.action != ActionKind::stay || !s_.lost.empty(), [] { return say("nothing of the plan is lost: it can stay"); });
    out.push_back(v.finding("not possible"));
  }

  bool check_place(std::vector<Finding>& out) {
    Verdict v = verdict("plan");
    const std::set<std::int64_t> away(s_.state.away.begin(), s_.state.away.end());
    const bool moves = c_.action == ActionKind::re_place || c_.action == ActionKind::reshape || c_.action == ActionKind::shift;
    v.require(c_.plan.has_value() == moves,
              [&] { return moves ? say("no plan") : say("another plan, of an action that has none"); });
    std::set<std::int64_t> once;
    for (const std::int64_t node : c_.nodes) {
      v.require(node < s_.whole.nodes(), [&] { return say("node:", node, " is none of the cluster"); });
      v.require(!moves || !away.contains(node), [&] { return say("node:", node, " is not there"); });
      v.require(once.insert(node).second, [&] { return say("node:", node, " twice"); });
    }
    if (v.ok() && c_.plan) {
      devices_ = devices_on(s_.whole, c_.nodes);
      for (const Pipeline& pipeline : c_.plan->pipelines)
        for (const Stage& stage : pipeline.stages)
          for (const std::int64_t device : devices_of(stage.devices))
            v.require(device < static_cast<std::int64_t>(devices_.size()),
                      [&] { return say("device ", device, " is on none of its ", c_.nodes.size(), " nodes"); });
    }
    if (v.ok() && c_.plan) check_plan_alone(v);
    out.push_back(v.finding(c_.plan ? "sound, on nodes that are there" : "the plan that runs"));
    return v.ok();
  }

  void check_plan_alone(Verdict& v) {
    v.require(c_.plan->model_source == s_.plan->model_source, [] { return say("it is of another model"); });
    const auto job = job_of_plan(*c_.plan);
    if (!v.require(job.ok(), [&] { return job.error().message(); })) return;
    const auto report = check_plan(*job, *c_.plan);
    if (!v.require(report.ok(), [&] { return report.error().message(); })) return;
    for (const Finding& f : report->findings) v.require(f.ok, [&] { return say(f.name, ": ", f.text); });
  }

  /// The action again, without any search; a new plan is timed where it would run.
  [[nodiscard]] Result<Change> again() const {
    switch (c_.action) {
      case ActionKind::stay: return adapt::stay(s_);
      case ActionKind::shift: return adapt::shift(s_);
      case ActionKind::re_place: return adapt::re_place(s_);
      case ActionKind::reroute: return adapt::reroute(s_);
      case ActionKind::reshape: break;
    }
    const auto present = adapt::present_on(s_.whole, s_.source, s_.state, c_.nodes);
    if (!present) return present.error();
    const auto time = adapt::step_time(s_, *present, *c_.plan);
    if (!time) return time.error();
    Change out;
    out.possible = true;
    out.iteration_ns = time->ns;
    out.upper_bound = time->bound;
    return out;
  }

  void check_iteration(std::vector<Finding>& out) {
    Verdict v = verdict("iteration");
    const auto found = again();
    if (v.require(found.ok(), [&] { return found.error().message(); })) {
      v.require(found->possible, [&] { return say("claimed possible: ", found->what); });
      v.require(c_.iteration_ns == found->iteration_ns,
                [&] { return say("claimed ", written(c_.iteration_ns), ", simulated ", found->iteration_ns, " ns"); });
      v.require(c_.upper_bound == found->upper_bound, [] { return say("whether it is an upper bound is not as simulated"); });
    }
    out.push_back(v.finding("as simulated again"));
  }

  [[nodiscard]] check::MovePrices prices() const {
    const MoveOptions& o = s_.options.move;
    check::MovePrices out;
    out.storage_per_device = o.storage_per_device;
    out.checkpoint_age_ns = nanoseconds(o.checkpoint_age_s);
    // Other shares of samples among the same replicas take effect with the next step.
    const bool no_restart = c_.action == ActionKind::stay || (c_.action == ActionKind::shift && s_.lost.empty());
    out.restart_ns = no_restart ? 0 : nanoseconds(o.restart_s);
    out.warm_up_ns = no_restart ? 0 : nanoseconds(o.warm_up_s);
    for (const CapacityFactor& factor : s_.state.capacity) out.narrowed.emplace_back(factor.target, factor.factor);
    return out;
  }

  void check_bytes(std::vector<Finding>& out) {
    check::MoveQuestion question;
    question.model = &s_.job->model;
    question.cluster = &s_.whole;
    question.running = {s_.plan, s_.placed.devices};
    question.next = c_.plan ? check::PlanOnCluster{&*c_.plan, devices_} : question.running;
    question.lost_nodes = s_.state.away;
    if (c_.plan) {
      for (Finding& f : check::check_move(question, prices(), c_.move)) out.push_back({say(name_, ": ", f.name), f.ok, f.text});
      return;
    }
    Verdict v = verdict("moved-bytes");
    const check::MoveClaims& m = c_.move;
    v.require(m.kept == 0 && m.peer == 0 && m.storage == 0 && m.lost == 0 && m.links.empty(),
              [] { return say("it moves nothing, and says that bytes move"); });
    v.require(m.transfer_ns == 0 && m.storage_ns == 0 && m.rollback_ns == 0,
              [] { return say("it moves nothing, and takes time"); });
    v.require(m.restart_ns == prices().restart_ns && m.warm_up_ns == prices().warm_up_ns,
              [] { return say("restart or warm-up are not those of the question"); });
    const std::int64_t lost = check::moved_bytes(question).lost;
    v.require(lost == 0, [&] { return say("nobody who is there holds ", lost, " bytes"); });
    out.push_back(v.finding("nothing moves, and nothing has to"));
  }

  void check_pause(std::vector<Finding>& out) {
    Verdict v = verdict("pause");
    const check::MoveClaims& m = c_.move;
    const std::int64_t sum = m.transfer_ns + m.storage_ns + m.rollback_ns + m.restart_ns + m.warm_up_ns;
    constexpr std::int64_t kRounded = 5;  // five terms, each rounded to a nanosecond
    v.require(c_.pause_ns && std::abs(*c_.pause_ns - sum) <= kRounded,
              [&] { return say("claimed ", written(c_.pause_ns), ", its parts are ", sum, " ns"); });
    out.push_back(v.finding("the sum of its parts"));
  }

  void check_break_even(const std::optional<std::int64_t>& if_stay_ns, std::vector<Finding>& out) {
    Verdict v = verdict("break-even");
    v.require(c_.if_stay_ns == if_stay_ns,
              [&] { return say("if it stays: claimed ", written(c_.if_stay_ns), ", of the whole ", written(if_stay_ns)); });
    const std::int64_t step = c_.iteration_ns.value_or(0), pause = c_.pause_ns.value_or(0);
    std::optional<std::int64_t> gain, horizon;
    double slack = 1;
    if (if_stay_ns) gain = *if_stay_ns - step;
    if (c_.action != ActionKind::stay && !if_stay_ns) horizon = pause;
    if (c_.action != ActionKind::stay && gain && *gain > 0) {
      const double ratio = static_cast<double>(*if_stay_ns) / static_cast<double>(*gain);
      horizon = std::llround(static_cast<double>(pause) * ratio);
      slack += ratio + 1e-12 * static_cast<double>(*horizon);  // the pause is known to half a nanosecond
    }
    v.require(c_.gain_ns == gain, [&] { return say("gain: claimed ", written(c_.gain_ns), ", derived ", written(gain)); });
    const bool both = c_.break_even_ns && horizon;
    v.require(both ? std::abs(static_cast<double>(*c_.break_even_ns - *horizon)) <= slack : c_.break_even_ns == horizon,
              [&] { return say("horizon: claimed ", written(c_.break_even_ns), ", derived ", written(horizon)); });
    out.push_back(v.finding("follows from pause and gain"));
  }

  const adapt::Situation& s_;
  const ClaimedChange& c_;
  std::string name_;
  std::vector<std::int64_t> devices_;
};

/// Whether a trains more than b within the horizon; none: for good.
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
  std::set<ActionKind> once;
  const ClaimedChange *chosen = nullptr, *stay = nullptr;
  for (const ClaimedChange& c : claimed.changes) {
    ladder.require(once.insert(c.action).second, [&] { return say(to_string(c.action), " twice"); });
    if (c.action == ActionKind::stay) stay = &c;
    if (to_string(c.action) == claimed.recommended) chosen = &c;
  }
  ESPALIER_CHECK(claimed.schema != "espalier.change/1" || !claimed.changes.empty());
  if (claimed.schema == "espalier.change/1") chosen = &claimed.changes.front();
  const bool whole = once.size() == kActions.size();
  const bool nothing = claimed.happened.empty() && claimed.changes.size() == 1;  // replan that saw nothing wrong
  ladder.require(whole || nothing, [&] { return say(once.size(), " of ", kActions.size(), " actions"); });
  const std::optional<std::int64_t> if_stay = stay != nullptr && stay->possible && whole ? stay->iteration_ns : std::nullopt;
  ladder.require(claimed.if_stay_ns == if_stay, [&] {
    return say("if it stays: claimed ", written(claimed.if_stay_ns), ", the action's step ", written(if_stay));
  });
  if (best.require(chosen != nullptr, [&] { return say("\"", claimed.recommended, "\" is none of the actions"); }))
    for (const ClaimedChange& c : claimed.changes)
      best.require(!trains_more(c, *chosen, claimed.horizon_s),
                   [&] { return say(to_string(c.action), " trains more within the horizon than ", to_string(chosen->action)); });
  out.push_back(ladder.finding("every action once"));
  out.push_back(best.finding("no action trains more within the horizon"));
}

/// Sets of k of n.
std::int64_t choose(std::int64_t n, std::int64_t k) {
  double out = 1;
  for (std::int64_t i = 0; i < k; ++i) out = out * static_cast<double>(n - i) / static_cast<double>(i + 1);
  return static_cast<std::int64_t>(std::llround(out));
}

void check_coverage(const ClaimedAnswer& claimed, std::int64_t used, std::vector<Finding>& out) {
  Verdict v("coverage");
  std::int64_t all = 0, losses = 0, covered = 0;
  for (std::int64_t k = 1; k <= std::min(claimed.most, used); ++k) all += choose(used, k);
  for (const ClaimedClass& c : claimed.classes) {
    losses += c.losses;
    if (c.change.possible) covered += c.losses;
  }
  v.require(claimed.losses == all,
            [&] { return say("claimed ", claimed.losses, " losses, of ", used, " nodes there are ", all); });
  v.require(losses == all, [&] { return say("the classes have ", losses, " losses of ", all); });
  v.require(claimed.covered == covered, [&] { return say("claimed ", claimed.covered, " covered, the classes say ", covered); });
  out.push_back(v.finding(say(all, " losses in ", claimed.classes.size(), " classes")));
}

}  // namespace

Result<std::vector<Finding>> check_change(const ClaimedAnswer& claimed) {
  std::vector<Finding> out;
  const auto job = job_of_plan(claimed.running);
  if (!job) return job.error();
  ChangeOptions options;
  options.threads = 1;
  options.move = claimed.prices;
  auto situation = adapt::situation_of(*job, claimed.running, claimed.happened, options);
  if (!situation) return situation.error();
  Verdict running("running");
  const std::string hash = content_hash(claimed.running);
  running.require(claimed.plan == hash, [&] { return say("the answer is for plan ", claimed.plan, ", it holds ", hash); });
  running.require(!claimed.before_ns || *claimed.before_ns == situation->before_ns, [&] {
    return say("a step before: claimed ", written(claimed.before_ns), ", simulated ", situation->before_ns, " ns");
  });
  out.push_back(running.finding("the plan that the answer is for"));
  if (claimed.schema == "espalier.survival/1") {
    check_coverage(claimed, static_cast<std::int64_t>(situation->used.size()), out);
    for (const ClaimedClass& c : claimed.classes) {
      adapt::Situation after = *situation;
      after.state.away = after.lost = c.nodes;
      const auto lost_of_plan = [&](std::int64_t node) { return std::binary_search(after.used.begin(), after.used.end(), node); };
      if (!std::is_sorted(c.nodes.begin(), c.nodes.end()) || !std::all_of(c.nodes.begin(), c.nodes.end(), lost_of_plan)) {
        out.push_back({"coverage", false, "a class of nodes that the plan does not use"});
        continue;
      }
      ActionCheck(after, c.change).check(std::nullopt, out);
    }
    return out;
  }
  check_ladder(claimed, out);
  for (const ClaimedChange& change : claimed.changes)
    if (claimed.changes.size() > 1) ActionCheck(*situation, change).check(claimed.if_stay_ns, out);
  return out;
}

}  // namespace espalier::report
